"""`result.plot`: every figure by its name, as plotly's."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedhpo import figures
from fedhpo.figures.reading import load_view
from fedhpo.figures.view import RunView
from fedhpo.run.run import RECORD

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from fedhpo.pages.figure import Figure as Drawn


class Plots:
    """Plotly figures of a result: `result.plot.history().show()`, or `.write_html("history.html")`.

    They are those of the report. Of a run that is kept they are drawn from its record; of one that is not,
    from the result and its history, whose scores are means over clients by size. Where a run says too little
    for a figure, an `InputError` says what is missing.
    """

    def __init__(
        self, facts: Mapping[str, Any], history: Sequence[Mapping[str, Any]], run: Path | None = None
    ) -> None:
        self._facts, self._history, self._run = facts, history, run

    @cached_property
    def _view(self) -> RunView:
        if self._run is not None and (self._run / RECORD).is_file():
            stamp = os.stat(self._run / RECORD)
            return _read(self._run, stamp.st_mtime_ns, stamp.st_size)
        return RunView.of_result(self._facts, self._history)

    def history(self) -> Figure:
        """The last score of every trial in the order in which they were begun, and the best one so far."""
        return _plotly(figures.history(self._view))

    def leading(self, by: str = "rounds") -> Figure:
        """The score of the leading trial against what was spent: "rounds", "bytes" or "seconds"."""
        return _plotly(figures.leading([self._view], by))

    def curves(self) -> Figure:
        """The learning curve of each trial."""
        return _plotly(figures.curves(self._view))

    def edf(self) -> Figure:
        """The empirical distribution of the trials' last scores."""
        return _plotly(figures.edf(self._view))

    def importance(self, names: Sequence[str] | None = None) -> Figure:
        """How much each hyperparameter explains of the differences between trials."""
        return _plotly(figures.importance(self._view, names))

    def slice(self, names: Sequence[str] | None = None) -> Figure:
        """The score against each hyperparameter."""
        return _plotly(figures.slices(self._view, names))

    def contour(self, first: str | None = None, second: str | None = None) -> Figure:
        """What a forest expects of the score over two hyperparameters; by default those that explain most."""
        return _plotly(figures.contour(self._view, first, second))

    def parallel(self, names: Sequence[str] | None = None) -> Figure:
        """A line for each trial through its hyperparameters to its score."""
        return _plotly(figures.parallel(self._view, names))

    def pareto(self, first: str | None = None, second: str | None = None) -> Figure:
        """Trials in the plane of two objectives (by default the first two), and the Pareto set."""
        return _plotly(figures.pareto(self._view, first, second))

    def policy(self, trial: int | None = None) -> Figure:
        """The weights of a trial's client policy over its rounds (FedEx)."""
        view = self._view
        return _plotly(figures.policy(view.result.get("policies"), view.winner, trial))

    def lineage(self) -> Figure:
        """Which trial became a copy of which (FedPop)."""
        return _plotly(figures.lineage(self._view.trials, self._view.winner))

    def clients(self) -> Figure:
        """The score at each client, of the best trial and of your own config where that is known."""
        return _plotly(figures.clients(self._view))

    def cost(self) -> Figure:
        """Rounds of each trial."""
        return _plotly(figures.cost(self._view))

    def timeline(self) -> Figure:
        """What trained when; of a run that is kept."""
        return _plotly(figures.timeline(self._view))

    def __repr__(self) -> str:
        names = [name for name in vars(Plots) if not name.startswith("_")]
        return f"<plots of a result: {', '.join(names)}>"


@lru_cache(maxsize=2)
def _read(run: Path, changed: int, size: int) -> RunView:
    """The view of a kept run, read once as long as its record stays the same."""
    return load_view(run)


def _plotly(drawn: Drawn) -> Figure:
    """The figure as plotly's, without the template that plotly adds: it looks as in the report."""
    import plotly.graph_objects as go

    made = go.Figure(data=drawn["data"], layout=drawn["layout"])
    made.layout.template = None
    return made
