"""Whole releases as a run makes them: who is asked, what is read, the noise, and what is recorded."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from auditing.bound import Outcomes, evidence
from auditing.mechanisms import EPSILON, REPLIES, Mechanism
from fedhpo.privacy.noise import Noise
from fedhpo.privacy.privacy import Privacy
from fedhpo.privacy.rotation import most_asked
from fedhpo.protocol.federation import Floats, Ints, Scores, Status
from fedhpo.protocol.objective import Objective
from fedhpo.protocol.session import Charged
from fedhpo.search.account import RotationAccount, RotationPlan
from fedhpo.search.channel import Channel
from fedhpo.search.evaluator import Evaluator
from fedhpo.search.private import channel_of
from fedhpo.search.trial import Trial
from fedhpo.space.config import Config

#: Clients that are asked in turn, one a score, and scores.
ROTATING, SLOTS = 2, 3


class _Session:
    """Clients that say what they are told to say of each trial; what is decided is not kept."""

    def __init__(self, clients: int, said: Callable[[int, int], float]) -> None:
        self.validation_clients = np.arange(clients)
        self._said = said

    def evaluate_beside(self, trials: Sequence[int], clients: Ints) -> list[Scores]:
        """Scores of each trial at these clients."""
        return [self._scores(trial, clients) for trial in trials]

    def _scores(self, trial: int, clients: Ints) -> Scores:
        accuracy = np.array([self._said(trial, int(client)) for client in clients])
        ok, rows = np.full(len(clients), Status.OK, np.int8), np.full(len(clients), 10)
        return Scores(trial, "validation", clients, ok, rows, np.full(len(clients), math.nan), accuracy)

    def drawing(self) -> bool:
        """No release is drawn a second time."""
        return False

    def decide(self, name: str, key: Any, draw: Callable[[], Charged], **_: Any) -> Any:
        """What would be recorded and told."""
        return json.loads(json.dumps(draw().value))


def _channel(evaluator: Evaluator, parts: int, clients: int) -> Channel:
    """A channel whose first client is asked first."""
    return channel_of(evaluator, account=RotationAccount(RotationPlan(parts), order=np.arange(clients)))


def _search(evaluator: Evaluator, session: _Session, seed: int) -> Any:
    objective = Objective(weighting="uniform")
    clients = session.validation_clients
    return SimpleNamespace(
        evaluator=evaluator, objective=objective, session=session, population=clients, seed=seed
    )


def _trials(count: int) -> list[Trial]:
    return [Trial(number, Config(), None, ()) for number in range(count)]  # type: ignore[arg-type]


def rotated_run(world: int, noise: Noise, draws: int) -> Outcomes:
    """Three scores, each of one trial at one client of two, in turn."""
    most = most_asked(SLOTS, 1, ROTATING)
    evaluator = Evaluator(clients=1, privacy=Privacy(EPSILON, evaluations=SLOTS))
    session = _Session(ROTATING, lambda trial, client: float(world) if client == 0 else 0.0)
    of_client = [slot for slot in range(SLOTS) if slot % ROTATING == 0]
    found: Floats = np.zeros((draws, len(of_client)))
    for draw in range(draws):
        channel = _channel(evaluator, most, ROTATING)
        search = _search(evaluator, session, seed=2 * draw + world)
        [trial] = _trials(1)
        seen = [channel.observe(search, [trial], slot)[0][0].value for slot in range(SLOTS)]
        found[draw] = [seen[slot] for slot in of_client]
    return evidence(found)


def chosen_in_run(world: int, noise: Noise, draws: int) -> Outcomes:
    """The better of two trials by permute-and-flip, ten clients; as in `mechanisms.choice`."""
    evaluator = Evaluator(privacy=Privacy(EPSILON, mechanism="permute-and-flip"))
    others = 1 / (REPLIES - 1)

    def said(trial: int, client: int) -> float:
        if client == 0:
            return float(world) if trial == 0 else 1.0 - world
        return 0.2 if trial == 0 else 0.2 + others

    session = _Session(REPLIES, said)
    found = np.zeros(draws)
    for draw in range(draws):
        channel = _channel(evaluator, 1, REPLIES)
        search = _search(evaluator, session, seed=2 * draw + world)
        trials = _trials(2)
        for trial, (score, _) in zip(trials, channel.observe(search, trials, 0), strict=True):
            trial.scores.append(score)
        found[draw] = float(channel.choose(search, trials, 1)[0].number == 0)
    return found


CHANNELS = (
    Mechanism("a run's scores by rotation", rotated_run),
    Mechanism("a run's choice by permute-and-flip", chosen_in_run),
)
