"""The section on simulated time, and `fedhpo plan`."""

import json

import pytest

import fedhpo as fh
from fedhpo import figures
from fedhpo.cli import main
from fedhpo.figures.reading import load_view
from fedhpo.study import Study

STUDY = """
[data]
name = "digits"
clients = 20
[model]
name = "linear"
[space.client]
lr = { low = 0.01, high = 1.0, log = true }
[method]
name = "fedpop"
population = 3
interval = 2
[budget]
rounds = 4
total = 12
cohort = 4
[federation]
availability = "day_night"
share = 0.5
stay = 600
speed = 5
stragglers = 0.3
deadline = 100
"""


@pytest.fixture
def study(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "study.toml"
    path.write_text(STUDY, encoding="utf-8")
    return path


def test_the_report_shows_every_round_on_the_clock(study, tmp_path):
    assert main(["tune", str(study), "--workers", "0", "--quiet"]) == 0
    run = tmp_path / "runs" / "study"
    view = load_view(run)
    assert len(view.spans) == 12
    assert max(end for *_, end in view.spans) <= view.result["cost"]["simulated_seconds"]
    lines = figures.timeline(view)["data"]
    assert len(lines) == 3
    assert [len(line["x"]) for line in lines] == [12, 12, 12]  # four rounds, each a begin, an end, a gap
    page = (run / "report.html").read_text(encoding="utf-8")
    assert "simulated wall time" in page
    assert "simulated hours" in page


def test_a_plan_of_clients_that_never_fail_is_what_the_simulation_comes_to():
    # One client, no luck and nothing tuned that takes time: 3 rounds of 1 + 50 / 10 s, and their scoring.
    tables = {
        "data": {"name": "digits", "clients": 2},
        "model": {"name": "linear"},
        "space": {"client": {"lr": {"low": 0.01, "high": 1.0}}},
        "method": {"name": "random", "trials": 2},
        "budget": {"rounds": 3, "total": 6, "cohort": 2},
        "federation": {"speed": 10.0},
    }
    study = Study.from_dict(tables)
    plan = study.plan(draws=2)
    result = study.tune(workers=0)
    assert plan.seconds == pytest.approx([result.cost["simulated_seconds"]] * 2)
    assert (plan.rounds, plan.client_rounds, plan.replies) == (6, 12, {"ok": 1.0})
    assert plan.bytes_up == result.cost["rounds"] * 2 * 4 * 650
    data = fh.load("digits", clients=2)
    # Both trials train at both clients: one after the other, which takes twice as long.
    rows = data.train.sizes.max() / 10
    scored = 2 * data.validation.sizes.max() / 3 / 10
    model = 2 * 4 * 650 / 1e6
    assert plan.mean >= 3 * 2 * (1 + rows + model)
    assert plan.mean <= 3 * 2 * (1 + rows + scored + model) + 2 * (1 + scored + model)


def test_the_command_says_how_long_it_will_take(study, capsys):
    assert main(["plan", str(study), "--draws", "3", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert len(plan["seconds"]) == 3
    assert plan["least_seconds"] < plan["mean_seconds"] < plan["most_seconds"]
    assert plan["rounds"] == 12
    assert plan["replies"]["too late"] > 0
    assert sum(plan["replies"].values()) == pytest.approx(1.0)
    assert main(["plan", str(study)]) == 0
    assert "in 5 draws" in capsys.readouterr().out


def test_without_a_fleet_a_plan_has_no_clock(study, capsys):
    study.write_text(STUDY[: STUDY.index("[federation]")], encoding="utf-8")
    assert main(["plan", str(study), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["rounds"] > 0
    assert found["samples"] > 0
    assert found["mean_seconds"] is None
    assert main(["plan", str(study)]) == 0
    assert "not known: [federation]" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('availability = "weekends"', "federation.availability: unknown availability 'weekends'"),
        ("speed = 0", "federation.speed: speed must be above 0"),
        ("sped = 3", "federation: unknown key 'sped'"),
        ('availability = "none.csv"', "availability = 'none.csv': No such file"),
    ],
)
def test_mistakes_name_the_key(study, capsys, line, message):
    study.write_text(STUDY[: STUDY.index("[federation]")] + "[federation]\n" + line, encoding="utf-8")
    assert main(["plan", str(study)]) == 2
    assert message in capsys.readouterr().err


def test_files_are_found_beside_the_study(tmp_path):
    folder = tmp_path / "studies"
    folder.mkdir()
    stays = "\n".join(f"{client},0,1000" for client in range(20))
    (folder / "trace.csv").write_text(f"client,begin,end\n{stays}\n", encoding="utf-8")
    text = STUDY.replace('"day_night"\nshare = 0.5\nstay = 600', '"trace.csv"')
    (folder / "study.toml").write_text(text, encoding="utf-8")
    study = Study.load(folder / "study.toml")
    assert study.fleet.availability == str(folder / "trace.csv")
    assert len(study.plan(draws=1).seconds) == 1


def test_learners_and_privacy_are_refused():
    tables = {
        "data": {"name": "digits", "clients": 5},
        "budget": {"rounds": 2, "cohort": 2},
        "federation": {"speed": 10.0},
        "model": {"name": "linear"},
        "space": {"client": {"lr": {"low": 0.01, "high": 1.0}}},
        "evaluation": {"privacy": {"epsilon": 1.0}},
    }
    with pytest.raises(fh.InputError, match=r"federation: leave it out where \[evaluation.privacy\]"):
        Study.from_dict(tables)
    learner = {key: tables[key] for key in ("data", "budget", "federation")}
    with pytest.raises(
        fh.InputError, match=r"federation\.speed = 10\.0: .* torch models in a simulation would"
    ):
        Study.from_dict({**learner, "budget": {"rounds": 1}, "model": {"name": "xgboost"}, "space": {}})
