"""Kinds of data and models through a whole federation: texts, regression, users' own functions, layers."""

import copy
import itertools

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from fedhpo.core.errors import InputError
from fedhpo.data import from_clients
from fedhpo.data.container import IGNORE
from fedhpo.federations.simulate import simulate
from fedhpo.protocol.federation import Status, Work

SIZES = (3, 8, 5, 6, 4)


def make_data(targets=lambda rng, n: rng.integers(0, 3, n), inputs=None, **options):
    rng = np.random.default_rng(0)
    inputs = inputs or (lambda rng, n: rng.normal(size=(n, 5)).astype(np.float32))

    def rows(n):
        return inputs(rng, n), targets(rng, n)

    return from_clients([{"train": rows(n), "validation": rows(n + 2)} for n in SIZES], **options)


def tensors(data, split, client):
    rows = getattr(data, split).rows(client)
    x, y = torch.from_numpy(data.x[rows]), torch.from_numpy(data.y[rows])
    return (x if x.is_floating_point() else x.long()), y


def one_round(model, data, client, cohort=range(5), **options):
    """A full-batch round; the model before and after it, and the report."""
    with simulate(model, data, workers=0, **options) as federation:
        federation.start(0, {}, seed=1)
        before = federation.model(0)
        [report] = federation.round([Work(0, list(cohort), {"batch_size": 50} | client)])
        assert not report.reasons
        return before, federation.model(0), report


def gradient_step(before, data, loss, lr, clients=range(5)):
    """FedAvg of one full-batch gradient step at each client."""
    clients = list(clients)
    total = {name: torch.zeros_like(value) for name, value in before.named_parameters()}
    weight = sum(SIZES[c] for c in clients)
    for client in clients:
        module = copy.deepcopy(before).train()
        x, y = tensors(data, "train", client)
        loss(module(x), y).backward()
        for name, p in module.named_parameters():
            total[name] += SIZES[client] / weight * (p.detach() - lr * p.grad)
    return total


def assert_equal_models(module, expected):
    for name, p in module.named_parameters():
        torch.testing.assert_close(p.detach(), expected[name], rtol=0, atol=1e-5)


class Tokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.out = nn.Embedding(7, 4), nn.Linear(4, 7)

    def forward(self, x):
        return self.out(self.embedding(x))


def token_loss(output, target):
    return F.cross_entropy(output.flatten(0, 1), target.flatten(), ignore_index=IGNORE)


@pytest.mark.parametrize("length", [6, 7])  # 7 is also the number of tokens
def test_texts_are_averaged_over_tokens_that_count(length):
    def targets(rng, n):
        y = rng.integers(0, 7, (n, length))
        y[rng.random(y.shape) < 0.3] = IGNORE
        y[:, 0] = 1
        return y

    data = make_data(targets, lambda rng, n: rng.integers(0, 7, (n, length)), classes=7)
    assert data.task == "language"
    before, after, report = one_round(Tokens, data, {"lr": 0.5})
    assert_equal_models(after, gradient_step(before, data, token_loss, 0.5))
    for client in range(5):
        x, y = tensors(data, "validation", client)
        with torch.no_grad():
            output = before(x)
        assert report.loss_before[client] == pytest.approx(float(token_loss(output, y)), rel=1e-5)
        counted = y != IGNORE
        correct = (output.argmax(-1) == y)[counted].float().mean()
        assert report.accuracy_before[client] == pytest.approx(float(correct), abs=1e-6)


@pytest.mark.parametrize("stacking", [True, False])
def test_regression_descends_the_squared_error(stacking):
    data = make_data(lambda rng, n: rng.normal(size=n))
    assert data.task == "regression"

    def loss(output, target):
        return ((output[:, 0] - target) ** 2).mean()

    before, after, report = one_round(lambda: nn.Linear(5, 1), data, {"lr": 0.1}, stacking=stacking)
    assert_equal_models(after, gradient_step(before, data, loss, 0.1))
    for client in range(5):
        x, y = tensors(data, "validation", client)
        assert report.loss_before[client] == pytest.approx(loss(before(x), y).item(), rel=1e-5)
    assert np.isnan(report.accuracy_before).all()


def classification():
    return make_data(classes=3)


def linear():
    return nn.Linear(5, 3)


class FunctionalDropoutAlways(nn.Linear):
    """Draws random numbers in scoring, too."""

    def __init__(self):
        super().__init__(5, 3)

    def forward(self, x):
        return super().forward(F.dropout(x, 0.5, training=True))


@pytest.mark.parametrize("stacking", [True, False])
def test_the_users_own_loss_is_descended_and_reported(stacking):
    data = classification()

    def smoothed(output, target):
        return F.cross_entropy(output, target, label_smoothing=0.3, reduction="none")

    before, after, report = one_round(linear, data, {"lr": 0.5}, loss=smoothed, stacking=stacking)
    assert_equal_models(after, gradient_step(before, data, lambda o, t: smoothed(o, t).mean(), 0.5))
    for client in range(5):
        x, y = tensors(data, "validation", client)
        assert report.loss_before[client] == pytest.approx(smoothed(before(x), y).mean().item(), rel=1e-5)


def test_the_users_own_loss_of_texts_is_reported_too():
    data = make_data(
        lambda rng, n: rng.integers(0, 7, (n, 4)), lambda rng, n: rng.integers(0, 7, (n, 4)), classes=7
    )

    def doubled(output, target):
        return 2 * F.cross_entropy(output.transpose(1, 2), target, reduction="none")

    _, _, plain = one_round(Tokens, data, {})
    _, _, own = one_round(Tokens, data, {}, loss=doubled)
    np.testing.assert_allclose(own.loss_before, 2 * plain.loss_before, rtol=1e-5)


def test_a_loss_that_is_not_per_sample_is_a_clear_failure():
    with simulate(linear, classification(), loss=F.cross_entropy, workers=0) as federation:
        federation.start(0, {}, 0)
        [report] = federation.round([Work(0, [0, 1, 2, 3], {})])
    assert not report.applied
    assert "one loss per sample" in report.reasons[0].text


def test_the_users_own_training_gets_model_data_hyperparameters_and_generator():
    data, seen = classification(), []

    def train(model, client, hyperparameters, generator):
        assert model.training
        draw = float(torch.rand(1, generator=generator))
        seen.append((client.client, tuple(client.x.shape), draw))
        for p in model.parameters():
            p.data = p.data + hyperparameters["shift"] + draw  # rebinds, does not add in place

    before, after, report = one_round(linear, data, {"shift": 2.0}, cohort=[3, 1], train=train)
    by_client = {client: draw for client, _, draw in seen}
    assert {(client, shape) for client, shape, _ in seen} == {(3, (6, 5)), (1, (8, 5))}
    shift = 2 + (6 * by_client[3] + 8 * by_client[1]) / 14
    torch.testing.assert_close(after.weight, before.weight + shift)
    assert report.cost.samples == 14
    draws = dict(by_client)
    seen.clear()
    one_round(linear, data, {"shift": 2.0}, cohort=[3, 1], train=train)
    assert {client: draw for client, _, draw in seen} == draws  # seeded
    assert by_client[3] != by_client[1]


def cut_into(monkeypatch, parts):
    """Batches of 7 rows, and parts of so many of them, whatever they cost."""

    def pieces(effort, rows, workers, alike):
        bounds = [*range(0, rows, 7 * parts), rows]
        return list(itertools.pairwise(bounds))

    monkeypatch.setattr("fedhpo.engine.effort.LEAST_BATCH", 7)
    monkeypatch.setattr("fedhpo.engine.effort.MOST_BATCH", 7)
    monkeypatch.setattr("fedhpo.engine.effort.Effort.pieces", pieces)


@pytest.mark.parametrize("model", ["mlp", FunctionalDropoutAlways], ids=["mlp", "draws"])
def test_scores_are_the_same_bits_however_rows_are_cut(monkeypatch, model):
    found = []
    for parts in (1, 2, 100):
        cut_into(monkeypatch, parts)
        with simulate(model, classification(), workers=0) as federation:
            federation.start(0, {}, 0)
            [scores] = federation.evaluate([0], [4, 0, 2, 0], "train")
        assert np.isfinite(scores.loss).all()
        found.append((scores.loss.tobytes(), scores.accuracy.tobytes()))
    assert len(set(found)) == 1


class Refuses(nn.Linear):
    """Raises at a batch with a row that begins with 99."""

    def __init__(self):
        super().__init__(5, 3)

    def forward(self, x):
        if (x[:, 0] == 99).any():
            raise ValueError("99 is no number")
        return super().forward(x)


@pytest.mark.parametrize("parts", [1, 2, 100])
def test_a_batch_that_fails_is_that_of_its_clients_alone(monkeypatch, parts):
    cut_into(monkeypatch, parts)
    rows = [(np.ones((5, 5), np.float32), np.zeros(5, np.int64)) for _ in range(6)]
    rows[3][0][4, 0] = 99  # in the third batch of 7, with rows of the clients 2, 3 and 4
    clients = [{"train": one} for one in rows]
    clients[0]["validation"] = rows[0]
    with simulate(Refuses, clients, workers=0) as federation:
        federation.start(0, {}, 0)
        [scores] = federation.evaluate([0], range(6), "train")
    assert set(scores.reasons) == {2, 3, 4}
    assert "99 is no number" in scores.reasons[3].text
    assert np.isnan(scores.loss).tolist() == [False, False, True, True, True, False]


@pytest.mark.parametrize("parts", [1, 100])
def test_evaluation_equals_a_loop_over_clients(monkeypatch, parts):
    cut_into(monkeypatch, parts)
    data = classification()
    with simulate("mlp", data, workers=0) as federation:
        federation.start(0, {}, 0)
        federation.start(1, {"hidden": 4}, 1)
        clients = [4, 0, 2, 0]
        for split in ("validation", "train"):
            for scores in federation.evaluate([1, 0], clients, split):
                module = federation.model(scores.trial).eval()
                for i, client in enumerate(clients):
                    x, y = tensors(data, split, client)
                    with torch.no_grad():
                        output = module(x)
                    assert scores.loss[i] == pytest.approx(float(F.cross_entropy(output, y)), rel=1e-5)
                    accuracy = float((output.argmax(1) == y).float().mean())
                    assert scores.accuracy[i] == pytest.approx(accuracy, abs=1e-6)
                    assert scores.size[i] == len(y)
        [nothing] = federation.evaluate([0], [1, 2], "test")
        assert nothing.size.tolist() == [0, 0]
        assert np.isnan(nothing.loss).all()
        with pytest.raises(InputError, match=r"unknown split 'x'.*test"):
            federation.evaluate([0], [0], "x")


def dropping():
    return nn.Sequential(nn.Linear(5, 16), nn.Dropout(0.5), nn.Linear(16, 3))


def weights_after(model, client, **options):
    _, after, _ = one_round(model, classification(), {"lr": 0.5} | client, **options)
    return torch.cat([p.detach().flatten() for p in after.parameters()])


def test_dropout_takes_its_rate_per_run():
    none = weights_after(lambda: nn.Sequential(nn.Linear(5, 16), nn.Identity(), nn.Linear(16, 3)), {})
    torch.testing.assert_close(weights_after(dropping, {"dropout": 0.0}), none, rtol=0, atol=1e-6)
    built, half, third = (weights_after(dropping, h) for h in ({}, {"dropout": 0.5}, {"dropout": 0.3}))
    assert torch.equal(built, half)
    assert not torch.allclose(half, third)
    assert not torch.allclose(half, none)
    torch.manual_seed(123)  # the trial's seed decides, not torch's global state
    assert torch.equal(third, weights_after(dropping, {"dropout": 0.3}))
    # The rate of one run does not stay for the next: a config without it has the rate as built.
    with simulate(dropping, classification(), workers=0) as federation:
        federation.start(0, {}, 1)
        federation.start(1, {}, 1)
        federation.start(2, {}, 1)
        h = {"lr": 0.5, "batch_size": 50}
        federation.round([Work(1, [0, 1], h | {"dropout": 0.9})])
        federation.round([Work(0, [0, 1, 2, 3, 4], h)])
        mixed = [h | {"dropout": 0.0 if c % 2 else 0.3} for c in range(5)]
        federation.round([Work(2, [0, 1, 2, 3, 4], mixed)])
        after = torch.from_numpy(np.array(federation.state(0).arrays["weights"]))
        assert torch.equal(after, built)


class FunctionalDropout(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.out = nn.Linear(5, 16), nn.Linear(16, 3)

    def forward(self, x):
        return self.out(F.dropout(torch.relu(self.inner(x)), 0.5, self.training))


@pytest.mark.parametrize("model", [dropping, FunctionalDropout])
def test_random_layers_repeat_in_threads(model):
    """Trainings with and without random numbers, side by side, and new models in between."""
    data = classification()
    configs = [{"lr": 0.5, "batch_size": 2, "epochs": 4, "dropout": 0.5 * (c % 2)} for c in range(5)]

    def end(workers):
        with simulate(lambda: model(), data, workers=workers) as federation:
            if workers:
                federation.start(9, {}, 9)
                with pytest.warns(UserWarning, match="threads"):
                    federation.evaluate([9], [0])
            for trial in range(4):
                federation.start(trial, {}, 1)
                federation.submit(Work(trial, [0, 1, 2, 3, 4], configs))
            for trial in range(4):
                federation.next_done(trial)
            return [federation.state(trial).arrays["weights"] for trial in range(4)]

    alone = end(0)
    torch.manual_seed(123)
    state = torch.random.get_rng_state()
    for other in [*alone[1:], *end(3)]:
        np.testing.assert_array_equal(alone[0], other)
    assert torch.equal(torch.random.get_rng_state(), state)


def test_batch_norm_warns_and_its_statistics_are_averaged_without_server_lr():
    def model():
        return nn.Sequential(nn.BatchNorm1d(5, momentum=1.0), nn.Linear(5, 3))

    data = classification()
    with simulate(model, data, workers=0) as federation:
        with pytest.warns(UserWarning, match="GroupNorm"):
            federation.start(0, {}, 0)
        work = Work(0, [1, 3], {"lr": 0.1, "batch_size": 50}, {"lr": 0.25})
        federation.round([work])
        norm = federation.model(0)[0]
    means = [tensors(data, "train", c)[0].mean(0) for c in (1, 3)]
    torch.testing.assert_close(norm.running_mean, (8 * means[0] + 6 * means[1]) / 14, rtol=1e-5, atol=1e-6)
    assert int(norm.num_batches_tracked) == 0


def test_a_given_model_keeps_its_weights_for_every_trial():
    module = linear()
    before = copy.deepcopy(module)
    with simulate(module, classification(), workers=0) as federation:
        for trial in range(2):
            federation.start(trial, {}, seed=trial)
            torch.testing.assert_close(federation.model(trial).weight, before.weight, rtol=0, atol=0)
        federation.round([Work(0, [0, 1], {"lr": 1.0})])
        assert not torch.equal(federation.model(0).weight, before.weight)
        assert torch.equal(module.weight, before.weight)
        with pytest.raises(InputError, match="hidden"):
            federation.start(2, {"hidden": 3}, 0)


def test_models_that_cannot_be_are_refused():
    data = classification()
    with pytest.raises(InputError, match="int"):
        simulate(3, data)
    with pytest.raises(InputError, match="unknown model"):
        simulate("perceptron", data, workers=0).start(0, {}, 0)
    with pytest.raises(InputError, match="not a torch"):
        simulate(lambda: 3, data, workers=0).start(0, {}, 0)
    with pytest.raises(InputError, match=r"weight is torch\.float64"):
        simulate(lambda: linear().double(), data, workers=0).start(0, {}, 0)
    with pytest.raises(InputError, match="JSON"):
        simulate("mlp", data, workers=0).start(0, {"hidden": np.int64(3)}, 0)


def test_a_frozen_part_stays_and_the_rest_trains():
    def model():
        module = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3))
        module[0].requires_grad_(False)
        return module

    before, after, report = one_round(model, classification(), {"lr": 0.5, "weight_decay": 0.1})
    assert (report.status == Status.OK).all()
    assert torch.equal(before[0].weight, after[0].weight)
    assert not torch.equal(before[2].weight, after[2].weight)


def test_global_random_state_is_left_alone():
    torch.manual_seed(5)
    state = torch.random.get_rng_state()
    threads = torch.get_num_threads()
    one_round(dropping, classification(), {"dropout": 0.3})
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize("stacking", [False, True])
def test_an_update_leaves_as_the_scale_says(stacking):
    """Half of the update leaves; what the client scored is the model that it trained."""
    data = make_data(classes=3)
    before, whole, told = one_round("linear", data, {"lr": 0.1, "epochs": 2}, stacking=stacking)
    scaled = {"lr": 0.1, "epochs": 2, "update_scale": 0.5}
    _, half, said = one_round("linear", data, scaled, stacking=stacking)
    for first, second, start in zip(whole.parameters(), half.parameters(), before.parameters(), strict=True):
        torch.testing.assert_close(second - start, 0.5 * (first - start))
    np.testing.assert_array_equal(told.loss_after, said.loss_after)
