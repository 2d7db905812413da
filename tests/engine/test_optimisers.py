"""Optimisers, clipping, smoothing, accumulation and schedules against torch's own, on the zoo of models."""

import copy
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import fedhpo as fh
from fedhpo.core.errors import InputError
from fedhpo.data.container import IGNORE
from fedhpo.engine.flat import FlatModel
from fedhpo.engine.hyperparameters import Local
from fedhpo.engine.local import train
from fedhpo.engine.lr_schedule import factor
from fedhpo.protocol.federation import Work

from .test_zoo import largest_difference, rows_of, state
from .zoo import ZOO

#: Adam divides by the root of squares: with torch's own `eps` a gradient that is zero but for rounding, as
#: that of a bias before a normalisation, moves a weight by up to the rate, in whatever direction.
EPS = 1e-3
ADAMW = Local(lr=0.01, optimiser="adamw", eps=EPS, batch_size=8, epochs=2)
SETTINGS = {
    "adam": replace(ADAMW, optimiser="adam"),
    "adam_decay": replace(ADAMW, optimiser="adam", weight_decay=0.1, beta1=0.8, beta2=0.95, batch_size=5),
    "adamw": replace(ADAMW, weight_decay=0.1),
    "adamw_prox": replace(ADAMW, prox=0.5, max_grad_norm=0.3),
    "clipped": Local(lr=0.1, momentum=0.5, max_grad_norm=0.2, batch_size=8),
    "smoothed": Local(lr=0.1, label_smoothing=0.1, batch_size=8),
    "steps": replace(ADAMW, max_steps=5, epochs=1),
}
#: Of float32 weights of about 1.
TOLERANCE = 1e-5


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def textbook(module, x, y, h, rng):
    """The loop that everybody writes, with the optimisers of `torch.optim`."""
    module.train()
    parameters = [p for p in module.parameters() if p.requires_grad]
    settings = {"lr": h.lr, "weight_decay": h.weight_decay, "foreach": False, "fused": False}
    if h.optimiser == "sgd":
        optimiser = torch.optim.SGD(parameters, momentum=h.momentum, **settings)
    else:
        kind = torch.optim.Adam if h.optimiser == "adam" else torch.optim.AdamW
        optimiser = kind(parameters, betas=(h.beta1, h.beta2), eps=h.eps, **settings)
    start = [p.detach().clone() for p in parameters]
    taken, epoch = 0, 0
    while epoch < h.epochs or h.max_steps is not None:
        epoch += 1
        for batch in torch.from_numpy(rng.permutation(len(x))).split(h.batch_size * h.accumulate):
            if taken == h.max_steps:
                return module
            optimiser.zero_grad()
            F.cross_entropy(module(x[batch]), y[batch], label_smoothing=h.label_smoothing).backward()
            for p, first in zip(parameters, start, strict=True):
                if h.prox and p.grad is not None:
                    p.grad = p.grad + h.prox * (p.detach() - first)
            if h.max_grad_norm is not None:
                torch.nn.utils.clip_grad_norm_(parameters, h.max_grad_norm)
            optimiser.step()
            taken += 1
    return module


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("name", ZOO)
def test_equals_torch(name, setting):
    animal, h = ZOO[name], SETTINGS[setting]
    x, y = rows_of(animal)
    torch.manual_seed(0)
    ours = animal.factory()
    torch.manual_seed(0)
    theirs, before = animal.factory(), state(ours)
    torch.manual_seed(1)
    train(FlatModel(ours), x, y, h, np.random.default_rng(1))
    torch.manual_seed(1)
    textbook(theirs, x, y, h, np.random.default_rng(1))
    moved = largest_difference(before, state(theirs))
    assert moved > 1e-3 or moved == 0
    assert largest_difference(state(ours), state(theirs)) <= TOLERANCE * max(1.0, moved)


@pytest.mark.parametrize("optimiser", ["adam", "adamw"])
def test_equals_torchs_fused_kernel_to_the_bit(optimiser):
    torch.manual_seed(0)
    ours = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3))
    theirs, x, y = copy.deepcopy(ours), torch.randn(32, 5), torch.randint(0, 3, (32,))
    h = Local(lr=0.01, optimiser=optimiser, weight_decay=0.1, batch_size=8)
    train(FlatModel(ours), x, y, h, None)
    kind = torch.optim.Adam if optimiser == "adam" else torch.optim.AdamW
    torchs = kind(theirs.parameters(), lr=0.01, weight_decay=0.1, fused=True)
    for rows, targets in zip(x.split(8), y.split(8), strict=True):
        torchs.zero_grad()
        F.cross_entropy(theirs(rows), targets).backward()
        torchs.step()
    assert all(torch.equal(a, b) for a, b in zip(ours.parameters(), theirs.parameters(), strict=True))


def test_accumulated_batches_are_one_batch():
    torch.manual_seed(0)
    module, x, y = nn.Linear(5, 3), torch.randn(22, 5), torch.randint(0, 3, (22,))
    found = []
    for h in (Local(batch_size=2, accumulate=4, epochs=2), Local(batch_size=8, epochs=2)):
        own = copy.deepcopy(module)
        train(FlatModel(own), x, y, h, np.random.default_rng(1))
        found.append(own.weight.detach())
    torch.testing.assert_close(*found, rtol=1e-5, atol=1e-6)


def test_accumulated_texts_count_by_tokens():
    """Batches whose tokens are partly padding: the gradient is the mean over all tokens that count."""
    torch.manual_seed(0)
    module, x = nn.Embedding(7, 7), torch.randint(0, 7, (6, 4))
    y = torch.randint(0, 7, (6, 4))
    y[0, 1:], y[3, :2] = IGNORE, IGNORE
    found = []
    for h in (Local(batch_size=2, accumulate=3), Local(batch_size=6)):
        own = copy.deepcopy(module)
        train(FlatModel(own), x, y, h, np.random.default_rng(1))
        found.append(own.weight.detach())
    torch.testing.assert_close(*found, rtol=1e-5, atol=1e-6)


def test_steps_and_samples():
    """22 rows in batches of 8 are 3 steps an epoch."""
    assert Local(batch_size=8, max_steps=7).samples(22) == 2 * 22 + 8
    assert Local(batch_size=4, accumulate=2, epochs=3).steps(22) == 9
    data = fh.load("digits", clients=5)
    with fh.simulate("mlp", data, workers=0) as federation:
        federation.start(0, {}, 0)
        config = {"optimiser": "adamw", "lr": 0.01, "max_steps": 4, "batch_size": 8}
        [report] = federation.round([Work(trial=0, cohort=[0, 1], client=config)])
        assert report.cost.samples == 2 * 4 * 8


def scheduled(scheduler, rounds, lr=0.3):
    """The rates that a scheduler of torch gives, stepped once a round."""
    optimiser = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=lr)
    found, schedule = [], scheduler(optimiser)
    for _ in range(rounds):
        found.append(optimiser.param_groups[0]["lr"] / lr)
        optimiser.step()
        schedule.step()
    return found


def warmed(rest, warmup):
    def make(optimiser):
        rise = torch.optim.lr_scheduler.LinearLR(optimiser, start_factor=1 / (warmup + 1), total_iters=warmup)
        return torch.optim.lr_scheduler.SequentialLR(optimiser, [rise, rest(optimiser)], [warmup])

    return make


def cosine(length, least=0.0):
    return lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, T_max=length, eta_min=0.3 * least)


def step_wise(size, gamma):
    return lambda o: torch.optim.lr_scheduler.StepLR(o, step_size=size, gamma=gamma)


SCHEDULES = {
    "cosine": (Local(lr_schedule="cosine"), cosine(12)),
    "cosine_min": (Local(lr_schedule="cosine", lr_min=0.1), cosine(12, 0.1)),
    "cosine_warm": (Local(lr_schedule="cosine", warmup=3), warmed(cosine(9), 3)),
    "cosine_horizon": (Local(lr_schedule="cosine", horizon=20), cosine(20)),
    "step": (Local(lr_schedule="step", lr_step=4, lr_gamma=0.5), step_wise(4, 0.5)),
    "step_warm": (Local(lr_schedule="step", lr_step=4, lr_gamma=0.5, warmup=2), warmed(step_wise(4, 0.5), 2)),
    "warm": (Local(warmup=4), warmed(lambda o: torch.optim.lr_scheduler.ConstantLR(o, factor=1.0), 4)),
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_are_torchs(name):
    h, scheduler = SCHEDULES[name]
    ours = [factor(h, t, 12) for t in range(12)]
    np.testing.assert_allclose(ours, scheduled(scheduler, 12), rtol=1e-6, atol=1e-9)


def halved(round, horizon):
    """A schedule of a user's own."""
    return 1.0 if round < horizon / 2 else 0.5


def test_a_schedule_of_the_users_own():
    h = Local(lr_schedule=f"{__name__}:halved")
    assert [factor(h, t, 4) for t in range(4)] == [1.0, 1.0, 0.5, 0.5]
    with pytest.raises(InputError, match="gives 'x' in round 0 of 4"):
        factor(Local(lr_schedule=f"{__name__}:wrong"), 0, 4)


def wrong(round, horizon):
    """No number."""
    return "x"


def test_a_trial_cut_early_is_on_the_schedule_of_a_full_training():
    """The rates of four rounds of ten, read off the changes of a model with one weight and gradient 1."""

    class One(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.zeros(1))

        def forward(self, x):
            return self.w.expand(len(x))

    data = fh.from_clients(
        [{"train": (np.zeros((8, 1)), np.zeros(8)), "validation": (np.zeros((2, 1)), np.zeros(2))}]
    )
    with fh.simulate(One, data, workers=0, loss=lambda output, target: output) as federation:
        federation.expect(10)
        federation.start(0, {}, 0)
        weights = [0.0]
        for _ in range(4):
            federation.round([Work(0, [0], {"lr": 0.5, "lr_schedule": "cosine", "batch_size": 8})])
            weights.append(float(federation.model(0).w.detach()))
    expected = [0.5 * (1 + math.cos(math.pi * t / 10)) / 2 for t in range(4)]
    np.testing.assert_allclose(-np.diff(weights), expected, rtol=1e-5)


def test_a_cosine_needs_a_horizon():
    with pytest.raises(InputError, match="nobody says how many rounds"):
        factor(Local(lr_schedule="cosine"), 0, 0)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"optimiser": "lion"}, "unknown client.optimiser 'lion'"),
        ({"lr_schedule": "linear"}, "unknown client.lr_schedule 'linear'"),
        ({"beta1": 1.5}, r"beta1 must be a number in \[0, 1\]"),
        ({"max_steps": 0}, "max_steps"),
        ({"accumulate": 0}, "accumulate"),
        ({"max_grad_norm": -1.0}, "max_grad_norm"),
        ({"horizon": "rungs"}, "horizon"),
        ({"warmup": 1.5}, "warmup"),
    ],
)
def test_values_that_cannot_be_are_refused(config, message):
    with pytest.raises(InputError, match=message):
        Local(**config)


def test_smoothing_without_effect_is_refused():
    data = fh.from_clients([(np.zeros((10, 2)), np.zeros(10)) for _ in range(3)])
    space = fh.Space(client={"lr": fh.Float(0.1, 1.0), "label_smoothing": 0.1})
    with pytest.raises(InputError, match="label_smoothing has no effect with float targets"):
        fh.tune(fh.simulate("mlp", data, workers=0), space, rounds=1, total=2)


def test_stacks_and_gradients_by_hand_stand_back():
    """The same results with stacking and without, where the optimiser is not SGD."""
    data = fh.load("digits", clients=8)
    found = []
    for stacking in (True, False):
        with fh.simulate("mlp", data, workers=0, stacking=stacking) as federation:
            federation.start(0, {}, 0)
            federation.round([Work(0, list(range(8)), {"optimiser": "adamw", "lr": 0.01})])
            found.append(federation.state(0).arrays["weights"])
    assert np.array_equal(*found)


def test_a_schedule_without_effect_is_refused():
    """A horizon that no schedule looks at, and steps of which none comes before the end."""
    data = fh.load("synthetic", clients=3, samples=20, dimension=3, classes=2)
    lr = fh.Float(0.01, 1.0, log=True)

    def tune(rounds, **client):
        space = fh.Space(client={"lr": lr, **client})
        with fh.simulate("linear", data, workers=0) as federation:
            return fh.tune(federation, space, "random", rounds=rounds, total=rounds, cohort=2)

    for schedule in ("constant", "step"):
        with pytest.raises(fh.InputError, match=r"horizon: counts only where lr_schedule is not 'constant'"):
            tune(3, lr_schedule=schedule, lr_step=1, horizon=2)
    with pytest.raises(fh.InputError, match=r"'step': has no effect in trainings of 3 rounds.* after 10"):
        tune(3, lr_schedule="step")
    with pytest.raises(fh.InputError, match=r"has no effect in trainings of 3 rounds.* after 3 "):
        tune(3, lr_schedule="step", lr_step=2, warmup=1)
    assert tune(3, lr_schedule="step", lr_step=2).status == "finished"
    assert tune(3, lr_schedule="step", lr_step=fh.Int(2, 9)).status == "finished"
