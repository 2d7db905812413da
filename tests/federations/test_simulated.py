"""What a simulated federation does beyond the conformance suite."""

import numpy as np
import pytest
import torch
from torch import nn

import fedhpo as fh
from fedhpo.core.errors import InputError
from fedhpo.data import from_clients
from fedhpo.federations.simulate import simulate
from fedhpo.protocol.federation import SCORES_IN_ROUND, Cost, Status, TrialError, TrialState, Work
from fedhpo.protocol.fine_tune import FineTune

ROWS = (5, 6, 7, 8, 9, 10)


def small_clients():
    rng = np.random.default_rng(0)

    def rows(n):
        return rng.normal(size=(n, 4)).astype(np.float32), rng.integers(0, 3, n)

    return [{"train": rows(n), "validation": rows(n // 2), "test": rows(2)} for n in ROWS]


@pytest.fixture(scope="module")
def data():
    return from_clients(small_clients(), classes=3)


@pytest.fixture
def federation(data):
    with simulate("mlp", data, workers=0, stacking=False) as federation:
        federation.start(0, {"hidden": 3}, seed=1)
        yield federation


def weights(federation, trial=0):
    return np.array(federation.state(trial).arrays["weights"])


PARAMETERS = 4 * 3 + 3 + 3 * 3 + 3


def test_costs_to_the_byte(federation):
    [report] = federation.round([Work(0, [0, 2, 5], [{"epochs": e} for e in (1, 2, 3)])])
    model = 4 * PARAMETERS
    assert report.cost == Cost(
        rounds=1, client_rounds=3, bytes_down=3 * model, bytes_up=3 * model, samples=5 + 14 + 30
    )
    [scores] = federation.evaluate([0], [1, 2])
    assert scores.cost == Cost(evaluations=2, bytes_down=2 * model, bytes_up=2 * 24)
    [answer] = federation.query(FineTune(0, {"epochs": 4}), [3])
    assert answer.cost == Cost(evaluations=2, bytes_down=model, bytes_up=2 * 24, samples=32)


def test_a_trial_alone_is_the_same_bits_as_beside_others(data):
    with simulate("mlp", data, workers=0, stacking=False) as federation:
        for trial in range(3):
            federation.start(trial, {}, seed=1 + trial % 2)
        for _ in range(2):
            federation.round([Work(0, [0, 1, 2, 3], {"lr": 0.5}), Work(1, [5, 1, 2], {"lr": 0.1})])
            federation.round([Work(2, [0, 1, 2, 3], {"lr": 0.5})])
        np.testing.assert_array_equal(weights(federation, 0), weights(federation, 2))


def test_the_order_of_a_cohort_changes_nothing_but_the_order_of_the_report(data):
    with simulate("mlp", data, workers=0, stacking=False) as federation:
        federation.start(0, {}, 1)
        federation.start(1, {}, 1)
        [first] = federation.round([Work(0, [3, 0, 5], {})])
        [second] = federation.round([Work(1, [5, 3, 0], {})])
        np.testing.assert_array_equal(first.loss_after[[2, 0, 1]], second.loss_after)
        np.testing.assert_array_equal(weights(federation, 0), weights(federation, 1))


def test_one_trial_twice_in_a_round_is_refused_and_leaves_nothing_behind(federation):
    with pytest.raises(TrialError, match="one round per trial"):
        federation.round([Work(0, [0], {}), Work(0, [1], {})])
    with pytest.raises(TrialError, match="no round"):
        federation.next_done()
    assert federation.round([Work(0, [0], {})])[0].round == 1


def test_a_bad_piece_of_work_keeps_the_others_from_starting(federation):
    federation.start(1, {"hidden": 3}, seed=1)
    with pytest.raises(InputError, match="batch_size"):
        federation.round([Work(0, [0], {}), Work(1, [1], {"batch_size": 0})])
    with pytest.raises(TrialError):
        federation.next_done(0)


def test_a_trial_in_a_round_is_left_alone(federation):
    state = federation.state(0)
    federation.submit(Work(0, [0, 1], {}))
    calls = [
        lambda: federation.restore(0, state),
        lambda: federation.stop(0),
        lambda: federation.evaluate([0], [0]),
        lambda: federation.query(FineTune(0, {}), [0]),
    ]
    for call in calls:
        with pytest.raises(TrialError, match="round"):
            call()
    assert federation.next_done().applied


def test_other_trials_can_be_evaluated_and_queried_while_rounds_are_under_way(federation):
    federation.start(1, {"hidden": 3}, seed=2)
    [before] = federation.evaluate([1], [0, 1])
    federation.submit(Work(0, [0, 1, 2], {}))
    [during] = federation.evaluate([1], [0, 1])
    np.testing.assert_array_equal(before.loss, during.loss)
    assert federation.query(FineTune(1, {"lr": 0.1}), [2])[0].status == Status.OK
    assert federation.next_done(0).status.tolist() == [0, 0, 0]


def test_a_state_of_another_model_is_refused(federation):
    state = federation.state(0)
    short = TrialState({"weights": state.arrays["weights"][:-1]}, state.facts)
    with pytest.raises(InputError, match="does not fit"):
        federation.restore(1, short)


def test_a_state_is_not_touched_by_later_rounds(federation):
    state = federation.state(0)
    before = np.array(state.arrays["weights"])
    federation.round([Work(0, [0, 1], {"lr": 1.0})])
    np.testing.assert_array_equal(state.arrays["weights"], before)
    assert not np.array_equal(weights(federation), before)


def test_the_model_can_be_taken_out(federation, data):
    module = federation.model(0)
    rows = data.validation.rows(2)
    with torch.no_grad():
        loss = nn.functional.cross_entropy(
            module(torch.from_numpy(data.x[rows])), torch.from_numpy(data.y[rows])
        )
    assert federation.evaluate([0], [2])[0].loss[0] == pytest.approx(float(loss), rel=1e-5)
    for p in module.parameters():
        p.data.zero_()
    assert weights(federation).any()


def test_fine_tuning_without_training_data_is_a_failed_answer():
    clients = small_clients()
    del clients[1]["train"]
    with simulate("mlp", clients, workers=0) as federation:
        federation.start(0, {}, 0)
        answers = federation.query(FineTune(0, {"lr": 0.1}), [0, 1])
        assert [answer.status for answer in answers] == [Status.OK, Status.FAILED]
        assert "no training data" in answers[1].reason.text


def test_scores_in_a_round_need_clients_that_train_and_validate(data):
    assert SCORES_IN_ROUND in simulate("linear", data, workers=0).capabilities
    trains, validates = {"train": small_clients()[0]["train"]}, {"validation": small_clients()[1]["train"]}
    with simulate("linear", [trains, validates], workers=0) as federation:
        assert SCORES_IN_ROUND not in federation.capabilities
        federation.start(0, {}, 0)
        [report] = federation.round([Work(0, [0], {})])
        assert report.validation_size.tolist() == [0]
        assert np.isnan(report.loss_before).all()
        assert np.isfinite(federation.evaluate([0], [1])[0].loss).all()


def test_many_clients_without_rows_are_scored_in_parts(data, monkeypatch):
    monkeypatch.setattr("fedhpo.engine.effort.Effort.pieces", lambda *_: [(0, 1), (1, 2)])
    first = small_clients()[0]
    clients = [
        {"train": first["train"]} | ({"validation": first["test"]} if i == 3 else {}) for i in range(9)
    ]
    with simulate("linear", clients, workers=0) as federation:
        federation.start(0, {}, 0)
        [scores] = federation.evaluate([0], range(9))
        assert np.isfinite(scores.loss).tolist() == [i == 3 for i in range(9)]
        assert scores.size.tolist() == [2 * (i == 3) for i in range(9)]


def test_what_it_says_of_itself(federation):
    facts = federation.describe()
    assert facts["clients"] == 6
    assert facts["parameters"] == PARAMETERS
    assert facts["workers"] == 0
    assert facts["stacked"] is False
    assert facts["worker_kind"] == "not started"
    federation.evaluate([0], [0])
    assert federation.describe()["worker_kind"] == "inline"


def test_closing_frees_the_trials(data):
    federation = simulate("linear", data, workers=0)
    federation.start(0, {}, 0)
    federation.close()
    assert list(federation.trials) == []
    federation.close()


def test_rounds_end_in_simulated_time_whatever_the_workers():
    data = fh.load("digits", clients=6, partition={"kind": "dirichlet", "alpha": 0.3}, seed=1)
    sizes = data.train.sizes
    slow, fast = int(np.argmax(sizes)), int(np.argmin(np.where(sizes > 0, sizes, sizes.max() + 1)))
    with fh.simulate("linear", data, workers=0) as federation:
        for trial in range(3):
            federation.start(trial, {}, seed=trial)
        federation.submit(Work(0, [slow], {"epochs": 3}))
        federation.submit(Work(1, [fast], {}))
        federation.submit(Work(2, [fast], {}))
        assert federation.next_done().trial == 1  # submitted later, and over sooner
        assert federation.ready() == [2]  # at the same moment
        federation.submit(Work(1, [fast], {}))
        assert [federation.next_done().trial for _ in range(3)] == [2, 1, 0]


def test_a_population_at_its_own_pace_is_the_same_with_any_number_of_workers():
    data = fh.load("digits", clients=8, partition={"kind": "dirichlet", "alpha": 0.3}, seed=0)
    space = fh.Space(client={"lr": fh.Float(1e-3, 1.0, log=True), "epochs": fh.Int(1, 4)})
    method = fh.FedPop(population=4, interval=1, asynchronous=True)
    found = []
    for workers in (0, 1, 2):
        with fh.simulate("linear", data, workers=workers) as federation:
            result = fh.tune(federation, space, method, rounds=5, total=20, cohort=3)
        found.append([result.facts[name] for name in ("trials", "best", "cost")])
    assert found[0] == found[1] == found[2]
