"""The way back from a run's record to its study, by `fedhpo resume` and by `fedhpo tune`."""

import json
import sys
import tomllib

import pytest
from order_cases import as_toml, study_of

import fedhpo as fh
from fedhpo.cli import main
from fedhpo.study import Study
from fedhpo.study.recorded import recorded_study
from fedhpo.testing import ToyFederation


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("fedhpo.report.write_report", lambda paths, page: page)
    (tmp_path / "study.toml").write_text(as_toml(study_of("sha")))
    return tmp_path


def run(*arguments):
    return main([*arguments, "--workers", "0", "--quiet"])


def stopped(*arguments):
    """Stopped before the first round is over."""
    assert run(*arguments, "--timeout", "0.000001") == 0


def best(path):
    return json.loads((path / "result.json").read_text())["best"]


def test_name_time_limit_and_flower_come_back(folder):
    given = {"name": "mine", "flower": {"retries": 3}, **study_of("sha")}
    given["budget"] = {**given["budget"], "timeout": 1e-6}
    (folder / "study.toml").write_text(as_toml(given))
    assert run("tune", "study.toml") == 0
    found = recorded_study(folder / "runs/mine")
    assert found is not None
    assert found.status == "stopped"
    assert found.study().given == Study.load(folder / "study.toml").given
    # The study's own limit holds for `resume` as it does for `tune`; the latest one given is kept.
    assert run("resume", "runs/mine") == 0
    assert not (folder / "runs/mine/result.json").exists()
    given["budget"]["timeout"] = 3600.0
    (folder / "study.toml").write_text(as_toml(given))
    assert run("tune", "study.toml", "--timeout", "0.000001") == 0
    assert run("resume", "runs/mine") == 0
    assert (folder / "runs/mine/result.json").exists()


def test_another_seed_comes_back(folder):
    assert run("tune", "study.toml", "--seed", "8", "--name", "whole") == 0
    stopped("tune", "study.toml", "--seed", "8", "--name", "cut")
    stopped("resume", "runs/cut")
    assert run("tune", "study.toml", "--seed", "8", "--name", "cut") == 0
    assert best(folder / "runs/cut") == best(folder / "runs/whole")
    # The text that a run keeps is that of its own search.
    assert run("tune", "runs/cut/study.toml", "--name", "cut") == 0
    assert sorted(path.name for path in (folder / "runs").iterdir()) == ["cut", "whole"]


def test_resume_finds_own_modules_and_paths_from_elsewhere(folder, monkeypatch, capsys):
    """Names of modules and relative paths mean what they meant where the run was begun."""
    (folder / "resumed_own.py").write_text(
        "from pathlib import Path\n"
        "from order_cases import clients\n"
        "def make(file, **options):\n"
        "    return clients(rows=int(Path(file).read_text()), **options)\n"
    )
    (folder / "rows.txt").write_text("20")
    given = study_of("sha")
    given["data"] = {"name": "resumed_own:make", "file": "rows.txt", "clients": 6}
    (folder / "study.toml").write_text(as_toml(given))
    stopped("tune", "study.toml")
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place != str(folder)])
    monkeypatch.delitem(sys.modules, "resumed_own")
    assert run("resume", "../runs/study") == 0
    assert f"working in {folder}, where the run was begun" in capsys.readouterr().err
    assert (folder / "runs/study/result.json").exists()


def test_what_resume_cannot_build_again_it_says(folder, capsys):
    with ToyFederation(clients=6) as toy:
        space = fh.Space(client={"lr": fh.Float(0.01, 1.0)})
        fh.tune(toy, space, "random", rounds=1, total=2, cohort=2, run="runs/python")
        Study.load("study.toml").tune("runs/study", federation=toy)
    assert run("resume", "runs/python") == 2
    assert "was begun from Python; call fedhpo.tune(..., run='runs/python') again" in capsys.readouterr().err
    assert run("resume", "runs/study") == 2
    assert "clients that the study does not describe (ToyFederation)" in capsys.readouterr().err
    # Nor does `tune` take it for a run of the study's own clients.
    assert run("tune", "study.toml") == 0
    assert (folder / "runs/study-2/result.json").exists()
    (folder / "runs/empty").mkdir()
    assert run("resume", "runs/empty") == 2
    assert "no run was begun there" in capsys.readouterr().err


@pytest.mark.parametrize(
    "head",
    ["seed = 3\n", "", "  seed=3 # mine\n", 'name = """\nseed = 3\n"""\n', '"seed" = 3\n'],
    ids=["first", "none", "spaced", "in a string", "quoted"],
)
def test_another_seed_stands_in_the_text(head):
    tables = {key: value for key, value in study_of("sha").items() if key != "seed"}
    text = head + as_toml(tables)
    study = Study.from_dict(tomllib.loads(text), text=text).with_seed(8)
    written = Study.from_dict(tomllib.loads(study.text), text=study.text)
    if head.startswith('"'):  # an odd spelling is left as it is, and said
        assert "tune it with --seed 8" in study.text
    else:
        assert written.given == study.given
