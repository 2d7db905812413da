"""Stacked training equals the lean loop, and what cannot be stacked is not."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

import fedhpo as fh
from fedhpo.data import load
from fedhpo.engine.flat import FlatModel
from fedhpo.engine.hyperparameters import Local
from fedhpo.engine.local import train
from fedhpo.engine.score import score
from fedhpo.engine.stacked import FEWEST_RUNS, Stack, StackedRun, can_stack, stack_size, stacks
from fedhpo.federations import simulated
from fedhpo.protocol.federation import Work


def mlp():
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.out = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 3)
        self.b.weight = self.a.weight

    def forward(self, x):
        return self.out(self.b(torch.tanh(self.a(x))))


runs_of_a_stack = st.lists(
    st.tuples(
        st.integers(1, 15),  # rows
        st.integers(1, 3),  # epochs
        st.sampled_from([0.0, 0.5, 0.9]),  # momentum
        st.sampled_from([0.0, 0.1]),  # weight decay
        st.sampled_from([0.0, 0.3]),  # prox
        st.sampled_from([0.01, 0.1, 0.3]),  # lr
    ),
    min_size=1,
    max_size=5,
)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(runs_of_a_stack, st.sampled_from([1, 4, 32]), st.sampled_from([mlp, Tied]), st.booleans())
def test_a_stack_equals_lean_training_of_each(runs, batch_size, factory, regression):
    torch.manual_seed(0)
    module = factory()
    model = FlatModel(module)
    start = model.vector()
    made = []
    for i, (rows, epochs, momentum, decay, prox, lr) in enumerate(runs):
        x = torch.randn(rows, 4)
        y = torch.randn(rows, 3) if regression else torch.randint(0, 3, (rows,))
        h = Local(lr, momentum, decay, batch_size, epochs, prox=prox)
        made.append((x, y, h, i))
    made.sort(key=lambda run: -run[2].steps(len(run[0])))

    stack = Stack(model, torch.from_numpy(np.stack([start] * len(made))))
    stack.train([StackedRun(x, y, h, np.random.default_rng(i)) for x, y, h, i in made])
    scores = stack.score([x for x, *_ in made], [y for _, y, *_ in made])
    for row, (x, y, h, i) in enumerate(made):
        model.load(start)
        train(model, x, y, h, np.random.default_rng(i))
        np.testing.assert_allclose(stack.weights[row], model.vector(), rtol=0, atol=1e-5)
        with torch.no_grad():
            output = module(x)
            expected = F.mse_loss(output, y) if regression else F.cross_entropy(output, y)
        np.testing.assert_allclose(scores.loss[row], expected, rtol=1e-4, atol=1e-5)
        if regression:
            assert np.isnan(scores.accuracy[row])


class Unused(nn.Module):
    def __init__(self):
        super().__init__()
        self.used, self.spare = nn.Linear(4, 3), nn.Linear(2, 2)

    def forward(self, x):
        return self.used(x)


class Functional(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(4, 3)

    def forward(self, x):
        return self.out(F.dropout(x, 0.5, self.training))


class Branching(Functional):
    def forward(self, x):
        return self.out(x) if x.sum() > 0 else self.out(-x)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.out = nn.LSTM(1, 4), nn.Linear(4, 3)

    def forward(self, x):
        return self.out(self.rnn(x.T[:, :, None])[0][-1])


def frozen():
    module = mlp()
    module[0].bias.requires_grad_(False)
    return module


@pytest.mark.parametrize(
    ("factory", "expected"),
    [
        (mlp, True),
        (Tied, True),
        (lambda: nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.0)), True),
        (lambda: nn.Sequential(nn.Linear(4, 4), nn.GroupNorm(2, 4), nn.Linear(4, 3)), True),
        (lambda: nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.5)), False),
        (lambda: nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)), False),
        (lambda: nn.Sequential(nn.Linear(4, 20_000), nn.Linear(20_000, 3)), False),  # too large
        (Unused, False),
        (Functional, False),
        (Branching, False),
        (Recurrent, False),
        (frozen, False),
    ],
)
def test_what_can_be_stacked(factory, expected):
    state = torch.random.get_rng_state()
    model = FlatModel(factory())
    torch.random.set_rng_state(state)
    before = model.vector()
    assert can_stack(model, torch.ones(2, 4), torch.tensor([0, 2])) is expected
    np.testing.assert_array_equal(model.vector(), before)
    assert torch.equal(torch.random.get_rng_state(), state)


def test_texts_and_losses_without_one_value_per_sample_are_not_stacked():
    tokens = torch.ones(2, 3, dtype=torch.long)
    text = nn.Sequential(nn.Embedding(3, 4), nn.Linear(4, 3))
    assert not can_stack(FlatModel(text), tokens, tokens)
    x, y = torch.ones(2, 4), torch.tensor([0, 2])
    assert not can_stack(FlatModel(mlp()), x, y, F.cross_entropy)
    assert can_stack(FlatModel(mlp()), x, y, lambda out, t: F.cross_entropy(out, t, reduction="none"))


def convolutional():
    return nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 25, 3, padding=1), nn.Flatten(), nn.Linear(1600, 10)
    )


def test_large_batches_of_convolutions_are_not_stacked(monkeypatch):
    data = load("digits", clients=8, seed=0)
    planned = []
    monkeypatch.setattr(
        simulated, "plan", lambda members, *_: planned.extend(one.stack is not None for one in members) or []
    )
    # The convolution puts out 25 * 8 * 8 = 1,600 numbers for a digit: at most 20 in a batch.
    with fh.simulate(convolutional, data, workers=0) as federation:
        for trial, batch_size in enumerate((20, 21)):
            federation.start(trial, {}, 0)
            federation.submit(Work(trial, [0], {"lr": 0.1, "batch_size": batch_size}, {}))
    assert planned == [True, False]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([4, 8, 32]), st.integers(1, 20)), max_size=80),
    st.sampled_from([10, 3_000, 60_000]),
)
def test_stacks_are_of_one_batch_size_longest_first_and_neither_tiny_nor_huge(sizes, parameters):
    found = stacks(sizes, parameters)
    members = list(itertools.chain(*found))
    assert len(members) == len(set(members))
    for stack in found:
        assert FEWEST_RUNS <= len(stack) <= stack_size(parameters)
        assert len({sizes[i][0] for i in stack}) == 1
        steps = [sizes[i][1] for i in stack]
        assert steps == sorted(steps, reverse=True)
    for batch in {size for size, _ in sizes}:  # runs are only left alone where they are few
        alone = [i for i, size in enumerate(sizes) if size[0] == batch and i not in members]
        assert len(alone) < FEWEST_RUNS


def test_score_of_no_rows_is_nan():
    model = FlatModel(mlp())
    stack = Stack(model, torch.from_numpy(np.stack([model.vector()] * 2)))
    x, y = torch.randn(3, 4), torch.tensor([0, 1, 2])
    some = stack.score([x, x[:0]], [y, y[:0]])
    assert np.isfinite(some.loss[0])
    assert np.isnan(some.loss[1])
    none = stack.score([x[:0], x[:0]], [y[:0], y[:0]])
    assert np.isnan(none.loss).all()
    assert np.isnan(score(model.module, None, []).loss).all()
