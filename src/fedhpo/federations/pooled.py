"""Learners whose parties' rows are put together in one place, or that XGBoost's processes train together."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedhpo.core.errors import InputError
from fedhpo.core.streams import derive
from fedhpo.federations.learner_trials import LearnerTrial, TrainsWhole
from fedhpo.federations.learners import LearnersHere, bytes_of, raw_of
from fedhpo.federations.trial_table import TrialTable
from fedhpo.learners.tasks import FitPooled
from fedhpo.protocol.federation import Cost, RoundReport, Status, TrialState, Work
from fedhpo.protocol.reasons import Reason, Why


class PooledLearners(TrainsWhole, LearnersHere):
    """One estimator for all parties' rows: see `fedhpo.LearnerFederation`."""

    def __init__(self, data: Any, learner: Any = "hgb", **settings: Any) -> None:
        super().__init__(data, learner, **settings)
        #: A round: the work, the trial after it, and its ticket.
        self._trials: TrialTable[LearnerTrial, tuple[Work, LearnerTrial, int]] = TrialTable()
        self._fitted: dict[int, Any] = {}

    # Trials

    def stop(self, trial: int) -> None:
        super().stop(trial)
        self._fitted.pop(trial, None)

    # Rounds

    def submit(self, work: Work) -> None:
        trained = self._accepted(work, self._learner)
        self.check_products(work)
        for party in work.cohort:
            if party not in self.train_clients:
                raise InputError(f"client {party} cannot train: it is not there, or has no training data")
        ticket = self._started.submit(self._task(trained)) if self._training == "pooled" else 0
        self._trials.rounds[work.trial] = work, trained, ticket

    @staticmethod
    def _task(trial: LearnerTrial) -> FitPooled:
        return FitPooled(trial.cohort, trial.config, derive(trial.seed, "fit"))

    def next_done(self, trial: int | None = None) -> RoundReport:
        self._trials.submitted(trial)
        under_way = self._trials.rounds
        if self._training != "pooled":
            number = next(iter(under_way)) if trial is None else trial
            return self._end(number, *self._train_collectively(under_way[number][1]))
        wanted = {ticket: n for n, (_, _, ticket) in under_way.items() if trial in (None, n)}
        while not (ended := wanted.keys() & self._ended.keys()):
            done = self._started.next()
            if done is not None:
                self._ended[done.ticket] = done
        done = self._ended.pop(min(ended))
        return self._end(wanted[done.ticket], done.value, {}, done.failure)

    def _train_collectively(self, trial: LearnerTrial) -> tuple[Any, dict[int, Reason], Reason | None, Cost]:
        """The model, or why there is none: reasons by position in the cohort, or one for all parties.

        With it comes what it took beyond sending the model to every party.
        """
        from fedhpo.learners.boosted import BoostedTrees
        from fedhpo.learners.collective import CollectiveError, exchanged, train

        try:
            seed = derive(trial.seed, "fit") % 2**31
            trees = BoostedTrees(**{**trial.config.client, **trial.config.model}, random_state=seed)
            classes = self._data.classes or 2
            rows = {party: self._bench.rows([party]) for party in trial.cohort}
            model = trees.adopt(train(rows, trees.parameters(classes), trees.max_iter), classes)
            sent = exchanged(model.booster_, [x for x, _ in rows.values()]) * len(rows)
            return model, {}, None, Cost(bytes_down=sent, bytes_up=sent)
        except CollectiveError as error:
            why = Reason(Why.RAISED, str(error))
            blamed = {} if error.party is None else {list(trial.cohort).index(error.party): why}
            return None, blamed, why, Cost()
        except TypeError as error:
            return None, {}, Reason(Why.RAISED, str(error)), Cost()

    def _end(
        self,
        number: int,
        model: Any,
        blamed: dict[int, Reason],
        failure: Reason | None,
        moved: Cost | None = None,
    ) -> RoundReport:
        """The report; `moved` is what a federated training took beyond sending the model to every party."""
        work, trained, _ = self._trials.rounds.pop(number)
        count = len(work.cohort)
        sizes = self._data.train.sizes[list(work.cohort)]
        if not failure:
            self._trials[number] = trained
            self._fitted[number] = model
        status = np.full(count, Status.FAILED if failure and not blamed else Status.OK, np.int8)
        if blamed:  # the others were stopped because of these
            status[:] = Status.MISSING
            status[list(blamed)] = Status.FAILED
        reasons = dict.fromkeys(range(count), failure) if failure else {}
        if failure and blamed:
            reasons = dict.fromkeys(range(count), Reason(Why.GONE, failure.text)) | blamed
        return RoundReport.unscored(
            work,
            0 if failure else 1,
            not failure,
            status,
            sizes,
            self._data.validation.sizes[list(work.cohort)],
            reasons,
            Cost(
                # A failure does not count as a round: the budget often has only one; it may be tried again.
                rounds=0 if failure else 1,
                client_rounds=count,
                bytes_down=0 if failure else bytes_of(model) * count,
                samples=int(sizes.sum()),
            )
            + (moved or Cost()),
        )

    # State

    def state(self, trial: int) -> TrialState:
        one = self._trials[trial]
        facts = {"model": dict(one.model), "seed": one.seed, "client": one.client, "cohort": list(one.cohort)}
        return TrialState({"booster": raw_of(self._fitted.get(trial))}, facts)

    def restore(self, trial: int, state: TrialState) -> None:
        self._trials.idle(trial)
        facts = dict(state.facts)
        self._trials[trial] = LearnerTrial(
            facts["model"], facts["seed"], facts["client"], tuple(facts["cohort"])
        )
        self._fitted.pop(trial, None)
        raw: NDArray[np.uint8] = state.arrays["booster"]
        if len(raw):
            from fedhpo.learners.boosted import BoostedTrees

            one = self._trials[trial]
            trees = BoostedTrees(**{**one.config.client, **one.config.model})
            self._fitted[trial] = trees.adopt(raw.tobytes(), self._data.classes or 2)

    def model(self, trial: int) -> Any:
        """The trial's estimator; None before it is trained."""
        one = self._trials[trial]
        if one.client is None:
            return None
        if trial not in self._fitted:  # brought back from a file, which holds no estimator: fit it again
            self._fitted[trial] = self._task(one).run(self._bench)
        return self._fitted[trial]

    def close(self) -> None:
        super().close()
        self._trials.clear()
        self._fitted.clear()
