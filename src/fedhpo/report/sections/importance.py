"""Which hyperparameters mattered, and what two of them do together."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedhpo.pages.configs import flat, tuned, unit
from fedhpo.pages.figure import drawn
from fedhpo.pages.html import Section, how_to_read, text
from fedhpo.pages.plots import importance_bars, landscape, parallel, scored
from fedhpo.report.view import RunView
from fedhpo.surrogates import importance as forest

_BARS = "How much each hyperparameter explains of the differences between trials, however long they trained."
_GROUND = (
    "The score that a forest expects over the two that matter most; a star is the winner, dots are trials."
)
_ABOUT_FOREST = how_to_read(
    "A random forest learns the ranks of four fifths of the trials from their hyperparameters and is "
    "asked for the rest, once as they are and once with one hyperparameter shuffled (Breiman, 2001). "
    "What the forest then loses is that one's importance.",
    "It knows how long each trial trained, so that this is not taken for an effect of a hyperparameter."
    " Where two hyperparameters only matter together, both get a share.",
    "It speaks of the ranges that were searched: what hardly matters here may matter outside them.",
)
_ABOUT_LINES = how_to_read(
    "Every hyperparameter has an axis, from its lowest value below to its highest above, in its own "
    "scale. A line crosses each axis at the trial's value.",
    "Where the strong lines meet on an axis, good trials agree on a value. Where they cross an axis "
    "everywhere, that hyperparameter matters little.",
)


def importance(view: RunView) -> Section | None:
    """Bars and a landscape; None where the trials cannot tell."""
    named, trials = tuned(view), scored(view.result["trials"])
    if len(named) < 2 or len(trials) < forest.LEAST:
        return None
    rows = [[unit(table, flat(trial["config"]).get(name)) for name, table in named] for trial in trials]
    points = np.array(rows, dtype=float)
    scores = np.array([trial["score"] for trial in trials], dtype=float)
    # With the length of training as one more column, its effect is not taken for that of a hyperparameter.
    rounds = np.log1p([float(trial["rounds"]) for trial in trials])
    found = forest.importance(np.column_stack([points, rounds]), scores)
    if found is None or not found.shares[:-1].sum():
        return None
    shares = found.shares[:-1] / found.shares[:-1].sum()
    bars = drawn(importance_bars(dict(zip([n for n, _ in named], shares, strict=True))), "importance", _BARS)
    across, up = np.argsort(-shares, kind="stable")[:2]
    grid = forest.landscape(np.column_stack([points, rounds]), scores, int(across), int(up))
    ground = landscape(named[across], named[up], grid.tolist(), trials, view.metric, view.winner)
    note = f"A forest of these trials explains {found.explained:.0%} of the differences between others."
    body = f"<div class=pair>{bars}{drawn(ground, 'landscape', _GROUND)}</div>"
    return Section("What mattered", f"{body}<p class=note>{text(note)}</p>{_ABOUT_FOREST}")


def across(view: RunView) -> Section | None:
    """All trials as lines across the hyperparameters."""
    trials: list[Any] = list(view.result["trials"])
    found = parallel(tuned(view), trials, view.metric, maximise=view.maximise, winner=view.winner)
    if found is None:
        return None
    note = "Each line is a trial: the stronger its colour, the better its score. The thick line leads."
    return Section("All hyperparameters at once", drawn(found, "parallel", note) + _ABOUT_LINES)
