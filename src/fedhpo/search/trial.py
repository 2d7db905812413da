"""A trial: one model in training, and what is known of it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from fedhpo.protocol import trial as protocol
from fedhpo.protocol.federation import Cost, Scores
from fedhpo.protocol.objective import Score
from fedhpo.protocol.policy import PolicyState
from fedhpo.space.config import Config

#: What is tried out before the search proper is numbered from here, apart from its trials.
TRIED_OUT = 1_000_000
#: The user's own config, where the trial that had it became a copy of another and it is trained once more.
OWN_AGAIN = TRIED_OUT - 1

TRAINING, FINISHED, ELIMINATED, FAILED = "training", "finished", "eliminated", "failed"


@dataclass(frozen=True)
class Evaluation:
    """Each client's scores of a trial after `round` rounds; `number` counts the search's evaluations."""

    number: int
    round: int
    scores: Scores


@dataclass(frozen=True)
class Replacement:
    """A trial became a copy of another: as that one was after `round` rounds, to go on under `config`.

    `left` is the round at which it left its own model, `source_step` how often the source had been replaced
    itself. The scores are those that the exchange went by; `reason` says why the trial had failed, if so.
    """

    round: int
    source: int
    source_step: int
    left: int
    config: Config
    score: float | None
    source_score: float | None
    reason: str = ""


@dataclass(eq=False)
class Trial(protocol.Trial):
    """One model in training, and what is known of it."""

    number: int
    config: Config
    policy: PolicyState
    scores_in_round: tuple[str, ...]
    round: int = 0
    status: str = TRAINING
    reason: str = ""
    scores: list[Score] = field(default_factory=list)
    evaluations: list[Evaluation] = field(default_factory=list, repr=False)
    #: Loss of each round since the trial began, or was replaced; see `fedhpo.policies.losses`.
    losses: list[float] = field(default_factory=list, repr=False)
    replacements: list[Replacement] = field(default_factory=list, repr=False)
    #: Rounds that were trained for this trial; `round` is how many its model has behind it.
    trained: int = 0
    #: How often it was scored for a private exchange; see `fedhpo.methods.fedpop.private`.
    judged: int = 0
    #: The round at which its schedules end, where that is not the end of a full training.
    horizon: int | None = None
    #: What these rounds cost.
    cost: Cost = field(default_factory=Cost)
    #: Rounds at which it was scored for those who watch; the method does not see these scores.
    watched: set[int] = field(default_factory=set, repr=False)
    #: Whether its policy asks for products of updates.
    products: bool = False
    first: Config = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.first = self.config

    @property
    def training(self) -> bool:
        """Whether it goes on."""
        return self.status == TRAINING

    @property
    def failed(self) -> bool:
        """Whether its training failed."""
        return self.status == FAILED

    def forget_watched(self) -> None:
        """Keep only the scores that the method asked for."""
        if self.watched:
            self.scores[:] = [score for score in self.scores if score.round not in self.watched]
            self.watched.clear()

    @property
    def score(self) -> Score | None:
        """The latest score."""
        return self.scores[-1] if self.scores else None

    @property
    def rank_value(self) -> float:
        """The latest score as a number of which less is better; infinite without one."""
        failed = self.status == FAILED or self.score is None
        return math.inf if failed or self.score is None else self.score.rank_value


def path_of(trial: Trial) -> list[dict[str, Any]]:
    """The configs that a trial trained under, from its first; empty where there was only one."""
    if not trial.replacements:
        return []
    begun = {"round": 0, "source": None, "score": None, "source_score": None, "reason": ""}
    changes = [vars(change) | {"config": change.config.to_dict()} for change in trial.replacements]
    return [begun | {"config": trial.first.to_dict()}, *changes]
