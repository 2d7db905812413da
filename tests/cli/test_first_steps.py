"""The first commands of a new user: `new`, `check`, `completion`."""

import csv
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from fedhpo.cli import main


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_a_new_torch_study_runs_at_once(here, capsys, monkeypatch):
    """Its own process, as a user types it: the modules data and model are the study's own."""
    assert main(["new", "torch", "mine"]) == 0
    assert "fedhpo check study.toml" in capsys.readouterr().out
    command = [sys.executable, "-m", "fedhpo"]
    checked = subprocess.run(
        [*command, "check", "study.toml", "--json"],
        cwd=here / "mine",
        capture_output=True,
        text=True,
        check=True,
    )
    facts = json.loads(checked.stdout)
    assert not (here / "mine" / "runs").exists()  # nothing was tuned
    done = subprocess.run(
        [*command, "tune", "study.toml", "--quiet", "--json", "--workers", "0"],
        cwd=here / "mine",
        capture_output=True,
        text=True,
        check=True,
    )
    result = json.loads(done.stdout)
    assert result["gain"]["value"] > 0.05
    # What was announced is what was spent: rounds to the letter, bytes to the shapes of the models.
    spent = result["cost"]
    assert facts["plan"]["rounds"] == pytest.approx(spent["rounds"], rel=0.1)
    assert facts["plan"]["auto"]["method"] == result["auto"]["method"]
    assert facts["estimated_seconds"] > 0


def _party(path, rows, *, without=(), extra=()):
    columns = ["patient_id", "visit_date", "age", "notes", "smokes", "outcome", *extra]
    rng = random.Random(path.name)
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [one for one in columns if one not in without], extrasaction="ignore")
        writer.writeheader()
        for number in range(rows):
            age = rng.randint(20, 90)
            writer.writerow(
                {
                    "patient_id": f"P{number:04d}",
                    "visit_date": f"2024-0{rng.randint(1, 9)}-11",
                    "age": age if rng.random() > 0.1 else "",
                    "notes": f"seen by {rng.random()}",
                    "smokes": rng.choice(["never", "daily"]),
                    "outcome": "ill" if age + rng.gauss(0, 10) > 55 else "well",
                    "bmi": rng.gauss(25, 3),
                }
            )


def test_messy_tables_become_a_study(here, capsys):
    """Dates, free text, columns of some parties only: each is dropped with its reason, the label is found."""
    _party(here / "north.csv", 60)
    _party(here / "south.csv", 50, extra=["bmi"])
    _party(here / "west.csv", 40, without=["notes"])
    assert main(["new", "csv", "clinic", "north.csv", "south.csv", "west.csv"]) == 0
    said = capsys.readouterr().out
    assert "predicts 'outcome' from 2 columns" in said
    assert "drops 'visit_date': dates" in said
    assert "drops 'bmi': not in every file" in said
    assert "drops 'patient_id': free text, or names of rows" in said
    os.chdir(here / "clinic")
    assert main(["check", "study.toml"]) == 0
    assert "study.toml is right" in capsys.readouterr().out
    assert main(["tune", "study.toml", "--quiet", "--json", "--workers", "0"]) == 0
    assert json.loads(capsys.readouterr().out)["status"] == "finished"


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["new", "csv", "clinic"], "FILE is missing"),
        (["new", "csv", "clinic", "nowhere.csv"], "nowhere.csv"),
        (["new", "csv", "clinic", "a.csv", "--label", "oucome"], "did you mean 'outcome'"),
        (["new", "torch", "mine", "a.csv"], "only `fedhpo new csv` takes files"),
        (["new", "torch", "mine", "--label", "y"], "--label has no effect"),
        (["new", "tourch", "mine"], "did you mean 'torch'"),
    ],
)
def test_mistakes_are_answered(here, capsys, words, answer):
    _party(here / "a.csv", 20)
    assert main(words) == 2
    assert answer in capsys.readouterr().err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_the_command(shell, capsys):
    pytest.importorskip("argcomplete")
    assert main(["completion", shell]) == 0
    assert "fedhpo" in capsys.readouterr().out


def test_the_shell_is_answered(tmp_path: Path):
    """As bash asks: `fedhpo tun<TAB>` and `fedhpo tune --wor<TAB>`."""
    pytest.importorskip("argcomplete")
    for line, wanted in (("fedhpo tun", "tune"), ("fedhpo tune --wor", "--workers")):
        answers = tmp_path / "answers"
        environment = os.environ | {
            "_ARGCOMPLETE": "1",
            "_ARGCOMPLETE_IFS": "\n",
            "_ARGCOMPLETE_STDOUT_FILENAME": str(answers),
            "COMP_LINE": line,
            "COMP_POINT": str(len(line)),
        }
        subprocess.run([sys.executable, "-m", "fedhpo"], env=environment, check=False, timeout=60)
        assert wanted in answers.read_text().split()
