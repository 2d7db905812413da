"""`result.plot`: every figure by its name, as plotly's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedhpo.plots import importance, search, space, trials
from fedhpo.plots.pareto import pareto
from fedhpo.plots.story import Story


class Plots:
    """Plotly figures of a result: `result.plot.history().show()`, or `.write_html("history.html")`.

    Scores are means over clients by size, as in `result.history`.
    """

    def __init__(self, facts: Mapping[str, Any], history: Sequence[Mapping[str, Any]]) -> None:
        self._story = Story(facts, history)

    def history(self) -> Any:
        """Every evaluation against the rounds spent, and the best score so far."""
        return _figure(search.history(self._story))

    def curves(self) -> Any:
        """The learning curve of each trial."""
        return _figure(search.curves(self._story))

    def edf(self) -> Any:
        """The empirical distribution of the trials' last scores."""
        return _figure(search.edf(self._story))

    def importance(self, names: Sequence[str] | None = None) -> Any:
        """How much each hyperparameter matters, by permutation over a random forest."""
        return _figure(importance.importance(self._story, names))

    def slice(self, names: Sequence[str] | None = None) -> Any:
        """The score against each hyperparameter."""
        return _figure(space.slice_(self._story, names))

    def contour(self, first: str | None = None, second: str | None = None) -> Any:
        """What a forest expects of the score over two hyperparameters; by default those that matter most."""
        return _figure(space.contour(self._story, first, second))

    def parallel(self, names: Sequence[str] | None = None) -> Any:
        """A line for each trial through its hyperparameters to its score."""
        return _figure(space.parallel(self._story, names))

    def pareto(self, first: str | None = None, second: str | None = None) -> Any:
        """Trials in the plane of two objectives (by default the first two), and the Pareto set."""
        return _figure(pareto(self._story.facts, first, second))

    def policy(self, trial: int | None = None) -> Any:
        """The weights of a trial's client policy over its rounds (FedEx)."""
        return _figure(trials.policy(self._story, trial))

    def lineage(self) -> Any:
        """Which trial became a copy of which (FedPop)."""
        return _figure(trials.lineage(self._story))

    def clients(self) -> Any:
        """The best trial's score at each client."""
        return _figure(trials.clients(self._story))

    def __repr__(self) -> str:
        names = [name for name in vars(Plots) if not name.startswith("_")]
        return f"<plots of a result: {', '.join(names)}>"


def _figure(drawn: Mapping[str, Any]) -> Any:
    import plotly.graph_objects as go

    return go.Figure(data=drawn["data"], layout=drawn["layout"])
