"""Local search at the clients of a simulated federation: torch models, trained from scratch by each alone.

A client alone is a federation of one client, so its training is rounds of that one. Each fold of a client is
such a client, and all of them train side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedhpo.core.errors import InputError, unknown_name
from fedhpo.core.streams import derive
from fedhpo.data import FederatedData, Split
from fedhpo.engine.executor import Setup
from fedhpo.learners.scoring import fold_rows, number_of_folds
from fedhpo.protocol.federation import Answer, Federation, Ints, Work
from fedhpo.protocol.objective import LOCAL_SCORINGS
from fedhpo.queries.local_search import LocalSearch, PartySearch, unable
from fedhpo.queries.side_by_side import Outcome, side_by_side
from fedhpo.space.config import Config


def search_clients(setup: Setup, workers: int, task: LocalSearch, clients: Sequence[int]) -> list[Answer]:
    """Each client's answer to the query, in order."""
    from fedhpo.federations.simulated import SimulatedFederation

    if task.scoring not in (None, *LOCAL_SCORINGS):
        raise unknown_name("scoring", task.scoring, LOCAL_SCORINGS)
    alone, answers = _alone(setup.data, task, clients)
    searches = {client: PartySearch(task, client, len(setup.data.train.rows(client))) for client in alone.of}
    if searches:
        with SimulatedFederation(replace(setup, data=alone.data), workers=workers) as federation:
            federation.expect(task.rounds)
            answers |= side_by_side(task, searches, _Trainings(federation, task, alone))
    return [answers[client] for client in clients]


@dataclass(frozen=True, eq=False)
class _Alone:
    """Data in which each fold of a client is a client of its own, and which these are."""

    data: FederatedData
    of: dict[int, list[int]]


def _alone(
    data: FederatedData, task: LocalSearch, clients: Sequence[int]
) -> tuple[_Alone, dict[int, Answer]]:
    """The folds of each client, or its training and validation rows as they are; or why it has none."""
    folds = task.folds or 1
    none: Ints = np.empty(0, np.int64)
    train, held = ([none] * (data.clients * folds) for _ in range(2))
    of: dict[int, list[int]] = {}
    failed: dict[int, Answer] = {}
    for client in clients:
        try:
            parts = _parts(data, task, client)
        except InputError as error:
            failed[client] = unable(task, client, str(error))
            continue
        # A client's numbers do not depend on which others are asked: its random streams follow from them.
        of[client] = list(range(client * folds, client * folds + len(parts)))
        for part, (kept, scored) in zip(of[client], parts, strict=True):
            train[part], held[part] = kept, scored
    folded = replace(
        data,
        train=Split.from_lists(train),
        validation=Split.from_lists(held),
        test=Split.from_lists([none] * len(train)),
        client_names=None,
    )
    return _Alone(folded, of), failed


def _parts(data: FederatedData, task: LocalSearch, client: int) -> list[tuple[Ints, Ints]]:
    rows = data.train.rows(client)
    if not len(rows):
        raise InputError("it has no training rows")
    if task.folds is None:
        held = data.validation.rows(client)
        if not len(held):
            raise InputError("it has no validation rows: give folds")
        return [(rows, held)]
    labels = data.y[rows]
    folds = number_of_folds(labels, task.folds)
    seed = derive(task.seed, "folds", client) % 2**32
    pairs = (fold_rows(labels, folds, fold, seed) for fold in range(folds))
    return [(rows[kept], rows[held]) for kept, held in pairs]


class _Trainings:
    """Trains configs at clients that are alone; a deadline is looked at between rounds."""

    def __init__(self, federation: Federation, task: LocalSearch, alone: _Alone) -> None:
        self._federation, self._task, self._of = federation, task, alone.of
        self._client = {part: client for client, parts in alone.of.items() for part in parts}
        self._work: dict[int, Work] = {}
        self._losses: dict[int, dict[int, float]] = {}
        self._reasons: dict[int, str] = {}
        self._samples: dict[int, int] = {}

    def submit(self, party: int, config: Config) -> None:
        self._losses[party], self._samples[party] = {}, 0
        self._reasons.pop(party, None)
        for part in self._of[party]:
            # All clients begin with the same weights, as they do in a federation.
            self._federation.start(part, config.model, derive(self._task.seed, "local model"))
            self._work[part] = Work(part, [part], config.client, scores=())
            self._federation.submit(self._work[part])

    def next(self, seconds: float | None) -> Outcome | None:
        report = self._federation.next_done()
        part, party = report.trial, self._client[report.trial]
        self._samples[party] += report.cost.samples
        if report.applied and report.round < self._task.rounds:
            self._federation.submit(self._work[part])
            return None
        self._losses[party][part] = self._loss(part) if report.applied else float("nan")
        if not report.applied:
            self._reasons.setdefault(party, str(report.reasons.get(0, "its update could not be used")))
        self._federation.stop(part)
        if len(self._losses[party]) < len(self._of[party]):
            return None
        loss = float(np.mean([self._losses[party][part] for part in self._of[party]]))
        reason, samples = self._reasons.get(party, ""), self._samples[party]
        if self._task.folds is not None:
            # As if all folds that were asked for could be made: how many could tells of the rarest class.
            samples = samples * (self._task.folds - 1) // (len(self._of[party]) - 1)
        return Outcome(party, None if reason else loss, reason, samples)

    def _loss(self, part: int) -> float:
        [scores] = self._federation.evaluate([part], [part])
        return float(scores.loss[0] if self._task.scoring == "loss" else 1 - scores.accuracy[0])

    def abandon(self) -> None:
        pass  # the federation is closed next
