"""Clients that train in their own way have hyperparameters of their own names and types."""

import numpy as np
import pytest
import torch
from flwr.clientapp import ClientApp

import fedhpo as fh
from fedhpo.core.errors import InputError
from fedhpo.flower import Arrays, FlowerFederation, InProcessGrid, Scored, Trained, client
from fedhpo.study import Study

SEEN = []


def train(model, data, hyperparameters, generator):
    """A user's own training: signs of gradients, for some steps."""
    SEEN.append(dict(hyperparameters))
    for _ in range(hyperparameters["local_epochs"]):
        loss = torch.nn.functional.cross_entropy(model(data.x), data.y)
        gradients = torch.autograd.grad(loss, list(model.parameters()))
        with torch.no_grad():
            for p, g in zip(model.parameters(), gradients, strict=True):
                p -= hyperparameters["adam.lr"] * (g.sign() if hyperparameters["signs"] else g)


TABLES = {
    "data": {"name": "digits", "clients": 4},
    "model": {"name": "linear"},
    "client": {"train": f"{__name__}:train"},
    "space": {
        "client": {
            "local_epochs": {"low": 1, "high": 3},
            "adam": {"lr": {"low": 0.001, "high": 0.1, "log": True}},
            "signs": {"choices": [True, False]},
            "note": {"choices": ["a", "b"]},
        }
    },
    "method": {"name": "random", "trials": 2},
    "budget": {"rounds": 1, "total": 2, "cohort": 2},
}


def test_a_study_with_its_own_training_tunes_its_own_names():
    SEEN.clear()
    result = Study.from_dict(TABLES).tune(workers=0)
    assert {tuple(sorted(config)) for config in SEEN} == {("adam.lr", "local_epochs", "note", "signs")}
    assert {type(config[name]) for config in SEEN for name in ("signs", "note", "adam.lr")} == {
        bool,
        str,
        float,
    }
    assert result.facts["status"] == "finished"
    assert set(result.best_config.client) == {"adam.lr", "local_epochs", "note", "signs"}


def test_declared_names_are_the_only_ones():
    tables = {**TABLES, "client": {**TABLES["client"], "hyperparameters": ["local_epochs", "adam.lr"]}}
    with pytest.raises(InputError, match=r"space\.client\.note: unknown hyperparameter of the clients' own"):
        Study.from_dict(tables)


def test_without_a_word_names_are_those_of_our_training_and_the_error_says_what_to_write():
    with pytest.raises(InputError, match=r"local_epochs.*did you mean 'epochs'.*open = true in \[client\]"):
        Study.from_dict(
            {**TABLES, "client": {}, "space": {"client": {"local_epochs": {"low": 1, "high": 3}}}}
        )


def test_open_and_a_list_of_names_contradict_each_other():
    with pytest.raises(
        InputError, match=r"client\.open = true: counts only where hyperparameters is left out"
    ):
        Study.from_dict({**TABLES, "client": {"open": True, "hyperparameters": ["a"]}})


def test_a_training_that_is_not_there_is_an_error():
    with pytest.raises(InputError, match=r"client\.train = 'math:tarin'"):
        Study.from_dict({**TABLES, "client": {"train": "math:tarin"}}).federation(0)


def own_app(**options):
    def own_train(arrays, task, context):
        step = task.config["local_epochs"] * (0.1 if task.config["kind"] == "slow" else 1)
        return Trained({"w": arrays["w"] + np.float32(step)}, train_size=5)

    def evaluate(arrays, task, context):
        return Scored(5, loss=float((arrays["w"] - 2) ** 2), accuracy=0.5)

    return client(ClientApp(), train=own_train, evaluate=evaluate, **options)


def flower_study(**client_section):
    return Study.from_dict(
        {
            "data": {"name": "digits"},
            "model": {"name": "mlp"},
            "client": client_section,
            "space": {
                "client": {"local_epochs": {"low": 1, "high": 4}, "kind": {"choices": ["slow", "fast"]}}
            },
            "objective": {"metric": "loss"},
            "method": {"name": "random", "trials": 6},
            "budget": {"rounds": 1, "total": 6, "cohort": 2},
        }
    )


def federation(app):
    return FlowerFederation(InProcessGrid(app, 2), Arrays(lambda seed: {"w": np.zeros(())}), clients=2)


def test_free_names_over_flower():
    names = ["local_epochs", "kind"]
    result = flower_study(open=True).tune(federation=federation(own_app(hyperparameters=names)))
    assert set(result.best_config.client) == set(names)
    assert len({row["client.local_epochs"] for row in result.trials}) > 1
    assert {row["client.kind"] for row in result.trials} == {"slow", "fast"}


def test_a_name_that_flower_clients_did_not_declare_is_refused_at_the_start():
    app = own_app(hyperparameters=["local_epochs", "lr"])
    with pytest.raises(InputError, match=r"hyperparameter of the clients' own training 'kind'"):
        flower_study(open=True).tune(federation=federation(app))


def test_names_with_dots_in_python():
    space = fh.Space(client={"params.eta": fh.Float(0.1, 1.0), "params.depth": 3})
    config = space.sample(np.random.default_rng(0))
    assert set(config.client) == {"params.eta", "params.depth"}
    assert fh.Space.from_dict(space.to_dict()).names == ("client.params.eta",)
    assert space.complete({"client.params.eta": 0.5}).client["params.eta"] == 0.5
