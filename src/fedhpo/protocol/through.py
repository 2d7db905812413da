"""`Through`: the base of all wrappers. It hands every name of a federation on; a wrapper overrides some.

`save`, `load`, `require` and `check_products` stay those of `Federation`: they are made of the other
names, so that what a wrapper overrides holds in them too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedhpo.protocol.about import About
from fedhpo.protocol.federation import (
    Answer,
    Federation,
    Ints,
    Query,
    RoundReport,
    Scores,
    SplitName,
    TrialState,
    Work,
)
from fedhpo.protocol.metrics import Metric
from fedhpo.space import Space
from fedhpo.space.config import Config


def _handed_on(name: str) -> Any:
    return property(lambda self: getattr(self.inner, name), doc=f"That of `inner`: `{name}`.")


class Through(Federation):
    """`inner`, as it is.

    >>> from fedhpo.testing import ToyFederation
    >>> wrapped = Through(ToyFederation(clients=3))
    >>> wrapped.start(0, {}, seed=1)
    >>> wrapped.inner.trials, len(wrapped.train_clients)
    ([0], 3)
    """

    def __init__(self, inner: Federation) -> None:
        self.inner = inner

    capabilities: frozenset[str] = _handed_on("capabilities")
    train_clients: Ints = _handed_on("train_clients")
    validation_clients: Ints = _handed_on("validation_clients")
    test_clients: Ints = _handed_on("test_clients")
    client_names: Sequence[str] | None = _handed_on("client_names")
    task: str | None = _handed_on("task")
    scoring: str | None = _handed_on("scoring")
    own_metrics: bool = _handed_on("own_metrics")
    timed: bool = _handed_on("timed")
    pool: Sequence[Config] | None = _handed_on("pool")
    encoding: Any = _handed_on("encoding")
    preparation: Any = _handed_on("preparation")
    majority: float | None = _handed_on("majority")
    zoo: dict[str, Any] | None = _handed_on("zoo")
    place: str = _handed_on("place")
    cut_by_cost: bool = _handed_on("cut_by_cost")
    fine_tunes: bool = _handed_on("fine_tunes")
    local_scorings: Sequence[str] | None = _handed_on("local_scorings")
    usual_space: Space | None = _handed_on("usual_space")
    training_rounds: int = _handed_on("training_rounds")
    client_settings: type[Any] | None = _handed_on("client_settings")

    @property
    def trials(self) -> Sequence[int]:
        """The trials started and not stopped."""
        return self.inner.trials

    @property
    def about(self) -> About:
        """That of `inner`."""
        return self.inner.about

    def expect(self, rounds: int) -> None:
        """The rounds of one full training."""
        self.inner.expect(rounds)

    def why_no_mean(self, model: Mapping[str, Any]) -> str:
        return self.inner.why_no_mean(model)

    def why_no_horizon(self, space: Space) -> str:
        return self.inner.why_no_horizon(space)

    def start(self, trial: int, model: Mapping[str, Any], seed: int) -> None:
        """A fresh model."""
        self.inner.start(trial, model, seed)

    def fork(self, source: int, target: int) -> None:
        """Make `target` a copy of `source`."""
        self.inner.fork(source, target)

    def mix(self, source: int, target: int, share: float) -> None:
        """Move `target` towards `source`."""
        self.inner.mix(source, target, share)

    def stop(self, trial: int) -> None:
        """Free the trial."""
        self.inner.stop(trial)

    def submit(self, work: Work) -> None:
        """Begin a round."""
        self.inner.submit(work)

    def next_done(self, trial: int | None = None) -> RoundReport:
        """The report of a round that has ended."""
        return self.inner.next_done(trial)

    def ready(self) -> list[int]:
        """Trials whose round has ended."""
        return self.inner.ready()

    def round(self, work: Sequence[Work]) -> list[RoundReport]:
        """One round of each of several trials."""
        return self.inner.round(work)

    def evaluate(
        self, trials: Sequence[int], clients: Sequence[int] | Ints, split: SplitName = "validation"
    ) -> list[Scores]:
        """Scores without training."""
        return self.inner.evaluate(trials, clients, split)

    def measure(self, metrics: Sequence[Metric]) -> None:
        """Have clients compute these metrics too."""
        self.inner.measure(metrics)

    def query(self, task: Query, clients: Sequence[int] | Ints) -> list[Answer]:
        """Work at the clients that is not a round."""
        return self.inner.query(task, clients)

    def present(self, time: float, least: int, clients: Ints) -> tuple[float, Ints]:
        """Who is there."""
        return self.inner.present(time, least, clients)

    def starts(self, cohort: Sequence[int], time: float, beside: Sequence[Work]) -> list[float]:
        """When each of a cohort can start."""
        return self.inner.starts(cohort, time, beside)

    def state(self, trial: int) -> TrialState:
        """The trial's state."""
        return self.inner.state(trial)

    def restore(self, trial: int, state: TrialState) -> None:
        """Bring a trial back."""
        self.inner.restore(trial, state)

    def model(self, trial: int) -> Any:
        """The trial's model, to be used outside the federation."""
        return self.inner.model(trial)

    def describe(self) -> dict[str, Any]:
        """The facts of `inner`."""
        return self.inner.describe()

    def fingerprint(self, model: Mapping[str, Any]) -> dict[str, Any]:
        """That of `inner`."""
        return self.inner.fingerprint(model)

    def preflight(self, config: Config, metric: str) -> None:
        """Try what training will do."""
        self.inner.preflight(config, metric)

    def stable_name(self, client: int) -> str | None:
        """What a client is called in every run."""
        return self.inner.stable_name(client)

    def folds(self, cohort: int, model: Mapping[str, Any]) -> bool:
        return self.inner.folds(cohort, model)

    def by_rows(self, model: Mapping[str, Any]) -> bool:
        return self.inner.by_rows(model)

    def distances(self, clients: Sequence[int] | Ints, seed: int) -> dict[str, Any] | None:
        """How far apart the clients' rows are."""
        return self.inner.distances(clients, seed)

    def close(self) -> None:
        """Close `inner`."""
        self.inner.close()
