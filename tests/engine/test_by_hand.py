"""Chains of simple layers, trained by hand, against PyTorch's SGD; and what is no chain."""

import random
import threading

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations

from fedhpo.core.streams import seeded
from fedhpo.engine import chain
from fedhpo.engine.built import look_at
from fedhpo.engine.by_hand import by_hand
from fedhpo.engine.chain import chain_of
from fedhpo.engine.flat import FlatModel
from fedhpo.engine.hyperparameters import Local
from fedhpo.engine.local import train
from fedhpo.engine.stacked import Stack, StackedRun
from fedhpo.models import build

from .test_zoo import SETTINGS, TOLERANCE, sgd


class Functional(nn.Module):
    """As most people write it."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.third = nn.Linear(12, 8), nn.Linear(8, 7), nn.Linear(7, 3)

    def forward(self, x):
        x = torch.flatten(x, 1)
        x = F.relu(self.first(x))
        return self.third(torch.tanh(self.second(x)))


class Reshaped(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(12, 8), nn.Linear(8, 3)

    def forward(self, x):
        return self.second(self.first(x.view(x.size(0), -1)).relu())


CHAINS = {
    "softmax regression": lambda: nn.Sequential(nn.Flatten(), nn.Linear(12, 3)),
    "ours": lambda: build("mlp", (3, 4), 3, hidden=(9, 5)),
    "functional": Functional,
    "reshaped": lambda: Reshaped(),
    "nested": lambda: nn.Sequential(
        nn.Flatten(), nn.Sequential(nn.Linear(12, 6), nn.Tanh()), nn.Identity(), nn.Linear(6, 3)
    ),
    "without bias": lambda: nn.Sequential(
        nn.Flatten(), nn.Linear(12, 6, bias=False), nn.ReLU(inplace=True), nn.Linear(6, 3, bias=False)
    ),
    "gelu": lambda: nn.Sequential(
        nn.Flatten(), nn.Linear(12, 6), nn.GELU(), nn.Linear(6, 6), nn.GELU("tanh"), nn.Linear(6, 3)
    ),
    "layer norm": lambda: nn.Sequential(
        nn.Flatten(), nn.LayerNorm(12), nn.Linear(12, 6), nn.LayerNorm(6), nn.ReLU(), nn.Linear(6, 3)
    ),
    "norm without weights": lambda: nn.Sequential(
        nn.Flatten(), nn.Linear(12, 6), nn.LayerNorm(6, elementwise_affine=False), nn.ReLU(), nn.Linear(6, 3)
    ),
    "dropout": lambda: nn.Sequential(
        nn.Flatten(), nn.Dropout(0.2), nn.Linear(12, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3)
    ),
}


#: Cases of `Momentum` that the zoo's settings do not have.
MOMENTUMS = {
    "momentum and decay": Local(lr=0.03, momentum=0.9, weight_decay=0.01, batch_size=8, epochs=2),
    "no real number": Local(lr=0.03, momentum=0.99, weight_decay=0.2, prox=0.1, batch_size=8, epochs=2),
}


def made(factory):
    torch.manual_seed(1)
    return factory()


def rows(count=22, seed=0, regression=False):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, 3, 4, generator=generator)
    if regression:
        return x, torch.randn(count, 3, generator=generator)
    return x, torch.randint(0, 3, (count,), generator=generator)


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("setting", SETTINGS | MOMENTUMS)
def test_it_ends_where_sgd_ends(name, setting):
    h = (SETTINGS | MOMENTUMS)[setting]
    x, y = rows()
    model = FlatModel(made(CHAINS[name]))
    hand = look_at(model, x[:8], y[:8], None).by_hand
    assert hand is not None
    torch.manual_seed(7)
    hand.train(x, y, h, np.random.default_rng(1))
    other = made(CHAINS[name])
    torch.manual_seed(7)
    wanted = FlatModel(sgd(other, x, y, h, np.random.default_rng(1))).vector()
    np.testing.assert_allclose(model.vector(), wanted, rtol=0, atol=TOLERANCE)
    assert np.abs(wanted - FlatModel(made(CHAINS[name])).vector()).max() > 1e-3


@pytest.mark.parametrize("name", ["ours", "functional", "layer norm"])
def test_a_long_training_ends_where_autograd_ends(name):
    # 180 steps: what weights and velocity are kept divided by passes its least value many times.
    h = Local(lr=0.3, momentum=0.5, weight_decay=0.2, batch_size=8, epochs=60)
    x, y = rows()
    found, wanted = (FlatModel(made(CHAINS[name])) for _ in range(2))
    by_hand(found, x[:8], y[:8], None).train(x, y, h, np.random.default_rng(1))
    train(wanted, x, y, h, np.random.default_rng(1))
    np.testing.assert_allclose(found.vector(), wanted.vector(), rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("setting", SETTINGS)
def test_regression_ends_where_autograd_ends(setting):
    x, y = rows(regression=True)
    found, wanted = (FlatModel(made(CHAINS["functional"])) for _ in range(2))
    by_hand(found, x[:8], y[:8], None).train(x, y, SETTINGS[setting], np.random.default_rng(1))
    train(wanted, x, y, SETTINGS[setting], np.random.default_rng(1))
    np.testing.assert_allclose(found.vector(), wanted.vector(), rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("name", ["softmax regression", "ours", "functional", "without bias"])
@pytest.mark.parametrize("regression", [False, True])
def test_stacks_of_chains_end_where_stacks_by_autograd_end(name, regression):
    for h in SETTINGS.values():
        weights = []
        for chained in (True, False):
            model = FlatModel(made(CHAINS[name]))
            parts = sorted(
                (rows(n, n, regression) for n in (22, 17, 11, 3)), key=lambda p: -h.steps(len(p[0]))
            )
            chain = look_at(model, *(part[:8] for part in parts[0]), None).stacked
            assert chain is not None
            start = torch.from_numpy(np.stack([model.vector()] * 4))
            stack = Stack(model, start, None, chain if chained else None)
            stack.train([StackedRun(*part, h, np.random.default_rng(i)) for i, part in enumerate(parts)])
            weights.append(stack.weights.numpy())
        np.testing.assert_allclose(*weights, rtol=0, atol=TOLERANCE)


class Branch(nn.Module):
    def __init__(self, rule):
        super().__init__()
        self.one, self.two, self.rule, self.calls = nn.Linear(12, 3), nn.Linear(3, 3), rule, 0

    def forward(self, x):
        x = x.flatten(1)
        return self.rule(self, x)


def counting(module, x):
    module.calls += 1
    return module.two(module.one(x))


def tied():
    net = nn.Sequential(nn.Flatten(), nn.Linear(12, 12), nn.Linear(12, 12), nn.Linear(12, 3))
    net[2].weight = net[1].weight
    return net


def frozen():
    net = CHAINS["nested"]()
    net[3].bias.requires_grad = False
    return net


def with_hook():
    net = CHAINS["nested"]()
    net[3].register_forward_hook(lambda _m, _i, output: 2 * output)
    return net


def patched():
    net = CHAINS["nested"]()
    net[3].forward = lambda x: 2 * x
    return net


class Doubled(nn.Linear):
    def forward(self, x):
        return 2 * super().forward(x)


@pytest.mark.parametrize(
    "factory",
    [
        lambda: Branch(lambda m, x: m.two(m.one(x)) if x.sum() > -1e9 else m.one(x)),  # looks at the data
        lambda: Branch(lambda m, x: m.two(m.one(x)) if x.shape[0] > 1 else m.one(x)),  # or at its size
        lambda: Branch(lambda m, x: m.two(m.one(x)) if x.size(0) % 2 < 2 else m.one(x)),
        lambda: Branch(lambda m, x: m.two(m.one(x)) if x.size(-2) != 1 else m.one(x)),
        lambda: Branch(lambda m, x: m.one(x) + m.two(m.one(x))),  # two ways
        lambda: Branch(lambda m, x: m.one(x)),  # a parameter that is not used
        lambda: Branch(lambda m, x: m.two(m.one(x)) if random.random() < 2 else x),
        lambda: Branch(counting),
        lambda: Branch(lambda m, x: m.two(m.one(x)) if torch.rand(1) < 2 else x),
        lambda: Branch(lambda m, x: m.two(F.dropout(m.one(x), 0.5))),
        lambda: Branch(lambda m, x: m.two(2 * m.one(x))),
        lambda: Branch(lambda m, x: m.two(m.one(x.detach()))),
        lambda: Branch(lambda m, x: F.linear(x, m.one.weight)),
        tied,
        frozen,
        with_hook,
        patched,
        lambda: nn.Sequential(nn.Flatten(), Doubled(12, 3)),
        lambda: nn.Sequential(nn.Flatten(), parametrizations.weight_norm(nn.Linear(12, 3))),
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(12, 3), nn.Softmax(1)),
        lambda: nn.Sequential(nn.Flatten(0), nn.Linear(12, 3)),
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(12, 6), nn.BatchNorm1d(6), nn.Linear(6, 3)),
    ],
)
def test_what_cannot_be_read_with_certainty_is_no_chain(factory):
    assert chain_of(FlatModel(factory()), rows()[0]) is None


def test_threads_that_seed_the_generators_do_not_decide_how_a_model_is_trained():
    """Another client in this process, such as one whose model is tried before the first round."""
    ends = threading.Event()

    def seeds():
        while not ends.is_set():
            with seeded(1):
                random.random()

    other = threading.Thread(target=seeds)
    other.start()
    try:
        found = [chain_of(FlatModel(Functional()), rows()[0]) is not None for _ in range(200)]
    finally:
        ends.set()
        other.join()
    assert all(found)


def test_a_draw_of_a_library_does_not_decide_how_a_model_is_trained(monkeypatch):
    """A thread that is none of ours, such as a heartbeat, draws while the model is looked at, once."""
    drawn, watched = [], chain._watched

    def disturbed(module, x):
        if not drawn:
            drawn.append(random.random())
        return watched(module, x)

    monkeypatch.setattr(chain, "_watched", disturbed)
    assert chain_of(FlatModel(Functional()), rows()[0]) is not None
    assert drawn


def test_a_loss_of_the_user_keeps_autograd():
    x, y = rows()
    loss = lambda output, target: F.cross_entropy(output, target, reduction="none")  # noqa: E731
    built = look_at(FlatModel(made(CHAINS["functional"])), x[:8], y[:8], loss)
    assert (built.by_hand, built.stacked) == (None, None)


def test_labels_that_are_no_classes_fail_as_with_autograd():
    x, y = rows()
    hand = by_hand(FlatModel(made(CHAINS["functional"])), x[:8], y[:8], None)
    with pytest.raises((IndexError, RuntimeError), match="out of bounds"):
        hand.train(x, y + 3, Local(), np.random.default_rng(0))
