"""The engine against `torch.optim.SGD` on a zoo of architectures, stacked and not, with every setting."""

import copy
import warnings

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from fedhpo.engine import flat
from fedhpo.engine.built import look_at
from fedhpo.engine.flat import FlatModel
from fedhpo.engine.hyperparameters import Local
from fedhpo.engine.local import train
from fedhpo.engine.stacked import Stack, StackedRun, can_stack

from .zoo import CLASSES, ZOO

ROWS = 22
#: Batches of 8 and 5 do not divide 22 rows: the last one is smaller.
SETTINGS = {
    "plain": Local(lr=0.1, batch_size=8),
    "one_batch": Local(lr=0.1, batch_size=100),
    "epochs": Local(lr=0.05, batch_size=5, epochs=2),
    "momentum": Local(lr=0.03, momentum=0.9, batch_size=8, epochs=2),
    "decay": Local(lr=0.1, weight_decay=0.1, batch_size=11),
    "prox": Local(lr=0.1, prox=0.7, batch_size=8, epochs=2),
    "everything": Local(lr=0.05, momentum=0.5, weight_decay=0.05, prox=0.3, batch_size=8, epochs=2),
}
#: Of float32 weights of about 1 after at most 10 steps.
TOLERANCE = 2e-5
PAIRS = [(name, setting) for name in ZOO for setting in SETTINGS]


def sgd(module, x, y, h, rng):
    """The loop of a textbook: `zero_grad`, `backward`, `step`; FedProx's term is added to the gradients."""
    module.train()
    parameters = [p for p in module.parameters() if p.requires_grad]
    optimiser = torch.optim.SGD(
        parameters, lr=h.lr, momentum=h.momentum, weight_decay=h.weight_decay, foreach=False, fused=False
    )
    start = [p.detach().clone() for p in parameters]
    for _ in range(h.epochs):
        for batch in torch.from_numpy(rng.permutation(len(x))).split(h.batch_size):
            optimiser.zero_grad()
            F.cross_entropy(module(x[batch]), y[batch]).backward()
            for p, first in zip(parameters, start, strict=True):
                if h.prox and p.grad is not None:
                    p.grad = p.grad + h.prox * (p.detach() - first)
            optimiser.step()
    return module


def rows_of(animal, rows=ROWS, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, *animal.shape, generator=generator)
    if animal.tokens:
        x = torch.randint(0, 10, (rows, *animal.shape), generator=generator)
    return x, torch.randint(0, CLASSES, (rows,), generator=generator)


def state(module):
    return {name: value.clone() for name, value in [*module.named_parameters(), *module.named_buffers()]}


def largest_difference(ours, theirs):
    """Between two states; those of integers and complex numbers included."""
    return max(float((ours[name].detach() - theirs[name].detach()).abs().max()) for name in theirs if theirs[name].numel())


def lean_difference(name, h):
    """How far local training ends from PyTorch's SGD, and how far that moved."""
    animal = ZOO[name]
    x, y = rows_of(animal)
    ours = flat.build(animal.factory, {}, seed=1)
    theirs = copy.deepcopy(ours)
    before = state(theirs)
    built = look_at(FlatModel(ours), x[:8], y[:8], None)
    built.model.load(FlatModel(theirs).vector())
    train(built.model, x, y, h, np.random.default_rng(1), channels_last=built.channels_last)
    after = state(sgd(theirs, x, y, h, np.random.default_rng(1)))
    return largest_difference(state(ours), after), largest_difference(after, before)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "setting"), PAIRS)
def test_local_training_equals_sgd(name, setting):
    difference, moved = lean_difference(name, SETTINGS[setting])
    assert moved > 1e-3
    assert difference <= TOLERANCE * max(1, moved)


def stacked_difference(name, h):
    """How far the runs of a stack, of unequal lengths, end from PyTorch's SGD."""
    animal = ZOO[name]
    module = flat.build(animal.factory, {}, seed=1)
    model = FlatModel(module)
    start = model.vector()
    parts = [rows_of(animal, rows, seed) for seed, rows in enumerate((22, 17, 11, 3))]
    stack = Stack(model, torch.from_numpy(np.stack([start] * len(parts))))
    parts.sort(key=lambda part: -h.steps(len(part[0])))
    stack.train([StackedRun(x, y, h, np.random.default_rng(i)) for i, (x, y) in enumerate(parts)])
    worst = 0.0
    for i, (x, y) in enumerate(parts):
        model.load(start)
        sgd(module, x, y, h, np.random.default_rng(i))
        worst = max(worst, float(np.abs(stack.weights[i].numpy() - model.vector()).max()))
    return worst


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ZOO)
def test_what_is_stacked_equals_sgd_too(name):
    animal = ZOO[name]
    x, y = rows_of(animal, 8)
    model = FlatModel(flat.build(animal.factory, {}))
    before = model.vector()
    assert can_stack(model, x, y) is animal.stacks
    np.testing.assert_array_equal(model.vector(), before)
    if animal.stacks:
        for setting, h in SETTINGS.items():
            assert stacked_difference(name, h) <= TOLERANCE, setting
