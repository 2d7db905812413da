"""Whole releases as a run makes them: who is asked, what is read, the noise, and what is recorded."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from functools import cache
from types import SimpleNamespace
from typing import Any, Literal
from unittest import mock

import numpy as np

from auditing import gaps
from auditing.bound import Outcomes, evidence
from auditing.mechanisms import EPSILON, REPLIES, Draw, Mechanism
from fedhpo.privacy.local import LocalPrivacy
from fedhpo.privacy.noise import Noise
from fedhpo.privacy.privacy import Privacy
from fedhpo.privacy.rotation import most_asked
from fedhpo.protocol.federation import Floats, Ints, Scores, Status
from fedhpo.protocol.objective import Objective
from fedhpo.protocol.session import Charged
from fedhpo.queries import local_search
from fedhpo.queries.local_search import LocalSearch, PartySearch
from fedhpo.queries.public_list import public_list
from fedhpo.queries.smoothing import smoothed
from fedhpo.search.account import RotationAccount, RotationPlan
from fedhpo.search.channel import Channel
from fedhpo.search.comparison import Comparison, released_gain
from fedhpo.search.evaluator import Evaluator
from fedhpo.search.private import channel_of
from fedhpo.search.trial import Trial
from fedhpo.space import Float, Space
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


def chosen_in_run(looks: int = 1, release: Literal["simulated", "exact"] = "simulated") -> Draw:
    """The better of two trials by gaps, ten clients, as in `gaps`; pooled from several looks at two each."""

    def draw(world: int, noise: Noise, draws: int) -> Outcomes:
        privacy = Privacy(EPSILON, mechanism="permute-and-flip", release=release)
        evaluator = Evaluator(clients=None if looks == 1 else REPLIES // looks, privacy=privacy)
        scores = gaps.replies(world)
        session = _Session(REPLIES, lambda trial, client: float(scores[trial, client]))
        found = np.zeros(draws)
        for place in range(draws):
            channel = _channel(evaluator, 1, REPLIES)
            search = _search(evaluator, session, seed=2 * place + world)
            trials = _trials(2)
            for trial, (score, _) in zip(trials, channel.observe(search, trials, 0), strict=True):
                trial.scores.append(score)
            found[place] = float(channel.choose(search, trials, 1, looks)[0].number == 0)
        return found

    return draw


def compared_in_run(world: int, noise: Noise, draws: int) -> Outcomes:
    """The comparison of winner and own config at held-out clients, one of whom turns its difference round.

    The second moment, a quarter of epsilon, is the same in both worlds: three quarters are to be seen.
    """
    privacy = Privacy(EPSILON)
    evaluator = Evaluator(privacy=privacy)

    def said(trial: int, client: int) -> float:
        return float(world == (trial == 0)) if client == 0 else 0.5

    session = _Session(REPLIES, said)
    best, own = _trials(2)
    nobody = np.array([], np.int64)
    found = np.zeros(draws)
    for draw in range(draws):
        search = _search(evaluator, session, seed=2 * draw + world)
        search.comparison = Comparison(session.validation_clients, nobody, privacy)
        search.ledger, search.tried, search.trials = SimpleNamespace(epsilon=0.0), {}, [best, own]
        gain = released_gain(search, _channel(evaluator, 1, REPLIES), best, own)
        found[draw] = (gain.value / privacy.clip + 1) / 2 * REPLIES - (REPLIES - 1) / 2
    return evidence(found[:, None])


def chosen_by_party(world: int, noise: Noise, draws: int) -> Outcomes:
    """What a real party of FLoRA sends of its search: one of eight listed configs, and 0 for its loss."""
    space = Space(client={"lr": Float(0.0, 1.0, default=0.5)})
    once = cache(lambda space, configs, losses: smoothed(space, configs, losses))
    with (
        mock.patch.object(LocalPrivacy, "check"),  # epsilon 1 is refused: its choice is near chance
        mock.patch.object(local_search, "smoothed", lambda s, c, told: once(s, tuple(c), tuple(told))),
    ):
        privacy = LocalPrivacy(EPSILON, release="exact")
        party = PartySearch(LocalSearch(space, configs=8, listed=True, privacy=privacy), 0, 30)
        while (config := party.ask()) is not None:
            party.tell(abs(world - config.client["lr"]))
        sent = [party.answer().content for _ in range(draws)]
    assert all(one["losses"] == [0.0] for one in sent)
    best = sorted(config.client["lr"] for config in public_list(space, 8, 0))[-3:]
    return np.array([one["configs"][0]["client"]["lr"] in best for one in sent], np.float64)


CHANNELS = (
    Mechanism("a run's scores by rotation", rotated_run),
    Mechanism("a run's choice by permute-and-flip", chosen_in_run()),
    Mechanism("a run's choice by permute-and-flip, exact", chosen_in_run(release="exact")),
    Mechanism("a run's pooled choice", chosen_in_run(looks=5)),
    Mechanism("a run's comparison at held-out clients", compared_in_run, tight=False),
    Mechanism("what a party of FLoRA sends", chosen_by_party),
)
