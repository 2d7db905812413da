"""Figures of a run: one function each, from one view of it to a figure.

Report, live page, trial page and `result.plot` call the same functions. A figure is plain data, as plotly.js
takes it; where a run says too little for one, the function raises `NothingToDrawError`, which says what is
missing.
"""

from fedhpo.core.errors import NothingToDrawError
from fedhpo.figures.clients import clients, deciles, odd_updates, outliers
from fedhpo.figures.contour import contour
from fedhpo.figures.cost import cost, timeline
from fedhpo.figures.curves import curves, trial_curve
from fedhpo.figures.gains import gains
from fedhpo.figures.importance import importance
from fedhpo.figures.lineage import lineage, over_time
from fedhpo.figures.pareto import pareto
from fedhpo.figures.policy import arm_use, largest_weight, policy
from fedhpo.figures.search import edf, history, leading
from fedhpo.figures.space import parallel, slice_of, slices
from fedhpo.figures.view import RunView

__all__ = [
    "NothingToDrawError",
    "RunView",
    "arm_use",
    "clients",
    "contour",
    "cost",
    "curves",
    "deciles",
    "edf",
    "gains",
    "history",
    "importance",
    "largest_weight",
    "leading",
    "lineage",
    "odd_updates",
    "outliers",
    "over_time",
    "parallel",
    "pareto",
    "policy",
    "slice_of",
    "slices",
    "timeline",
    "trial_curve",
]
