"""What result.json holds, typed. `Outcome` is the one reader of it.

All of these are dicts, as JSON has them, whose values are attributes too: `gain["value"]` is `gain.value`. An
attribute that the file has not is None.

>>> gain = Gain({"value": 0.02, "standard_error": 0.01, "round": 40})
>>> gain.value == gain["value"], gain.p_value
(True, None)
>>> Outcome({"best": {"trial": 3, "rounds": 40}}).best.trial
3
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from fedhpo.protocol.trial import Trial
from fedhpo.space.config import Config


class Facts(dict[str, Any]):
    """Named values that are attributes too: those that the class annotates."""

    #: The values that are facts themselves, or lists of them.
    _parts: ClassVar[Mapping[str, type[Facts]]] = {}

    def __init__(self, given: Mapping[str, Any]) -> None:
        super().__init__(given)
        for name, kind in self._parts.items():
            value = self.get(name)
            if isinstance(value, Mapping):
                self[name] = kind(value)
            elif isinstance(value, list):
                self[name] = [kind(one) if isinstance(one, Mapping) else one for one in value]

    if not TYPE_CHECKING:  # else every name would seem to be there

        def __getattr__(self, name: str) -> Any:
            if any(name in vars(kind).get("__annotations__", ()) for kind in type(self).__mro__):
                return self.get(name)
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")


class ShownScore(Facts):
    """A validation score; what is kept private, or is not known, is None."""

    value: float | None
    standard_error: float | None
    clients: int
    round: int


class TestScores(Facts):
    """Scores on test data, which no method sees: the objective (`value`), accuracy, loss, further metrics."""

    __test__ = False  # no class of tests
    value: float | None
    accuracy: float | None
    loss: float | None
    #: How many clients hold test data.
    clients: int
    #: Whether the scores of a private run were reported outside its epsilon.
    outside_privacy: bool | None


class Gain(Facts):
    """How much better the tuned config is than the user's own (trial 0), both at the same round.

    A gain is called an improvement where `p_value` is at most `level`. `fresh` says whether the choice used
    none of the clients that compared, `rivals` how many configs it was made from.
    """

    value: float | None
    standard_error: float | None
    clients: int
    round: int
    p_value: float | None
    level: float | None
    fresh: bool | None
    rivals: int | None
    clip: float | None


class VerdictFacts(Facts):
    """Whether tuning was worth it; see `fedhpo.search.verdict`."""

    kind: str
    improved: bool | None
    use: str
    text: str


class Spent(Facts):
    """What was spent; `rounds` is that of the search, `all_rounds` everything."""

    rounds: int
    baseline_rounds: int
    all_rounds: int
    client_rounds: int
    bytes_down: int
    bytes_up: int
    samples: int
    evaluations: int
    budget: Mapping[str, int]
    unspent_rounds: int
    rounds_before: int
    repeated_rounds: int
    simulated_seconds: float | None
    earlier_conclusions: Mapping[str, int] | None


class ShownTrial(Facts):
    """The method's best trial, or the user's own."""

    _parts: ClassVar[Mapping[str, type[Facts]]] = {"validation": ShownScore, "test": TestScores}

    trial: int
    config: Mapping[str, Any]
    rounds: int
    validation: ShownScore | None
    test: TestScores | None
    metrics: Mapping[str, float] | None
    by_client: Mapping[str, Sequence[Any]] | None
    objectives: Mapping[str, float | None] | None
    constraints: Mapping[str, float | None] | None
    violation: float | None


class TrialFacts(Facts):
    """One trial as result.json holds it."""

    trial: int
    config: Mapping[str, Any]
    status: str
    rounds: int
    score: float | None
    standard_error: float | None
    reason: str
    path: Sequence[Mapping[str, Any]]
    objectives: Mapping[str, float | None] | None
    constraints: Mapping[str, float | None] | None
    violation: float | None


class Outcome(Facts):
    """All of result.json; a method may add facts of its own under its name."""

    _parts: ClassVar[Mapping[str, type[Facts]]] = {
        "best": ShownTrial,
        "baseline": ShownTrial,
        "gain": Gain,
        "verdict": VerdictFacts,
        "trials": TrialFacts,
        "cost": Spent,
    }

    fedhpo: str
    method: Mapping[str, Any]
    seed: int
    objective: Mapping[str, Any]
    objectives: Sequence[Mapping[str, Any]] | None
    pareto: Sequence[int] | None
    evaluation: Mapping[str, Any]
    privacy: Mapping[str, Any] | None
    best: ShownTrial | None
    baseline: ShownTrial | None
    gain: Gain | None
    verdict: VerdictFacts | None
    trials: Sequence[TrialFacts]
    tried: Mapping[str, int]
    policies: Sequence[Mapping[str, Any]] | None
    cost: Spent
    failures: Sequence[Mapping[str, Any]] | None
    totals: Sequence[int]
    personal: Mapping[str, Any] | None
    space: Mapping[str, Any]
    status: str
    reason: str
    note: str | None
    client_names: Sequence[str] | None
    times: Mapping[str, float] | None


class ResultTrial(Facts, Trial):
    """A trial in `result.trials`: also a row of the table, with a value for each hyperparameter."""

    trial: int
    rounds: int
    standard_error: float | None

    def __init__(self, facts: TrialFacts) -> None:
        config = Config.from_dict(facts.config)
        names = ("trial", "status", "rounds", "score", "standard_error")
        super().__init__({name: facts[name] for name in names} | config.flat())
        self.number, self.config, self.reason, self.round = facts.trial, config, facts.reason, facts.rounds

    @property
    def score(self) -> float | None:
        """Its latest validation score; None without one."""
        found: float | None = self["score"]
        return found
