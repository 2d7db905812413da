"""Study files that name what is not ours, and that put a tuner together."""

import json
import sys
from dataclasses import replace

import pytest

import fedhpo as fh
from fedhpo.core.errors import InputError
from fedhpo.methods.fedex.policy import FedExPolicy
from fedhpo.research.compare.methods import with_method
from fedhpo.samplers import TPE, OptunaSampler
from fedhpo.schedules import Halving
from fedhpo.study import Study
from fedhpo.study.methods import brought
from fedhpo.study.recorded import recorded_study
from fedhpo.study.schema import schema
from fedhpo.testing import ToyFederation

STRANGERS = '''
from dataclasses import dataclass
import numpy as np
import fedhpo as fh
from fedhpo.aggregation.server import FedAvg

@dataclass(frozen=True)
class Twice(fh.SHA):
    """Successive halving of twice as many."""
    more: int = 2
    name = "twice"

@dataclass(frozen=True)
class Sign(FedAvg):
    """Move by the sign of the mean change."""
    damp: float = 0.5
    def direction(self, change, memory):
        return np.float32(self.damp) * np.sign(change), memory

class Plain: ...

@dataclass(frozen=True)
class NoMethod: ...

@dataclass(frozen=True)
class Grumpy(fh.Preset):
    left: int = 1
    tuner = None
    def __post_init__(self):
        raise RuntimeError("not today")

def rows(clients, seed=0):
    rng = np.random.default_rng(seed)
    return [(rng.normal(size=(20, 3)).astype(np.float32), rng.integers(0, 2, 20)) for _ in range(clients)]
'''


@pytest.fixture
def strangers(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "strangers.py").write_text(STRANGERS)
    about = tmp_path / "strangers-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: strangers\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(
        "[fedhpo]\nmethod.twice = strangers:Twice\ndata.dice = strangers:rows\n"
        "aggregation.sign = strangers:Sign\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("strangers", None)


def tables(**sections):
    return {
        "data": {"name": "digits", "clients": 6},
        "model": {"name": "mlp"},
        "space": {"client": {"lr": {"low": 0.01, "high": 1.0, "log": True}}},
        "budget": {"rounds": 3, "total": 30, "cohort": 3},
    } | sections


COMPOSED = {
    "schedule": {"name": "halving", "trials": 4, "rate": 2},
    "sampler": {"name": "tpe", "gamma": 0.3},
    "policy": {"name": "fedex", "arms": 3},
}


@pytest.mark.parametrize("name", [{}, {"name": "tuner"}])
def test_a_tuner_is_put_together(name):
    method = Study.from_dict(tables(method=COMPOSED | name)).method
    assert isinstance(method, fh.Tuner)
    assert method.schedule == Halving(4, 2)
    assert method.sampler == TPE(gamma=0.3)
    assert method.policy == FedExPolicy(arms=3)


def test_with_an_exchange_it_is_fedpop():
    parts = {"schedule": {"name": "fixed", "trials": 5, "side_by_side": 5}, "policy": {"name": "fedpop"}}
    method = Study.from_dict(tables(method={**parts, "exchange": {"quantile": 2}})).method
    preset = fh.FedPop(population=5).tuner()
    assert method == replace(preset, exchange=fh.methods.Exchange(quantile=2))


def test_a_sampler_of_optuna_is_named_in_a_file():
    parts = {"schedule": {"name": "fixed"}, "sampler": {"name": "optuna", "sampler": "RandomSampler"}}
    assert Study.from_dict(tables(method=parts)).method.sampler == OptunaSampler("RandomSampler")


def test_it_is_compared_under_the_name_tuner():
    study = Study.from_dict(tables(method=COMPOSED))
    assert with_method(study, "tuner").method == study.method
    assert with_method(study, "sha").method == fh.SHA()
    with pytest.raises(InputError, match="unknown method 'tuner'"):
        with_method(Study.from_dict(tables()), "tuner")


def test_it_gives_what_the_preset_gives():
    """Successive halving by its parts is successive halving."""
    parts = {"schedule": {"name": "halving", "trials": 4, "rate": 2}, "sampler": {"name": "random"}}
    preset = {"name": "sha", "trials": 4, "rate": 2, "finalists": 1}
    results = [
        Study.from_dict(tables(method=method)).tune(federation=ToyFederation(6)).facts
        for method in (parts, preset)
    ]
    assert results[0]["trials"] == results[1]["trials"]


def test_it_comes_back_from_the_record(tmp_path):
    study = Study.from_dict(tables(method=COMPOSED))
    whole = study.tune(tmp_path / "whole", workers=0)
    calls = []

    def stop(event):
        calls.append(event)
        return len(calls) == 4

    assert study.tune(tmp_path / "run", workers=0, callbacks=[stop]).status == "stopped"
    again = recorded_study(tmp_path / "run").study()
    assert again.method == study.method
    assert again.tune(tmp_path / "run", workers=0).facts["trials"] == whole.facts["trials"]


@pytest.mark.parametrize(
    ("method", "told"),
    [
        (
            {"sampler": {"name": "tpe"}},
            "method.schedule is missing: a table whose name is one of fixed, halving",
        ),
        (
            {"schedule": "halving"},
            "method.schedule = 'halving': must be a table, such as { name = \"fixed\" }",
        ),
        (
            {"schedule": {"trials": 3}},
            'method.schedule.name is missing: write, say, schedule = { name = "fixed" }',
        ),
        (
            {"schedule": {"name": "halving", "rat": 3}},
            "method.schedule: unknown key 'rat' (did you mean 'rate'?)",
        ),
        (
            {"schedule": {"name": "halving", "rate": "3"}},
            "method.schedule.rate = '3': must be a whole number",
        ),
        ({"schedule": {"name": "halving", "trials": 0}}, "method.schedule.trials: "),
        ({"shedule": {"name": "halving"}}, "method: unknown key 'shedule' (did you mean 'schedule'?)"),
        (
            {"schedule": {"name": "fixed"}, "policy": {"name": "fedx"}},
            "method.policy.name: unknown client policy 'fedx' (did you mean 'fedex'?)",
        ),
        (
            {"schedule": {"name": "fixed"}, "exchange": {"intervall": 3}},
            "method.exchange: unknown key 'intervall'",
        ),
        ({"name": "strangers:Plain"}, "method.name = 'strangers:Plain': must be a dataclass"),
        (
            {"name": "strangers:NoMethod"},
            "method.name = 'strangers:NoMethod': must inherit from fedhpo.Method",
        ),
        ({"name": "strangers:Grumpy"}, "method: Grumpy refused its settings: RuntimeError: not today"),
        (
            {"name": "twise"},
            "method.name: unknown method 'twise' (did you mean 'twice'?); known: auto, bohb",
        ),
        ({"name": "twice", "moore": 3}, "method: unknown key 'moore' (did you mean 'more'?)"),
        (
            {"schedule": {"name": "strangers:Plain"}},
            "method.schedule.name = 'strangers:Plain': must be a dataclass",
        ),
        ({"schedule": {"name": "strangers:NoMethod"}}, "method.schedule must be a schedule, such as"),
    ],
)
def test_mistakes_are_told_with_their_key(strangers, method, told):
    with pytest.raises(InputError) as error:
        Study.from_dict(tables(method=method))
    assert str(error.value).startswith(told)


def test_an_entry_point_is_as_good_as_a_name(strangers):
    by_point = Study.from_dict(tables(method={"name": "twice", "more": 3})).method
    assert by_point == Study.from_dict(tables(method={"name": "strangers:Twice", "more": 3})).method
    assert by_point.to_dict()["more"] == 3
    data = Study.from_dict(tables(data={"name": "dice", "clients": 4})).load_data()
    assert data.clients == 4
    federation = ToyFederation(6)
    result = fh.tune(federation, Study.from_dict(tables()).space, "twice", rounds=4, total=90, cohort=3)
    assert result.facts["method"]["name"] == "twice"


def test_a_server_optimiser_of_ones_own(strangers):
    server = {"optimiser": "strangers:Sign"}
    space = {"client": {"lr": 0.1}, "server": {"damp": {"low": 0.001, "high": 0.1, "log": True}}}
    given = tables(server=server, space=space, method={"name": "random", "trials": 2})
    result = Study.from_dict(given).tune(workers=0)
    assert len(result.trials) == 2
    named = Study.from_dict(
        tables(server={"optimiser": "sign"}, space=space, method={"name": "random", "trials": 2})
    )
    assert named.tune(workers=0).facts["trials"] == result.facts["trials"]
    with pytest.raises(
        InputError, match=r"space\.server\.dump: unknown server hyperparameter of strangers:Sign 'dump'"
    ):
        Study.from_dict(
            tables(
                server=server, space={"client": {"lr": 0.1}, "server": {"dump": {"low": 0.1, "high": 1.0}}}
            )
        )
    with pytest.raises(
        InputError, match=r"server\.optimiser: unknown server optimiser 'sing' .did you mean 'sign'"
    ):
        Study.from_dict(tables(server={"optimiser": "sing"}))
    with pytest.raises(
        InputError, match=r"server\.optimiser = 'strangers:Plain': must be a dataclass that inherits"
    ):
        Study.from_dict(tables(server={"optimiser": "strangers:Plain"}))


def test_the_schema_knows_names_without_importing(strangers):
    found = json.dumps(schema())
    assert '"twice"' in found
    assert '"dice"' in found
    assert '"sign"' in found
    assert "strangers" not in sys.modules


def test_a_study_file_is_valid_by_the_schema(strangers):
    jsonschema = pytest.importorskip("jsonschema")
    for method in (COMPOSED, {"name": "twice", "more": 3}, {"name": "strangers:Twice"}, {}):
        jsonschema.validate(tables(method=method), schema())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(tables(method={"schedule": {"name": "halving", "rat": 3}}), schema())


def test_all_that_must_be_imported_is_found():
    given = {
        "method": {"schedule": {"name": "a:A"}, "sampler": {"name": "tpe"}, "policy": "odd"},
        "proxy": {"method": {"name": "b:B"}},
        "server": {"optimiser": "c:C"},
        "space": {"server": {"optimiser": {"values": ["fedavg", "d:D"], "default": "e:E"}}},
    }
    assert dict(brought(given)).keys() == {
        "method.schedule.name",
        "proxy.method.name",
        "server.optimiser",
        "space.server.optimiser",
    }
    assert [name for _, name in brought(given)] == ["a:A", "b:B", "c:C", "e:E", "d:D"]
    assert list(brought({"method": [], "proxy": 3, "server": None})) == []


def test_a_module_beside_the_study_is_pointed_at(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "net_of_mine.py").write_text("def Net(): ...")
    (tmp_path / "mine" / "study.toml").write_text(
        '[data]\nname = "digits"\n[model]\nname = "net_of_mine:Net"\n[budget]\nrounds = 1\n[space]\n'
    )
    with pytest.raises(fh.InputError, match=r"net_of_mine.py lies beside the study.*cd mine first"):
        fh.Study.load("mine/study.toml")
