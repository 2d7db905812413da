"""Which hyperparameters mattered, and what two of them do together."""

from __future__ import annotations

from itertools import combinations

from fedhpo import figures
from fedhpo.core.errors import NothingToDrawError
from fedhpo.figures.importance import by_importance, importances
from fedhpo.figures.view import RunView
from fedhpo.pages.choice import choice
from fedhpo.pages.figure import drawn
from fedhpo.pages.html import Section, how_to_read, text

#: Hyperparameters whose pairs can be chosen as axes, those that matter most.
_CHOSEN = 5
_BARS = "How much each hyperparameter explains by itself; lines are two standard errors."
_GROUND = "The score that a forest expects over two of them; dots are trials, a star leads the run."
_ABOUT = how_to_read(
    "Trials are compared at the round at which most of them were scored, so that a trial that was stopped "
    "early counts as much as one that was not.",
    "A random forest learns the scores of four fifths of them. A hyperparameter's own effect is what the "
    "forest expects at its values, whatever the others are (the main effect of functional ANOVA). Its "
    "importance is the share of the differences among the other fifth which this explains: chance explains "
    "nothing there.",
    "What hyperparameters do only together belongs to none of them: look at the map. All of it speaks of the "
    "ranges that were searched.",
)


def importance(view: RunView) -> Section | None:
    """Bars and a map whose axes can be chosen; None where the trials cannot tell."""
    if len(view.tuned) < 2:
        return None
    try:
        sample, found = importances(view)
        bars = drawn(figures.importance(view), "importance", _BARS)
        names = by_importance(view)[:_CHOSEN]
        maps = {f"{x} and {y}": figures.contour(view, x, y) for x, y in combinations(names, 2)}
    except NothingToDrawError:
        return None
    note = (
        f"A forest of these {len(sample.trials)} trials explains {found.explained:.0%} "
        f"(± {2 * found.error:.0%}) of the differences between others at round {sample.round}."
    )
    body = f"<div class=pair>{bars}{choice(maps, 'contour', _GROUND)}</div>"
    return Section("What mattered", f"{body}<p class=note>{text(note)}</p>{_ABOUT}")
