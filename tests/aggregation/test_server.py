"""Rounds at the server against plain PyTorch: optimisers, weighting, robust aggregation."""

import re

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from fedhpo.aggregation.aggregation import Aggregation
from fedhpo.aggregation.server import server_optimiser
from fedhpo.core.errors import InputError
from fedhpo.data import from_clients
from fedhpo.engine.flat import check_update
from fedhpo.federations.simulate import simulate
from fedhpo.protocol.federation import Work

SIZES = (4, 9, 20)
LR = 0.4


@pytest.fixture(scope="module")
def clients():
    rng = np.random.default_rng(0)
    return [{"train": (rng.normal(size=(n, 5)).astype(np.float32), rng.integers(0, 3, n))} for n in SIZES]


def linear():
    return nn.Linear(5, 3)


def flat(module):
    return torch.cat([p.detach().flatten() for p in module.parameters()])


def unflat(module, vector):
    for p, part in zip(
        module.parameters(), vector.split([p.numel() for p in module.parameters()]), strict=True
    ):
        p.data = part.view_as(p).to(p.dtype)


def local_changes(weights, clients, lr=LR):
    """One full-batch gradient step at each client, in double precision."""
    changes = []
    for client in clients:
        x, y = (torch.from_numpy(part) for part in client["train"])
        module = linear().double()
        unflat(module, weights)
        F.cross_entropy(module(x.double()), y).backward()
        changes.append(-lr * torch.cat([p.grad.flatten() for p in module.parameters()]))
    return torch.stack(changes)


def weighted(changes):
    return (changes * torch.tensor(SIZES)[:, None]).sum(0) / sum(SIZES)


class Plain:
    """Reddi et al. (2021), Algorithm 2, and FedAvgM, written out."""

    def __init__(self, name, lr, momentum=0.9, beta1=0.9, beta2=0.99, tau=1e-3):
        self.name, self.lr, self.momentum = name, lr, momentum
        self.beta1, self.beta2, self.tau = beta1, beta2, tau
        self.m, self.v = 0.0, tau**2

    def step(self, d):
        if self.name == "fedavg":
            return self.lr * d
        if self.name == "fedavgm":
            self.m = self.momentum * self.m + d
            return self.lr * self.m
        self.m = self.beta1 * self.m + (1 - self.beta1) * d
        if self.name == "fedadagrad":
            self.v = self.v + d**2
        elif self.name == "fedadam":
            self.v = self.beta2 * self.v + (1 - self.beta2) * d**2
        else:
            self.v = self.v - (1 - self.beta2) * d**2 * torch.sign(self.v - d**2)
        return self.lr * self.m / (self.v.sqrt() + self.tau)


CASES = [
    ("fedavg", {"lr": 0.7}),
    ("fedavgm", {"lr": 0.7, "momentum": 0.6}),
    ("fedadagrad", {"lr": 0.05, "beta1": 0.0}),
    ("fedadagrad", {"lr": 0.05, "beta1": 0.5}),
    ("fedadam", {"lr": 0.05, "beta1": 0.8, "beta2": 0.95, "tau": 1e-2}),
    ("fedyogi", {"lr": 0.05, "beta1": 0.8, "beta2": 0.95, "tau": 1e-2}),
]


def federation(clients, **options):
    made = simulate(linear, from_clients(clients, classes=3), workers=0, **options)
    made.start(0, {}, seed=5)
    return made


def weights(federation, trial=0):
    return torch.from_numpy(np.array(federation.state(trial).arrays["weights"])).double()


@pytest.mark.parametrize(("name", "server"), CASES)
@pytest.mark.parametrize("named_by", ["federation", "hyperparameter"])
def test_three_rounds_equal_the_paper_written_out(clients, name, server, named_by):
    if named_by == "federation":
        ours = federation(clients, server=name)
    else:
        ours, server = federation(clients), {"optimiser": name} | server
    plain = Plain(name, **{k: v for k, v in server.items() if k != "optimiser"})
    expected = weights(ours)
    for _ in range(3):
        expected = expected + plain.step(weighted(local_changes(expected, clients)))
        ours.round([Work(0, [0, 1, 2], {"lr": LR, "batch_size": 50}, server)])
        np.testing.assert_allclose(weights(ours), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "server", "theirs"),
    [
        ("fedavgm", {"lr": 0.5, "momentum": 0.8}, lambda p: torch.optim.SGD(p, lr=0.5, momentum=0.8)),
        (
            "fedadagrad",
            {"lr": 0.05, "tau": 1e-2},
            lambda p: torch.optim.Adagrad(p, lr=0.05, initial_accumulator_value=1e-4, eps=1e-2),
        ),
    ],
)
def test_server_steps_equal_torch_optim_on_the_negative_change(name, server, theirs):
    rng = np.random.default_rng(0)
    point, memory = torch.zeros(6, requires_grad=True), {}
    optimiser, total = theirs([point]), np.zeros(6, np.float32)
    for round in range(4):
        change = rng.normal(size=6).astype(np.float32)
        step, memory = server_optimiser(name, server).step(change, memory, round)
        assert step.dtype == np.float32
        total += step
        point.grad = torch.from_numpy(-change)
        optimiser.step()
        np.testing.assert_allclose(total, point.detach(), atol=1e-6)


def test_weighting_by_size_and_uniform(clients):
    changes = local_changes(weights(federation(clients)), clients)
    for weighting, mean in (("size", weighted(changes)), ("uniform", changes.mean(0))):
        ours = federation(clients, weighting=weighting)
        before = weights(ours)
        ours.round([Work(0, [2, 0, 1], {"lr": LR, "batch_size": 50})])
        np.testing.assert_allclose(weights(ours) - before, mean, atol=1e-6)


def test_lr_decays_once_per_round_at_client_and_server(clients):
    ours = federation(clients)
    expected = weights(ours)
    for round in range(3):
        client = {"lr": LR, "lr_decay": 0.5, "batch_size": 50}
        ours.round([Work(0, [0, 1, 2], client, {"lr": 0.8, "lr_decay": 0.25})])
        changes = local_changes(expected, clients, LR * 0.5**round)
        expected = expected + 0.8 * 0.25**round * weighted(changes)
        np.testing.assert_allclose(weights(ours), expected, atol=1e-6)


def test_a_fork_takes_the_clock_of_the_decay_with_it(clients):
    ours = federation(clients)
    ours.start(1, {}, seed=6)
    decaying = {"lr": LR, "lr_decay": 0.5, "batch_size": 50}
    for _ in range(2):
        ours.round([Work(0, [0, 1, 2], decaying)])
    ours.fork(0, 1)
    before = weights(ours, 1)
    ours.round([Work(1, [0, 1, 2], decaying)])
    expected = before + weighted(local_changes(before, clients, LR * 0.25))
    np.testing.assert_allclose(weights(ours, 1), expected, atol=1e-6)


THREE = np.array([[1, 5, -3, 0], [2, -5, 0, 0], [9, 0, 3, 0]], np.float32)


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        (Aggregation("uniform"), [4, 0, 0, 0]),
        (Aggregation("size"), [(1 + 2 * 2 + 9 * 5) / 8, (5 - 2 * 5) / 8, (-3 + 3 * 5) / 8, 0]),
        (Aggregation(rule="median"), [2, 0, 0, 0]),
        (Aggregation(rule="trimmed_mean", trim=0.34), [2, 0, 0, 0]),
        (Aggregation(rule="trimmed_mean", trim=0.1), [4, 0, 0, 0]),  # a tenth of three is nobody
        # Norms are sqrt(35), sqrt(29) and sqrt(90); those above 5.5 are shortened to it.
        (
            Aggregation("uniform", clip_norm=5.5),
            (5.5 / np.sqrt(35) * THREE[0] + THREE[1] + 5.5 / np.sqrt(90) * THREE[2]) / 3,
        ),
        (Aggregation(rule="median", clip_norm=1.0), [2 / np.sqrt(29), 0, 0, 0]),
    ],
)
def test_aggregation_by_hand(how, expected):
    aggregate = how.start()
    for update, size in zip(THREE, (1, 2, 5), strict=True):
        aggregate.add(update, size)
    mean = aggregate.mean()
    assert mean.dtype == np.float32
    np.testing.assert_allclose(mean, expected, atol=1e-6)


def test_a_trimmed_share_counts_whole_clients():
    aggregate = Aggregation(rule="trimmed_mean", trim=0.29).start()
    for i in range(100):
        aggregate.add(np.float32([0 if i < 71 else 1000]), 1)
    assert aggregate.mean() == [0]


def test_an_update_is_not_kept_or_changed():
    update = np.ones(3, np.float32)
    for how in (Aggregation(), Aggregation(rule="median"), Aggregation(clip_norm=0.1)):
        aggregate = how.start()
        aggregate.add(update, 2)
        update[:] = 7  # as when its memory is used again
        assert (aggregate.mean() < 2).all()
        update[:] = 1


@pytest.mark.parametrize(
    ("update", "reason"),
    [
        (np.zeros(4, np.float32), None),
        (np.zeros(5, np.float32), r"shape \(5,\), expected \(4,\)"),
        (np.zeros((2, 2), np.float32), r"shape \(2, 2\)"),
        (np.float32([0, np.nan, 0, 0]), "not finite"),
        (np.float32([0, np.inf, 0, 0]), "not finite"),
        (np.float32([np.inf, -np.inf, 0, 0]), "not finite"),
        (np.float32([3e38, 3e38, 0, 0]), None),  # finite, though their sum is not
    ],
)
def test_updates_that_must_not_be_averaged(update, reason):
    found = check_update(update, 4)
    assert found is None if reason is None else re.search(reason, found.text)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"server": "adam"}, r"unknown server optimiser 'adam'.*fedadam"),
        ({"weighting": "sizes"}, r"unknown weighting 'sizes'.*size"),
        ({"aggregation": "mode"}, r"unknown aggregation rule 'mode'.*median"),
        ({"trim": 0.5}, r"trim .*0\.5"),
        ({"clip_norm": 0.0}, r"clip_norm .*0"),
        ({"missing": 1.5}, r"missing .*1\.5"),
        ({"workers": -1}, r"workers .*-1"),
    ],
)
def test_wrong_options_are_refused_at_once(clients, options, message):
    with pytest.raises(InputError, match=message):
        simulate(linear, from_clients(clients, classes=3), **options)


@pytest.mark.parametrize(
    ("client", "server", "message"),
    [
        ({"lr": -1.0}, {}, r"client\.lr .*-1"),
        ({"lr": float("nan")}, {}, r"client\.lr .*nan"),
        ({"momentum": 1.5}, {}, r"client\.momentum .*1\.5"),
        ({"batch_size": 0}, {}, r"client\.batch_size .*0"),
        ({"epochs": 1.5}, {}, r"client\.epochs .*1\.5"),
        ({"dropout": 2.0}, {}, r"client\.dropout .*2"),
        ({}, {"lr": "fast"}, r"server\.lr .*fast"),
        ({}, {"beta1": 0.5}, r"fedavg.*unknown server hyperparameter 'beta1'"),
        ({}, {"optimiser": "fedadam", "beta1": 1.5}, r"server\.beta1 .*1\.5"),
    ],
)
def test_wrong_hyperparameters_are_named_with_what_is_allowed(clients, client, server, message):
    ours = federation(clients)
    with pytest.raises(InputError, match=message):
        ours.round([Work(0, [0], client, server)])
    assert ours.round([Work(0, [0], {})])[0].round == 1
