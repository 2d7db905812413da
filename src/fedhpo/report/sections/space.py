"""Trials over the space: all hyperparameters at once, and each against the score."""

from __future__ import annotations

from fedhpo import figures
from fedhpo.core.errors import NothingToDrawError
from fedhpo.figures.marks import FEW
from fedhpo.figures.view import RunView
from fedhpo.pages.figure import drawn
from fedhpo.pages.html import Section, how_to_read

_LINES = "Each line is a trial: the stronger its colour, the better its score. The thick line leads."
_ABOUT_LINES = how_to_read(
    "Every hyperparameter has an axis, from its lowest value below to its highest above, in its own "
    "scale. A line crosses each axis at the trial's value.",
    "Where the strong lines meet on an axis, good trials agree on a value. Where they cross an axis "
    "everywhere, that hyperparameter matters little.",
)
_POINTS = (
    "<p class=note>Each point is a trial with its last score; the darker, the longer it was trained.</p>"
)
_ABOUT_POINTS = how_to_read(
    "Look for where the dark points at the good end lie. Other hyperparameters differ between the "
    "points too, so a cloud without a shape says little: what mattered is told above, where there are "
    "enough trials.",
    "If the best points lie at the edge of a range, it may be worth widening it.",
)


def across(view: RunView) -> Section | None:
    """All trials as lines across the hyperparameters."""
    try:
        found = figures.parallel(view)
    except NothingToDrawError:
        return None
    return Section("All hyperparameters at once", drawn(found, "parallel", _LINES) + _ABOUT_LINES)


def hyperparameters(view: RunView) -> Section | None:
    """One small figure for each hyperparameter; darker points were trained longer."""
    if not view.tuned or len(view.scored) < FEW:
        return None
    small = "".join(
        drawn(figures.slice_of(view, name), f"against-{i}") for i, (name, _) in enumerate(view.tuned)
    )
    return Section(
        "Hyperparameters against the score", f"<div class=small>{small}</div>{_POINTS}{_ABOUT_POINTS}"
    )
