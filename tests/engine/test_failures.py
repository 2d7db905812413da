"""Clients that fail, diverge or do not reply: reported with the reason, never averaged."""

import numpy as np
import pytest
import torch
from torch import nn

from fedhpo.data import from_clients
from fedhpo.federations.simulate import simulate
from fedhpo.protocol.federation import Status, Work
from fedhpo.protocol.fine_tune import FineTune
from fedhpo.protocol.reasons import Reason, Why

HUGE = 9.0  # a feature that marks the client where the model fails


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    clients = []
    for i in range(6):
        x = rng.normal(size=(4 + i, 5)).astype(np.float32).clip(-3, 3)
        if i == 2:
            x[0, 0] = HUGE
        clients.append(
            {"train": (x, rng.integers(0, 3, 4 + i)), "validation": (x[:3] * 0, np.array([0, 1, 2]))}
        )
    return from_clients(clients, classes=3)


class Failing(nn.Module):
    """Fails in the forward pass of a batch with the marked row."""

    def __init__(self):
        super().__init__()
        self.out = nn.Linear(5, 3)

    def forward(self, x):
        if self.training and float(x.detach().max()) == HUGE:
            raise ValueError("this row is too much")
        return self.out(x)


class Diverging(nn.Module):
    """NaN where the marked row is, and stackable."""

    def __init__(self):
        super().__init__()
        self.out = nn.Linear(5, 3)

    def forward(self, x):
        return self.out(x) * torch.where(x[:, :1] == HUGE, torch.nan, 1.0)


def weights(federation, trial=0):
    return np.array(federation.state(trial).arrays["weights"])


@pytest.mark.parametrize("stacking", [True, False])
@pytest.mark.parametrize(
    ("model", "reason"), [(Failing, "ValueError: this row is too much"), (Diverging, "update is not finite")]
)
def test_the_others_are_averaged_as_without_the_one_that_fails(data, model, reason, stacking):
    with simulate(model, data, workers=0, stacking=stacking) as federation:
        stacked = stacking and model is Diverging
        federation.start(0, {}, 1)
        federation.start(1, {}, 1)
        assert federation.describe()["stacked"] is stacked
        [report] = federation.round([Work(0, [0, 2, 4, 5, 3], {"lr": 0.5, "batch_size": 3})])
        assert report.applied
        assert report.status.tolist() == [0, Status.FAILED, 0, 0, 0]
        assert list(report.reasons) == [1]
        assert reason in report.reasons[1].text
        assert report.train_size.tolist() == [4, 0, 8, 9, 7]
        assert np.isnan(report.loss_after[1])
        assert np.isfinite(report.loss_after[report.ok]).all()
        size = weights(federation).nbytes
        assert (report.cost.client_rounds, report.cost.samples) == (5, 28)
        assert (report.cost.bytes_down, report.cost.bytes_up) == (5 * size, 4 * size)
        federation.round([Work(1, [0, 4, 5, 3], {"lr": 0.5, "batch_size": 3})])
        if stacked:
            np.testing.assert_allclose(weights(federation, 0), weights(federation, 1), rtol=0, atol=1e-6)
        else:
            np.testing.assert_array_equal(weights(federation, 0), weights(federation, 1))


def test_a_diverging_lr_is_rejected_and_the_model_stays(data):
    with simulate("mlp", data, workers=0) as federation:
        federation.start(0, {}, 1)
        before = weights(federation)
        work = Work(0, [0, 1, 3, 4], {"lr": 1e30, "batch_size": 2, "epochs": 3})
        [report] = federation.round([work])
        assert not report.applied
        assert set(report.reasons.values()) == {Reason(Why.DIVERGED)}
        assert (report.status == Status.FAILED).all()
        np.testing.assert_array_equal(weights(federation), before)
        assert report.round == 0  # the clock did not move
        assert federation.round([Work(0, [0], {"lr": 0.1})])[0].round == 1


@pytest.mark.parametrize("server", ["fedavg", "fedavgm", "fedadam", "fedyogi", "fedadagrad"])
@pytest.mark.filterwarnings("error")
def test_finite_but_enormous_updates_leave_a_finite_model(data, server):
    def train(model, client, hyperparameters, generator):
        for p in model.parameters():
            p.data.fill_(3e38)

    with simulate(Diverging, data, train=train, server=server, workers=0) as federation:
        federation.start(0, {}, 1)
        before = weights(federation)
        [report] = federation.round([Work(0, [0, 1, 3], {})])
        after = federation.state(0)
        assert all(np.isfinite(array).all() for array in after.arrays.values())
        assert not report.applied
        assert (report.status == Status.FAILED).all()
        assert report.reasons[0].why == Why.OVERFLOW
        np.testing.assert_array_equal(weights(federation), before)


@pytest.mark.parametrize("minimum", [1, 4, 5])
def test_fewer_replies_than_the_minimum_leave_the_model(data, minimum):
    with simulate(Failing, data, server="fedavgm", workers=0) as federation:
        federation.start(0, {}, 1)
        federation.round([Work(0, [0, 1], {})])
        before = {name: np.array(a) for name, a in federation.state(0).arrays.items()}
        [report] = federation.round([Work(0, [0, 1, 2, 3, 4], {}, minimum=minimum)])
        assert report.applied is (minimum < 5)
        assert report.round == 1 + report.applied
        after = federation.state(0).arrays
        for name, array in before.items():
            assert np.array_equal(after[name], array) is (minimum == 5)


def test_missing_clients_are_drawn_from_the_seed(data):
    def statuses(seed, workers=0):
        with simulate("linear", data, missing=0.5, workers=workers) as federation:
            federation.start(0, {}, seed)
            reports = [federation.round([Work(0, range(6), {})])[0] for _ in range(20)]
        for report in reports:
            missing = report.status == Status.MISSING
            assert list(report.reasons) == np.flatnonzero(missing).tolist()
            assert report.applied is bool((~missing).any())
            assert np.isnan(report.loss_before[missing]).all()
            assert report.cost.samples == report.train_size.sum()
        return np.stack([report.status for report in reports])

    first = statuses(1)
    np.testing.assert_array_equal(first, statuses(1))
    assert not np.array_equal(first, statuses(2))
    # 120 draws: within four standard deviations of one half, and no two rounds are alike for long.
    assert abs((first == Status.MISSING).mean() - 0.5) < 4 * 0.5 / np.sqrt(120)
    assert len({row.tobytes() for row in first}) > 10


def test_the_missing_do_not_change_what_the_others_send(data):
    with simulate("linear", data, missing=0.5, workers=0) as federation:
        federation.start(0, {}, 1)
        [report] = federation.round([Work(0, range(6), {"lr": 0.5, "batch_size": 2})])
        came = np.flatnonzero(report.ok).tolist()
        assert 0 < len(came) < 6
        after = weights(federation)
    with simulate("linear", data, workers=0) as federation:
        federation.start(0, {}, 1)
        federation.round([Work(0, came, {"lr": 0.5, "batch_size": 2})])
        np.testing.assert_allclose(weights(federation), after, rtol=0, atol=1e-6)


def test_a_rule_is_resolved_at_the_client(data):
    class ByQuantity:
        def resolve(self, labels, classes):
            assert classes == 3
            return {"lr": 0.0 if len(labels) > 5 else 0.5}

        def to_dict(self):
            return {"kind": "by quantity"}

    with simulate("linear", data, workers=0) as federation:
        federation.start(0, {}, 1)
        [report] = federation.round([Work(0, [0, 1, 3, 4], ByQuantity())])
        assert (report.loss_before == report.loss_after).tolist() == [False, False, True, True]


def test_a_rule_that_fails_fails_its_client_only(data):
    class Picky:
        def resolve(self, labels, classes):
            return {"lr": 0.1} if len(labels) != 7 else {"pace": 0.1}

        def to_dict(self):
            return {}

    with simulate("linear", data, workers=0) as federation:
        federation.start(0, {}, 1)
        [report] = federation.round([Work(0, [0, 1, 3, 4], Picky())])
        assert report.status.tolist() == [0, 0, Status.FAILED, 0]
        assert "unknown client hyperparameter 'pace'" in report.reasons[2].text


def test_fine_tuning_that_fails_is_an_answer_with_the_reason(data):
    with simulate(Failing, data, workers=0) as federation:
        federation.start(0, {}, 1)
        good, bad = federation.query(FineTune(0, {"lr": 0.1}, "validation"), [1, 2])
        assert good.status == Status.OK
        assert good.cost.samples == 5
        assert bad.status == Status.FAILED
        assert bad.content is None
        assert "too much" in bad.reason.text


def test_an_error_while_threads_train_is_a_failure_even_if_it_would_end_the_thread(data):
    def train(model, client, hyperparameters, generator):
        if client.client == 3:
            raise SystemExit("leave")

    with simulate(Diverging, data, train=train, workers=2) as federation:
        federation.start(0, {}, 1)
        with pytest.warns(UserWarning, match="threads"):
            [report] = federation.round([Work(0, [0, 1, 3, 4], {})])
        assert report.status.tolist() == [0, 0, Status.FAILED, 0]
        assert report.reasons[2].text.startswith("SystemExit: leave (test_failures.py:")
        assert federation.round([Work(0, [0, 1], {})])[0].applied


def test_an_interrupted_round_can_be_waited_for_again(data):
    interrupts = [True]

    def train(model, client, hyperparameters, generator):
        if client.client == 1 and interrupts:
            interrupts.clear()
            raise KeyboardInterrupt

    with simulate(Diverging, data, train=train, workers=0) as federation:
        federation.start(0, {}, 1)
        with pytest.raises(KeyboardInterrupt):
            federation.round([Work(0, [0, 1, 3], {})])
        assert federation.next_done(0).status.tolist() == [0, 0, 0]
