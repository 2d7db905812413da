"""Rounds of a search: cohorts are drawn, work is made and done, and what comes back is taken in.

A round in which too few clients replied is repeated with another cohort. A trial whose rounds cannot be used
fails.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fedhpo.core.streams import stream
from fedhpo.policies.losses import diverged, round_loss
from fedhpo.protocol.federation import Cost, RoundReport, Status, Work
from fedhpo.protocol.policy import ServerState, TimedState
from fedhpo.protocol.reasons import Why
from fedhpo.search.trial import FAILED, TRAINING, Trial

if TYPE_CHECKING:
    from fedhpo.search.search import Search

#: A round in which too few clients replied is repeated with another cohort, so often at most.
_ATTEMPTS = 3


class Rounds:
    """The rounds of one search."""

    def __init__(self) -> None:
        #: The server's and the clients' vectors of hyperparameters that were trained with.
        self.tried: dict[str, set[str]] = {"server": set(), "client": set()}
        #: The last report of each trial whose round has yet to be repeated.
        self._unused: dict[int, RoundReport] = {}

    def run(self, search: Search, trials: Sequence[Trial]) -> None:
        """One round of each trial; what came back goes to its policy."""
        if search.session.virtual:
            self._advance(search, trials)
            return
        todo, heard = list(trials), []
        private = search.evaluator.privacy is not None and any(trial.scores_in_round for trial in trials)
        # A private release is drawn from scores that are nowhere but in memory.
        with search.session.in_one_piece() if private else nullcontext():
            for attempt in range(_ATTEMPTS):
                if not todo:
                    break
                search.ledger.require(Cost(rounds=len(todo)))
                works: list[Work] = []
                for trial in todo:
                    works.append(self._work(search, trial, attempt, works))
                reports = search.session.round(works)
                done = list(zip(todo, reports, strict=True))
                heard += [(trial, report) for trial, report in done if report.applied]
                todo = search.payable([t for t, report in done if self._take(search, t, report, attempt)])
            search.channel.learn(search, heard)

    def _advance(self, search: Search, trials: Sequence[Trial]) -> None:
        """Rounds that are only counted: nobody trains, so no cohort is drawn and nothing is learned."""
        search.channel.skip(search, trials)
        failed = search.session.advance([(trial.number, trial.config) for trial in trials])
        for trial, why in zip(trials, failed, strict=True):
            if why:
                trial.status, trial.reason = FAILED, f"round {trial.round + 1}: {why}"
                search.session.stop(trial.number)
            else:
                trial.round += 1
                trial.trained += 1
                trial.losses.append(math.nan)

    def submit(self, search: Search, trial: Trial, attempt: int) -> None:
        """Begin a round of one trial."""
        search.session.submit(self._work(search, trial, attempt, ()))

    def collect(
        self, search: Search, trials: Mapping[int, Trial], attempts: dict[int, int], number: int | None
    ) -> Trial:
        """A trial whose round has ended; see `Search.collect`."""
        report = search.session.next_done(number)
        done = trials[report.trial]
        if self._take(search, done, report, attempts[done.number]):
            attempts[done.number] += 1
        else:
            del attempts[done.number]
        if report.applied:
            search.channel.learn(search, [(done, report)])
        return done

    def _take(self, search: Search, trial: Trial, report: RoundReport, attempt: int) -> bool:
        """Take in what came back from a round; returns whether it is to be repeated."""
        self._unused.pop(trial.number, None)
        if report.applied:
            trial.round = report.round
            trial.trained += 1
            trial.cost += report.cost
            trial.losses.append(round_loss(report))
        elif attempt + 1 < _ATTEMPTS and not _all_diverged(report):
            # Where all members diverged, another cohort will not help. All else may be these members' fault.
            self._unused[trial.number] = report
            return True
        else:
            _fail(search, trial, _why(report))
        return False

    def fail_untrained(self, search: Search, trials: Sequence[Trial]) -> None:
        """A model without a single round is as it was built: it must be neither scored nor selected."""
        for trial in trials:
            if trial.status == TRAINING and not trial.round:
                report = self._unused.get(trial.number)
                _fail(search, trial, "the budget was spent before" if report is None else _why(report))

    def _work(self, search: Search, trial: Trial, attempt: int, beside: Sequence[Work]) -> Work:
        """The work of a trial's next round, which is done at the same time as that `beside`."""
        cohort, rng = cohort_of(search, trial, attempt)
        state, server = trial.policy, trial.config.server
        if isinstance(state, TimedState):
            state.at(trial.round)
        work = Work(
            trial.number,
            cohort,
            state.assign(cohort, rng),
            state.server(server) if isinstance(state, ServerState) else server,
            trial.scores_in_round,
            products=trial.products,
            horizon=trial.horizon,
        )
        if search.session.timed:
            now = search.ledger.simulated_seconds
            work = replace(work, starts=tuple(search.session.starts(cohort, now, beside)))
        self._note_tried(work)
        return work

    def _note_tried(self, work: Work) -> None:
        self.tried["server"].add(_vector(work.server))
        if isinstance(work.client, Mapping):
            self.tried["client"].add(_vector(work.client))
        elif isinstance(work.client, Sequence):
            self.tried["client"].update(map(_vector, work.client))


def cohort_of(search: Search, trial: Trial, attempt: int) -> tuple[list[int], np.random.Generator]:
    """The cohort of a trial's next round, and the generator for what else is drawn in it."""
    rng = stream(search.seed, "round", trial.number, trial.round, attempt)
    clients = search.there(search.session.train_clients, search.cohort)
    drawn = stream(search.seed, "cohort", trial.round, attempt) if search.shared_cohorts else rng
    return [int(c) for c in drawn.choice(clients, search.cohort, replace=False)], rng


def _fail(search: Search, trial: Trial, why: str) -> None:
    trial.reason = f"round {trial.round + 1}: no update could be used ({why})"
    trial.status = FAILED
    search.session.stop(trial.number)


def _vector(values: Mapping[str, Any]) -> str:
    """One text per vector of hyperparameters, to count them by."""
    return repr(sorted(values.items()))


def _why(report: RoundReport) -> str:
    """The first client that failed and its reason; of one that is missing if none failed."""
    order = sorted(report.reasons, key=lambda place: (report.status[place] != Status.FAILED, place))
    if not order:
        return "no client replied"
    return f"client {report.cohort[order[0]]}: {report.reasons[order[0]]}"


def _all_diverged(report: RoundReport) -> bool:
    """Whether every reply was a model that is not finite. Updates too large to use may come from a liar."""
    kinds = {reason.why for reason in report.reasons.values()}
    return bool(diverged(report).all()) and Why.TOO_LARGE not in kinds
