"""What every federation must do: a suite that a runtime's test inherits, ours and users' own.

```python
from fedhpo.testing.federation import FederationSuite

class TestMine(FederationSuite):
    def make(self):
        return MyFederation(...)
```

A fact that needs what the federation cannot do (its `capabilities`) is skipped, with the reason. A fact
that makes no sense for a runtime is taken out by setting it to None in the subclass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fedhpo.core.errors import InputError
from fedhpo.core.fingerprint import differences
from fedhpo.protocol.federation import (
    AFTER,
    BEFORE,
    CLIENT_CONFIGS,
    FORK,
    MIX,
    QUERY,
    REPEATABLE,
    SCORES_IN_ROUND,
    Federation,
    RoundReport,
    Scores,
    Status,
    TrialError,
    TrialState,
    Work,
)
from fedhpo.protocol.fine_tune import FineTune

_SCORES = ("loss_before", "loss_after", "accuracy_before", "accuracy_after")


class FederationSuite:
    """Facts about a federation of at least 6 clients that can train; see the module's docstring."""

    #: Hyperparameters with which a round changes the model.
    client: Mapping[str, Any] = {"lr": 0.1}
    #: Hyperparameters with which local training changes nothing.
    idle_client: Mapping[str, Any] = {"lr": 0.0}
    #: Server hyperparameters under which the round clock matters, and that have a memory if possible.
    server: Mapping[str, Any] = {}
    model: Mapping[str, Any] = {}
    #: A model of another shape, if there is one.
    other_model: Mapping[str, Any] | None = None

    def make(self) -> Federation:
        """A federation without trials; every call makes one with the same results."""
        raise NotImplementedError

    def make_silent(self) -> Federation:
        """As `make`, but no client ever replies."""
        pytest.skip("the test does not say how to make a federation whose clients never reply")

    @pytest.fixture
    def federation(self) -> Iterator[Federation]:
        """A federation without trials. Where one is slow to make, override this and share it."""
        with self.make() as federation:
            yield federation

    # Helpers

    def work(self, federation: Federation, trial: int = 0, members: int = 3, **options: Any) -> Work:
        """A round with the first few clients."""
        cohort = [int(c) for c in federation.train_clients[:members]]
        return Work(trial, cohort, **{"client": self.client, "server": self.server} | options)

    def train(self, federation: Federation, trial: int, rounds: int, **options: Any) -> RoundReport:
        """So many rounds; the last one's report."""
        assert rounds > 0
        for _ in range(rounds):
            [report] = federation.round([self.work(federation, trial, **options)])
        return report

    def start(self, federation: Federation, *trials: int, seed: int = 7) -> None:
        """Start trials of one model, with one seed."""
        for trial in trials:
            federation.start(trial, self.model, seed)

    def start_scored(self, federation: Federation, *trials: int) -> None:
        """Start trials that have scores."""
        self.start(federation, *trials)

    # Trials

    def test_trials_are_listed_in_ascending_order(self, federation: Federation) -> None:
        assert list(federation.trials) == []
        self.start(federation, 4, 1)
        assert list(federation.trials) == [1, 4]
        federation.stop(4)
        assert list(federation.trials) == [1]

    def test_a_trial_starts_once_until_it_is_stopped(self, federation: Federation) -> None:
        self.start(federation, 0)
        with pytest.raises(TrialError, match="0"):
            self.start(federation, 0)
        fresh = frozen(federation.state(0))
        self.train(federation, 0, 1)
        federation.stop(0)
        self.start(federation, 0)
        if REPEATABLE in federation.capabilities:
            assert same(frozen(federation.state(0)), fresh)

    def test_a_trial_that_is_not_there_is_an_error(self, federation: Federation) -> None:
        self.start(federation, 0)
        self.start(federation, 5)
        federation.stop(5)
        for missing in (3, 5):
            work = self.work(federation, missing)
            calls: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
                (federation.stop, (missing,)),
                (federation.submit, (work,)),
                (federation.round, ([work],)),
                (federation.evaluate, ([missing], federation.validation_clients[:1])),
                (federation.state, (missing,)),
            ]
            if FORK in federation.capabilities:
                calls += [(federation.fork, (missing, 0)), (federation.fork, (0, missing))]
            for call, arguments in calls:
                with pytest.raises(TrialError, match=str(missing)):
                    call(*arguments)

    def test_the_seed_alone_decides_the_first_weights(self, federation: Federation) -> None:
        federation.start(0, self.model, 7)
        federation.start(1, self.model, 7)
        federation.start(2, self.model, 8)
        assert same_arrays(federation.state(0), federation.state(1))
        assert not same_arrays(federation.state(0), federation.state(2))

    # Rounds

    def test_a_report_has_one_entry_per_member_in_the_order_of_the_cohort(
        self, federation: Federation
    ) -> None:
        self.start(federation, 0)
        cohort = [int(c) for c in federation.train_clients[[4, 0, 3]]]
        [report] = federation.round([Work(0, cohort, self.client, self.server)])
        assert report.trial == 0
        assert report.round == 1
        assert report.applied
        assert report.cohort.tolist() == cohort
        assert report.cohort.dtype == np.int64
        assert report.status.tolist() == [Status.OK] * 3
        assert report.ok.tolist() == [True] * 3
        assert not report.reasons
        for sizes in (report.train_size, report.validation_size):
            assert sizes.dtype == np.int64
            assert sizes.shape == (3,)
        assert (report.train_size > 0).all()
        for score in _SCORES:
            values = getattr(report, score)
            assert values.dtype == np.float64
            assert values.shape == (3,)
        [alone] = federation.round([Work(0, [cohort[0]], self.client, self.server)])
        assert alone.train_size[0] == report.train_size[0]
        assert alone.validation_size[0] == report.validation_size[0]
        assert alone.round == 2

    @pytest.mark.parametrize("asked", [(), (BEFORE,), (AFTER,), (BEFORE, AFTER)])
    def test_scores_are_nan_where_they_were_not_asked_for(
        self, federation: Federation, asked: tuple[str, ...]
    ) -> None:
        needs(federation, SCORES_IN_ROUND)
        self.start(federation, 0)
        holders = np.intersect1d(federation.train_clients, federation.validation_clients)[:2]
        work = Work(0, [int(c) for c in holders], self.client, self.server, scores=asked)
        [report] = federation.round([work])
        for moment in (BEFORE, AFTER):
            loss = getattr(report, f"loss_{moment}")
            assert np.isfinite(loss).all() if moment in asked else np.isnan(loss).all()

    def test_scores_in_a_round_are_those_of_an_evaluation_before_it(self, federation: Federation) -> None:
        needs(federation, SCORES_IN_ROUND)
        self.start(federation, 0)
        work = self.work(federation)
        [scores] = federation.evaluate([0], work.cohort)
        [report] = federation.round([work])
        np.testing.assert_allclose(report.loss_before, scores.loss, rtol=1e-4)
        np.testing.assert_allclose(report.accuracy_before, scores.accuracy, rtol=1e-4)
        assert report.validation_size.tolist() == scores.size.tolist()

    def test_a_config_of_its_own_reaches_exactly_its_client(self, federation: Federation) -> None:
        needs(federation, CLIENT_CONFIGS, SCORES_IN_ROUND)
        for idle in range(3):
            self.start(federation, idle)
            configs = [self.idle_client if i == idle else self.client for i in range(3)]
            [report] = federation.round([self.work(federation, idle, client=configs)])
            moved = report.loss_before != report.loss_after
            assert moved.tolist() == [i != idle for i in range(3)]

    def test_a_round_in_which_nobody_moves_changes_no_score(self, federation: Federation) -> None:
        self.start(federation, 0)
        clients = federation.validation_clients
        [before] = federation.evaluate([0], clients)
        self.train(federation, 0, 1, client=self.idle_client)
        [after] = federation.evaluate([0], clients)
        assert same_scores(before, after)
        self.train(federation, 0, 1)
        [moved] = federation.evaluate([0], clients)
        assert not same_scores(before, moved)

    def test_a_cohort_that_cannot_train_is_an_error(self, federation: Federation) -> None:
        self.start(federation, 0)
        fresh = frozen(federation.state(0))
        beyond = 1 + max(int(c.max(initial=0)) for c in _clients(federation))
        with pytest.raises(InputError, match="empty"):
            Work(0, [], self.client)
        with pytest.raises(InputError, match="twice"):
            Work(0, [1, 1], self.client)
        with pytest.raises(InputError, match=str(beyond)):
            federation.round([Work(0, [int(federation.train_clients[0]), beyond], self.client)])
        with pytest.raises(InputError, match="-1"):
            federation.submit(Work(0, [-1], self.client))
        with pytest.raises(InputError, match=str(beyond)):
            federation.evaluate([0], [beyond])
        # None of this left a round under way, or changed anything.
        assert same(frozen(federation.state(0)), fresh)
        assert self.train(federation, 0, 1).round == 1

    def test_a_client_without_training_data_cannot_train(self, federation: Federation) -> None:
        others = np.setdiff1d(np.union1d(*_clients(federation)[1:]), federation.train_clients)
        if not len(others):
            pytest.skip("every client of this federation has training data")
        self.start(federation, 0)
        with pytest.raises(InputError, match=f"client {others[0]}"):
            federation.submit(Work(0, [int(others[0])], self.client))

    def test_an_unknown_hyperparameter_is_named_with_the_known(self, federation: Federation) -> None:
        self.start(federation, 0)
        with pytest.raises(InputError, match=r"learning_rate.*lr"):
            federation.round([self.work(federation, client={"learning_rate": 0.1})])
        with pytest.raises(InputError, match=r"step_size.*lr"):
            federation.round([self.work(federation, server={"step_size": 0.1})])
        assert self.train(federation, 0, 1).round == 1

    def test_without_enough_replies_the_model_stays(self) -> None:
        with self.make_silent() as federation:
            self.start(federation, 0)
            before = frozen(federation.state(0))
            report = self.train(federation, 0, 1)
            assert not report.applied
            assert report.status.tolist() == [Status.MISSING] * 3
            assert np.isnan(report.loss_after).all()
            assert report.train_size.tolist() == [0, 0, 0]
            assert report.cost.bytes_up == 0
            assert same_arrays(federation.state(0), before)

    # Several trials at once

    def test_submit_and_next_done_are_a_round(self, federation: Federation) -> None:
        needs(federation, REPEATABLE)
        self.start(federation, 0, 1)
        [by_round] = federation.round([self.work(federation, 0)])
        federation.submit(self.work(federation, 1))
        by_submit = federation.next_done()
        assert by_submit.trial == 1
        assert same_report(by_round, by_submit)
        assert same_arrays(federation.state(0), federation.state(1))

    def test_reports_come_when_asked_for_by_trial(self, federation: Federation) -> None:
        self.start(federation, 0, 1, 2, 3)
        for trial in (2, 0, 3, 1):
            federation.submit(self.work(federation, trial))
        assert [federation.next_done(trial).trial for trial in (1, 2)] == [1, 2]
        assert {federation.next_done().trial for _ in range(2)} == {0, 3}
        with pytest.raises(TrialError):
            federation.next_done()
        with pytest.raises(TrialError, match="0"):
            federation.next_done(0)

    def test_reports_of_a_round_are_in_the_order_of_the_work(self, federation: Federation) -> None:
        self.start(federation, 0, 1, 2)
        reports = federation.round([self.work(federation, trial, 1 + trial) for trial in (2, 0, 1)])
        assert [(r.trial, len(r.cohort)) for r in reports] == [(2, 3), (0, 1), (1, 2)]

    def test_one_round_per_trial_at_a_time(self, federation: Federation) -> None:
        self.start(federation, 0, 1)
        federation.submit(self.work(federation, 0))
        with pytest.raises(TrialError, match="0"):
            federation.submit(self.work(federation, 0))
        with pytest.raises(TrialError):
            federation.next_done(1)
        if FORK in federation.capabilities:
            with pytest.raises(TrialError, match="0"):
                federation.fork(1, 0)
        assert federation.next_done(0).round == 1
        assert self.train(federation, 0, 1).round == 2

    def test_a_trial_does_not_depend_on_what_others_do(self, federation: Federation) -> None:
        needs(federation, REPEATABLE)
        self.start(federation, 0, 1)
        self.train(federation, 0, 2)
        federation.start(2, self.model, 99)
        for _ in range(2):
            federation.submit(self.work(federation, 2, 5))
            federation.submit(self.work(federation, 1))
            federation.next_done(2)
            federation.evaluate([2], federation.validation_clients)
            federation.next_done(1)
        federation.stop(2)
        assert same_arrays(federation.state(0), federation.state(1))
        # Planned together, runs may be computed together: then equal but for rounding.
        federation.start(3, self.model, 99)
        self.start(federation, 4)
        for _ in range(2):
            federation.round([self.work(federation, 3, 5), self.work(federation, 4)])
        assert close_arrays(federation.state(0), federation.state(4))

    def test_the_same_calls_give_the_same_bits(self, federation: Federation) -> None:
        needs(federation, REPEATABLE)

        def calls() -> tuple[Any, ...]:
            self.start(federation, 0)
            federation.start(1, self.model, 3)
            first = federation.round([self.work(federation, 0, 4), self.work(federation, 1, 5)])
            second = self.train(federation, 0, 1)
            scores = federation.evaluate([0, 1], federation.validation_clients)
            states = [frozen(federation.state(t)) for t in (0, 1)]
            federation.stop(0)
            federation.stop(1)
            return [*first, second], scores, states

        (reports, scores, states), (reports2, scores2, states2) = calls(), calls()
        assert all(map(same_report, reports, reports2))
        assert all(map(same_scores, scores, scores2))
        assert all(map(same, states, states2))

    # Scores

    @pytest.mark.parametrize("split", ["train", "validation", "test"])
    def test_scores_have_one_entry_per_client(self, federation: Federation, split: str) -> None:
        holders = dict(zip(("train", "validation", "test"), _clients(federation), strict=True))[split]
        if not len(holders):
            pytest.skip(f"no client of this federation holds {split} data")
        self.start_scored(federation, 0, 1)
        clients = holders[::-1][:4]
        results = federation.evaluate([1, 0], clients, split)  # type: ignore[arg-type]
        assert [scores.trial for scores in results] == [1, 0]
        for scores in results:
            assert scores.split == split
            assert scores.clients.tolist() == clients.tolist()
            assert scores.status.tolist() == [Status.OK] * len(clients)
            assert (scores.size > 0).all()
            assert scores.loss.shape == scores.accuracy.shape == (len(clients),)
            assert np.isfinite(scores.loss).all()
            assert scores.cost.evaluations == len(clients)
            assert scores.cost.rounds == scores.cost.client_rounds == scores.cost.samples == 0
        assert federation.evaluate([0], [])[0].loss.shape == (0,)

    def test_an_evaluation_changes_nothing(self, federation: Federation) -> None:
        self.start(federation, 0, 1)
        clients = federation.validation_clients
        before = frozen(federation.state(0))
        [first] = federation.evaluate([0], clients)
        [second] = federation.evaluate([0], clients)
        assert same_scores(first, second)
        assert same(frozen(federation.state(0)), before)
        if REPEATABLE in federation.capabilities:  # nor does it change what comes after
            assert same_report(self.train(federation, 0, 1), self.train(federation, 1, 1))

    # Costs

    def test_a_round_costs_what_it_moves(self, federation: Federation) -> None:
        self.start(federation, 0)
        [one] = federation.round([self.work(federation, members=1)])
        [four] = federation.round([self.work(federation, members=4)])
        for report, members in ((one, 1), (four, 4)):
            assert report.cost.rounds == 1
            assert report.cost.client_rounds == members
            assert report.cost.evaluations == 0
            assert report.cost.bytes_down == members * one.cost.bytes_down > 0
            assert report.cost.bytes_up == members * one.cost.bytes_up > 0
            assert report.cost.samples == report.train_size.sum()

    # Forks

    def test_a_fork_copies_weights_server_memory_and_clock(self, federation: Federation) -> None:
        needs(federation, FORK)
        self.start(federation, 0)
        federation.start(1, self.model, 8)
        self.train(federation, 0, 3)
        federation.fork(0, 1)
        assert same_arrays(federation.state(0), federation.state(1))
        [first, second] = federation.evaluate([0, 1], federation.validation_clients)
        np.testing.assert_allclose(first.loss, second.loss, rtol=1e-6)
        assert self.train(federation, 1, 1).round == 4

    def test_after_a_fork_both_go_on_on_their_own(self, federation: Federation) -> None:
        needs(federation, FORK, REPEATABLE)
        # With one seed for both, and as many rounds asked for, the copy goes on as the original does.
        self.start(federation, 0, 1)
        self.train(federation, 0, 2)
        self.train(federation, 1, 2, client=self.idle_client)
        federation.fork(0, 1)
        kept = frozen(federation.state(0))
        self.train(federation, 1, 2)
        assert same(frozen(federation.state(0)), kept)
        assert not same_arrays(federation.state(1), kept)
        self.train(federation, 0, 2)
        assert same(frozen(federation.state(0)), frozen(federation.state(1)))

    def test_a_fork_of_a_trial_in_a_round_is_of_the_model_before_it(self, federation: Federation) -> None:
        needs(federation, FORK)
        self.start(federation, 0, 1)
        self.train(federation, 0, 1)
        before = frozen(federation.state(0))
        federation.submit(self.work(federation, 0))
        federation.fork(0, 1)
        assert same_arrays(federation.state(1), before)
        assert set(federation.ready()) <= {0}
        assert federation.next_done(0).round == 2
        assert self.train(federation, 1, 1).round == 2

    def test_a_fork_into_another_shape_is_refused(self, federation: Federation) -> None:
        needs(federation, FORK)
        if self.other_model is None:
            pytest.skip("the test names no model of another shape")
        self.start(federation, 0)
        federation.start(1, self.other_model, 7)
        before = frozen(federation.state(1))
        with pytest.raises(InputError, match=r"shape|model"):
            federation.fork(0, 1)
        assert same(frozen(federation.state(1)), before)

    def test_a_trial_that_is_mixed_is_a_mean(self, federation: Federation) -> None:
        needs(federation, MIX)
        self.start(federation, 0, 1, 2)
        self.train(federation, 0, 1)
        self.train(federation, 1, 2)
        before = [frozen(federation.state(trial)).arrays for trial in (0, 1)]
        federation.mix(0, 2, 1.0)
        assert same_arrays(federation.state(2), federation.state(0))
        federation.mix(1, 2, 0.5)
        mixed, source = federation.state(2).arrays["weights"], federation.state(1).arrays
        np.testing.assert_allclose(
            mixed, (before[0]["weights"] + before[1]["weights"]) / 2, rtol=1e-5, atol=1e-7
        )
        # All but the weights is as in a fork, and the source stays as it was.
        others = {name for name in source if name != "weights"}
        assert all(np.array_equal(federation.state(2).arrays[name], source[name]) for name in others)
        assert all(np.array_equal(source[name], before[1][name]) for name in source)
        assert self.train(federation, 2, 1).round == 3

    # State

    def test_restored_trials_go_on_bit_for_bit(self, federation: Federation) -> None:
        needs(federation, REPEATABLE)
        self.start(federation, 0)
        self.train(federation, 0, 2)
        state = frozen(federation.state(0))
        expected = self.train(federation, 0, 2)
        end = frozen(federation.state(0))
        federation.restore(0, state)
        assert same_report(self.train(federation, 0, 2), expected)
        assert same(frozen(federation.state(0)), end)
        federation.restore(9, state)  # also under another number
        self.train(federation, 9, 2)
        assert same(frozen(federation.state(9)), end)

    def test_saved_trials_go_on_bit_for_bit_in_a_fresh_federation(
        self, federation: Federation, tmp_path: Path
    ) -> None:
        needs(federation, REPEATABLE)
        self.start(federation, 0)
        federation.start(12, self.model, 8)
        self.train(federation, 0, 2)
        federation.save(tmp_path / "saved")
        work = [self.work(federation, 0, 4), self.work(federation, 12)]
        expected = federation.round(work)
        with self.make() as fresh:
            fresh.start(1, self.model, 3)
            fresh.load(tmp_path / "saved")
            assert list(fresh.trials) == [0, 12]
            assert all(map(same_report, fresh.round(work), expected))
            for trial in (0, 12):
                assert same(frozen(fresh.state(trial)), frozen(federation.state(trial)))

    # Queries

    def test_fine_tuning_is_answered_per_client_and_changes_nothing(self, federation: Federation) -> None:
        needs(federation, QUERY)
        self.start(federation, 0, 1)
        before = frozen(federation.state(0))
        clients = [int(c) for c in np.intersect1d(federation.train_clients, federation.validation_clients)]
        asked = clients[2:0:-1]
        [scores] = federation.evaluate([0], asked)
        for config, moves in ((self.client, True), (self.idle_client, False)):
            answers = federation.query(FineTune(0, config, "validation"), asked)
            assert [answer.client for answer in answers] == asked
            for i, answer in enumerate(answers):
                assert answer.status == Status.OK
                found = answer.content
                assert found["size"] == scores.size[i]
                assert found["loss_before"] == pytest.approx(scores.loss[i], rel=1e-4)
                assert (found["loss_before"] != found["loss_after"]) == moves
        assert same(frozen(federation.state(0)), before)
        if REPEATABLE in federation.capabilities:
            assert same_report(self.train(federation, 0, 1), self.train(federation, 1, 1))

    def test_a_query_about_a_trial_or_client_that_is_not_there_is_an_error(
        self, federation: Federation
    ) -> None:
        needs(federation, QUERY)
        self.start(federation, 0)
        with pytest.raises(TrialError, match="3"):
            federation.query(FineTune(3, self.client), federation.train_clients[:1])
        with pytest.raises(InputError, match="-1"):
            federation.query(FineTune(0, self.client), [-1])

    # The federation itself

    def test_it_describes_itself_in_json(self, federation: Federation) -> None:
        import json

        facts = federation.describe()
        assert json.loads(json.dumps(facts)) == facts
        assert facts["runtime"]
        distances = federation.distances(federation.train_clients, seed=0)  # None where it cannot tell
        assert json.loads(json.dumps(distances)) == distances

    def test_its_fingerprint_is_small_json_and_the_same_each_time(self, federation: Federation) -> None:
        import json

        first = federation.fingerprint(self.model)
        assert first
        assert json.loads(json.dumps(first)) == first
        assert differences(first, first) == []
        self.start(federation, 0)
        self.train(federation, 0, 1)
        assert federation.fingerprint(self.model) == first  # training does not change it
        with self.make() as one, self.make() as another:
            assert differences(one.fingerprint(self.model), another.fingerprint(self.model)) == []

    def test_a_method_that_needs_more_is_refused(self, federation: Federation) -> None:
        federation.require(federation.capabilities, "a modest method")
        with pytest.raises(InputError, match=r"a greedy method needs .*telepathy"):
            federation.require([*federation.capabilities, "telepathy"], "a greedy method")


def needs(federation: Federation, *capabilities: str) -> None:
    """Skip the test where the federation cannot do that."""
    lacking = sorted(set(capabilities) - federation.capabilities)
    if lacking:
        pytest.skip(f"this federation lacks: {', '.join(lacking)}")


def frozen(state: TrialState) -> TrialState:
    """A copy, which later rounds cannot touch."""
    arrays = {name: np.array(array) for name, array in state.arrays.items()}
    return TrialState(arrays, dict(state.facts))


def same(first: TrialState, second: TrialState) -> bool:
    """Whether two states are the same, bit for bit."""
    return same_arrays(first, second) and dict(first.facts) == dict(second.facts)


def same_arrays(first: TrialState, second: TrialState) -> bool:
    """Whether the arrays of two states are the same, bit for bit."""
    return first.arrays.keys() == second.arrays.keys() and all(
        _same(array, second.arrays[name]) for name, array in first.arrays.items()
    )


def close_arrays(first: TrialState, second: TrialState) -> bool:
    """Whether the arrays of two states are the same but for rounding."""
    return first.arrays.keys() == second.arrays.keys() and all(
        np.allclose(array, second.arrays[name], rtol=1e-4, atol=1e-6) for name, array in first.arrays.items()
    )


def same_report(first: RoundReport, second: RoundReport) -> bool:
    """Whether two reports say the same, bit for bit, but for the trial's number."""
    columns = ("cohort", "status", "train_size", "validation_size", *_SCORES)
    facts = ("round", "applied", "reasons", "cost")
    return all(_same(getattr(first, name), getattr(second, name)) for name in columns) and all(
        getattr(first, name) == getattr(second, name) for name in facts
    )


def same_scores(first: Scores, second: Scores) -> bool:
    """Whether two evaluations found the same, bit for bit, but for the trial's number."""
    columns = ("clients", "status", "size", "loss", "accuracy")
    return all(_same(getattr(first, name), getattr(second, name)) for name in columns)


def _same(first: NDArray[Any], second: NDArray[Any]) -> bool:
    return first.dtype == second.dtype and first.shape == second.shape and first.tobytes() == second.tobytes()


def _clients(federation: Federation) -> Sequence[NDArray[np.int64]]:
    return federation.train_clients, federation.validation_clients, federation.test_clients
