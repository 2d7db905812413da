"""What the README shows is what there is."""

import re
import subprocess
import sys
import tomllib

import numpy as np
import pytest

from fedhpo.cli import main

README = "README.md"


@pytest.fixture
def readme(request):
    return (request.config.rootpath / README).read_text()


def block(text, begin):
    """The code block that begins so."""
    return text[text.index(begin) :].partition("```")[0]


def test_the_study_is_the_example(readme, request):
    study = (request.config.rootpath / "examples/digits.toml").read_text()
    assert block(readme, "# examples/digits.toml") == study
    # Without it the run would not print the gain at the last round that the README shows.
    assert tomllib.loads(study)["budget"]["baseline"] is True
    assert "both at round 40" in block(readme, "tuned config")


def test_the_program_runs_as_it_is(readme, tmp_path):
    """Pasted into a file of its own and started: it finds something, and says what it is worth."""
    (tmp_path / "mine.py").write_text(block(readme, "import numpy as np"))
    done = subprocess.run(
        [sys.executable, "mine.py"], cwd=tmp_path, capture_output=True, text=True, timeout=200, check=True
    )
    assert "lr=" in done.stdout
    assert (tmp_path / "runs" / "mine" / "result.json").is_file()


STUDY = """
[data]
files = { north = "north.csv", south = "south.csv", west = "west.csv" }
label = "ill"
split = { kind = "inside", validation = 0.3, test = 0.2 }
[model]
name = "linear"
[space.client]
lr = { low = 0.01, high = 1.0, log = true }
[method]
name = "random"
trials = 2
[budget]
rounds = 2
total = 4
cohort = 2
"""


def _commands(readme):
    """The commands of the README without what it says of them: two blanks or more part the two."""
    lines = block(readme, "fedhpo new torch my-study  ").splitlines()
    return [re.split(r"\s{2,}", line)[0] for line in lines if line.startswith("fedhpo ")]


def test_every_command_works_as_it_is_typed(readme, tmp_path, monkeypatch, capsys):
    """In one directory, one after the other; NAME is the study's."""
    rng = np.random.default_rng(0)
    monkeypatch.chdir(tmp_path)
    for party in ("north", "south", "west"):
        rows = [f"{x:.3f},{z:.3f},{'yes' if x + z > 0 else 'no'}" for x, z in rng.normal(size=(60, 2))]
        (tmp_path / f"{party}.csv").write_text("\n".join(["age,dose,ill", *rows]))
    (tmp_path / "new.csv").write_text("age,dose\n0.5,0.5\n-0.5,-0.5\n")
    (tmp_path / "study.toml").write_text(STUDY)
    elsewhere = {
        "fedhpo ui": "serves until it is stopped: tests/ui",
        "fedhpo flower tune APP study.toml": "needs an app: tests/flower",
    }
    done = []
    order = {"new": 0, "check": 0, "tune": 1}  # a run must be there before it is looked at
    for line in sorted(_commands(readme), key=lambda line: order.get(line.split()[1], 2)):
        if line in elsewhere:
            continue
        words = line.replace("runs/NAME", "runs/study").split()[1:]
        small = {
            "compare": ["--workers", "0"],
            "advise": ["--workers", "0"],
        }
        assert main([*words, *small.get(words[0], [])]) == 0, (line, capsys.readouterr())
        done.append(words[0])
    assert len(done) + len(elsewhere) == len(_commands(readme)) >= 15
    assert (tmp_path / "trials.csv").is_file()
