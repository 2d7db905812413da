"""The engine against `torch.optim.SGD` on a zoo of architectures, stacked and not, with every setting."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import fedhpo as fh
from fedhpo.core.errors import InputError
from fedhpo.data import from_clients, load
from fedhpo.engine import flat
from fedhpo.engine.built import look_at
from fedhpo.engine.executor import Executor, ScoreTask, Setup
from fedhpo.engine.factory import model_factory
from fedhpo.engine.flat import FlatModel
from fedhpo.engine.hyperparameters import Local
from fedhpo.engine.local import train
from fedhpo.engine.stacked import Stack, StackedRun, can_stack
from fedhpo.protocol.federation import Work

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
TOLERANCE = 2e-6


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


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
    return max(
        float((ours[name].detach() - theirs[name].detach()).abs().max())
        for name in theirs
        if theirs[name].numel()
    )


def lean_difference(name, h):
    """How far local training ends from PyTorch's SGD, and how far that moved."""
    animal = ZOO[name]
    x, y = rows_of(animal)
    ours = flat.build(animal.factory, {}, seed=1)
    theirs = flat.build(animal.factory, {}, seed=1)  # not a copy, which would lack hooks
    before = state(theirs)
    built = look_at(FlatModel(ours), x[:8], y[:8], None)
    built.model.load(FlatModel(theirs).vector())
    train(built.model, x, y, h, np.random.default_rng(1), channels_last=built.channels_last)
    after = state(sgd(theirs, x, y, h, np.random.default_rng(1)))
    return largest_difference(state(ours), after), largest_difference(after, before)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ZOO)
def test_local_training_equals_sgd(name):
    for setting, h in SETTINGS.items():
        difference, moved = lean_difference(name, h)
        assert moved > 1e-3, setting
        assert difference <= TOLERANCE, setting


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


class Complex(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 6, dtype=torch.cfloat))

    def forward(self, x):
        return (x.cfloat() @ self.weight.T).abs()


def shared_by_memory():
    first, second = nn.Linear(6, 6), nn.Linear(6, 6)
    second.weight = nn.Parameter(first.weight.data)
    return nn.Sequential(first, second)


def expanded():
    module = nn.Linear(6, 3)
    module.weight = nn.Parameter(torch.randn(1, 6).expand(3, 6))
    return module


@pytest.mark.parametrize(
    ("factory", "message"),
    [
        (Complex, "weight is torch.complex64.*view_as_real"),
        (lambda: nn.Linear(6, 3).double(), r"weight is torch.float64.*\.float\(\)"),
        (lambda: nn.Linear(6, 3).half(), "weight is torch.float16"),
        (lambda: nn.LazyLinear(3), "weight has no shape yet"),
        (shared_by_memory, "0.weight and 1.weight are two tensors in the same memory"),
        (expanded, "several numbers of the model's weight lie in the same memory"),
    ],
)
@pytest.mark.filterwarnings("ignore:Lazy")
def test_what_cannot_be_trained_rightly_is_refused_with_what_to_do(factory, message):
    with pytest.raises(InputError, match=message):
        flat.build(factory, {})
    with pytest.raises(InputError, match=message):
        model_factory(factory(), None)


@pytest.mark.parametrize("h", [Local(), Local(momentum=0.5), Local(prox=0.1)])
def test_sparse_gradients_are_refused(h):
    module = nn.Sequential(nn.Embedding(10, 4, sparse=True), nn.Flatten(), nn.Linear(28, 3))
    x, y = rows_of(ZOO["embedding"])
    with pytest.raises(InputError, match=r"gradient of the model's 0.weight is sparse.*sparse=False"):
        train(FlatModel(module), x, y, h, np.random.default_rng(0))


def test_a_complex_loss_is_refused():
    x, y = rows_of(ZOO["mlp"])
    with pytest.raises(InputError, match=r"real number, not torch.complex64"):
        train(
            FlatModel(nn.Linear(6, 3)), x, y, Local(), np.random.default_rng(0), lambda out, t: out.cfloat()
        )


def test_a_module_with_hooks_is_not_copied_without_them():
    with pytest.raises(InputError, match=r"0.weight has a hook.*function that builds"):
        model_factory(ZOO["hooked"].factory(), None)


def test_a_factory_that_returns_the_same_module_twice_is_refused():
    module = nn.Linear(6, 3)
    flat.build(lambda: module, {})
    with pytest.raises(InputError, match="same module twice"):
        flat.build(lambda: module, {})


def test_pretrained_tensors_are_not_trained_in_place():
    table = torch.randn(10, 4)
    before = table.clone()

    def build():
        return nn.Sequential(
            nn.Embedding.from_pretrained(table, freeze=False), nn.Flatten(), nn.Linear(28, 3)
        )

    module = flat.build(build, {})
    train(FlatModel(module), *rows_of(ZOO["embedding"]), Local(), np.random.default_rng(0))
    assert torch.equal(table, before)
    assert not torch.equal(module[0].weight, before)


def test_what_does_not_travel_is_the_same_in_every_worker():
    class Shuffled(nn.Module):
        def __init__(self):
            super().__init__()
            self.out, self.signs = nn.Linear(6, 3), np.random.choice([-1.0, 1.0], 6)  # noqa: NPY002
            self.register_buffer("order", torch.randperm(6))

    torch.manual_seed(3)
    one = flat.build(Shuffled, {})
    torch.manual_seed(4)
    two = flat.build(Shuffled, {})
    assert torch.equal(one.order, two.order)
    np.testing.assert_array_equal(one.signs, two.signs)


def test_frozen_whole_numbers_keep_their_value():
    module = nn.Linear(6, 3)
    module.register_parameter("large", nn.Parameter(torch.tensor([2**40 + 1]), requires_grad=False))
    model = FlatModel(module)
    assert model.size == 21
    model.load(model.vector())
    assert int(module.large) == 2**40 + 1


@pytest.mark.parametrize("name", ["batch_norm_without_statistics", "batch_mean", "batch_attention"])
def test_a_clients_score_does_not_depend_on_the_clients_scored_with_it(name):
    animal = ZOO[name]
    clients = [{"train": tuple(t.numpy() for t in rows_of(animal, 5 + seed, seed))} for seed in range(4)]
    executor = Executor(Setup(animal.factory, from_clients(clients, classes=CLASSES)))
    shape = flat.shape_key({})
    start = executor.model(shape).model.vector()

    def losses(*clients):
        return executor.run(ScoreTask(shape, np.array(clients), "train"), [start], None)[0]

    together = losses(0, 1, 2, 3)
    np.testing.assert_array_equal(together, [losses(client)[0] for client in range(4)])
    module = executor.model(shape).model.module.eval()
    for client, loss in enumerate(together):
        x, y = rows_of(animal, 5 + client, client)
        assert loss == pytest.approx(F.cross_entropy(module(x), y).item(), rel=1e-5)


def test_a_loss_that_mixes_samples_is_not_stacked():
    def balanced(output, target):  # weights by how often a label is in the batch
        return F.cross_entropy(output, target, reduction="none") / torch.bincount(target, minlength=3)[target]

    x, y = rows_of(ZOO["mlp"], 8)
    assert not can_stack(FlatModel(flat.build(ZOO["mlp"].factory, {})), x, y, balanced)


class ByMatmul(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(0.1 * torch.randn(10, 64))

    def forward(self, x):
        return x @ self.w.T


class ByEinsum(ByMatmul):
    def forward(self, x):
        return torch.einsum("bi,oi->bo", x, self.w)


def test_digits_by_matmul_and_by_einsum_end_alike():
    data = load("digits", clients=20, seed=0)
    scores = []
    for factory in (ByMatmul, ByEinsum):
        with fh.simulate(factory, data, stacking=False, workers=0) as federation:
            federation.start(0, {}, seed=0)
            for _ in range(15):
                federation.round([Work(0, range(10), {"lr": 0.05, "momentum": 0.5}, {}, scores=())])
            [one] = federation.evaluate([0], federation.validation_clients)
        scores.append(np.average(one.accuracy, weights=one.size))
    assert scores[0] == pytest.approx(scores[1], abs=0.005)
    assert scores[0] > 0.5
