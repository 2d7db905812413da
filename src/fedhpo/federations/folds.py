"""Scores of configs at parties of a local search, fold by fold."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fedhpo.core.streams import derive
from fedhpo.learners.scoring import FOLDS
from fedhpo.learners.tasks import ScoreFold, Task
from fedhpo.queries.local_search import LocalSearch
from fedhpo.queries.side_by_side import Outcome
from fedhpo.space.config import Config
from fedhpo.workers.pool import Ended, Pool


class FoldScores:
    """Scores configs at parties, fold by fold: a party's folds, and parties, side by side."""

    def __init__(
        self,
        workers: Pool[Task],
        task: LocalSearch,
        scoring: str,
        folds: Mapping[int, int],
        sizes: Mapping[int, int],
    ) -> None:
        self._workers, self._task, self._scoring = workers, task, scoring
        self._folds, self._sizes = folds, sizes
        self._tickets: dict[int, tuple[int, int]] = {}
        self._scores: dict[int, dict[int, Ended[Task]]] = {}
        #: What ended meanwhile and is not ours.
        self.others: dict[int, Ended[Task]] = {}

    def submit(self, party: int, config: Config) -> None:
        seed = derive(self._task.seed, "folds", party)
        self._scores[party] = {}
        for fold in range(self._folds[party]):
            work = ScoreFold(party, config, fold, self._folds[party], self._scoring, seed)
            self._tickets[self._workers.submit(work)] = party, fold

    def next(self, seconds: float | None) -> Outcome | None:
        done = self._workers.next(seconds)
        if done is None:
            return None
        if done.ticket not in self._tickets:
            self.others[done.ticket] = done
            return None
        party, fold = self._tickets.pop(done.ticket)
        self._scores[party][fold] = done
        if len(self._scores[party]) < self._folds[party]:
            return None
        ended = [self._scores[party][fold] for fold in range(self._folds[party])]
        failures = [one.failure for one in ended if one.failure]
        # As if all folds that were asked for could be made: how many could tells of the rarest class.
        trained = self._sizes[party] * ((self._task.folds or FOLDS) - 1)
        if failures:
            return Outcome(party, None, failures[0].text, trained)
        return Outcome(party, 1 - float(np.mean([one.value for one in ended])), "", trained)

    def abandon(self) -> None:
        self._workers.cancel(self._tickets)
