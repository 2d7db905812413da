"""Which model of a trial's last rounds is kept: the last one, a mean of them, or the best.

A round's cohort pulls the model its own way, the more so the more clients differ and the larger steps are;
the mean over some rounds is nearer to what all clients want (Polyak and Juditsky, 1992; in federations Lin et
al., 2018, and Caldarola et al., 2022). It costs no round: the server has the models already, and keeps one
more. Of the trial that wins, the last model and the mean are scored once more, at the same clients, and the
mean is kept unless it is behind by more than one standard error of their difference.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

from fedhpo.search.paired import gain_at_clients
from fedhpo.search.trial import TRAINING, Trial

if TYPE_CHECKING:
    from fedhpo.search.search import Search

Keep = Literal["last", "mean", "exponential", "best"]
KEEPS: tuple[str, ...] = get_args(Keep)
#: The share of a training over which models are averaged, or looked at.
TAIL = 0.2
#: With "best": how often models of that stretch are scored.
LOOKS = 5
#: Models that are kept beside trials are numbered from here.
BESIDE = 2_000_000


def tail_of(rounds: int) -> int:
    """How many rounds the stretch has whose models count: a fifth of the training, and at least two.

    >>> tail_of(100), tail_of(3)
    (20, 2)
    """
    return max(2, round(TAIL * rounds))


def share_of(keep: Keep, count: int, tail: int) -> float:
    """How far an average moves towards the model after its `count`th round, of `tail`.

    >>> [share_of("mean", count, 4) for count in (1, 2, 3, 4)]
    [1.0, 0.5, 0.333..., 0.25]
    >>> [share_of("exponential", count, 19) for count in (1, 5, 19)]  # the last half counts most
    [1.0, 0.2, 0.2]
    """
    return 1 / count if keep == "mean" else max(1 / count, 4 / (tail + 1))


@dataclass
class _Beside:
    """What is kept beside a trial: the models in it, after which round, and what it scored."""

    trial: Trial
    count: int = 0
    round: int = 0
    value: float = math.inf


@dataclass
class Keeper:
    """Follows trials through the last rounds of their training."""

    keep: Keep
    _beside: dict[int, _Beside] = field(default_factory=dict)

    def follow(self, search: Search, trials: Sequence[Trial]) -> None:
        """After a round of these trials."""
        tail = tail_of(search.rounds)
        late = [t for t in trials if t.status == TRAINING and t.round > search.rounds - tail]
        if self.keep == "best":
            every = max(1, tail // LOOKS)
            self._look(search, [t for t in late if not (search.rounds - t.round) % every])
            return
        for trial in late:
            one = self._of(search, trial)
            if trial.round <= one.round:
                if trial.round == one.round:  # the round was not applied
                    continue
                one.count = 0
            one.count, one.round = one.count + 1, trial.round
            share = share_of(self.keep, one.count, tail)
            if share == 1:
                search.session.fork(trial.number, one.trial.number)
            else:
                search.session.mix(trial.number, one.trial.number, share)
            one.trial.round = trial.round

    def _look(self, search: Search, trials: Sequence[Trial]) -> None:
        """Score these as they are, and keep a copy of each that is better than its copy so far."""
        fresh = [t for t in trials if t.round < search.rounds and t.round > self._of(search, t).round]
        looked = []
        for trial in fresh:
            one = self._of(search, trial)
            one.round, seen = trial.round, search.apart(_SEEN + trial.number, trial.config)
            search.session.fork(trial.number, seen.number)
            seen.round = trial.round
            looked.append((one, seen))
        search.evaluate([seen for _, seen in looked])
        for one, seen in looked:
            if seen.rank_value < one.value:
                one.value, one.count, one.trial.round = seen.rank_value, 1, seen.round
                search.session.fork(seen.number, one.trial.number)
            search.session.stop(seen.number)

    def _of(self, search: Search, trial: Trial) -> _Beside:
        if trial.number not in self._beside:
            self._beside[trial.number] = _Beside(search.apart(BESIDE + trial.number, trial.config))
        return self._beside[trial.number]

    def drop(self, search: Search, trial: Trial) -> None:
        """A trial that is not needed any more."""
        one = self._beside.pop(trial.number, None)
        if one is not None:
            search.session.stop(one.trial.number)

    def close(self, search: Search, best: Trial) -> None:
        """The search has its winner: which of its models it is."""
        one = self._beside.get(best.number)
        if one is not None and one.count and best.round == search.rounds:
            search.evaluate([best, one.trial])
            gain, error = self._gain(search, best, one.trial)
            # An average is believed in unless it is clearly behind; the best of some looks was lucky, too.
            taken = (
                gain > 0 if self.keep == "best" else gain >= -(error if math.isfinite(error) else math.inf)
            )
            what = "best" if self.keep == "best" else f"{self.keep} of {one.count} models"
            search.facts["keep"] = {
                "kept": what if taken else "last",
                "round": one.trial.round,
                "gain": gain,
                "error": error,
            }
            if taken:
                search.session.fork(one.trial.number, best.number)
                best.scores.append(one.trial.scores[-1])
                best.evaluations += one.trial.evaluations[-1:]
        for number in list(self._beside):
            self.drop(search, search.trials[number])

    @staticmethod
    def _gain(search: Search, best: Trial, other: Trial) -> tuple[float, float]:
        """How much better the other is at the same clients, and the error of that; NaN where not known."""
        if not (best.evaluations and other.evaluations):
            return math.nan, math.nan
        scores = other.evaluations[-1].scores, best.evaluations[-1].scores
        return gain_at_clients(search.objective, search.evaluator, *scores)[:2]


#: Models that are looked at and let go of again.
_SEEN = 3_000_000
