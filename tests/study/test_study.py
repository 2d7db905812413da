"""Study files: what is read, what is checked, and what goes on to `tune`."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from fedhpo.aggregation.aggregation import Aggregation
from fedhpo.aggregation.presets import PRESETS
from fedhpo.aggregation.server import OPTIMISERS
from fedhpo.core.errors import InputError
from fedhpo.methods import Auto, GridSearch
from fedhpo.protocol.objective import Objective
from fedhpo.search.evaluator import Evaluator
from fedhpo.study import Study
from fedhpo.study.from_dataclass import build, section_of
from fedhpo.study.schema import schema

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.toml"))


def tables(**changes):
    good = {
        "data": {"name": "digits", "clients": 10},
        "model": {"name": "mlp"},
        "space": {"client": {"lr": {"low": 0.01, "high": 1.0, "log": True}}},
        "budget": {"rounds": 4, "cohort": 5},
    }
    return good | changes


def message(given):
    with pytest.raises(InputError) as caught:
        Study.from_dict(given, path="a.toml")
    return str(caught.value)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_can_be_built_again_from_what_the_run_records(path):
    study = Study.load(path)
    again = Study.from_dict(json.loads(json.dumps(study.to_dict())))
    assert again.space == study.space
    assert again.method == study.method
    assert again.to_dict() == study.to_dict()


def test_sections_that_are_left_out_have_their_defaults():
    study = Study.from_dict(tables())
    assert study.method == Auto()
    assert study.objective == Objective()
    assert study.evaluator == Evaluator()
    assert (study.file.budget.total, study.file.server.optimiser) == (None, "fedavg")


def test_settings_reach_the_objects():
    study = Study.from_dict(
        tables(
            method={"name": "grid", "points": {"client.lr": 2}},
            objective={"metric": "loss", "over": "tail", "tail": 0.25},
            evaluation={"clients": 0.5},
        )
    )
    assert study.method == GridSearch(points={"client.lr": 2})
    assert study.objective == Objective("loss", "tail", 0.25)
    assert study.evaluator == Evaluator(0.5)


def test_fixed_hyperparameters_of_the_model_are_in_the_space():
    study = Study.from_dict(tables(model={"name": "mlp", "hidden": [8, 4]}))
    assert study.space.fixed == {"model.hidden": (8, 4)}


def test_name_and_time_limit_do_not_make_another_study():
    plain = Study.from_dict(tables())
    named = Study.from_dict(tables(name="mine", budget={"rounds": 4, "cohort": 5, "timeout": 3.0}))
    assert named.to_dict() == plain.to_dict()
    assert named.name == "mine"


def test_another_seed_is_another_study_and_its_text_says_so():
    study = Study.from_dict(tables(), text="[data]\n").with_seed(7)
    assert study.to_dict()["seed"] == study.file.seed == 7
    assert study.text.startswith("# Begun with seed = 7")
    assert study.with_seed(7) is study


def test_all_wrong_keys_are_told_at_once():
    told = message(tables(budget={"rounds": "x", "cohort": 0, "chort": 1})).splitlines()
    assert told == [
        "a.toml: budget.rounds = 'x': must be a whole number of at least 1",
        "a.toml: budget.cohort = 0: must be a whole number of at least 1",
        "a.toml: budget: unknown key 'chort' (did you mean 'cohort'?); known: baseline, cohort, horizon, "
        "keep, margin, rounds, stop, timeout, total, tuning",
    ]


def test_a_union_is_told_once():
    assert message(tables(evaluation={"clients": "half"})) == (
        "a.toml: evaluation.clients = 'half': must be a whole number or a number"
    )


@pytest.mark.parametrize("name", OPTIMISERS)
def test_hyperparameters_of_the_chosen_server_optimiser_are_known(name):
    Study.from_dict(
        tables(server={"optimiser": name}) | {"space": {"client": {"lr": {"low": 0.1, "high": 1.0}}}}
    )
    given = tables(server={"optimiser": name})
    given["space"] = {**given["space"], "server": {"beta2": 0.9}}
    if name in ("fedadam", "fedyogi"):
        assert Study.from_dict(given).space.fixed == {"server.beta2": 0.9}
    else:
        assert f"space.server.beta2: unknown server hyperparameter of {name}" in message(given)


def test_a_tuned_server_optimiser_needs_hyperparameters_of_its_own_only():
    given = tables()
    given["space"]["server"] = {
        "optimiser": {"choices": ["fedavg", "fedadam"]},
        "beta1": {"low": 0.0, "high": 0.9, "when": {"server.optimiser": ["fedadam"]}},
    }
    assert set(Study.from_dict(given).space.names) == {"client.lr", "server.optimiser", "server.beta1"}
    del given["space"]["server"]["beta1"]["when"]
    assert "space.server.beta1: unknown server hyperparameter of fedavg" in message(given)


def test_the_server_optimiser_is_said_once():
    given = tables(server={"optimiser": "fedadam"})
    given["space"]["server"] = {"optimiser": {"choices": ["fedavg", "fedadam"]}}
    assert "server.optimiser is fixed here and also in space.server.optimiser" in message(given)


def test_every_choice_is_checked_not_only_the_ends():
    given = tables()
    given["space"]["client"]["batch_size"] = {"choices": [8, 0, 16]}
    assert "space.client.batch_size can be 0: client.batch_size must be a whole number" in message(given)


def test_the_sections_name_what_the_engine_knows():
    properties = schema()["$defs"]["Server"]["properties"]
    assert properties["optimiser"]["anyOf"][0]["enum"] == list(OPTIMISERS)
    named = next(one["enum"] for one in properties["aggregation"]["anyOf"] if "enum" in one)
    assert tuple(named) == (*Aggregation.RULES, *PRESETS)
    assert tuple(properties["weighting"]["enum"]) == Aggregation.WEIGHTINGS


@dataclass(frozen=True)
class Settings:
    """Of a method of the future."""

    steps: tuple[float, ...] = (0.1, 0.2)
    rule: str = "a"
    helper: object = None
    hook: Callable[[], None] | None = None

    def __post_init__(self):
        if self.rule not in "ab":
            raise InputError(f"rule must be a or b, not {self.rule!r}")


def test_a_list_in_the_file_is_a_tuple_in_the_settings():
    assert build(Settings, {"steps": [1, 0.5]}, "method") == Settings(steps=(1.0, 0.5))


def test_what_the_settings_refuse_is_told_with_its_key():
    with pytest.raises(InputError, match=r"^method\.rule: rule must be a or b, not 'c'$"):
        build(Settings, {"steps": [1.0], "rule": "c"}, "method")


def test_settings_that_no_file_can_hold_are_no_keys():
    assert "hook" not in section_of(Settings).model_fields


def test_the_federation_is_what_the_file_says():
    given = tables(server={"optimiser": "fedadam", "aggregation": "median", "weighting": "uniform"})
    with Study.from_dict(given).federation(workers=0) as federation:
        facts = federation.describe()
        assert len(federation.train_clients) == 10
    assert (facts["server"], facts["aggregation"], facts["weighting"]) == ("fedadam", "median", "uniform")


def test_users_own_data_and_model(tmp_path, monkeypatch):
    (tmp_path / "study_own_things.py").write_text(
        "import numpy as np\n"
        "from torch import nn\n"
        "def clients(count):\n"
        "    return {f'c{i}': (np.ones((10, 4)) * i, np.arange(10) % 2) for i in range(count)}\n"
        "class Net(nn.Linear):\n"
        "    def __init__(self, bias=True):\n"
        "        super().__init__(4, 2, bias=bias)\n"
    )
    monkeypatch.chdir(tmp_path)
    given = tables(
        data={"name": "study_own_things:clients", "count": 6},
        model={"name": "study_own_things:Net", "bias": False},
    )
    study = Study.from_dict(given)
    with study.federation(workers=0) as federation:
        federation.start(0, study.space.default().model, seed=0)
        assert federation.state(0).arrays["weights"].shape == (8,)  # 4 x 2, and no bias
        assert len(federation.train_clients) == 6


@pytest.mark.parametrize(
    ("server", "default", "expected"),
    [
        ({}, Aggregation(), Aggregation()),
        ({}, PRESETS["safe"], PRESETS["safe"]),
        ({"aggregation": "mean"}, PRESETS["safe"], Aggregation()),
        ({"aggregation": "strict"}, Aggregation(), PRESETS["strict"]),
        ({"aggregation": "strict", "trim": 0.45, "weighting": "uniform"}, Aggregation(), None),
        ({"weight_cap": 3.0}, Aggregation(), Aggregation(weight_cap=3.0)),
    ],
)
def test_aggregation_is_the_default_a_rule_or_a_preset(server, default, expected):
    found = Study.from_dict(tables(server=server)).aggregation(default)
    if expected is None:
        expected = replace(PRESETS["strict"], trim=0.45, weighting="uniform")
    assert found == expected
