"""A reference table without a study's training: filled alone, killed and resumed, used as a client policy."""

import json
import os
import signal
import subprocess
import sys
import time
from functools import partial

import pytest

import fedhpo as fh
from fedhpo.cli import main
from fedhpo.core.errors import InputError
from fedhpo.methods.fedtune import Cells, CellTuner, ReferenceTable, Simulation, TablePolicy
from fedhpo.study import Study

STUDY = """
seed = 1
[data]
name = "digits"
part = [0.0, 0.7]
clients = 10
[model]
name = "linear"
[space.client]
lr = { low = 0.01, high = 1.0, log = true, default = 0.02 }
[space.server]
lr = { low = 0.5, high = 2.0, log = true, default = 1.0 }
[budget]
rounds = 4
cohort = 3
"""
FILLS = """
[method]
name = "fedtune"
indices = [0.2, 0.8]
quantities = [30]
clients = 2
length = 2
steps = 4
patience = 0
[proxy.data]
name = "digits"
part = [0.7, 1.0]
"""
USES = """
total = 16
[method]
schedule = { name = "fixed" }
policy = { name = "reference_table", file = "table.json" }
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fills.toml").write_text(STUDY + FILLS)
    (tmp_path / "uses.toml").write_text(STUDY + USES)
    return tmp_path


def test_the_command_writes_table_and_heat_map(here, capsys):
    assert main(["table", "fedtune", "fills.toml", "--workers", "0", "--quiet"]) == 0
    shown = capsys.readouterr().out
    assert "8 simulations on digits, 32 local trainings" in shown
    table = ReferenceTable.load("table.json")
    assert table.cells == Cells((0.2, 0.8), (30,))
    assert "Filled in 8 simulations on digits" in (here / "table.html").read_text()
    # The same as in a run of the method.
    Study.load("fills.toml").tune("runs/whole", workers=0)
    assert ReferenceTable.load("runs/whole/table.json") == table
    # Called again it has nothing to do, and says the same.
    assert main(["table", "fedtune", "fills.toml", "--out", "again.json", "--workers", "0", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["steps"] == 8
    assert ReferenceTable.load("again.json") == table


MIXTURE = FILLS.replace(
    "clients = 2\nlength = 2", 'clients = 6\ncohort = 3\nlength = 4\nscored_on = "mixture"'
).replace("patience = 0\n", "")


@pytest.mark.parametrize(("fills", "kept"), [(FILLS, "steps.jsonl"), (MIXTURE, "mixture.jsonl")])
def test_a_build_that_is_killed_goes_on(here, fills, kept):
    """Killed in the middle and called again, it ends in the table of a build that nobody killed."""
    (here / "fills.toml").write_text((STUDY + fills).replace("steps = 4", "steps = 12"))
    command = [sys.executable, "-m", "fedhpo", "table", "fedtune", "fills.toml", "--workers", "0"]
    journal = here / "runs" / "table-fills" / kept
    process = subprocess.Popen([*command, "--out", "cut.json"], stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 120
        while not (journal.is_file() and journal.read_bytes().count(b"\n") >= 5):
            assert process.poll() is None, "it ended before it could be killed"
            assert time.monotonic() < until
            time.sleep(0.002)
    finally:
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert not (here / "cut.json").exists()
    study, taken = Study.load("fills.toml"), []
    cut = study.fill_table("runs/table-fills", workers=0, after_step=lambda: taken.append(1))
    whole_taken = []
    whole = study.fill_table(workers=0, after_step=lambda: whole_taken.append(1))
    assert 0 < len(taken) < len(whole_taken)
    assert cut.to_dict() == whole.to_dict()


def test_a_table_is_filled_from_python(tmp_path):
    table = fh.fill_table(
        fh.load("digits", part=(0.7, 1.0)),
        partial(fh.simulate, "linear", workers=0),
        fh.Space(client={"lr": fh.Float(0.01, 1.0, log=True)}),
        cells=Cells((0.2, 0.8), (30,)),
        simulation=Simulation(2, 2),
        tuner=CellTuner(steps=3),
        directory=tmp_path,
    )
    assert table.facts["steps"] == 6
    assert (tmp_path / "steps.jsonl").is_file()


def rates(low, high):
    space = fh.Space(client={"lr": fh.Float(0.01, 1.0, log=True)})
    return ReferenceTable(Cells((0.2, 0.8), (30,)), ({"lr": low}, {"lr": high}), space)


def test_a_table_is_the_policy_of_any_study(here):
    """Trial 0 is the user's own config without the table; the others take it, and the server is tuned."""
    rates(0.3, 0.2).save("table.json")
    result = Study.load("uses.toml").tune("runs/uses", workers=0)
    configs = [trial["config"] for trial in result.facts["trials"]]
    assert configs[0]["client"] == {"lr": 0.02}
    assert len(configs) == 4
    assert all("client" not in config for config in configs[1:])
    assert len({config["server"]["lr"] for config in configs[1:]}) == 3
    # Rates of 0.2 to 0.3 are far better than the 0.02 of the user's own config.
    assert result.best_config.client == {}
    assert result.best_score > 0.3 + result.trials[0]["score"]
    # Another table is another study.
    rates(0.3, 0.1).save("table.json")
    with pytest.raises(InputError, match="method"):
        Study.load("uses.toml").tune("runs/uses", workers=0)


def test_the_table_lies_beside_the_study(here, monkeypatch):
    rates(0.3, 0.2).save("table.json")
    (here / "elsewhere").mkdir()
    monkeypatch.chdir(here / "elsewhere")
    policy = Study.load(here / "uses.toml").method.policy
    assert policy.file == str(here / "table.json")
    assert policy.table == rates(0.3, 0.2)


def test_what_the_table_cannot_do_is_refused(here):
    study = Study.load("uses.toml")  # read where the file is not: by a client, say
    with pytest.raises(InputError, match=r"cannot read the reference table .*table\.json"):
        study.tune(workers=0)
    rates(0.3, 0.2).save("table.json")
    tables = {**study.given, "space": {"client": {"lr": {"low": 0.01, "high": 1.0}, "momentum": 0.5}}}
    with pytest.raises(InputError, match="for the client hyperparameters lr; the space has lr, momentum"):
        Study.from_dict(tables).tune(workers=0)
    with pytest.raises(InputError, match=r"method\.policy\.look_up"):
        Study.from_dict(
            {
                **study.given,
                "method": {
                    **study.given["method"],
                    "policy": {"name": "reference_table", "file": "table.json", "look_up": "far"},
                },
            }
        )
    with pytest.raises(InputError, match=r"needs method\.name = 'fedtune' and \[proxy\.data\]"):
        study.fill_table()
    assert TablePolicy("table.json", "interpolated").table.look_up == "interpolated"
    assert main(["table", "fedtune", "fills.toml", "--out", "table.txt"]) == 2
