"""Preflight: what cannot be trained is refused before round 1, with what to write instead."""

import random
import time
import warnings

import numpy as np
import pytest
import torch
from torch import nn

import fedhpo as fh
from fedhpo.core.run_errors import RunError
from fedhpo.engine.preflight import PreflightWarning
from fedhpo.engine.task import PreflightError
from fedhpo.run import open_read

SPACE = fh.Space(client={"lr": fh.Float(0.01, 1.0, log=True)})
RNG = np.random.default_rng(0)
X = [RNG.normal(size=(40, 64)).astype(np.float32) for _ in range(4)]
Y = [np.arange(40) % 10 for _ in X]
TOKENS = [RNG.integers(0, 120, (40, 7)) for _ in X]
TARGETS = [x[:, 0] * 0.5 for x in X]


def net(outputs=10, inputs=64):
    return lambda: nn.Sequential(nn.Linear(inputs, 8), nn.ReLU(), nn.Linear(8, outputs))


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(64, 10)
        self.embedding = nn.Embedding(100, 64)

    def forward(self, x):
        return self.out(x)


class Frozen(Base):
    def __init__(self):
        super().__init__()
        self.embedding.requires_grad_(False)


class GivesTuple(Frozen):
    def forward(self, x):
        return self.out(x), None


class GivesDict(Frozen):
    def forward(self, x):
        return {"scores": self.out(x)}


class Detached(Frozen):
    def forward(self, x):
        return self.out(x).detach()


class Raises(Frozen):
    def forward(self, x):
        raise ValueError("my own bug")


class WithMask(Frozen):
    def forward(self, x, mask):
        return self.out(x)


class Embeds(Base):
    def forward(self, x):
        return self.out(self.embedding(x).mean(1))


def raising(model, data, hyperparameters, generator):
    raise RuntimeError("broken training")


def three(model, data, hyperparameters):
    pass


def wants_steps(model, data, hyperparameters, generator):
    return hyperparameters["steps"]


def bad_loss(output, target):
    raise ValueError("loss bug")


REFUSED = {
    "output size": (net(5), Y, {}, r"5 outputs.*from 0 to 9(.|\n)*nn.Linear\(..., 10\)"),
    "input shape": (
        net(10, 784),
        Y,
        {},
        r"mat1 and mat2(.|\n)*layer '0': Linear(.|\n)*a row has shape \(64,\)",
    ),
    "labels 1..n": (net(), [y + 1 for y in Y], {}, r"from 1 to 10(.|\n)*write instead: y - 1"),
    "float labels": (net(), [y.astype(float) for y in Y], {}, r"float targets(.|\n)*y.astype\('int64'\)"),
    "regression, accuracy": (net(1), TARGETS, {}, r"accuracy is not defined(.|\n)*objective='loss'"),
    "mean squared error": (net(1), TARGETS, {"loss": nn.MSELoss(), "metric": "loss"}, r"reduction='none'"),
    "spread loss": (
        net(1),
        TARGETS,
        {"loss": nn.MSELoss(reduction="none"), "metric": "loss"},
        r"all with all(.|\n)*flatten\(\)",
    ),
    "weighted cross-entropy": (
        net(),
        Y,
        {"loss": nn.CrossEntropyLoss(weight=torch.ones(10))},
        r"one number for the whole batch(.|\n)*nn.CrossEntropyLoss\(weight=..., reduction='none'\)",
    ),
    "own loss": (
        net(),
        Y,
        {"loss": bad_loss},
        r"ValueError: loss bug \(.*:\d+, in bad_loss\)",
    ),
    "tuple": (GivesTuple, Y, {}, r"a tuple of \(tensor \(32, 10\), NoneType\)(.|\n)*output\[0\]"),
    "dict": (GivesDict, Y, {}, r"a dict with 'scores'(.|\n)*output\['scores'\]"),
    "detached": (Detached, Y, {}, r"no gradient(.|\n)*detach"),
    "forward": (
        Raises,
        Y,
        {},
        r"forward raises(.|\n)*my own bug \(.*:\d+, in forward\)",
    ),
    "mask": (WithMask, Y, {}, r"missing 1 required(.|\n)*forward\(self, x\)"),
    "one output": (net(1), [y % 2 for y in Y], {}, r"always be class 0(.|\n)*nn.Linear\(..., 2\)"),
    "frozen": (lambda: nn.Linear(64, 10).requires_grad_(False), Y, {}, "no parameter that is trained"),
    "train raises": (net(), Y, {"train": raising}, r"RuntimeError: broken training \(.*:\d+, in raising\)"),
    "signature": (
        net(),
        Y,
        {"train": three},
        r"four arguments(.|\n)*def train\(model, data",
    ),
    "hyperparameter": (net(), Y, {"train": wants_steps}, r"KeyError: 'steps'(.|\n)*scope client: 'lr'"),
}


def tune(model, data, metric="accuracy", run=None, space=SPACE, workers=0, **settings):
    with fh.simulate(model, data, workers=workers, **settings) as federation:
        return fh.tune(federation, space, "random", rounds=2, total=4, cohort=3, objective=metric, run=run)


@pytest.mark.parametrize("case", REFUSED)
def test_refused_with_what_to_write(case, tmp_path):
    model, labels, settings, words = REFUSED[case]
    with pytest.raises(PreflightError, match=words):
        tune(model, list(zip(X, labels, strict=True)), run=tmp_path / "run", **settings)
    assert not (tmp_path / "run").exists()  # the name is free for the run that is put right


def test_tokens_out_of_range_are_found_whoever_holds_them():
    tokens = [t % 100 for t in TOKENS]
    tokens[2][39, 3] = 119
    with pytest.raises(PreflightError, match=r"nn.Embedding\(120, ...\).*x holds tokens 0 to 119"):
        tune(Embeds, list(zip(tokens, Y, strict=True)))


def test_integers_for_a_linear_layer_are_taken_for_tokens():
    rows = [(x * 10).astype(int) for x in X]
    with pytest.raises(PreflightError, match=r"x.astype\('float32'\)"):
        tune(net(), list(zip(rows, Y, strict=True)))


def test_a_label_of_another_client_is_found():
    labels = [y.copy() for y in Y]
    labels[3][5] = 10
    with pytest.raises(PreflightError, match=r"1 rows of 1 clients, such as client 3"):
        tune(net(), list(zip(X, labels, strict=True)))


def test_a_parameter_without_gradient_is_a_warning():
    with pytest.warns(PreflightWarning, match=r"embedding.weight got no gradient.*requires_grad_\(False\)"):
        assert tune(Base, list(zip(X, Y, strict=True))).status == "finished"


def test_batch_norm_and_last_batches_of_one_row():
    model = lambda: nn.Sequential(nn.Linear(64, 8), nn.BatchNorm1d(8), nn.Linear(8, 10))  # noqa: E731
    space = fh.Space(client={"lr": 0.1, "batch_size": 31})  # 32 training rows a client
    with pytest.raises(PreflightError, match=r"last batch of 4 of 4 training clients(.|\n)*nn.GroupNorm"):
        tune(model, list(zip(X, Y, strict=True)), space=space)


def test_a_training_that_changes_nothing_is_a_warning():
    with pytest.warns(PreflightWarning, match=r"left the model as it was \(it returned Sequential"):
        tune(net(), list(zip(X, Y, strict=True)), train=lambda model, *_: model)


def test_one_client_that_fails_is_its_own_affair():
    def train(model, data, hyperparameters, generator):
        if data.client == 0:
            raise ValueError("not here")
        next(model.parameters()).data.add_(0.1)

    with pytest.warns(PreflightWarning, match=r"client 0 fails, another does not(.|\n)*not here"):
        result = tune(net(), list(zip(X, Y, strict=True)), train=train)
    assert {row["client"] for row in result.failures} == {0}


@pytest.mark.filterwarnings("error::fedhpo.engine.preflight.PreflightWarning")
@pytest.mark.parametrize("stacking", [True, False])
def test_it_leaves_no_trace(monkeypatch, stacking):
    """The same result with and without it, and the same random numbers afterwards."""
    data = fh.load("digits", clients=5)
    drops = lambda: nn.Sequential(nn.Linear(64, 16), nn.Dropout(0.3), nn.Linear(16, 10))  # noqa: E731

    def after():
        torch.manual_seed(1)
        np.random.seed(1)  # noqa: NPY002
        random.seed(1)
        results = [tune(model, data, stacking=stacking).facts for model in ("mlp", drops)]
        for facts in results:
            del facts["times"]
        return results, torch.rand(1).item(), np.random.rand(), random.random()  # noqa: NPY002

    found = after()
    threads = torch.get_num_threads()
    monkeypatch.setattr(fh.federations.simulated.SimulatedFederation, "preflight", lambda *_: None)
    assert after() == found
    assert torch.get_num_threads() == threads


def test_it_is_quick_and_not_run_again(tmp_path, monkeypatch):
    data = fh.load("digits", clients=50)
    with fh.simulate("mlp", data, workers=0) as federation:
        took = []
        for _ in range(5):
            begun = time.process_time()
            federation.preflight(SPACE.default(), "accuracy")
            took.append(time.process_time() - begun)
    assert min(took) < 0.2
    first = tune("mlp", data, run=tmp_path / "run")
    monkeypatch.setattr(
        fh.federations.simulated.SimulatedFederation, "preflight", lambda *_: pytest.fail("was run again")
    )
    assert tune("mlp", data, run=tmp_path / "run").facts["trials"] == first.facts["trials"]
    with open_read(tmp_path / "run") as run:
        assert run.record.spent()["rounds"] == 4


def test_learners_are_asked_for_names_and_metric():
    rows = list(zip(X, TARGETS, strict=True))
    federation = fh.LearnerFederation(rows, "sklearn.linear_model:Ridge", scoring="r2", workers=0)
    space = fh.Space(client={"alpha": fh.Float(0.1, 1.0)})
    with pytest.raises(PreflightError, match="accuracy is not defined for float targets"):
        fh.tune(federation, space, "random", rounds=1, total=2, cohort=4, objective="accuracy")
    with warnings.catch_warnings():
        warnings.simplefilter("error", PreflightWarning)
        result = fh.tune(federation, space, "random", rounds=1, total=2, cohort=4, objective="loss")
    assert result.status == "finished"


def test_the_record_cannot_be_read_and_the_run_says_so(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "record.sqlite").write_bytes(b"not a record" * 100)
    with pytest.raises(RunError):
        tune("linear", fh.load("digits", clients=5), run=tmp_path / "run")
