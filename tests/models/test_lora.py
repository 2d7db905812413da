"""LoRA against peft's arithmetic, and what it trains."""

import copy

import pytest
import torch
from torch import nn

import fedhpo as fh
from fedhpo.core.errors import InputError
from fedhpo.engine.frozen import Shapes
from fedhpo.protocol.federation import Work


def base():
    state = torch.random.get_rng_state()
    torch.manual_seed(5)
    made = nn.Sequential(nn.Linear(64, 16), nn.Tanh(), nn.Linear(16, 12), nn.Tanh(), nn.Linear(12, 10))
    torch.random.set_rng_state(state)
    return made


def test_equals_peft():
    """Same factors, same outputs and gradients."""
    peft = pytest.importorskip("peft")
    ours = fh.LoRA(base)(rank=4, alpha=6.0, targets="0,2")
    theirs = peft.get_peft_model(base(), peft.LoraConfig(r=4, lora_alpha=6, target_modules=["0", "2"]))
    with torch.no_grad():
        for name in ("0", "2"):
            up = torch.randn_like(ours.get_submodule(name).up)
            ours.get_submodule(name).up.copy_(up)
            layer = theirs.base_model.model.get_submodule(name)
            layer.lora_A["default"].weight.copy_(ours.get_submodule(name).down)
            layer.lora_B["default"].weight.copy_(up)
    x = torch.randn(7, 64)
    torch.testing.assert_close(ours(x), theirs(x))
    ours(x).square().sum().backward()
    theirs(x).square().sum().backward()
    for name in ("0", "2"):
        layer = theirs.base_model.model.get_submodule(name)
        torch.testing.assert_close(
            ours.get_submodule(name).down.grad, layer.lora_A["default"].weight.grad, rtol=1e-4, atol=1e-4
        )
        torch.testing.assert_close(
            ours.get_submodule(name).up.grad, layer.lora_B["default"].weight.grad, rtol=1e-4, atol=1e-4
        )
    assert all(p.grad is None for p in ours[4].parameters())


def test_a_fresh_adapter_changes_nothing():
    x = torch.randn(3, 64)
    torch.testing.assert_close(fh.LoRA(base)(rank=3)(x), base()(x))


@pytest.mark.parametrize(
    ("hyperparameters", "size"),
    [
        ({"rank": 2}, 2 * (64 + 16 + 16 + 12 + 12 + 10)),
        ({"rank": 2, "targets": "0"}, 2 * (64 + 16)),
        ({"rank": 2, "freeze_down": True}, 2 * (16 + 12 + 10)),
        ({"rank": 2, "targets": "0", "heads": "4"}, 2 * (64 + 16) + 12 * 10 + 10),
    ],
)
def test_what_is_trained_is_the_state(hyperparameters, size):
    """FFA leaves the first factors where they are: out of the state, alike in all trials."""
    shapes = Shapes(fh.LoRA(base))
    assert shapes.build(hyperparameters, seed=3).size == size


def test_alpha_may_be_tied_to_the_rank():
    for alpha, scale in (("2 * rank", 2.0), (8, 1.0), ("8 * sqrt(rank / 2)", 2.0)):
        assert fh.LoRA(base)(rank=8, alpha=alpha)[0].scale == scale
    for wrong in ("rank -", "__import__('os')", "rank ** 99", "ranks", "0 * rank", -1):
        with pytest.raises(InputError, match=r"model\.alpha"):
            fh.LoRA(base)(rank=8, alpha=wrong)


def test_unknown_targets_name_those_that_there_are():
    with pytest.raises(InputError, match="name ends with 'q_proj'; their last parts are 0, 2, 4"):
        fh.LoRA(base)(targets="q_proj")
    with pytest.raises(InputError, match="no module's name ends with 'score'"):
        fh.LoRA(base)(heads="score")


def test_a_given_base_is_left_alone():
    given = base()
    before = copy.deepcopy(given.state_dict())
    made = fh.LoRA(given)(rank=2)
    assert all(p.requires_grad for p in given.parameters())
    with torch.no_grad():
        made[0].up.add_(1)
    assert all(torch.equal(value, given.state_dict()[name]) for name, value in before.items())


def test_its_hyperparameters_are_tuned():
    data = fh.load("digits", clients=6)
    space = fh.Space(
        client={"lr": fh.Float(0.01, 1.0, log=True), "optimiser": "adamw"},
        model={
            "rank": fh.Choice([1, 2, 4]),
            "alpha": fh.Choice(["rank", "2 * rank"]),
            "dropout": fh.Choice([0.0, 0.1]),
            "targets": fh.Choice(["all", "0"]),
            "freeze_down": fh.Choice([False, True]),
        },
    )
    with fh.simulate(fh.LoRA(base()), data, workers=0) as federation:
        result = fh.tune(federation, space, "random", rounds=1, total=4, cohort=3)
    assert all(one["status"] == "finished" for one in result.trials)


def test_with_frozen_first_factors_averaging_is_exact():
    """The mean of the clients' maps is the map of the mean; with both factors trained it is not."""
    data = fh.load("digits", clients=4)
    for freeze, exact in ((True, True), (False, False)):
        model = fh.LoRA(base)
        config = {"rank": 2, "targets": "0", "freeze_down": freeze}
        client = {"lr": 0.5, "epochs": 3}
        with fh.simulate(lambda config=config, model=model: model(**config), data, workers=0) as federation:
            products = []
            for trial, cohort in enumerate(([0], [1], [0, 1])):
                federation.start(trial, {}, seed=0)
                federation.round([Work(trial, cohort, client)])
                layer = federation.model(trial)[0]
                products.append((layer.up @ layer.down).detach())
        sizes = data.train.sizes[:2]
        mean = (sizes[0] * products[0] + sizes[1] * products[1]) / sizes.sum()
        assert torch.allclose(mean, products[2], atol=1e-6) == exact


def test_targets_may_be_a_list():
    lists, texts = (Shapes(fh.LoRA(base)).build({"targets": t}).shapes for t in (["0", "2"], "0,2"))
    assert lists == texts
    with pytest.raises(InputError, match=r"model\.targets must be endings"):
        fh.LoRA(base)(targets=[0])
