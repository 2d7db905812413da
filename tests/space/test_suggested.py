"""Ranges by name, and what is said of values at the ends of theirs."""

import pytest

import fedhpo as fh
from fedhpo.core.errors import InputError
from fedhpo.engine.hyperparameters import Local
from fedhpo.space.suggested import SUGGESTED
from fedhpo.study import Study

BASE = {
    "data": {"name": "digits", "clients": 10},
    "model": {"name": "mlp"},
    "budget": {"rounds": 2, "total": 4},
}


def study(space, **tables):
    return Study.from_dict({**BASE, "space": space, **tables})


@pytest.mark.parametrize("name", sorted(SUGGESTED))
def test_every_suggestion_can_be_tuned_by_what_it_is_for(name):
    model = (
        {"name": name} if name in ("hgb", "svm", "xgboost", "mlp_sklearn", "lightgbm", "catboost") else None
    )
    if name == "lora":
        made = fh.Space.suggested(name)
        assert Local(**made.default().client).optimiser == "adamw"
        assert made.default().model == {"rank": 8, "alpha": "2 * rank"}
    elif model:
        if name in ("lightgbm", "catboost"):
            pytest.importorskip(name)
        one, data = {"rounds": 1, "total": 4}, {"name": "synthetic", "clients": 3}
        found = [study(space, model=model, budget=one, data=data).space for space in ({"use": name}, {})]
        assert found[0] == found[1] == fh.Space.suggested(name)  # the learner's own
    else:
        assert study({"use": name}).space == fh.Space.suggested(name)


def test_the_study_replaces_what_it_says_itself():
    lr = {"low": 0.01, "high": 0.5}
    made = study(
        {"use": ["sgd", "fedprox"], "client": {"lr": lr, "epochs": 1}}, client={"momentum": 0.5}
    ).space
    assert made.hyperparameters["client.lr"] == fh.Float(0.01, 0.5)
    assert made.fixed == {"client.epochs": 1, "client.momentum": 0.5}
    assert set(made.names) == {f"client.{key}" for key in ("batch_size", "lr", "prox", "weight_decay")} | {
        "server.lr"
    }


def test_what_is_run_and_recorded_is_written_out(tmp_path):
    found = study({"use": "adamw"}, method={"name": "random"})
    assert "use" not in found.to_dict()["space"]  # so that a resumed run has the ranges it began with
    result = found.tune(tmp_path / "run", workers=0)
    assert 1e-4 <= result.best_config.client["lr"] <= 1e-2
    assert result.best_config.client["optimiser"] == "adamw"


@pytest.mark.parametrize(
    ("use", "said"),
    [("sdg", "did you mean 'sgd'"), ([], "must be a name"), (3, "must be a name"), ([3], "a name")],
)
def test_wrong_names_are_refused_with_their_key(use, said):
    with pytest.raises(InputError, match=f"space.use.*{said}"):
        study({"use": use})


def test_python():
    made = fh.Space.suggested("sgd", without=["client.epochs"], client={"batch_size": 16})
    assert made.fixed == {"client.batch_size": 16}
    assert "client.epochs" not in made.names
    with pytest.raises(InputError, match=r"did you mean 'client.epochs'"):
        fh.Space.suggested("sgd", without=["client.epoch"])
    with pytest.raises(InputError, match="scope"):
        fh.Space.suggested("sgd", clients={})


SPACE = fh.Space(
    client={
        "lr": fh.Float(1e-4, 1.0, log=True),
        "momentum": fh.Float(0.0, 0.9),
        "epochs": fh.Int(1, 5),
        "batch_size": fh.Ordinal([8, 16, 32]),
        "pair": fh.Ordinal([1, 2]),
        "optimiser": fh.Choice(["sgd", "adamw"]),
    }
)


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"lr": 0.99}, ["client.lr = 0.99 lies at the upper end of its range (0.0001 to 1)"]),
        ({"lr": 1.1e-4}, ["client.lr = 0.00011 lies at the lower end"]),
        ({"lr": 0.5}, []),  # 8% of the range, in its scale, from the end
        ({"momentum": 0.0, "epochs": 1}, []),  # limits, not bounds of a user's choice
        ({"momentum": 0.9, "epochs": 5}, ["client.epochs = 5", "client.momentum = 0.9"]),
        ({"batch_size": 8}, ["client.batch_size = 8 lies at the lower end of its range (8 to 32)"]),
        ({"pair": 2, "optimiser": "adamw"}, []),
    ],
)
def test_values_at_an_end_are_named(values, named):
    usual = {"lr": 0.01, "momentum": 0.5, "epochs": 2, "batch_size": 16, "pair": 1, "optimiser": "sgd"}
    found = SPACE.at_bounds(SPACE.complete({"client": {**usual, **values}}))
    assert len(found) == len(named)
    assert all(said.startswith(start) for said, start in zip(found, named, strict=True))


def test_the_run_says_so(tmp_path):
    space = fh.Space(client={"lr": fh.Float(1e-5, 1e-3, log=True, default=1e-3)})
    federation = fh.simulate("mlp", fh.load("digits", clients=5), workers=0)
    result = fh.tune(federation, space, "random", rounds=2, total=2, run=tmp_path / "run", seed=0)
    [said] = result.facts["bounds"]
    assert said.startswith("client.lr = 0.001 lies at the upper end of its range (1e-05 to 0.001): a wider")
    assert "note: client.lr = 0.001 lies at the upper end" in str(result)
    fh.write_report([tmp_path / "run"], tmp_path / "run" / "report.html")
    assert "lies at the upper end of its range" in (tmp_path / "run" / "report.html").read_text()
