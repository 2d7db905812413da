"""The command line, from end to end."""

import io
import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest

from fedhpo.cli import main
from fedhpo.tuning import progress

STUDY = """
[data]
name = "digits"
clients = 10
[model]
name = "mlp"
[space.client]
lr = { low = 0.01, high = 1.0, log = true }
[method]
name = "sha"
trials = 4
rate = 2
finalists = 1
[budget]
rounds = 6
total = 24
cohort = 4
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.toml").write_text(STUDY)
    return tmp_path


def run(*arguments):
    return main([*arguments, "--workers", "0", "--quiet"])


def outcome(path):
    """What must not depend on how often the run was stopped."""
    result = json.loads((path / "result.json").read_text())
    return {key: result[key] for key in ("best", "baseline", "gain", "trials")}


def test_help_imports_nothing_heavy():
    heavy = "torch numpy scipy sklearn pydantic rich plotly"
    code = (
        "import sys; from fedhpo.cli import main\n"
        "assert main(['--help']) == 0 and main(['tune', '--help']) == 0\n"
        f"print('heavy:', [name for name in {heavy!r}.split() if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "heavy: []" in done.stdout


def test_version(capsys):
    from fedhpo import __version__

    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"fedhpo {__version__}\n"


def test_the_package_can_be_run_as_a_module():
    done = subprocess.run([sys.executable, "-m", "fedhpo", "--version"], capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout.startswith("fedhpo ")


def test_tune_says_what_came_of_it(folder, capsys):
    assert run("tune", "study.toml") == 0
    printed = capsys.readouterr()
    result = json.loads((folder / "runs/study/result.json").read_text())
    best = result["best"]
    assert f"tuned config         trial {best['trial']} of 4, 6 rounds\n" in printed.out
    assert f"  client.lr          {best['config']['client']['lr']:.4g}\n" in printed.out
    assert f"validation accuracy  {best['validation']['value']:.4f} at 10 clients\n" in printed.out
    assert f"test accuracy        {best['test']['accuracy']:.4f} at 10 clients\n" in printed.out
    assert (
        f"{result['cost']['rounds']} of 24 rounds, {4 * result['cost']['rounds']} client-rounds"
        in printed.out
    )
    assert (folder / "runs/study/report.html").is_file()
    assert (folder / "runs/study/study.toml").read_text() == STUDY


def test_json_is_one_object_and_nothing_else(folder, capsys):
    assert run("tune", "study.toml", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["run"], told["status"]) == ("runs/study", "finished")
    assert told["best"] == json.loads((folder / "runs/study/result.json").read_text())["best"]


def test_json_of_a_mistake(folder, capsys):
    assert run("tune", "no.toml", "--json") == 2
    printed = capsys.readouterr()
    assert json.loads(printed.out) == {"error": "no.toml: No such file or directory"}
    assert printed.err == "fedhpo: no.toml: No such file or directory\n"


def test_the_same_study_goes_on_and_another_gets_its_own_run(folder, capsys):
    assert run("tune", "study.toml") == 0
    before = outcome(folder / "runs/study")
    assert run("tune", "study.toml") == 0
    assert "runs/study holds this study, finished: its result" in capsys.readouterr().err
    assert outcome(folder / "runs/study") == before
    assert run("tune", "study.toml", "--seed", "1") == 0
    assert json.loads((folder / "runs/study-2/result.json").read_text())["seed"] == 1
    assert "# Begun with seed = 1" in (folder / "runs/study-2/study.toml").read_text()
    assert main(["runs", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out.splitlines()[-1])["runs"]
    assert [(one["name"], one["status"]) for one in listed] == [
        ("study", "finished"),
        ("study-2", "finished"),
    ]


MORE = STUDY.replace('name = "sha"\ntrials = 4\nrate = 2\nfinalists = 1', 'name = "random"')


def test_a_larger_total_goes_on_in_the_same_run(folder, capsys):
    (folder / "study.toml").write_text(MORE)
    assert run("tune", "study.toml") == 0
    (folder / "study.toml").write_text(MORE.replace("total = 24", "total = 36"))
    assert run("tune", "study.toml") == 0
    told = capsys.readouterr()
    assert "runs/study holds this study, with a smaller total: going on from there" in told.err
    assert "36 of 36 rounds" in told.out
    assert "evaluations for comparisons before the total was raised" in told.out
    assert run("resume", "runs/study", "--total", "48") == 0
    assert "48 of 48 rounds" in capsys.readouterr().out
    assert "# The total was raised to 48." in (folder / "runs/study/study.toml").read_text()
    (folder / "study.toml").write_text(MORE.replace("total = 24", "total = 48"))
    assert run("tune", "study.toml") == 0  # the study file finds what `resume` made of the run
    assert "runs/study holds this study, finished" in capsys.readouterr().err
    assert run("tune", "study.toml", "--runs", "fresh") == 0
    assert outcome(folder / "runs/study")["trials"] == outcome(folder / "fresh/study")["trials"]
    assert outcome(folder / "runs/study")["best"] == outcome(folder / "fresh/study")["best"]
    capsys.readouterr()
    assert run("resume", "runs/study", "--total", "12") == 2
    assert "a total can be raised, not lowered" in capsys.readouterr().err


def test_a_larger_total_that_cannot_go_on_begins_a_new_run_and_says_why(folder, capsys):
    assert run("tune", "study.toml") == 0
    (folder / "study.toml").write_text(STUDY.replace("total = 24", "total = 30"))
    assert run("tune", "study.toml") == 0
    told = capsys.readouterr()
    assert "total of 24, which cannot be raised to 30: under halving" in told.err
    assert (folder / "runs/study-2/result.json").is_file()
    assert run("resume", "runs/study", "--total", "30") == 2
    assert "under halving the lengths of all rungs follow the total" in capsys.readouterr().err


def test_interrupted_and_resumed_is_as_never_interrupted(folder, capsys, monkeypatch):
    assert run("tune", "study.toml", "--name", "whole") == 0

    @contextmanager
    def ctrl_c_at_round_10(path, *, quiet):
        def callback(event):
            if event.kind == "round" and event.search.ledger.spent["rounds"] == 10:
                os.kill(os.getpid(), signal.SIGINT)

        yield callback

    with monkeypatch.context() as patch:
        patch.setattr(progress, "progress", ctrl_c_at_round_10)
        assert run("tune", "study.toml", "--name", "again") == 130
    told = capsys.readouterr().err
    assert "fedhpo: interrupted; resume with: fedhpo resume runs/again\n" in told
    assert not (folder / "runs/again/result.json").exists()
    assert "training" in (folder / "runs/again/report.html").read_text()
    assert run("resume", "runs/again") == 0
    assert outcome(folder / "runs/again") == outcome(folder / "runs/whole")


PRINTING = """
import os

def train(model, data, hyperparameters, generator):
    print("printed")
    os.write(1, b"written\\n")
"""


@pytest.mark.parametrize("workers", ["0", "1"])
def test_json_is_one_object_whatever_user_code_prints(folder, workers):
    (folder / "own.py").write_text(PRINTING)
    study = STUDY.replace('name = "mlp"', 'name = "linear"') + '[client]\ntrain = "own:train"\n'
    (folder / "study.toml").write_text(study)
    command = [sys.executable, "-m", "fedhpo", "tune", "study.toml", "--json", "--workers", workers]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["status"] == "finished"
    assert "printed" in done.stderr
    assert "written" in done.stderr


def test_the_time_limit_is_no_failure(folder, capsys):
    assert run("tune", "study.toml", "--timeout", "1e-6", "--json") == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["status"] == "stopped"
    assert "the time limit of 1e-06 s is over; resume with: fedhpo resume runs/study" in printed.err
    assert main(["runs"]) == 0
    assert "stopped" in capsys.readouterr().out


def test_plain_progress_has_a_line_for_every_evaluation(folder, capsys):
    assert main(["tune", "study.toml", "--workers", "0"]) == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if "leading: trial" in line]
    assert len(lines) == 3  # 4, 2 and 1 trials
    assert "4 training; leading: trial" in lines[0]
    assert "2 training, 2 eliminated" in lines[1]


def test_several_runs_make_a_comparison(folder, capsys):
    for seed in "01":
        assert run("tune", "study.toml", "--seed", seed) == 0
    capsys.readouterr()
    assert main(["report", "runs/study", "runs/study-2"]) == 0
    assert capsys.readouterr().out == "comparison.html\n"
    page = (folder / "comparison.html").read_text()
    assert "study-2" in page
    assert "<h2>Tuned configs</h2>" in page


def test_a_run_begun_in_python_is_resumed_in_python(folder, capsys):
    import fedhpo as fh

    with fh.simulate("mlp", fh.load("digits", clients=10), workers=0) as federation:
        space = fh.Space(client={"lr": fh.Float(0.01, 1.0)})
        fh.tune(federation, space, "random", rounds=1, total=2, cohort=2, run="runs/py")
    assert main(["resume", "runs/py"]) == 2
    assert "call fedhpo.tune(..., run='runs/py') again" in capsys.readouterr().err
    assert main(["report", "runs/py"]) == 0


def test_an_unexpected_error_leaves_its_traceback_in_a_file(folder, capsys, monkeypatch):
    def broken(path):
        raise KeyError("surprise")

    monkeypatch.setattr("fedhpo.study.Study.load", broken)
    assert run("tune", "study.toml") == 1
    told = capsys.readouterr().err
    assert told.startswith("fedhpo: unexpected KeyError: 'surprise'; see ")
    with open(told.split("see ")[1].strip()) as file:
        assert "Traceback" in file.read()
    os.unlink(file.name)
    with pytest.raises(KeyError):
        run("tune", "study.toml", "--debug")


def test_schema_is_json(capsys):
    assert main(["schema"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "fedhpo study"


@pytest.mark.parametrize("command", ["tune", "resume", "runs", "report", "schema"])
def test_every_command_takes_json(command, capsys):
    assert main([command, "--help"]) == 0
    assert "--json" in capsys.readouterr().out


def test_a_reader_that_has_gone_is_no_traceback(monkeypatch, tmp_path):
    class Gone(io.StringIO):
        def write(self, text):
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stdout", Gone())
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    # The command fails, and then what it says of that finds nobody either.
    assert main(["report", str(tmp_path / "nothing"), "--json"]) == 1
