"""Private channels: noisy scores, or only which trials are best; each release is paid for.

Clients are asked beside the record, which keeps what was released and nothing else. A release is charged
before its noise is drawn, drawn once, and served from the record ever after.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fedhpo.core.errors import InputError
from fedhpo.core.streams import stream
from fedhpo.policies.sums import SumsState
from fedhpo.privacy.accounting import epsilon_each
from fedhpo.privacy.gaps import gap_totals, gap_width
from fedhpo.privacy.means import noisy_mean
from fedhpo.privacy.noise import ExactNoise, Noise, SeededNoise
from fedhpo.privacy.privacy import Privacy
from fedhpo.privacy.selection import selection_of
from fedhpo.protocol.federation import REPEATABLE, Cost, Floats, RoundReport, Scores, Status
from fedhpo.protocol.objective import Objective, Score
from fedhpo.protocol.session import Charged, Each
from fedhpo.search.account import Account, Asked, account_of
from fedhpo.search.channel import Channel, OpenChannel, best_first
from fedhpo.search.comparison import bounded_scores
from fedhpo.search.evaluator import Evaluator
from fedhpo.search.private_rounds import RoundReleases

if TYPE_CHECKING:
    from fedhpo.search.search import Search
    from fedhpo.search.trial import Trial

#: What samplers are told where only identities are released, as a value of which less is better.
KEPT, DROPPED = 0.0, 1.0


def channel_of(
    evaluator: Evaluator,
    releases: int | None = None,
    looks: int | None = None,
    *,
    account: Account | None = None,
) -> Channel:
    """The channel of an evaluator; a private one splits its budget over so many releases.

    Of these, `looks` may look at one client inside its rounds; any number if that is left out. A run that
    was planned has an `account` that knows both.
    """
    privacy = evaluator.privacy
    if privacy is None:
        return OpenChannel()
    kind = ValueChannel if privacy.releases_values else ChoiceChannel
    planned = releases if releases is not None else privacy.evaluations
    return kind(privacy, planned, account_of(privacy, planned, looks) if account is None else account)


class PrivateChannel:
    """What both kinds share: the part of the budget that a release costs, and the noise."""

    def __init__(self, privacy: Privacy, releases: int | None, account: Account | None = None) -> None:
        self.privacy = privacy
        self.releases = releases
        self.account = account_of(privacy, releases) if account is None else account
        parts = self.account.parts
        #: Of one release, by the accounting; what the ledger is charged is always the even part.
        self.epsilon_each = math.nan if parts is None else epsilon_each(privacy, parts)
        self._exact = ExactNoise() if privacy.release == "exact" else None
        self.rounds = RoundReleases()

    def charge(self, parts: int) -> float:
        """What so many parts of epsilon are."""
        if self.account.parts is None:
            raise InputError("privacy.evaluations is not known: say how many releases are planned")
        return self.privacy.epsilon * parts / self.account.parts

    def each(self, weights: Mapping[int, int] | int) -> Each:
        """What so many parts are for each client by itself, whatever they compose to."""
        if isinstance(weights, int):
            return weights * self.epsilon_each
        return {client: weight * self.epsilon_each for client, weight in weights.items()}

    def noise(self, search: Search, *purpose: int | str) -> Noise:
        """A fresh source for one release, which is paid before this returns.

        Clients that do not repeat themselves give other sums when they are asked again. The same noise on
        both would give their difference away: so it is then drawn anew.
        """
        again = search.session.drawing()
        if self._exact is not None:
            return self._exact
        if again and REPEATABLE not in search.session.capabilities:
            return SeededNoise(np.random.default_rng())
        return SeededNoise(stream(search.seed, "noise", *purpose))

    def asked(
        self, search: Search, trials: Sequence[Trial], asked: Asked, *purpose: int | str
    ) -> Sequence[Scores | None]:
        """What each client said of each trial; None where nobody is asked.

        The one place where scores of evaluations are read: who is asked has been counted before.
        """
        session, numbers = search.session, [trial.number for trial in trials]
        if asked.cohorts is not None:
            return asked.evaluated(session.evaluate_beside, numbers)
        evaluator, clients = search.evaluator, search.population
        if asked.clients != evaluator.count(len(clients)):
            evaluator = replace(evaluator, clients=asked.clients)
        seen = search.first_seen
        return evaluator.ask(session.evaluate_beside, clients, numbers, search.seed, *purpose, seen=seen)

    def read(
        self, search: Search, found: Sequence[Scores | None]
    ) -> tuple[list[Floats | None], list[int], Cost]:
        """Each trial's scores, None where too few replied; how many did; and what asking cost."""
        replies = [0 if one is None else int((one.status != Status.MISSING).sum()) for one in found]
        scores = [
            replies_of(search.objective, one)
            if one is not None and came >= max(1, self.privacy.least(len(one.clients)))
            else None
            for one, came in zip(found, replies, strict=True)
        ]
        return scores, replies, _cost(found)

    def learn(self, search: Search, rounds: Sequence[tuple[Trial, RoundReport]]) -> None:
        """From noisy sums, where a policy learns from scores; see `fedhpo.search.private_rounds`."""
        paid = []
        for trial, report in rounds:
            if isinstance(trial.policy, SumsState):
                paid.append((trial, report))
            else:
                trial.policy.learn(report)  # which has no scores
        if paid:
            self.rounds.learn(self, search, paid)

    def skip(self, search: Search, trials: Sequence[Trial]) -> None:
        """Nothing is learned."""

    def to_dict(self) -> dict[str, Any]:
        """The settings, what was planned, and where the noise comes from."""
        settings = self.privacy.to_dict() | {"evaluations": self.releases, "epsilon_each": self.epsilon_each}
        settings |= {"noise": ExactNoise.name if self._exact else SeededNoise.name}
        settings |= {"clients": self.account.to_dict()}
        return settings | {"rounds": self.rounds.to_dict(self.account) if self.account.looked else None}


class ValueChannel(PrivateChannel):
    """Every score is released, with Laplace noise."""

    def observe(
        self, search: Search, trials: Sequence[Trial], number: int
    ) -> list[tuple[Score, Scores | None]]:
        """A noisy score of each trial; all of them are paid at once, or refused."""
        answer = self.release(search, trials, number)
        population = len(search.population)
        released = zip(answer["values"], answer["scales"], answer["replies"], strict=True)
        return [
            (self._score(search.objective, found, trial.round, population), None)
            for trial, found in zip(trials, released, strict=True)
        ]

    def release(self, search: Search, trials: Sequence[Trial], number: int) -> dict[str, Any]:
        """What the record keeps of it."""
        asked = self.account.ask(search, len(trials), values=True)

        def draw() -> Charged:
            scores, replies, cost = self.read(search, self.asked(search, trials, asked, "evaluate", number))
            noise = self.noise(search, number)
            values, scales = [], []
            for own in scores:
                value, scale = (None, None) if own is None else noisy_mean(own, self.epsilon_each, noise)
                values.append(value)
                scales.append(scale)
            released = {"metric": search.objective.metric, "values": values, "replies": replies}
            return Charged(released | {"scales": scales}, cost)

        key = {"evaluation": number, "trials": [[t.number, t.round] for t in trials]} | asked.to_key()
        epsilon = self.charge(asked.parts)
        answer: dict[str, Any] = search.session.decide(
            "release", key, draw, epsilon=epsilon, each=self.each(asked.weights)
        )
        return answer

    def _score(
        self, objective: Objective, found: tuple[float | None, float, int], round: int, population: int
    ) -> Score:
        """The score with its error, from what was released alone.

        Noise has variance 2 scale^2. The spread over clients was not paid for: scores in [0, 1] with mean m
        have a variance of at most m (1 - m), which is taken with the noisy m.
        """
        value, scale, replies = found
        if value is None:
            return Score(math.nan, math.nan, replies, round, math.inf)
        near = min(1.0, max(0.0, value))
        drawing = near * (1 - near) / replies * (1 - min(1.0, replies / population))
        error = math.sqrt(drawing + 2 * scale**2)
        return Score(value, error, replies, round, -value if objective.maximise else value)

    def choose(self, search: Search, rung: Sequence[Trial], count: int, looks: int = 1) -> list[Trial]:
        """By the released values, which costs nothing more."""
        return self.rank(search, rung)[:count]

    def rank(self, search: Search, trials: Sequence[Trial]) -> list[Trial]:
        """By the released values."""
        return best_first(trials, search.evaluator, search.objective)


class ChoiceChannel(PrivateChannel):
    """No score is released, only which trials of a rung are best; clients are asked when it is chosen."""

    def __init__(self, privacy: Privacy, releases: int | None, account: Account | None = None) -> None:
        super().__init__(privacy, releases, account)
        self._choices = 0
        self._beaten: dict[tuple[int, int], set[tuple[int, int]]] = {}

    def observe(
        self, search: Search, trials: Sequence[Trial], number: int
    ) -> list[tuple[Score, Scores | None]]:
        """Nothing is known yet: as good as any."""
        asked = search.evaluator.count(len(search.population))
        return [(Score(math.nan, math.nan, asked, trial.round, KEPT), None) for trial in trials]

    def rank(self, search: Search, trials: Sequence[Trial]) -> list[Trial]:
        """Refused: which trials are best is released, not how good they are."""
        raise InputError(
            f"privacy: mechanism = {self.privacy.mechanism!r} releases which trials are best and no values, "
            "so that they cannot be ranked: choose some of them (search.choose), or use mechanism = 'laplace'"
        )

    def choose(self, search: Search, rung: Sequence[Trial], count: int, looks: int = 1) -> list[Trial]:
        """A private choice, where there is something to choose; in the order of their numbers."""
        in_order = sorted(rung, key=lambda trial: (math.isinf(trial.rank_value), trial.number))
        able = [trial for trial in in_order if math.isfinite(trial.rank_value)]
        if not 0 < count < len(able):
            return in_order[:count]
        if count == 1 and (known := self._known(able)) is not None:
            return [known]
        answer = self.release(search, able, count, looks if self.privacy.gapped else 1)
        self._choices += 1
        kept = [trial for trial in able if trial.number in answer["kept"]]
        for trial in able:
            told = KEPT if trial in kept else DROPPED
            trial.scores[-1] = replace(trial.scores[-1], rank_value=told)
        if count == 1:
            states = {_state(trial) for trial in able}
            self._beaten[_state(kept[0])] = states.union(*(self._beaten.get(s, set()) for s in states))
        return kept

    def _known(self, rung: Sequence[Trial]) -> Trial | None:
        """The best of these, where it was chosen before from these and others: not to be paid twice."""
        states = {_state(trial) for trial in rung}
        return next((t for t in rung if states <= self._beaten.get(_state(t), set())), None)

    def release(self, search: Search, rung: Sequence[Trial], count: int, looks: int = 1) -> dict[str, Any]:
        """What the record keeps of it: who goes on, and nothing of who replied.

        All looks are charged before the first client is asked, and asked in one call.
        """
        asked = self.account.ask(search, len(rung), values=False, looks=looks)

        def draw() -> Charged:
            noise = self.noise(search, "choose", self._choices)  # paid before anybody is asked
            found = self.asked(search, rung, asked, "choose", self._choices)
            values, sensitivity = self._values(search, found, count, noise)
            able = [place for place, value in enumerate(values) if value is not None]
            kept = able[:count]
            if len(able) > count:
                known = np.array([values[place] for place in able])
                choose = selection_of(self.privacy)
                kept = [able[p] for p in choose(known, count, self.epsilon_each, sensitivity, noise)]
            # Too few replies for enough trials: those before, in their order, so that the method can go on.
            others = [place for place in range(len(rung)) if place not in kept]
            kept = sorted([*kept, *others[: count - len(kept)]])
            return Charged({"kept": [rung[place].number for place in kept]}, _cost(found))

        key = {"count": count, "choice": self._choices, "trials": [[t.number, t.round] for t in rung]}
        epsilon = self.charge(asked.parts)
        answer: dict[str, Any] = search.session.decide(
            "choose", key | asked.to_key(), draw, epsilon=epsilon, each=self.each(asked.weights)
        )
        return answer

    def _values(
        self, search: Search, found: Sequence[Scores | None], count: int, noise: Noise
    ) -> tuple[Sequence[float | None], float]:
        """What each trial is chosen by, None where too few replied; and how far one client can move it."""
        maximise = search.objective.maximise
        together = [one for one in found if one is not None]
        same = len(together) == len(found)
        same = same and all(np.array_equal(one.clients, together[0].clients) for one in together)
        if not (self.privacy.gapped and same):
            scores, replies, _ = self.read(search, found)
            sign = 1 if maximise else -1
            values = [None if own is None else sign * noise.mean(own) for own in scores]
            counts = [r for r, own in zip(replies, scores, strict=True) if own is not None]
            return values, noise.sensitivity(min(counts, default=1))
        # A client that replied about any trial counts for all: where it said nothing, it said the worst.
        came: Any = np.logical_or.reduce([one.status != Status.MISSING for one in together])
        if came.sum() < max(1, self.privacy.least(len(came))):
            return [None] * len(found), 1.0
        said = np.array([bounded_scores(search.objective, one)[came] for one in together])
        width = self.privacy.gap or gap_width(self.epsilon_each / count, len(came))
        totals, most = gap_totals(said, width, noise, maximise=maximise)
        return totals.tolist(), most


def _state(trial: Trial) -> tuple[int, int]:
    return trial.number, trial.round


def _cost(found: Sequence[Scores | None]) -> Cost:
    return sum((one.cost for one in found if one is not None), Cost())


def replies_of(objective: Objective, scores: Scores) -> Floats:
    """The scores in [0, 1] of the clients that replied.

    Missing is only who could not be reached; that is public, and does not depend on scores.
    """
    found: Floats = bounded_scores(objective, scores)[scores.status != Status.MISSING]
    return found
