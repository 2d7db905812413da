"""Robust halving: successive halving made for scores of few clients.

A score of one client says little, so scores are gathered on the way, and the last choice has most of them:

1. Draw n configs in six batches, as BOHB draws them; train each batch for a ninth of the rounds and score it
   before the next is drawn. n is the largest number that the total pays for.
2. Train the better third until a third of the rounds, the better third of these to the end. On the way score
   the trials of a rung every ninth of the rounds, all of them at the same clients. What a trial is worth is
   the mean of all its scores, recent ones counting more.
3. Race the finalists: score all of them again, at fresh clients, the same for all; drop the worse half; go on
   with the others, until one is left or the leader is clearly ahead (Karnin et al., 2013).

This takes at most as many scores as Hyperband would take, or one per trial and rung if that is more. Where
scores are exact, because all clients are asked, one a rung is enough, and there is no race.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fedhpo.core.errors import InputError
from fedhpo.core.settings import check_settings
from fedhpo.methods.preset import Preset
from fedhpo.methods.tuner import Tuner
from fedhpo.samplers import BOHB
from fedhpo.schedules.halving import cost_of
from fedhpo.schedules.hyperband import Hyperband, first_rung

if TYPE_CHECKING:
    from fedhpo.protocol.policy import ClientPolicy
    from fedhpo.protocol.sampler import Sampler
    from fedhpo.search.search import Search
    from fedhpo.search.trial import Trial

_RATE = 3
#: A score counts half as much as one that is so much of the rounds so far younger.
_HALF_LIFE = 0.25
#: The race is decided when the leader is so many standard errors ahead of all others, after so many scores.
_CLEAR, _LEAST = 3.0, 8
#: Configs are drawn in so many batches: each knows the scores of those before.
_BATCHES = 6


@dataclass(frozen=True)
class Plan:
    """Trials of each rung, rounds at which it ends and at which it is scored, scores left for the race."""

    sizes: tuple[int, ...]
    ends: tuple[int, ...]
    scored: tuple[tuple[int, ...], ...]
    race: int

    @property
    def rounds(self) -> int:
        """What the rungs spend together."""
        return cost_of(list(self.ends), list(self.sizes))


def plan(
    rounds: int, total: int, most: int | None = None, scores: int | None = None, exact: bool = False
) -> Plan:
    """The rungs for a total, with at most `most` trials, and at most `scores` scores (Hyperband's number).

    >>> plan(81, 1296)
    Plan(sizes=(60, 20, 7), ends=(9, 27, 81), scored=((9,), (18, 27), (36, 45, 54, 63, 72, 81)), race=60)
    >>> plan(81, 1296, exact=True).scored
    ((9,), (27,), (81,))
    """
    if total < rounds:
        raise InputError(f"a total of {total} rounds does not pay for one training of {rounds}")
    step = max(1, round(rounds / _RATE**2))
    ends = tuple(sorted({step, max(step, round(rounds / _RATE)), rounds}))
    trials = next(
        n
        for n in range(min(total, most or total), 0, -1)
        if cost_of(list(ends), _sizes(n, len(ends))) <= total
    )
    sizes = _sizes(trials, len(ends))
    allowed = _hyperbands_scores(rounds, total) if scores is None else scores
    every = rounds if exact else step
    scored = _scored(ends, every)
    while _count(sizes, scored) > max(allowed, sum(sizes)):  # fewer on the way
        every += step
        scored = _scored(ends, every)
    race = 0 if exact else max(0, allowed - _count(sizes, scored))
    return Plan(tuple(sizes), ends, scored, race)


def _sizes(trials: int, rungs: int) -> list[int]:
    return [-(-trials // _RATE**rung) for rung in range(rungs)]


def _scored(ends: Sequence[int], every: int) -> tuple[tuple[int, ...], ...]:
    """Every so many rounds, and at the end of each rung."""
    begins = (0, *ends[:-1])
    return tuple(
        tuple(sorted({*range(begin + every, end, every), end}))
        for begin, end in zip(begins, ends, strict=True)
    )


def _count(sizes: Sequence[int], scored: Sequence[Sequence[int]]) -> int:
    return sum(size * len(rounds) for size, rounds in zip(sizes, scored, strict=True))


def _hyperbands_scores(rounds: int, total: int) -> int:
    """How many scores Hyperband takes of a total."""
    return sum(sum(bracket.sizes) for bracket in Hyperband().paid(rounds, total))


@dataclass(frozen=True)
class RobustHalving:
    """The schedule; see the module's docstring. `scores` limits how many scores are taken."""

    scores: int | None = None

    #: Trials are ordered here, by means of the scores of one objective.
    several_objectives: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_settings(self)
        if self.scores is not None and self.scores < 1:
            raise InputError(f"scores must be at least 1, not {self.scores}")

    def run(self, search: Search, sampler: Sampler, policy: ClientPolicy) -> Trial:
        """Rung by rung: keep the better third, train, gather scores; then race the finalists."""
        planned = self._plan(search, sampler)
        search.facts["robust"] = asdict(planned)
        trials, end = planned.sizes[0], planned.ends[0]
        rung = first_rung(search, trials, end, math.ceil(trials / _BATCHES), sampler, policy)
        for size, scored in zip(planned.sizes[1:], planned.scored[1:], strict=True):
            kept = best_first(search, rung, size)
            search.eliminate([trial for trial in rung if trial not in kept])
            rung = kept
            for round in scored:
                search.train(rung, round)
                search.evaluate(rung)
        race(search, rung, planned.race)
        search.finish(rung, lambda rivals: best_first(search, rivals, 1)[0])
        return search.best()

    def _plan(self, search: Search, sampler: Sampler) -> Plan:
        # A private release is noisier the more of them there are: then only the ends of rungs are scored.
        exact = search.evaluator.clients is None or search.evaluator.privacy is not None
        most = search.distinct(search.total, sampler)
        return plan(search.rounds, search.total, most, self.scores, exact)

    def rounds(self, search: Search, sampler: Sampler) -> int:
        """What the rungs spend together."""
        return self._plan(search, sampler).rounds

    def refuses_more(self, old: int, new: int, rounds: int) -> str:
        """Why a total cannot be raised: trials that a longer rung would have kept are gone."""
        return "under halving the number of trials follows the total, from the first round on"

    def to_dict(self) -> dict[str, Any]:
        """Its settings."""
        return {"name": "robust", **asdict(self)}


def race(search: Search, finalists: Sequence[Trial], scores: int) -> None:
    """Score finalists again, and the better half of them again, until one is left (Karnin et al., 2013).

    Each halving has the same part of the scores. The race ends early when the leader is clearly ahead.
    """
    rung = [trial for trial in finalists if not trial.failed]
    halvings = max(1, math.ceil(math.log2(max(2, len(rung)))))
    while len(rung) > 1:
        for _ in range(scores // (halvings * len(rung))):
            search.evaluate(rung)
            if decided(rung):
                return
        rung = best_first(search, rung, math.ceil(len(rung) / 2))


def decided(rung: Sequence[Trial]) -> bool:
    """Whether the leader is clearly ahead of every other, by scores at the same clients and rounds."""
    last = min(len(trial.scores) for trial in rung)
    seen = np.array([[score.rank_value for score in trial.scores[-last:]] for trial in rung])
    seen = seen[:, [score.round == rung[0].round for score in rung[0].scores[-last:]]]
    if seen.shape[1] < _LEAST or not np.isfinite(seen).all():
        return False
    leader = int(seen.mean(axis=1).argmin())
    ahead = np.delete(seen, leader, axis=0) - seen[leader]
    errors = ahead.std(axis=1, ddof=1) / math.sqrt(seen.shape[1])
    return bool((ahead.mean(axis=1) > _CLEAR * errors).all())


def best_first(search: Search, rung: Sequence[Trial], count: int) -> list[Trial]:
    """The best `count` trials by all of their scores; by a private choice where scores are not released."""
    privacy = search.evaluator.privacy
    if privacy is not None and not privacy.releases_values:
        return search.choose(rung, count)
    return sorted(rung, key=lambda trial: (worth(trial), trial.number))[:count]


def worth(trial: Trial) -> float:
    """The mean of a trial's scores, less being better; the latest alone where it is exact.

    A score of a quarter of the rounds ago counts half. Trials of a rung have scores of the same rounds, most
    of them of the same clients, so what early rounds and odd clients do to the mean they do to all of them.
    """
    if trial.failed or not trial.scores:
        return math.inf
    latest = trial.scores[-1]
    if latest.standard_error == 0:
        return latest.rank_value
    known = [score for score in trial.scores if math.isfinite(score.rank_value)]
    if not known:
        return math.inf
    ages = np.array([latest.round - score.round for score in known])
    weights = 0.5 ** (ages / (_HALF_LIFE * latest.round))
    return float(np.average([score.rank_value for score in known], weights=weights))


@dataclass(frozen=True)
class Robust(Preset):
    """Halving made for scores of few clients: scores gathered on the way, and finalists that race.

    At most `scores` scores are taken, by default as many as Hyperband would take. With privacy only the ends
    of rungs are scored, and there is no race.
    """

    scores: int | None = None

    name: ClassVar[str] = "robust"

    def tuner(self) -> Tuner:
        """BOHB's model of the scores, under the schedule."""
        return Tuner(RobustHalving(self.scores), BOHB())
