"""Placement on a GPU, under PyTorch's fake tensors: they have no numbers, but refuse mixed devices."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from fedhpo.data import load
from fedhpo.engine import device as devices
from fedhpo.engine.built import draws
from fedhpo.engine.by_hand import ByHand
from fedhpo.engine.flat import FlatModel
from fedhpo.engine.hyperparameters import Local
from fedhpo.engine.stacked import Stack, StackedRun, stacks
from fedhpo.engine.stacked_chain import StackedChain
from fedhpo.engine.view import DataView

GPU = "cuda:0"
H = Local(lr=0.1, momentum=0.5, weight_decay=0.01, prox=0.1, batch_size=4, epochs=2, dropout=0.5)


def part(tensor, key):
    """What `tensor[key]` is. PyTorch's own asks a device that is not there, and so does its `copy_`."""
    dim = 0
    for one in key if isinstance(key, tuple) else (key,):
        if isinstance(one, int):
            tensor = tensor.select(dim, one)
            continue
        if one is None:
            tensor = tensor.unsqueeze(dim)
        else:
            begin, end, _ = one.indices(tensor.shape[dim])
            tensor = tensor.narrow(dim, begin, end - begin)
        dim += 1
    return tensor


@pytest.fixture
def fake(monkeypatch):
    monkeypatch.setattr(torch.Tensor, "__getitem__", part)
    monkeypatch.setattr(torch.Tensor, "__setitem__", lambda self, key, value: part(self, key).copy_(value))
    monkeypatch.setattr(torch.Tensor, "copy_", lambda self, other: self.mul_(0).add_(other))
    with FakeTensorMode(allow_non_fake_inputs=True):
        yield


def layers(*between):
    chain = [nn.Flatten(), nn.Linear(6, 5), *between, nn.Linear(5, 3, bias=False)]
    for layer in chain:  # PyTorch cannot draw weights on a device that is not there
        for name, parameter in list(layer.named_parameters()):
            setattr(layer, name, nn.Parameter(torch.empty(parameter.shape, device=GPU)))
    return chain


def rows(count):
    return torch.empty(count, 2, 3, device=GPU), torch.empty(count, dtype=torch.int64, device=GPU)


@pytest.mark.usefixtures("fake")
def test_mixed_devices_are_refused_here():
    with pytest.raises(RuntimeError, match="same device"):
        torch.empty(2, device=GPU) + torch.ones(2)


@pytest.mark.usefixtures("fake")
@pytest.mark.parametrize("limit", [0, devices.DATA_BYTES])
def test_rows_are_gathered_on_the_device_whether_the_data_is_kept_there_or_not(limit, monkeypatch):
    monkeypatch.setattr(devices, "DATA_BYTES", limit)
    data = load("digits", clients=5)
    view = DataView(data, GPU)
    assert (view._kept is not None) == bool(limit)
    x, y = view.gather(data.train.rows(2))
    assert (str(x.device), str(y.device), x.dtype, y.dtype) == (GPU, GPU, torch.float32, torch.int64)
    assert x.shape == (len(data.train.rows(2)), *data.x.shape[1:])


def test_copies_to_cuda_go_through_pinned_memory(monkeypatch):
    calls = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda self: calls.append("pinned") or self)
    monkeypatch.setattr(torch.Tensor, "to", lambda self, *place, **how: calls.append((place, how)) or self)
    devices.moved(torch.ones(2), GPU)
    assert calls == ["pinned", ((GPU,), {"non_blocking": True})]


@pytest.mark.usefixtures("fake")
def test_training_by_hand_stays_on_the_device():
    chain = layers(nn.LayerNorm(5), nn.GELU(), nn.Dropout(), nn.Tanh())
    model = FlatModel(nn.Sequential(*chain))
    hand = ByHand(model, chain)
    hand.train(*rows(10), H, np.random.default_rng(0))
    assert {str(p.device) for p in model.parameters} == {str(hand._velocity.device)} == {GPU}


@pytest.mark.usefixtures("fake")
def test_a_stack_stays_on_the_device():
    chain = layers(nn.ReLU())
    model = FlatModel(nn.Sequential(*chain))
    runs = [StackedRun(*rows(n), H, np.random.default_rng(0)) for n in (10, 7, 3)]
    stack = Stack(model, torch.empty(3, model.size, device=GPU), None, StackedChain(model, chain))
    stack.train(runs)
    assert str(stack.weights.device) == GPU
    assert str(stack.forward(torch.empty(3, 4, 2, 3, device=GPU)).device) == GPU


def test_stacks_on_a_device_follow_its_memory_not_the_cache_of_a_cpu():
    sizes = [(8, 5)] * 60
    assert [len(stack) for stack in stacks(sizes, 1_700_000, GPU)] == [30, 30]
    assert [len(stack) for stack in stacks(sizes, 60_000, GPU)] == [60]


class Generator:
    """What PyTorch's module for a kind of device has to do with random numbers."""

    def __init__(self):
        self.own = torch.Generator()
        self.get_rng_state, self.set_rng_state = self.own.get_state, self.own.set_state
        self.manual_seed = self.own.manual_seed


@pytest.fixture
def mocked(monkeypatch):
    module = Generator()
    monkeypatch.setattr(torch, "get_device_module", lambda _kind: module)
    return module


def test_the_devices_generator_is_seeded_and_put_back(mocked):
    before = [state.clone() for state in devices.generator_states("mps")]
    with torch.random.fork_rng(devices=[]), devices.generator_kept("mps"):
        devices.seed_generators(3, "mps")
        drawn = torch.rand(2), torch.rand(2, generator=mocked.own)
        devices.seed_generators(3, "mps")
        assert torch.equal(drawn[0], torch.rand(2))
        assert torch.equal(drawn[1], torch.rand(2, generator=mocked.own))
    assert all(map(torch.equal, before, devices.generator_states("mps")))


@pytest.mark.parametrize("random", [True, False])
def test_what_draws_on_the_device_alone_is_noticed(mocked, random):
    class Net(nn.Module):
        def forward(self, x):
            if random:
                torch.rand(1, generator=mocked.own)
            return x

    assert draws(Net(), torch.empty(2, device="meta")) == random


@pytest.mark.parametrize(("cuda", "mps", "found"), [(1, 1, "cuda"), (0, 1, "mps"), (0, 0, "cpu")])
def test_auto_takes_a_gpu_where_there_is_one(cuda, mps, found, monkeypatch):
    monkeypatch.setattr(torch, "cuda", SimpleNamespace(is_available=lambda: bool(cuda)))
    monkeypatch.setattr(torch.backends, "mps", SimpleNamespace(is_available=lambda: bool(mps)))
    assert devices.chosen("auto") == found
