"""`[client]`: fixed hyperparameters of local training, and which of them count."""

import pytest

import fedhpo as fh
from fedhpo.core.errors import InputError
from fedhpo.study import Study

STUDY = {
    "data": {"name": "digits", "clients": 8},
    "model": {"name": "mlp"},
    "space": {"client": {"lr": {"low": 1e-4, "high": 1e-1, "log": True}}},
    "method": {"name": "random", "trials": 2},
    "budget": {"rounds": 4, "total": 8, "cohort": 3},
}


def study(client=None, space=None, **sections):
    given = STUDY | sections
    if client is not None:
        given["client"] = client
    return Study.from_dict(given | ({} if space is None else {"space": {"client": space}}))


def test_what_stands_in_client_is_fixed_in_every_config():
    client = {
        "optimiser": "adamw",
        "weight_decay": 0.01,
        "max_grad_norm": 1.0,
        "lr_schedule": "cosine",
        "warmup": 1,
    }
    one = study(client | {"max_steps": 5, "batch_size": 8})
    assert {key: one.space.default().client[key] for key in client} == client
    with one.federation(workers=0) as federation:
        result = one.tune(federation=federation)
    same = study(space=STUDY["space"]["client"] | client | {"max_steps": 5, "batch_size": 8})
    with same.federation(workers=0) as federation:
        again = same.tune(federation=federation)
    assert list(result.trials) == list(again.trials)


@pytest.mark.parametrize(
    ("client", "message"),
    [
        ({"optimiser": "lion"}, "client.optimiser"),
        ({"optimiser": "adamw", "lr": 0.1}, r"client.lr is fixed here and also in space.client.lr"),
        ({"optimizer": "adamw"}, "unknown key 'optimizer'"),
        ({"lr_schedule": "linear"}, "lr_schedule"),
        ({"max_steps": "ten"}, "client.max_steps"),
        ({"train": "math:sqrt", "optimiser": "adamw"}, "client.optimiser = 'adamw': has no effect"),
    ],
)
def test_what_cannot_be_is_refused(client, message):
    with pytest.raises(InputError, match=message):
        study(client)


@pytest.mark.parametrize(
    ("client", "message"),
    [
        ({"momentum": 0.9, "optimiser": "adamw"}, "momentum: counts only where optimiser = 'sgd'"),
        ({"beta1": 0.8}, "beta1: counts only where optimiser is 'adam' or 'adamw'"),
        ({"epochs": 2, "max_steps": 5}, "epochs: counts only where max_steps is left out"),
        ({"lr_min": 0.1}, "lr_min: counts only where lr_schedule = 'cosine'"),
        ({"lr_schedule": "cosine", "lr_step": 3}, "lr_step: counts only where lr_schedule = 'step'"),
    ],
)
def test_what_does_not_count_is_refused_before_training(client, message):
    with pytest.raises(InputError, match=message):
        study(client).tune()
    space = fh.Space(client={"lr": fh.Float(0.1, 1.0), **client})
    with pytest.raises(InputError, match=message):
        fh.tune(fh.simulate("mlp", fh.load("digits", clients=5), workers=0), space, rounds=1, total=2)


def test_what_counts_beside_a_choice_may_be_tuned():
    space = {
        "lr": {"low": 0.01, "high": 0.1},
        "optimiser": {"choices": ["sgd", "adamw"]},
        "momentum": {"low": 0.0, "high": 0.9, "when": {"client.optimiser": "sgd"}},
        "beta1": {"low": 0.8, "high": 0.95, "when": {"client.optimiser": "adamw"}},
        "label_smoothing": {"choices": [0.0, 0.1]},
        "warmup": {"choices": [0, 1]},
        "max_grad_norm": {"low": 0.5, "high": 2.0},
        "accumulate": {"choices": [1, 2]},
        "lr_schedule": {"choices": ["constant", "cosine", "step"]},
    }
    one = study(
        space=space, method={"name": "random", "trials": 6}, budget={"rounds": 1, "total": 6, "cohort": 3}
    )
    with one.federation(workers=0) as federation:
        result = one.tune(federation=federation)
    assert all(trial["status"] == "finished" for trial in result.trials)


def test_learners_do_not_take_them():
    with pytest.raises(InputError, match="has no effect"):
        study({"optimiser": "adamw"}, {}, model={"name": "hgb"}, data={"name": "cancer", "clients": 3})
