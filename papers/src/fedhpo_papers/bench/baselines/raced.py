"""Plain remedies: random search and halving whose best are scored again; clients as instances of a race."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import t as student

from fedhpo.methods.robust import best_first, race, worth_taking
from fedhpo.schedules import FixedLength, Halving

if TYPE_CHECKING:
    from fedhpo.protocol.policy import ClientPolicy
    from fedhpo.protocol.sampler import Sampler
    from fedhpo.search.search import Search
    from fedhpo.search.trial import Trial

#: A config is dropped after so many clients if it is worse than the best at this level (irace's defaults).
_FIRST, _LEVEL = 5, 0.05


@dataclass(frozen=True)
class Raced:
    """Trials that all train to the end, then a race among them that halves."""

    def run(self, search: Search, sampler: Sampler, policy: ClientPolicy) -> Trial:
        """Train, score, race."""
        trials = _trained(search, sampler, policy)
        winner = race(search, trials, _left(search, trials))
        search.finish(trials, lambda rivals: winner)
        return search.best()

    def rounds(self, search: Search, sampler: Sampler) -> int:
        """Number of trials times their length."""
        return FixedLength().rounds(search, sampler)

    def to_dict(self) -> dict[str, Any]:
        """Its settings."""
        return {"name": "raced", **asdict(self)}


@dataclass(frozen=True)
class RacedHalving(Halving):
    """Successive halving, with a race among its finalists."""

    def decide(self, search: Search, finalists: list[Trial]) -> Trial:
        """Score them again, and the better half of them again, until one is left."""
        winner = race(search, finalists, worth_taking(search))
        search.finish(finalists, lambda rivals: winner)
        return search.best()


@dataclass(frozen=True)
class ClientsAsInstances(Raced):
    """Trials that all train to the end, then one client after the other as an instance, as irace has them.

    After `_FIRST` clients, and after each further one, a config is dropped that is worse than the best by a
    paired t-test (Lopez-Ibanez et al., 2016, section 2; of its two tests the one for means).
    """

    def run(self, search: Search, sampler: Sampler, policy: ClientPolicy) -> Trial:
        """Train, then ask client after client."""
        trials = _trained(search, sampler, policy)
        # Private scores are planned with all trials to the end, so smaller rungs may not take the rest.
        left, together = _left(search, trials) // len(trials) * len(trials), 1
        rung = [trial for trial in trials if not trial.failed]
        while 1 < len(rung) <= left:
            search.evaluate(rung)
            left, together = left - len(rung), together + 1
            if together >= _FIRST:
                rung = surviving(rung, together)
        winner = best_first(search, rung, together, 1)[0] if rung else None
        search.finish(trials, lambda rivals: winner)
        return search.best()


def surviving(rung: list[Trial], together: int) -> list[Trial]:
    """Those that are not worse than the best by a paired, one-sided t-test on their last scores."""
    seen = np.array([[score.rank_value for score in trial.scores[-together:]] for trial in rung])
    behind = seen - seen[int(seen.mean(axis=1).argmin())]
    errors = behind.std(axis=1, ddof=1) / math.sqrt(together)
    limit = float(student.ppf(1 - _LEVEL, together - 1)) * errors
    return [trial for trial, worse in zip(rung, behind.mean(axis=1) > limit, strict=True) if not worse]


def _trained(search: Search, sampler: Sampler, policy: ClientPolicy) -> list[Trial]:
    trials = search.start(FixedLength().count(search, sampler), sampler, policy)
    search.train(trials, search.rounds)
    search.evaluate(trials)
    return trials


def _left(search: Search, trials: list[Trial]) -> int:
    """Scores that may still be taken: as many in all as `robust` takes."""
    return max(0, worth_taking(search) - len(trials))
