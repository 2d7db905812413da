"""Local training against `torch.optim.SGD`, fed with the same batches."""

import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from fedhpo.data import from_clients
from fedhpo.engine.built import draws, to_channels_last
from fedhpo.engine.executor import Executor, Job, Setup, TrainTask
from fedhpo.engine.flat import FlatModel, shape_key
from fedhpo.engine.hyperparameters import Local
from fedhpo.engine.local import train
from fedhpo.federations.simulate import simulate


def mlp():
    return nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3))


class WithUnused(nn.Module):
    """`spare` is never used; `later` only for batches whose first feature adds up to less than 0."""

    def __init__(self):
        super().__init__()
        self.body, self.spare, self.later = nn.Linear(5, 3), nn.Linear(2, 2), nn.Linear(5, 3)

    def forward(self, x):
        out = self.body(x)
        return out + self.later(x) if x[:, 0].sum() < 0 else out


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(5, 5), nn.Linear(5, 5)
        self.b.weight = self.a.weight
        self.out = nn.Linear(5, 3)

    def forward(self, x):
        return self.out(self.b(torch.tanh(self.a(x))))


class Frozen(nn.Module):
    def __init__(self):
        super().__init__()
        self.fixed, self.out = nn.Linear(5, 8), nn.Linear(8, 3)
        self.fixed.requires_grad_(False)

    def forward(self, x):
        return self.out(torch.tanh(self.fixed(x)))


def with_batch_norm():
    return nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))


def oracle(module, x, y, h, rng):
    """The usual loop; FedProx's mu (w - w_start) is added to each gradient by hand."""
    module.train()
    optimiser = torch.optim.SGD(
        [p for p in module.parameters() if p.requires_grad],
        lr=h.lr,
        momentum=h.momentum,
        weight_decay=h.weight_decay,
    )
    start = [p.detach().clone() for p in module.parameters()]
    for _ in range(h.epochs):
        order = torch.from_numpy(rng.permutation(len(x)))
        for batch in order.split(h.batch_size):
            optimiser.zero_grad()
            F.cross_entropy(module(x[batch]), y[batch]).backward()
            for p, first in zip(module.parameters(), start, strict=True):
                if p.grad is not None:
                    p.grad += h.prox * (p.detach() - first)
            optimiser.step()


@pytest.fixture
def rows():
    torch.manual_seed(0)
    return torch.randn(22, 5), torch.randint(0, 3, (22,))


HYPERPARAMETERS = {
    "plain": Local(lr=0.3, batch_size=8),
    "one_batch": Local(lr=0.3, batch_size=100),
    "single_rows": Local(lr=0.05, batch_size=1),
    "momentum": Local(lr=0.1, momentum=0.9, batch_size=8, epochs=3),
    "decay": Local(lr=0.1, weight_decay=0.05, batch_size=7, epochs=2),
    "prox": Local(lr=0.1, prox=0.7, batch_size=5, epochs=2),
    "everything": Local(lr=0.2, momentum=0.5, weight_decay=0.01, prox=0.3, batch_size=6, epochs=3),
}


@pytest.mark.parametrize("h", HYPERPARAMETERS.values(), ids=HYPERPARAMETERS.keys())
@pytest.mark.parametrize("factory", [mlp, WithUnused, Tied, Frozen])
def test_equals_torch_sgd(factory, h, rows):
    ours = factory()
    theirs = copy.deepcopy(ours)
    before = copy.deepcopy(ours)
    train(FlatModel(ours), *rows, h, np.random.default_rng(1))
    oracle(theirs, *rows, h, np.random.default_rng(1))
    for name, value in ours.state_dict().items():
        torch.testing.assert_close(value, theirs.state_dict()[name], rtol=1e-6, atol=1e-6)
        untouched = name.startswith(("spare", "fixed"))
        assert torch.equal(value, before.state_dict()[name]) == untouched


def test_equals_torch_sgd_with_buffers(rows):
    ours, h = with_batch_norm(), HYPERPARAMETERS["momentum"]
    theirs = copy.deepcopy(ours)
    train(FlatModel(ours), *rows, h, np.random.default_rng(1))
    oracle(theirs, *rows, h, np.random.default_rng(1))
    assert int(ours[1].num_batches_tracked) == 9
    for name, value in ours.state_dict().items():
        torch.testing.assert_close(value, theirs.state_dict()[name], rtol=1e-5, atol=1e-6)


def test_flat_state_is_trainable_then_frozen_then_buffers():
    module = with_batch_norm()
    module[0].weight.requires_grad_(False)
    model = FlatModel(module)
    assert model.trainable_size == 8 + 16 + 27
    assert model.size == model.trainable_size + 40 + 16
    vector = np.arange(model.size, dtype=np.float32)
    model.load(vector)
    np.testing.assert_array_equal(model.vector(), vector)
    np.testing.assert_array_equal(module[0].bias.detach(), vector[:8])
    np.testing.assert_array_equal(module[0].weight.flatten(), vector[51:91])
    np.testing.assert_array_equal(module[1].running_var, vector[-8:])


def test_flat_state_follows_tensors_that_are_put_in_place_of_others():
    module = with_batch_norm()
    model = FlatModel(module)
    before = model.vector()
    module[0].bias.data = module[0].bias.data + 1
    module[1].running_mean = module[1].running_mean + 2
    change = np.empty_like(before)
    model.write_change(before, change)
    names = [*dict(module.named_parameters()), "1.running_mean", "1.running_var"]
    sizes = [40, 8, 8, 8, 24, 3, 8, 8]
    moved = dict(zip(names, np.split(change, np.cumsum(sizes)[:-1]), strict=True))
    assert {name: float(part.mean()) for name, part in moved.items() if part.any()} == {
        "0.bias": pytest.approx(1, abs=1e-6),
        "1.running_mean": 2.0,
    }
    model.load(before)
    np.testing.assert_array_equal(model.vector(), before)


def test_whole_number_buffers_begin_every_training_as_built(rows):
    module = nn.Sequential(nn.Linear(5, 3), nn.BatchNorm1d(3, momentum=None))  # averages over its batches
    model = FlatModel(module)
    start = model.vector()
    ends = []
    for _ in range(2):
        model.load(start)
        assert int(module[1].num_batches_tracked) == 0
        train(model, *rows, Local(batch_size=8), np.random.default_rng(1))
        ends.append(model.vector())
    np.testing.assert_array_equal(*ends)


class Viewing(nn.Module):
    """As in many tutorials: `view`, which only works on what is contiguous."""

    def __init__(self):
        super().__init__()
        self.convolution, self.out = nn.Conv2d(2, 4, 3), nn.Linear(4 * 6 * 6, 3)

    def forward(self, x):
        return self.out(torch.relu(self.convolution(x)).view(x.size(0), -1))


class Reshaping(Viewing):
    def forward(self, x):
        return self.out(torch.relu(self.convolution(x)).flatten(1))


class FromFlat(Viewing):
    def forward(self, x):
        return super().forward(x.view(-1, 2, 8, 8))


class FlatReshaping(Reshaping):
    def forward(self, x):
        return super().forward(x.view(-1, 2, 8, 8))


class Normed(Reshaping):
    """The gradient of the convolution's bias is zero but for rounding: it says nothing of a layout."""

    def __init__(self):
        super().__init__()
        self.norm = nn.GroupNorm(2, self.convolution.out_channels)

    def forward(self, x):
        return self.out(torch.relu(self.norm(self.convolution(x))).flatten(1))


class Misread(Reshaping):
    """Reads its numbers as they lie in memory: with another layout it computes something else."""

    def forward(self, x):
        found = torch.relu(self.convolution(x))
        return self.out(torch.as_strided(found, (len(x), found[0].numel()), (found[0].numel(), 1)))


def test_a_layout_that_the_model_cannot_take_is_told():
    data = from_clients([{"train": (np.zeros((4, 2, 8, 8), np.float32), np.zeros(4, np.int64))}], classes=3)
    said = []
    for factory in (Reshaping, Viewing, lambda: nn.Sequential(nn.Flatten(), nn.Linear(128, 3))):
        with simulate(factory, data, workers=0) as federation:
            federation.start(0, {}, 0)
            said.append(federation.describe().get("layout"))
    assert said[0] == "channels last"
    assert "channels first: the model's code fails with it" in said[1]
    assert said[2] is None


@pytest.mark.parametrize(
    ("factory", "shape", "expected"),
    [
        (Reshaping, (2, 8, 8), True),
        (Normed, (2, 8, 8), True),
        (Viewing, (2, 8, 8), False),
        (Misread, (2, 8, 8), False),
        (FromFlat, (128,), False),
        (FlatReshaping, (128,), True),
    ],
)
def test_channels_last_where_the_model_can_take_it(factory, shape, expected):
    torch.manual_seed(0)
    x, y = torch.randn(10, *shape), torch.randint(0, 3, (10,))
    ours = factory()
    theirs, h = copy.deepcopy(ours), Local(lr=0.1, batch_size=4, epochs=2)
    why = to_channels_last(ours, x[:2])
    assert (why == "") is expected
    assert ours.convolution.weight.is_contiguous() is not expected
    last = expected and x.ndim == 4
    train(FlatModel(ours), x, y, h, np.random.default_rng(1), channels_last=last)
    oracle(theirs, x, y, h, np.random.default_rng(1))
    for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-5, atol=1e-6)


class Functional(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(5, 3)

    def forward(self, x):
        return self.out(F.dropout(x, 0.5, self.training))


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        (mlp(), False),
        (nn.Sequential(nn.Dropout(0.5), nn.Linear(5, 3)), False),  # a layer: known by its rate
        (Functional(), True),
        (with_batch_norm(), False),
    ],
)
def test_random_numbers_outside_of_dropout_layers_are_noticed(module, expected):
    torch.manual_seed(3)
    state = torch.random.get_rng_state()
    assert draws(module, torch.ones(2, 5)) is expected
    assert torch.equal(torch.random.get_rng_state(), state)


def test_a_job_is_trained_with_its_own_stream_and_decayed_lr(rows):
    x, y = (part.numpy() for part in rows)
    data = from_clients([{"train": (x, y)}, {"train": (x, y)}], classes=3)
    executor = Executor(Setup(mlp, data))
    start = FlatModel(mlp()).vector()

    def change(client, seed, config, round=0):
        out = np.empty((1, len(start)), np.float32)
        task = TrainTask(shape_key({}), (Job(client, 0, config, seed, round),))
        [result] = executor.run(task, [start], out)
        assert not result.failure
        assert result.samples == result.train_size == 22
        return out[0]

    h = {"lr": 0.2, "batch_size": 4}
    first = change(0, (1, 0), h)
    np.testing.assert_array_equal(change(0, (1, 0), h), first)
    for other in (change(1, (1, 0), h), change(0, (2, 0), h), change(0, (1, 1), h)):
        assert not np.array_equal(other, first)
    decayed = change(0, (1, 0), h | {"lr_decay": 0.5}, round=2)
    np.testing.assert_allclose(decayed, change(0, (1, 0), h | {"lr": 0.05}), atol=1e-7)
