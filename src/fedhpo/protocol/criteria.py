"""What trials are judged by beside the objective: further objectives, and constraints.

An objective is named by its metric, and by how it is put together over clients where that is no mean:
"accuracy", "accuracy_tail" (the worst tenth of clients), "loss_worst". What a training costs is named
"bytes_up", "bytes_down", "bytes" or "samples". It is the cost of one full training: what a round of the trial
cost so far, times the rounds of a full one. So trials can be compared before they have ended.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fedhpo.core.errors import InputError, unknown_name
from fedhpo.core.settings import shown
from fedhpo.protocol.federation import Cost, Scores
from fedhpo.protocol.metrics import BASE, NAMED
from fedhpo.protocol.objective import OVER, Objective, Score

#: What a training costs, by name.
COSTS: Mapping[str, Callable[[Cost], int]] = {
    "bytes_up": lambda cost: cost.bytes_up,
    "bytes_down": lambda cost: cost.bytes_down,
    "bytes": lambda cost: cost.bytes_up + cost.bytes_down,
    "samples": lambda cost: cost.samples,
}
_OVER = [over for over in OVER if over != "mean"]
_CONSTRAINT = re.compile(r"\s*(\w+)\s*(<=|>=)\s*(\S+)\s*")


@dataclass(frozen=True)
class Judged:
    """All that is known of a trial when it is judged."""

    scores: Scores
    cost: Cost
    round: int
    trained: int
    #: The rounds of a full training.
    rounds: int
    #: Clients that hold validation data.
    population: int


@dataclass(frozen=True)
class CostObjective:
    """What one full training of a trial costs; less is better."""

    metric: str

    @property
    def name(self) -> str:
        """As users write it."""
        return self.metric

    @property
    def maximise(self) -> bool:
        """Never."""
        return False

    def judge(self, trial: Judged) -> Score:
        """The cost so far, a round, times the rounds of a full training."""
        a_round = COSTS[self.metric](trial.cost) / max(trial.trained, 1)
        value = a_round * trial.rounds
        return Score(value, 0.0, 0, trial.round, value)

    def to_dict(self) -> dict[str, Any]:
        """For result.json."""
        return {"metric": self.metric, "direction": "minimize", "name": self.name}


@dataclass(frozen=True)
class ScoreObjective:
    """A metric over clients, as an objective beside the first."""

    objective: Objective

    @property
    def metric(self) -> str:
        """The metric that clients compute."""
        return self.objective.metric

    @property
    def name(self) -> str:
        """As users write it."""
        return name_of(self.objective)

    @property
    def maximise(self) -> bool:
        """Whether more is better."""
        return self.objective.maximise

    def judge(self, trial: Judged) -> Score:
        """The metric over the clients that scored."""
        return self.objective.observe(trial.scores, trial.round, trial.population)

    def to_dict(self) -> dict[str, Any]:
        """For result.json."""
        return self.objective.to_dict() | {"name": self.name}


Aim = CostObjective | ScoreObjective


def name_of(objective: Objective) -> str:
    """How an objective is written in a word.

    >>> name_of(Objective("accuracy", over="tail")), name_of(Objective("loss"))
    ('accuracy_tail', 'loss')
    """
    return objective.metric if objective.over == "mean" else f"{objective.metric}_{objective.over}"


def objective_named(name: str, **settings: Any) -> Objective:
    """The objective that a word stands for; `settings` are further ones of it.

    >>> objective_named("loss_worst").over
    'worst'
    """
    for over in _OVER:
        if name.endswith(f"_{over}"):
            return Objective(name.removesuffix(f"_{over}"), over=over, **settings)
    return Objective(name, **settings)


def aim_of(given: Any, like: Objective | None = None) -> Aim:
    """What a name, a mapping of settings or an `Objective` stands for.

    A name counts clients as the objective `like` does.
    """
    if isinstance(given, Objective):
        return ScoreObjective(given)
    if isinstance(given, Mapping):
        given = dict(given)
        if given.get("metric") in COSTS:
            if len(given) > 1:
                others = ", ".join(sorted(given.keys() - {"metric"}))
                raise InputError(f"{given['metric']} is a cost: it takes no {others}")
            return CostObjective(given["metric"])
        try:
            return ScoreObjective(Objective(**given))
        except TypeError:
            raise InputError(
                "an objective takes metric, over, tail, trim, weighting and direction, found "
                f"{', '.join(map(str, given))}"
            ) from None
    if not isinstance(given, str):
        raise InputError(f"an objective must be a name or a fedhpo.Objective, not {shown(given)}")
    if given in COSTS:
        return CostObjective(given)
    settings = {} if like is None else {"weighting": like.weighting, "tail": like.tail, "trim": like.trim}
    try:
        return ScoreObjective(objective_named(given, **settings))
    except InputError:
        raise unknown_name(
            "objective", given, [*BASE, *NAMED, *COSTS, "accuracy_tail", "loss_worst"]
        ) from None


@dataclass(frozen=True)
class Constraint:
    """A limit that a trial must keep, such as "bytes_up <= 1e6" or "accuracy_worst >= 0.5".

    >>> found = Constraint.parse("loss_worst <= 1.5")
    >>> found.violation(1.5), found.violation(3.0)
    (0.0, 1.0)
    """

    aim: Aim
    sense: str
    limit: float

    @classmethod
    def parse(cls, text: Any, like: Objective | None = None) -> Constraint:
        """What was written, or an `InputError` that says how to write it."""
        found = _CONSTRAINT.fullmatch(text) if isinstance(text, str) else None
        if found is None:
            raise InputError(
                f"a constraint is written 'name <= number' or 'name >= number', such as 'bytes_up <= 1e6', "
                f"not {shown(text)}"
            )
        try:
            limit = float(found[3])
        except ValueError:
            limit = math.nan
        if not math.isfinite(limit):
            raise InputError(f"constraint {text!r}: {found[3]!r} is no finite number")
        return cls(aim_of(found[1], like), found[2], limit)

    def violation(self, value: float) -> float:
        """By which share of the limit the value is beyond it; 0 where the constraint is kept."""
        if math.isnan(value):
            return math.inf
        over = value - self.limit if self.sense == "<=" else self.limit - value
        return max(0.0, over) / (abs(self.limit) or 1.0)

    def __str__(self) -> str:
        return f"{self.aim.name} {self.sense} {self.limit:g}"


@dataclass(frozen=True)
class Criteria:
    """Further objectives, and constraints; none of either by default."""

    others: Sequence[Aim] = ()
    constraints: Sequence[Constraint] = ()

    @classmethod
    def parse(cls, first: Objective, others: Sequence[Any], constraints: Sequence[Any]) -> Criteria:
        """What was written; `first` is the objective that these come beside."""
        aims = tuple(aim_of(one, first) for one in others)
        names = [name_of(first), *(aim.name for aim in aims)]
        for name in names:
            if names.count(name) > 1:
                raise InputError(f"objectives name {name!r} twice")
        return cls(aims, tuple(Constraint.parse(one, first) for one in constraints))

    def __bool__(self) -> bool:
        return bool(self.others or self.constraints)

    @property
    def aims(self) -> tuple[Aim, ...]:
        """All that is measured."""
        return (*self.others, *(one.aim for one in self.constraints))

    @property
    def metrics(self) -> list[str]:
        """The metrics that clients must compute for it."""
        return [aim.metric for aim in self.aims if isinstance(aim, ScoreObjective)]

    def judge(self, score: Score, trial: Judged) -> Score:
        """The score of the first objective, with what else the trial is judged by."""
        if not self:
            return score
        others = tuple(aim.judge(trial) for aim in self.others)
        limited = tuple(one.aim.judge(trial).value for one in self.constraints)
        broken = [one.violation(value) for one, value in zip(self.constraints, limited, strict=True)]
        known = all(math.isfinite(other.rank_value) for other in others)
        rank = score.rank_value if known else math.inf
        violation = math.fsum(broken)
        return replace(score, rank_value=rank, others=others, limited=limited, violation=violation)

    def told(self, first: Objective, score: Score | None) -> dict[str, Any]:
        """A trial in result.json: its value of each objective, and how it keeps the constraints."""
        if not self:
            return {}
        known = score is not None and len(score.others) == len(self.others)
        values = [score.value, *(one.value for one in score.others)] if known and score else []
        names = [name_of(first), *(aim.name for aim in self.others)]
        limited = zip(map(str, self.constraints), score.limited if score else (), strict=False)
        return {
            "objectives": {name: _finite(v) for name, v in zip(names, values, strict=False)},
            "constraints": {text: _finite(value) for text, value in limited},
            "violation": _finite(score.violation) if score else None,
        }

    def to_dict(self, first: Objective) -> dict[str, Any]:
        """For the run and for result.json."""
        if not self:
            return {}
        listed = [first.to_dict() | {"name": name_of(first)}, *(aim.to_dict() for aim in self.others)]
        return {"objectives": listed, "constraints": [str(one) for one in self.constraints]}


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
