"""Fingerprints of code: what changes the answer is seen and named, what does not is left alone."""

import functools
import importlib
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch
from torch import nn

from fedhpo.core.fingerprint import code_of, differences
from fedhpo.engine.factory import GivenModel
from fedhpo.engine.fingerprint import model_of


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Writes a module of the user's own and imports it; each call is a new version of it."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def write(text, name="own_code"):
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(text))
        importlib.invalidate_caches()
        sys.modules.pop(name, None)
        return importlib.import_module(name)

    yield write
    for name in ("own_code", "own_helpers"):
        sys.modules.pop(name, None)


BASE = """
ALPHA = 0.5
def helper(x):
    return x * 2
def loss(output, target, power=2):
    '''A loss.'''
    return ALPHA * helper(output - target) ** power
"""


def changed(module, old, new, base=BASE, name="loss"):
    before = code_of(getattr(module(base), name))
    after = code_of(getattr(module(base.replace(old, new)), name))
    return differences({"loss": before}, {"loss": after})


def test_layout_comments_and_docstrings_do_not_count(module):
    assert changed(module, "'''A loss.'''", "'''Another\n    text.'''  # and why") == []
    assert changed(module, "def loss", "\n\n# moved down\ndef loss") == []
    assert changed(module, "return ALPHA *", "return  \\\n        ALPHA *") == []


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("** power", "** (power + 1)", "loss: `loss` has other code"),
        ("x * 2", "x * 3", "loss: `helper`, which `loss` uses, has other code"),
        ("ALPHA = 0.5", "ALPHA = 0.25", "loss: ALPHA of `loss` is 0.5 there, 0.25 here"),
        ("def helper", "def unused(): ...\ndef helper", None),
    ],
)
def test_the_function_what_it_calls_and_what_it_reads_count(module, old, new, found):
    assert changed(module, old, new) == ([] if found is None else [found])


def test_a_helper_in_another_module_of_the_users_counts(module):
    module("def scale(x):\n    return x\nUNUSED = 1\n", "own_helpers")
    text = "import own_helpers\ndef loss(o, t):\n    return own_helpers.scale(o - t)\n"
    before = code_of(module(text).loss)
    module("def scale(x):\n    return x\nUNUSED = 2\n", "own_helpers")
    assert differences({"": before}, {"": code_of(module(text).loss)}) == []
    module("def scale(x):\n    return 2 * x\n", "own_helpers")
    [found] = differences({"loss": before}, {"loss": code_of(module(text).loss)})
    assert found == "loss: `own_helpers.scale`, which `loss` uses, has other code"


def test_partials_defaults_and_closures_count():
    def made(alpha):
        return lambda o, t: alpha * (o - t)

    assert code_of(made(1)) == code_of(made(1))
    [found] = differences({"loss": code_of(made(1))}, {"loss": code_of(made(2))})
    assert found.startswith("loss: alpha of `")
    assert found.endswith("is 1 there, 2 here")
    weights = np.ones(3), np.zeros(3)
    assert code_of(made(weights[0])) != code_of(made(weights[1]))
    assert code_of(made(torch.ones(3))) != code_of(made(torch.ones(4)))
    assert code_of(made(torch.ones(3))) == code_of(made(torch.ones(3)))
    assert code_of(functools.partial(made, 1)) != code_of(functools.partial(made, alpha=1))
    [found] = differences(
        {"loss": code_of(functools.partial(int, base=2))}, {"loss": code_of(functools.partial(int, base=8))}
    )
    assert found == "loss: argument base of `partial of int` is 2 there, 8 here"


def test_lambdas_count_by_their_bytecode_wherever_they_stand():
    one = lambda o, t: o - t  # noqa: E731
    two = lambda a, b: a + b  # noqa: E731
    moved = (lambda o, t: o - t, 5)[0]
    assert code_of(one)["parts"]["code"] == code_of(moved)["parts"]["code"]
    assert code_of(one)["parts"]["code"] != code_of(two)["parts"]["code"]


def test_built_in_functions_and_libraries_count_by_name():
    assert code_of(nn.functional.cross_entropy)["parts"] == {"code": "torch.nn.functional.cross_entropy"}
    assert code_of(max) != code_of(min)
    assert code_of(np.sin) != code_of(np.cos)


class Focal:
    def __init__(self, gamma):
        self.gamma = gamma
        self.calls = 0

    def __call__(self, output, target):
        self.calls += 1
        return self.gamma * (output - target)


def test_objects_count_by_class_and_attributes_but_not_by_those_they_change():
    one = Focal(2)
    before = code_of(one)
    one(1, 1)
    assert code_of(one) == before
    [found] = differences({"loss": before}, {"loss": code_of(Focal(5))})
    assert found == "loss: attribute gamma of `Focal` is 2 there, 5 here"
    assert code_of(nn.CrossEntropyLoss()) != code_of(nn.CrossEntropyLoss(label_smoothing=0.1))
    weighted = [nn.CrossEntropyLoss(weight=w * torch.ones(3)) for w in (1, 1, 2)]
    assert code_of(weighted[0]) == code_of(weighted[1]) != code_of(weighted[2])
    bound = Focal(2).__call__, Focal(3).__call__
    assert code_of(bound[0]) != code_of(bound[1])


def test_what_a_function_changes_itself_does_not_count():
    log = []
    count = 0

    def train(model):
        nonlocal count
        count += 1
        log.append(model)

    before = code_of(train)
    train(1)
    assert code_of(train) == before


def test_without_source_the_bytecode_counts():
    def typed(text):
        names = {"__name__": "__main__"}
        exec(text, names)
        return names

    one = typed("def loss(o, t):\n    def inner(x):\n        return x + 1\n    return inner(o)")["loss"]
    same = typed("\n\ndef loss(o, t):\n    def inner(x):\n        return x + 1\n    return inner(o)")["loss"]
    other = typed("def loss(o, t):\n    def inner(x):\n        return x + 2\n    return inner(o)")["loss"]
    assert code_of(one) == code_of(same)
    assert differences({"loss": code_of(one)}, {"loss": code_of(other)}) == ["loss: `loss` has other code"]
    text = "from torch import nn\nclass Net(nn.Module):\n width = 3\n def forward(self, x):\n  return x"
    nets = [typed(text)["Net"], typed(text)["Net"], typed(text.replace("return x", "return -x"))["Net"]]
    assert code_of(nets[0]) == code_of(nets[1]) != code_of(nets[2])
    assert code_of(nets[0]) != code_of(typed(text.replace("3", "4"))["Net"])


def test_bytecode_of_another_python_is_not_compared():
    old = {"name": "f", "parts": {"code": "bytecode of Python 3.11 00"}}
    new = {"name": "f", "parts": {"code": "bytecode of Python 3.12 11"}}
    assert differences({"loss": old}, {"loss": new}) == []
    assert differences(
        {"loss": old}, {"loss": {"name": "f", "parts": {"code": "bytecode of Python 3.11 11"}}}
    )


def test_another_process_finds_the_same(tmp_path):
    text = """
    import json, torch
    from fedhpo.core.fingerprint import code_of
    NAMES = {"a", "b", "c"}
    class Net(torch.nn.Module):
        def forward(self, x):
            return x if x in {"p", "q", "r"} else NAMES
    def outer(values=frozenset("xyz")):
        return lambda x: (x in {"u", "v", "w"}, Net, values)
    print(json.dumps([code_of(Net), code_of(outer), code_of(outer())]))
    """
    (tmp_path / "own.py").write_text(textwrap.dedent(text))
    found = {
        subprocess.run(
            [sys.executable, tmp_path / "own.py"],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1


def net(width=4, bias=True):
    return nn.Sequential(nn.Flatten(), nn.Linear(6, width, bias=bias), nn.ReLU(), nn.Linear(width, 3))


def model_differences(one, two):
    return differences({"model": model_of(one, {})}, {"model": model_of(two, {})})


def test_a_difference_of_models_names_the_parameter():
    assert model_differences(net, net) == []
    wide = functools.partial(net, 5)
    found = model_differences(functools.partial(net, 4), wide)
    assert found[0] == "model: 1.weight is parameter (4, 6) float32 there, parameter (5, 6) float32 here"
    none = model_differences(functools.partial(net, 4), functools.partial(net, 4, bias=False))
    assert none[0] == "model: 1.bias is parameter (4) float32 there, missing here"


def test_frozen_layers_dropout_rates_and_first_weights_count():
    module = net()
    same, frozen, leaky = (net() for _ in range(3))
    for other in (same, frozen, leaky):
        other.load_state_dict(module.state_dict())
    frozen[1].weight.requires_grad_(False)
    leaky[2] = nn.LeakyReLU(0.3)
    assert model_differences(GivenModel(module), GivenModel(same)) == []
    [found] = model_differences(GivenModel(module), GivenModel(frozen))
    assert found.endswith("is parameter (4, 6) float32 there, frozen parameter (4, 6) float32 here")
    [found] = model_differences(GivenModel(module), GivenModel(leaky))
    assert found == "model: module 2 is ReLU() there, LeakyReLU(negative_slope=0.3) here"
    with torch.no_grad():
        same[3].bias[0] += 1e-6
    found = model_differences(GivenModel(module), GivenModel(same))
    assert "model: `3`, which `Sequential` uses, has other weights" in found


class Block(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale
        self.inner = nn.Linear(2, 2)

    def forward(self, x):
        return self.scale * self.inner(x)


def test_the_code_and_settings_of_inner_modules_count():
    torch.manual_seed(0)
    one = nn.Sequential(Block(1.0))
    two = nn.Sequential(Block(2.0))
    two.load_state_dict(one.state_dict())
    [found] = model_differences(GivenModel(one), GivenModel(two))
    assert found == "model: attribute scale of `0`, which `Sequential` uses is 1.0 there, 2.0 here"
    assert any(
        part.startswith("Block") or ": code" in part for part in model_of(lambda: one, {})["code"]["parts"]
    )


def test_a_model_that_cannot_be_built_is_told_when_it_starts():
    def broken():
        raise RuntimeError("no")

    assert model_of(broken, {}) == {"code": code_of(broken)}


def test_a_library_in_another_layer_counts_by_its_name(tmp_path, monkeypatch):
    """A directory that a .pth file or PYTHONPATH adds: libraries there are known by their metadata."""
    layer = tmp_path / "layer"
    (layer / "layered_library").mkdir(parents=True)
    code = "def used(x):\n    return x + 1\n"
    (layer / "layered_library" / "__init__.py").write_text(code)
    (layer / "own_beside.py").write_text(code)
    (layer / "layered_library-1.0.dist-info").mkdir()
    (layer / "layered_library-1.0.dist-info" / "RECORD").write_text("layered_library/__init__.py,,\n")
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "site-packages" / "unlisted_library.py").write_text(code)
    monkeypatch.syspath_prepend(layer)
    monkeypatch.syspath_prepend(tmp_path / "site-packages")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    names = ("layered_library", "own_beside", "unlisted_library")
    found = {name: code_of(importlib.import_module(name).used)["parts"]["code"] for name in names}
    for name in names:
        sys.modules.pop(name)
    assert found["layered_library"] == "layered_library.used"
    assert found["unlisted_library"] == "unlisted_library.used"
    assert found["own_beside"].startswith("source ")
