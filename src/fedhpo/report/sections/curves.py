"""How the search went: trials in order, the leading one against the rounds spent, and learning curves."""

from __future__ import annotations

from fedhpo import figures
from fedhpo.core.errors import NothingToDrawError
from fedhpo.figures.incumbents import in_words
from fedhpo.figures.marks import FEW
from fedhpo.figures.search import SPENT
from fedhpo.figures.view import RunView
from fedhpo.pages.choice import choice
from fedhpo.pages.figure import drawn
from fedhpo.pages.html import Section, how_to_read, text

_HISTORY = (
    "Each point is a trial with its last score, in the order they began; the darker, the longer trained."
)
_BUDGET = "The score of the leading trial against what was spent."
_CURVES = "The validation score of every trial by its own rounds; orange is your own config."
_ABOUT_HISTORY = how_to_read(
    "Left: trials that were stopped early stand at the score that they had then. They may have been "
    "better later.",
    "Right: the leading trial is the best of those trained longest. A "
    "trial that has trained longer takes the lead even from a better score, so the line may fall; below"
    " it is said why.",
)
_ABOUT_CURVES = how_to_read(
    "A score comes from the clients that were asked. Where these are few, a curve is as rough as the "
    "clients differ: look at its trend, and at the trials that stay ahead.",
    "A curve that ends early is a trial that was stopped. One that jumps may have become a copy of another.",
)


def progress(view: RunView) -> Section | None:
    """How the search went: trials in order, and the leading one; None while nothing is scored."""
    if not view.evaluated:
        return None
    shown, notes = "", []
    if len(view.scored) >= FEW:
        shown += drawn(figures.history(view), "history", _HISTORY)
    if len(view.incumbents) > 1:
        against = {
            SPENT[by][2]: figures.leading([view], by)
            for by in SPENT
            if len(view.incumbents_by(*SPENT[by][0])) > 1
        }
        shown += choice(against, "incumbent", _BUDGET)
        notes = in_words(view.incumbents).splitlines()
    if not shown:
        return None
    note = "".join(f"<p class=note>{text(line)}</p>" for line in notes)
    return Section("History", f"<div class=pair>{shown}</div>{note}{_ABOUT_HISTORY}")


def curves(view: RunView) -> Section | None:
    """The learning curves of all trials; None where no trial was scored twice."""
    try:
        shown = figures.curves(view)
    except NothingToDrawError:
        return None
    notes = []
    if view.in_rounds:
        points = "Points are evaluations" if view.evaluated else "No trial was evaluated yet"
        notes.append(f"{points}; thin lines are scores at the clients of each round.")
    objective = view.result["objective"]
    if view.result.get("privacy"):
        notes.append("Scores are shown as they were released, with the noise that keeps them private.")
    elif view.in_rounds and (objective["over"] != "mean" or objective["weighting"] != "size"):
        notes.append("Thin lines are means over clients by size, whatever the objective.")
    if (view.result.get("evaluation") or {}).get("average") == "recent":
        notes.append("Trials were compared by means weighted to recent rounds; shown are single scores.")
    note = "".join(f"<p class=note>{text(line)}</p>" for line in notes)
    return Section("Learning curves", drawn(shown, "curves", _CURVES) + note + _ABOUT_CURVES)
