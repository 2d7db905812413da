"""`fedhpo table`, from end to end."""

import json

import pytest

from fedhpo.cli import main

STUDY = """
[data]
name = "digits"
clients = 10
[model]
name = "linear"
[space.client]
lr = { low = 0.01, high = 1.0, log = true }
[budget]
rounds = 3
cohort = 3
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.toml").write_text(STUDY)
    return tmp_path


def test_build_ls_info(folder, capsys):
    arguments = ["table", "build", "tiny.toml", "--configs", "3", "--workers", "0", "--quiet"]
    assert main([*arguments, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["table"] == "tiny.table"
    assert (told["configs"], told["rounds"], told["scored_rounds"]) == (3, 3, [1, 2, 3])
    assert (told["train_clients"], told["validation_clients"]) == (8, 2)
    assert (folder / "tiny.table").stat().st_size == told["bytes"]
    assert main(["table", "info", "tiny.table"]) == 0
    assert "8 train, 2 validate" in capsys.readouterr().out
    (folder / "broken.table").write_text("no")
    assert main(["table", "ls", "--json"]) == 0
    listed = {one["table"]: one for one in json.loads(capsys.readouterr().out)["tables"]}
    assert listed["tiny.table"]["configs"] == 3
    assert "not a table" in listed["broken.table"]["problem"]
    assert main(["table", "ls"]) == 0
    assert "tiny.table" in capsys.readouterr().out


def test_a_table_says_how_well_its_surrogate_predicts(folder, capsys):
    from fedhpo.testing.table import toy_table

    toy_table(configs=40, rounds=9, clients=10).save(folder / "toy.table")
    assert main(["table", "info", "toy.table", "--surrogate", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["surrogate"]
    assert 0 < found["level"] < found["spread"]
    assert main(["table", "info", "toy.table", "--surrogate"]) == 0
    assert "for unseen configs" in capsys.readouterr().out
    command = ["compare", "--table", "toy.table", "-m", "random", "--seeds", "2", "--total", "27"]
    assert main([*command, "--surrogate", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["setting"]["surrogate"] == found
    assert main(["compare", "tiny.toml", "-m", "random", "--surrogate"]) == 2
    assert "--surrogate: needs --table" in capsys.readouterr().err


def test_mistakes_are_told(folder, capsys):
    assert main(["table", "info", "none.table", "--json"]) == 2
    assert json.loads(capsys.readouterr().out) == {"error": "none.table: No such file or directory"}
    assert main(["table", "build", "tiny.toml", "--configs", "0"]) == 2
    assert "at least 1" in capsys.readouterr().err
