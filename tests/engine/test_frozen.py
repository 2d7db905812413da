"""Frozen tensors that all trials share: outside of vectors, messages, costs and checkpoints."""

import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import fedhpo as fh
from fedhpo.core.errors import InputError
from fedhpo.engine.executor import Executor, Setup
from fedhpo.engine.fingerprint import model_of
from fedhpo.engine.flat import FlatModel, shape_key
from fedhpo.engine.frozen import Shapes, frozen_digests
from fedhpo.protocol.federation import Status, Work

BASE = torch.randn(64, 16, generator=torch.Generator().manual_seed(3))


class Adapted(nn.Module):
    """A frozen map with a low-rank change of it and a head, as LoRA has it."""

    def __init__(self, rank=2, dtype=torch.float32, base=BASE):
        super().__init__()
        self.base = nn.Parameter(base.T.to(dtype), requires_grad=False)
        self.down = nn.Parameter(0.1 * torch.randn(rank, 64))
        self.up = nn.Parameter(torch.zeros(16, rank))
        self.head = nn.Linear(16, 10)
        self.register_buffer("places", torch.arange(16) / 16, persistent=False)

    def forward(self, x):
        kept = F.linear(x.to(self.base.dtype), self.base).float()
        return self.head(torch.tanh(kept + x @ self.down.T @ self.up.T + self.places))


class Drawn(Adapted):
    """The same with a base that every build draws anew."""

    def __init__(self):
        super().__init__(base=torch.randn(64, 16))


def adapter_size(rank):
    return rank * 64 + 16 * rank + 16 * 10 + 10


@pytest.fixture(scope="module")
def digits():
    return fh.load("digits", clients=6)


def after_rounds(model, data, workers=0, rounds=2, client=None, **options):
    """The modules of two trials after a few rounds, and the last reports."""
    with fh.simulate(model, data, workers=workers, **options) as federation:
        for trial in range(2):
            federation.start(trial, {}, seed=trial)
        for _ in range(rounds):
            works = [Work(trial=t, cohort=[0, 1, 2], client=client or {"lr": 0.2}) for t in range(2)]
            reports = federation.round(works)
        assert all((report.status == Status.OK).all() for report in reports), reports[0].reasons
        return [federation.model(trial) for trial in range(2)], reports, federation.state(0)


def test_state_and_costs_are_those_of_what_is_trained(digits):
    modules, reports, state = after_rounds(Adapted, digits)
    assert state.arrays["weights"].nbytes == 4 * adapter_size(2)
    assert reports[0].cost.bytes_up == reports[0].cost.bytes_down == 3 * 4 * adapter_size(2)
    assert all(torch.equal(module.base, BASE.T) for module in modules)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_training_equals_a_hand_written_federated_average(digits, dtype):
    """Three clients, one step of SGD each over all their rows, twice, averaged by size."""

    def model():
        return Adapted(dtype=dtype)

    [found, _], _, _ = after_rounds(model, digits, client={"lr": 0.2, "batch_size": 10_000})
    federation = fh.simulate(model, digits, workers=0)
    federation.start(0, {}, seed=0)
    module = federation.model(0)
    for _ in range(2):
        total, weight = {}, 0
        for client in range(3):
            own = copy.deepcopy(module)
            rows = digits.train.rows(client)
            x = torch.from_numpy((digits.x[rows] - (digits.mean or 0)) / (digits.std or 1)).float()
            F.cross_entropy(own(x), torch.from_numpy(digits.y[rows]).long()).backward()
            for name, p in own.named_parameters():
                if p.grad is not None:
                    total[name] = total.get(name, 0) - 0.2 * len(rows) * p.grad
            weight += len(rows)
        with torch.no_grad():
            for name, p in module.named_parameters():
                p += total.get(name, torch.zeros(())) / weight if p.requires_grad else 0
    for name, value in found.state_dict().items():
        torch.testing.assert_close(value, module.state_dict()[name], rtol=1e-4, atol=1e-5)
    assert found.base.dtype == dtype


def test_results_are_the_same_in_processes_and_for_a_given_module(digits):
    torch.manual_seed(0)
    given = Adapted()
    here, _, _ = after_rounds(given, digits)
    there, _, _ = after_rounds(given, digits, workers=2)
    for own, other in zip(here, there, strict=True):
        for name, value in own.state_dict().items():
            assert torch.equal(value, other.state_dict()[name])


def test_frozen_weights_that_each_trial_draws_stay_in_its_state(digits):
    with pytest.warns(UserWarning, match="1,024 frozen numbers of the model are drawn anew by every build"):
        modules, reports, state = after_rounds(Drawn, digits)
    size = adapter_size(2) + 64 * 16
    assert state.arrays["weights"].size == size
    assert reports[0].cost.bytes_up == 3 * 4 * size
    assert not torch.equal(modules[0].base, modules[1].base)
    assert set(frozen_digests(Drawn, {})) == {"places"}


def test_drawn_weights_of_another_type_are_refused_with_the_reason(digits):
    federation = fh.simulate(lambda: Adapted(dtype=torch.bfloat16, base=torch.randn(64, 16)), digits)
    with pytest.raises(InputError, match=r"base is frozen, torch\.bfloat16, and drawn anew by every build"):
        federation.start(0, {}, 0)


def test_a_builder_that_changes_its_frozen_weights_between_trials_is_refused():
    shapes = Shapes(lambda: Adapted(base=BASE if torch.initial_seed() < 10 else BASE + 1))
    shapes.build({})
    with pytest.raises(InputError, match="gave it other numbers than before"):
        shapes.build({}, seed=11)


def test_all_shapes_of_a_worker_share_one_base(digits):
    executor = Executor(Setup(Adapted, digits))
    models = [executor.model(shape_key({"rank": rank})).model for rank in (1, 2, 4)]
    assert len({model.module.base.data_ptr() for model in models}) == 1
    assert [model.size for model in models] == [adapter_size(rank) for rank in (1, 2, 4)]


def test_the_model_that_is_handed_out_has_memory_of_its_own(digits):
    with fh.simulate(Adapted, digits, workers=0) as federation:
        federation.start(0, {}, 0)
        before = federation.evaluate([0], [0])[0].loss
        module = federation.model(0)
        with torch.no_grad():
            module.base.zero_()
        assert federation.evaluate([0], [0])[0].loss == before
        assert torch.equal(federation.model(0).base, BASE.T)


@pytest.mark.parametrize("how", ["step", "swap", "unfreeze"])
def test_own_training_that_changes_frozen_weights_is_refused(digits, how):
    def train(model, data, hyperparameters, generator):
        with torch.no_grad():
            model.head.bias += 1
            if how == "step":
                model.base += 0.1
            elif how == "swap":
                model.base.data = model.base.data + 1
            else:
                model.base.requires_grad_(True)

    with fh.simulate(Adapted, digits, workers=0, train=train) as federation:
        federation.start(0, {}, 0)
        [report] = federation.round([Work(trial=0, cohort=[0, 1], client={})])
        assert not report.applied
        assert "training changed the model's base, which was frozen" in str(report.reasons[0])
        assert "changed the model's base" in str(report.reasons[1])
    space = fh.Space(client={"lr": fh.Float(0.1, 1.0)})
    with pytest.raises(InputError, match="training changed the model's base"):
        fh.tune(fh.simulate(Adapted, digits, workers=0, train=train), space, rounds=1, total=1)


def test_trainable_parameters_must_be_float32():
    with pytest.raises(InputError, match=r"is torch\.bfloat16.*frozen parameters may have any type"):
        Shapes(lambda: Adapted(dtype=torch.bfloat16).bfloat16()).build({})


def test_the_fingerprint_tells_other_frozen_weights():
    first, other = (model_of(lambda b=b: Adapted(base=b), {})["frozen"] for b in (BASE, BASE + 1e-6))
    assert first != other
    assert "frozen" not in model_of(lambda: nn.Linear(3, 2), {})


def test_statistics_of_a_frozen_layer_still_travel(digits):
    """In training BatchNorm moves its statistics, frozen or not, as in PyTorch."""

    def model():
        torch.manual_seed(0)
        module = nn.Sequential(nn.Linear(64, 8), nn.BatchNorm1d(8), nn.Linear(8, 10))
        for p in module[:2].parameters():
            p.requires_grad_(False)
        return module

    with pytest.warns(UserWarning, match="BatchNorm"):
        [module, _], _, state = after_rounds(model, digits)
    assert state.arrays["weights"].size == 8 * 10 + 10 + 2 * 8
    assert not torch.equal(module[1].running_mean, torch.zeros(8))


def test_a_vector_without_outside_tensors_is_as_before():
    model = Adapted()
    whole = FlatModel(model)
    assert whole.size == adapter_size(2) + 64 * 16 + 16
    assert np.array_equal(whole.vector()[-1024 - 16 : -16].reshape(16, 64), BASE.T.numpy())
