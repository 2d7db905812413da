"""A study with its keys in another order is the same study: the same search, bit for bit."""

import datetime
import json
import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from order_cases import SMALL, SPACE, as_toml, shuffled, study_of

import fedhpo as fh
from fedhpo.core.canonical import canonical
from fedhpo.core.errors import InputError
from fedhpo.methods import Tuner
from fedhpo.research.tables import table_configs
from fedhpo.samplers import Grid, OptunaSampler
from fedhpo.schedules import FixedLength
from fedhpo.study import Study
from fedhpo.study.plain import plain
from fedhpo.testing import ToyFederation

#: Conditions with two parents, fixed values, all scopes: names in no alphabetical order.
CONDITIONAL: dict[str, Any] = {
    "model": {"width": {"low": 1, "high": 9}, "kind": {"choices": ["b", "a"]}},
    "client": {
        "z": {"low": 0.1, "high": 1.0, "when": {"server.s": ["y"], "model.kind": ["a", "b"]}},
        "lr": {"low": 0.01, "high": 1.0, "log": True},
        "epochs": 2,
        "a": {"low": 0.1, "high": 1.0, "when": {"client.z": [0.1], "model.width": [1, 2, 3]}},
    },
    "server": {"s": {"choices": ["y", "x"]}, "momentum": 0.5, "lr": {"low": 0.1, "high": 2.0}},
}


def facts(study: Study) -> str:
    """What result.json would hold but for times, as text: the order of keys in it counts too."""
    return json.dumps({name: fact for name, fact in study.tune(workers=0).facts.items() if name != "times"})


@pytest.mark.parametrize("method", SMALL)
def test_keys_in_any_order_are_the_same_search(method: str) -> None:
    given, rng = study_of(method), random.Random(0)
    if method == "flora":
        given["method"]["refine"] = 1
    else:
        given["evaluation"] = {"paired": True, "clients": 4}
    other = shuffled(given, rng)
    assert list(other["space"]["client"]) != list(given["space"]["client"])
    assert facts(Study.from_dict(given)) == facts(Study.from_dict(other))


def test_a_study_from_a_file_and_from_its_record_are_equal(tmp_path: Path) -> None:
    for number, method in enumerate(SMALL):
        file = tmp_path / f"{method}.toml"
        file.write_text(as_toml(shuffled(study_of(method), random.Random(number))))
        study = Study.load(file)
        again = Study.from_dict(json.loads(canonical(study.to_dict())))
        assert json.dumps(again.given) == json.dumps(study.given)
        assert (again.space, again.method.to_dict()) == (study.space, study.method.to_dict())


@pytest.mark.parametrize("tables", [SPACE, CONDITIONAL], ids=["readme", "conditional"])
def test_a_space_has_one_order(tables: dict[str, Any]) -> None:
    space = fh.Space.from_dict(tables)
    scopes = ("client", "server", "model", "policy")
    assert list(space.names) == sorted(space.names, key=lambda name: (scopes.index(name.split(".")[0]), name))
    drawn = [space.sample(np.random.default_rng(seed)) for seed in range(20)]
    for seed in range(20):
        other = fh.Space.from_dict(shuffled(tables, random.Random(seed)))
        assert (other, hash(other), repr(other)) == (space, hash(space), repr(space))
        assert json.dumps(other.to_dict()) == json.dumps(space.to_dict())
        assert [one.name for one in other.plan] == [one.name for one in space.plan]
        assert list(other.grid(2)) == list(space.grid(2))
        assert table_configs(other, 30) == table_configs(space, 30)
        rngs = np.random.default_rng(seed), np.random.default_rng(seed)
        assert other.sample(rngs[0]) == space.sample(rngs[1])
        assert other.ball(drawn[seed], 0.3, rngs[0]) == space.ball(drawn[seed], 0.3, rngs[1])
        assert other.perturb(drawn[seed], 0.3, 0.2, rngs[0]) == space.perturb(drawn[seed], 0.3, 0.2, rngs[1])
        assert (other.to_unit(drawn[seed]) == space.to_unit(drawn[seed])).all()


def test_an_enqueued_config_and_a_run_are_the_same_in_any_order(tmp_path: Path) -> None:
    """A run that was begun from Python goes on, or comes back, with its dictionaries in another order."""

    def tuned(space: fh.Space, sampler: Any, config: dict[str, Any]) -> dict[str, Any]:
        with ToyFederation(clients=6) as toy:
            tuner = Tuner(FixedLength(4), sampler)
            run = tmp_path / type(sampler).__name__
            found = fh.tune(toy, space, tuner, rounds=2, total=8, cohort=3, run=run, enqueue=[config])
        return dict(found.facts)

    tables = {"client": {"momentum": fh.Float(0, 0.9), "lr": fh.Float(0.01, 1.0, log=True)}}
    backwards = {"client": dict(reversed(tables["client"].items()))}
    config = {"client": {"momentum": 0.5, "lr": 0.2}}
    options = {"n_startup_trials": 2, "n_ei_candidates": 8}
    points = {"client.momentum": 2, "client.lr": 2}
    for sampler, again in (
        (OptunaSampler("TPESampler", options), OptunaSampler("TPESampler", dict(reversed(options.items())))),
        (Grid(points), Grid(dict(reversed(points.items())))),
    ):
        first = tuned(fh.Space(**tables), sampler, config)
        second = tuned(
            fh.Space(**backwards), again, {"client": dict(reversed(list(config["client"].items())))}
        )
        assert second == first | {"times": second["times"]}


def test_a_config_is_written_in_one_order() -> None:
    config = fh.Config(client={"momentum": 0.5, "lr": 0.1}, server={"z": 1, "a": (2, 3)})
    other = fh.Config(server={"a": [2, 3], "z": 1}, client={"lr": 0.1, "momentum": 0.5})
    assert config == other
    assert (str(config), repr(config), json.dumps(config.to_dict())) == (
        str(other),
        repr(other),
        json.dumps(other.to_dict()),
    )
    assert list(config.flat()) == ["client.lr", "client.momentum", "server.a", "server.z"]


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (datetime.date(2024, 5, 1), "data.x = 2024-05-01: must be no date"),
        (datetime.time(8, 30), "data.x = 08:30:00: must be no date"),
        (math.nan, "data.x = nan: must be finite"),
        (-math.inf, "data.x = -inf: must be finite"),
        ([1, {"y": [math.inf]}], r"data.x\[1\].y\[0\] = inf: must be finite"),
        (10**400, r"data.x = 1000.*must be at most 2\*\*63 - 1"),
        ({1: 2}, "data.x: a key must be a string, found 1"),
        (object(), "data.x = <object.*must be a number"),
    ],
)
def test_what_a_record_cannot_hold_is_refused_at_once(value: Any, found: str) -> None:
    given = study_of("sha")
    given["data"] = {**given["data"], "x": value}
    with pytest.raises(InputError, match=found):
        Study.from_dict(given)


@pytest.mark.parametrize("text", ["since = 2024-05-01T08:30:00Z", "share = nan", "share = inf"])
def test_a_file_with_such_a_value_is_refused_with_its_name(text: str, tmp_path: Path) -> None:
    file = tmp_path / "dates.toml"
    file.write_text(as_toml(study_of("sha")).replace("data = { ", f"data = {{ {text}, "))
    with pytest.raises(InputError, match=rf"dates.toml: data.{text.split()[0]} = "):
        Study.load(file)


def test_tables_without_end_are_refused() -> None:
    deep: Any = 1
    for _ in range(3000):
        deep = {"a": deep}
    with pytest.raises(InputError, match="more than 16 deep"):
        plain({"data": deep})
