"""The run's directory: what it holds, who may open it, what it tells."""

import csv
import json
import os
import re
import sqlite3
from importlib import metadata

import pytest
from small_method import main

import fedhpo.run.run as run_module
from fedhpo.core import version
from fedhpo.core.errors import InputError
from fedhpo.core.run_errors import DamageError, OtherVersionError, RunError
from fedhpo.core.version import Raised
from fedhpo.protocol.federation import Work
from fedhpo.run import Record, Run, list_runs, open_read
from fedhpo.run.recorded import RecordedSession
from fedhpo.testing import ToyFederation


def begun(path, **changes):
    given = {"study": {"seed": 0, "space": {"lr": [0.1, 1.0]}}, "method": "sha", "method_number": 1} | changes
    return Run.create_or_open(path, **given)


def test_the_directory_holds_study_record_result_and_history(tmp_path):
    result = main(tmp_path / "run")
    names = sorted(file.name for file in (tmp_path / "run").iterdir() if file.name != "checkpoints")
    assert names == ["history.csv", "lock", "record.sqlite", "result.json", "study.json"]
    assert json.loads((tmp_path / "run" / "study.json").read_text()) == {"seed": 7}
    assert json.loads((tmp_path / "run" / "result.json").read_text()) == json.loads(json.dumps(result))
    rows = list(csv.DictReader((tmp_path / "run" / "history.csv").open()))
    assert len(rows) == len(open_read(tmp_path / "run").history())


def test_the_study_is_kept_as_it_was_written(tmp_path):
    text = "seed = 0  # ours\n"
    begun(tmp_path / "run", study_text=text).close()
    assert (tmp_path / "run" / "study.toml").read_text() == text
    assert open_read(tmp_path / "run").study == {"seed": 0, "space": {"lr": [0.1, 1.0]}}


def test_another_study_or_method_is_refused_by_its_first_difference(tmp_path):
    begun(tmp_path / "run").close()
    other = {"seed": 0, "space": {"lr": [0.1, 2.0]}}
    with pytest.raises(
        InputError, match=r"another study \(space.lr\[1\] is 1.0 there, 2.0 here\): choose another name"
    ):
        begun(tmp_path / "run", study=other)
    with pytest.raises(InputError, match=r"holds method 'sha', not 'fedex'"):
        begun(tmp_path / "run", method="fedex")
    begun(tmp_path / "run").close()


def test_a_raised_number_names_the_commit_to_use(tmp_path, monkeypatch):
    begun(tmp_path / "run").close()
    lines = (Raised("sha", 1, "1234abc"), Raised("engine", 1, "2345bcd"))
    monkeypatch.setattr(version, "RAISED", lines)
    with pytest.raises(OtherVersionError, match=r"number of sha 1, now 2\): .* git checkout 1234abc &&"):
        begun(tmp_path / "run", method_number=2)
    with pytest.raises(OtherVersionError, match=r"number of engine 1, now 2\): .* git checkout 2345bcd &&"):
        begun(tmp_path / "run", numbers={"engine": 2})
    begun(tmp_path / "run", numbers={"engine": 1}).close()


def test_a_number_that_is_not_listed_is_not_ours_to_look_up(tmp_path):
    """A method of the user's own was given another number."""
    begun(tmp_path / "run").close()
    with pytest.raises(OtherVersionError, match="take the source that it was begun with"):
        begun(tmp_path / "run", method_number=2)


def test_a_run_keeps_the_numbers_that_were_raised(tmp_path):
    """Of those that were not, it says nothing: it is the run that 0.2.0 would have begun."""
    begun(tmp_path / "old", numbers={"engine": 1}).close()
    begun(tmp_path / "new", numbers={"engine": 2, "privacy": 1}).close()
    assert open_read(tmp_path / "old").record.get("numbers") is None
    assert open_read(tmp_path / "new").record.get("numbers") == {"engine": 2}
    begun(tmp_path / "new", numbers={"engine": 2, "privacy": 1}).close()
    with pytest.raises(OtherVersionError, match="number of engine 2, now 1"):
        begun(tmp_path / "new", numbers={"engine": 1, "privacy": 1})


def test_other_versions_of_numpy_and_torch_warn(tmp_path, monkeypatch):
    begun(tmp_path / "run").close()
    then = run_module.versions()
    monkeypatch.setattr(run_module, "versions", lambda: then | {"numpy": "0.1", "torch": "0.2"})
    expected = f"numpy {then['numpy']} (now 0.1), torch {then['torch']} (now 0.2)"
    with pytest.warns(UserWarning, match=re.escape(expected)):
        begun(tmp_path / "run").close()


def test_facts_name_versions_without_importing_torch(tmp_path):
    begun(tmp_path / "run").close()
    facts = open_read(tmp_path / "run").facts()
    assert facts["versions"]["torch"] == metadata.version("torch")
    assert facts["versions"]["fedhpo"] == metadata.version("fedhpo")
    assert facts["method"] == "sha"
    assert json.loads(json.dumps(facts)) == facts


def test_the_same_process_cannot_open_it_twice_either(tmp_path):
    with (
        begun(tmp_path / "run") as run,
        pytest.raises(RunError, match=rf"in use by another process \(pid {os.getpid()}\)"),
    ):
        begun(tmp_path / "run")
    assert run.record.path.exists()
    begun(tmp_path / "run").close()


def test_a_foreign_directory_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match=r"is not a run \(it holds 'thesis.tex'\): choose another name"):
        begun(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.tex"]
    with pytest.raises(InputError, match=r"is not a run: it has no record.sqlite"):
        open_read(tmp_path)


def test_what_is_no_run_is_told_what_it_is(tmp_path):
    (tmp_path / "file").write_text("")
    begun(tmp_path / "runs" / "mine").close()
    for path, said in (
        (tmp_path / "gone", "there is no such directory"),
        (tmp_path / "file", "it is a file"),
        (tmp_path / "runs", f"it holds runs; give one of them, such as {tmp_path / 'runs' / 'mine'}"),
    ):
        with pytest.raises(InputError) as error:
            open_read(path)
        assert said in str(error.value)
    with pytest.raises(InputError, match="is a file; a run needs a directory of its own"):
        begun(tmp_path / "file")


def test_a_begin_cut_short_counts_as_not_begun(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "lock").touch()
    (folder / "record.sqlite").touch()
    with begun(folder) as run:
        run.finish({})
    assert open_read(folder).status == "finished"


def test_a_damaged_record_is_a_clear_error(tmp_path):
    begun(tmp_path / "run").close()
    (tmp_path / "run" / "record.sqlite").write_bytes(b"not a database at all" * 100)
    with pytest.raises(RunError, match=r"record.sqlite is damaged: file is not a database; restore"):
        begun(tmp_path / "run")
    with pytest.raises(RunError, match="file is not a database"):
        open_read(tmp_path / "run")


def test_somebody_elses_database_is_a_clear_error(tmp_path):
    (tmp_path / "run").mkdir()
    with sqlite3.connect(tmp_path / "run" / "record.sqlite") as database:
        database.execute("CREATE TABLE birds (name TEXT)")
    with pytest.raises(RunError, match="it is not a record of fedhpo"):
        begun(tmp_path / "run")


def test_a_damaged_event_is_named(tmp_path):
    main(tmp_path / "run")
    with sqlite3.connect(tmp_path / "run" / "record.sqlite") as database:
        database.execute("UPDATE events SET result = x'0100' WHERE kind = 'round'")
    with pytest.raises(DamageError, match=r"is damaged: event \d+ is not as it was written"):
        main(tmp_path / "run")
    with pytest.raises(DamageError, match=r"is damaged: event \d+ is not as it was written"):
        open_read(tmp_path / "run").history()


@pytest.mark.parametrize("begun_with_wal", [False, True])
def test_without_wal_the_rollback_journal_does(tmp_path, begun_with_wal):
    if begun_with_wal:
        Run.create_or_open(tmp_path / "run", {"seed": 7}, "small", 1).close()
    (tmp_path / "run" / "record.sqlite-shm").mkdir(parents=True)  # memory cannot be shared here
    result = main(tmp_path / "run")
    assert main(tmp_path / "run") == result
    assert open_read(tmp_path / "run").result() == json.loads(json.dumps(result))
    with sqlite3.connect(tmp_path / "run" / "record.sqlite") as database:
        assert database.execute("PRAGMA journal_mode").fetchone() == ("delete",)


def test_a_record_is_synchronous_and_in_wal_mode(tmp_path):
    record = Record(tmp_path / "record.sqlite")
    assert record._rows("PRAGMA journal_mode") == [("wal",)]
    assert record._rows("PRAGMA synchronous") == [(2,)]  # FULL
    record.close()


def test_readers_look_on_while_it_is_written(tmp_path):
    with begun(tmp_path / "run") as run:
        federation = RecordedSession(ToyFederation(), run.record, run.ledger)
        federation.start(0, {}, seed=0)
        for number in range(3):
            federation.round([Work(0, [0, 1], {"lr": 0.1})])
            with open_read(tmp_path / "run") as reader:
                assert reader.status == "running"
                assert len(reader.history()) == number + 1
                with pytest.raises(RunError, match="readonly database"):
                    reader.record.set(status="mine")


def test_history_by_hand(tmp_path):
    with begun(tmp_path / "run") as run:
        toy = ToyFederation(noise=0.0, parameters=2)
        federation = RecordedSession(toy, run.record, run.ledger)
        federation.start(0, {}, seed=0)
        federation.start(1, {}, seed=1)
        federation.round([Work(0, [0, 1], {"lr": 0.1}), Work(1, [3], {"lr": 0.1}, {"lr": 0.0})])
        federation.fork(0, 1)
        federation.evaluate([1], [0, 1, 2])
    first, second, third = open_read(tmp_path / "run").history()
    # Weights of 0 lie 1 away from 1; the best lr goes half of the way.
    assert (first["trial"], first["round"], first["kind"], first["ok"]) == (0, 1, "round", 2)
    assert (first["loss_before"], first["loss_after"]) == (1.0, 0.25)
    assert (second["trial"], second["ok"], second["loss"]) == (1, 1, None)
    # Costs are those of the whole event: 3 clients, 2 numbers of 8 bytes each way, 10 + 11 + 13 samples.
    assert (first["rounds"], first["client_rounds"], first["bytes_up"], first["samples"]) == (2, 3, 48, 34)
    assert (third["kind"], third["trial"], third["round"], third["split"]) == ("evaluate", 1, 1, "validation")
    assert (third["loss"], third["loss_after"], third["evaluations"]) == (0.25, None, 3)
    assert third["bytes_down"] == 48 + 48


def test_a_result_that_is_not_finite_is_written_as_json(tmp_path):
    with begun(tmp_path / "run") as run:
        run.finish({"loss": float("nan"), "all": [float("inf"), 1.5]})
    assert open_read(tmp_path / "run").result() == {"loss": None, "all": [None, 1.5]}


def test_no_result_before_the_end(tmp_path):
    begun(tmp_path / "run").close()
    assert open_read(tmp_path / "run").result() is None


def test_runs_are_listed_the_damaged_ones_too(tmp_path):
    with begun(tmp_path / "b") as run:
        run.finish({})
    begun(tmp_path / "a").close()
    begun(tmp_path / "c").close()
    (tmp_path / "c" / "record.sqlite").write_bytes(b"gone" * 500)
    (tmp_path / "notes").mkdir()
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "record.sqlite").touch()
    found = list_runs(tmp_path)
    assert [(facts["name"], facts["status"]) for facts in found] == [
        ("c", "damaged"),
        ("d", "not begun"),
        ("b", "finished"),
        ("a", "stopped"),
    ]
    assert "file is not a database" in found[0]["reason"]
    assert list_runs(tmp_path / "nowhere") == []
