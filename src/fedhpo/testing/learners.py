"""What every federation of learners must do: trained whole, in one round, and asked for local searches.

The facts of `FederationSuite` about a second round, or about weights before the first, are said again for a
model that has neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedhpo.core.errors import InputError
from fedhpo.protocol.federation import REPEATABLE, Answer, Federation, Status, TrialError, Work
from fedhpo.protocol.fine_tune import FineTune
from fedhpo.queries.local_search import LocalSearch
from fedhpo.samplers import Random
from fedhpo.space import Space
from fedhpo.testing.federation import (
    FederationSuite,
    frozen,
    needs,
    same,
    same_arrays,
    same_report,
    same_scores,
)


class LearnerSuite(FederationSuite):
    """Facts about a federation of at least 4 parties; `space` is of the learner's own hyperparameters."""

    #: What a local search tries.
    space: Space
    #: A hyperparameter that the learner does not have, and one that it has.
    names: tuple[str, str] = ("", "")

    def scores(self, federation: Federation, *trials: int) -> list[Any]:
        """Their scores on validation rows."""
        return federation.evaluate(list(trials), federation.validation_clients)

    def start_scored(self, federation: Federation, *trials: int) -> None:
        """A learner has scores once it is trained."""
        self.start(federation, *trials)
        for trial in trials:
            self.train(federation, trial, 1)

    def search(self) -> LocalSearch:
        """A small local search."""
        return LocalSearch(self.space, configs=3, folds=2, sampler=Random())

    # Trials

    def test_the_seed_alone_decides_the_first_weights(self, federation: Federation) -> None:
        """A learner has none before it is trained; after it, the same seed has made the same."""
        self.start(federation, 0, 1)
        assert same_arrays(federation.state(0), federation.state(1))
        federation.round([self.work(federation, 0)])
        federation.round([self.work(federation, 1)])
        assert same(frozen(federation.state(0)), frozen(federation.state(1)))
        assert same_scores(*self.scores(federation, 0, 1))

    # Rounds

    def test_a_report_has_one_entry_per_member_in_the_order_of_the_cohort(
        self, federation: Federation
    ) -> None:
        self.start(federation, 0, 1)
        cohort = [int(c) for c in federation.train_clients[[3, 0, 2]]]
        [report] = federation.round([Work(0, cohort, self.client)])
        assert (report.trial, report.round, report.applied) == (0, 1, True)
        assert report.cohort.tolist() == cohort
        assert report.status.tolist() == [Status.OK] * 3
        assert not report.reasons
        assert (report.train_size > 0).all()
        [alone] = federation.round([Work(1, [cohort[0]], self.client)])
        assert alone.train_size[0] == report.train_size[0]
        assert alone.validation_size[0] == report.validation_size[0]

    def test_a_round_in_which_nobody_moves_changes_no_score(self, federation: Federation) -> None:
        """There is no such round: a learner has no score before its training, and one after it."""
        self.start(federation, 0)
        [before] = self.scores(federation, 0)
        assert np.isnan(before.loss).all()
        assert before.status.tolist() == [Status.OK] * len(before.clients)
        self.train(federation, 0, 1)
        [after] = self.scores(federation, 0)
        assert np.isfinite(after.loss).all()

    def test_an_unknown_hyperparameter_is_named_with_the_known(self, federation: Federation) -> None:
        self.start(federation, 0)
        unknown, known = self.names
        with pytest.raises(InputError, match=f"{unknown}.*{known}"):
            federation.round([self.work(federation, client={unknown: 0.1})])
        with pytest.raises(InputError, match="lr"):
            federation.round([self.work(federation, server={"lr": 0.1})])
        assert self.train(federation, 0, 1).round == 1

    def test_one_round_per_trial_at_a_time(self, federation: Federation) -> None:
        """And one in all."""
        self.start(federation, 0, 1)
        federation.submit(self.work(federation, 0))
        with pytest.raises(TrialError, match="0"):
            federation.submit(self.work(federation, 0))
        with pytest.raises(TrialError):
            federation.next_done(1)
        assert federation.next_done(0).round == 1
        before = frozen(federation.state(0))
        with pytest.raises(InputError, match="trained whole"):
            federation.round([self.work(federation, 0)])
        assert same(frozen(federation.state(0)), before)

    def test_a_trial_does_not_depend_on_what_others_do(self, federation: Federation) -> None:
        needs(federation, REPEATABLE)
        self.start(federation, 0, 1)
        self.train(federation, 0, 1)
        federation.start(2, self.model, 99)
        federation.submit(self.work(federation, 2, 4))
        federation.submit(self.work(federation, 1))
        federation.next_done(2)
        self.scores(federation, 2)
        federation.next_done(1)
        federation.stop(2)
        assert same(frozen(federation.state(0)), frozen(federation.state(1)))
        assert same_scores(*self.scores(federation, 0, 1))

    def test_the_same_calls_give_the_same_bits(self, federation: Federation) -> None:
        needs(federation, REPEATABLE)

        def calls() -> tuple[Any, ...]:
            self.start(federation, 0)
            federation.start(1, self.model, 3)
            reports = federation.round([self.work(federation, 0, 4), self.work(federation, 1, 2)])
            scores = self.scores(federation, 0, 1)
            states = [frozen(federation.state(t)) for t in (0, 1)]
            federation.stop(0)
            federation.stop(1)
            return reports, scores, states

        (reports, scores, states), (reports2, scores2, states2) = calls(), calls()
        assert all(map(same_report, reports, reports2))
        assert all(map(same_scores, scores, scores2))
        assert all(map(same, states, states2))

    # Scores and costs

    def test_a_round_costs_what_it_moves(self, federation: Federation) -> None:
        """One round, however often parties exchange something in it."""
        self.start(federation, 0, 1)
        [one] = federation.round([self.work(federation, 0, members=1)])
        [four] = federation.round([self.work(federation, 1, members=4)])
        for report, members in ((one, 1), (four, 4)):
            assert report.cost.rounds == 1
            assert report.cost.client_rounds == members * one.cost.client_rounds >= members
            assert report.cost.evaluations == 0
            assert report.cost.samples == report.train_size.sum()
            assert report.cost.bytes_down >= 0
            assert report.cost.bytes_up >= 0

    # State

    def test_restored_trials_go_on_bit_for_bit(self, federation: Federation) -> None:
        """One that was not trained is trained to the same; one that was has its model back."""
        needs(federation, REPEATABLE)
        self.start(federation, 0)
        fresh = frozen(federation.state(0))
        expected = self.train(federation, 0, 1)
        end = frozen(federation.state(0))
        [scores] = self.scores(federation, 0)
        federation.restore(0, fresh)
        assert same_report(self.train(federation, 0, 1), expected)
        assert same(frozen(federation.state(0)), end)
        federation.restore(9, end)  # under another number
        assert same_scores(self.scores(federation, 9)[0], scores)
        with pytest.raises(InputError, match="trained whole"):
            federation.round([self.work(federation, 9)])

    def test_saved_trials_go_on_bit_for_bit_in_a_fresh_federation(
        self, federation: Federation, tmp_path: Path
    ) -> None:
        needs(federation, REPEATABLE)
        self.start(federation, 0)
        federation.start(12, self.model, 8)
        self.train(federation, 0, 1)
        federation.save(tmp_path / "saved")
        work = self.work(federation, 12)
        [expected] = federation.round([work])
        scores = self.scores(federation, 0, 12)
        with self.make() as again:
            again.start(1, self.model, 3)
            again.load(tmp_path / "saved")
            assert list(again.trials) == [0, 12]
            assert same_report(again.round([work])[0], expected)
            assert all(map(same_scores, self.scores(again, 0, 12), scores))
            assert same(frozen(again.state(12)), frozen(federation.state(12)))

    # Queries

    def test_fine_tuning_is_answered_per_client_and_changes_nothing(self, federation: Federation) -> None:
        """It is refused; a local search is answered per client, and changes nothing."""
        self.start(federation, 0, 1)
        with pytest.raises(InputError):
            federation.query(FineTune(0, self.client), federation.train_clients[:1])
        before = frozen(federation.state(0))
        asked = [int(c) for c in federation.train_clients[2:0:-1]]
        answers: list[Sequence[Answer]] = [federation.query(self.search(), asked) for _ in range(2)]
        assert [answer.client for answer in answers[0]] == asked
        for first, again in zip(*answers, strict=True):
            assert first.status == Status.OK
            assert first.content == again.content
            assert len(first.content["configs"]) == len(first.content["losses"]) == 3
            assert np.isfinite(first.content["losses"]).all()
            assert first.content["size"] > 0
        assert same(frozen(federation.state(0)), before)
        if REPEATABLE in federation.capabilities:
            assert same_report(self.train(federation, 0, 1), self.train(federation, 1, 1))

    def test_a_query_about_a_trial_or_client_that_is_not_there_is_an_error(
        self, federation: Federation
    ) -> None:
        """A local search is about no trial."""
        with pytest.raises(InputError, match="-1"):
            federation.query(self.search(), [-1])
        beyond = 1 + int(max(federation.train_clients))
        with pytest.raises(InputError, match=str(beyond)):
            federation.query(self.search(), [beyond])
