"""Damage to any file of a run: the same result, or a refusal that names the file. Never another result."""

import json
import os
import random
import shutil
import sqlite3
import tempfile
import warnings
from functools import partial
from pathlib import Path

import pytest
from small_method import method

from fedhpo.core.errors import FedhpoError
from fedhpo.core.run_errors import DamageError, NotBegunError, OtherVersionError, RunError
from fedhpo.run import Record, Run, list_runs, open_read
from fedhpo.run.recorded import RecordedSession
from fedhpo.testing import ToyFederation

ROUNDS = 4
#: How many times as many places are tried: more than 1 for a longer look.
MORE = int(os.environ.get("FEDHPO_DAMAGE", "1"))


class Stop(Exception):
    """Ends a run in the middle."""


def carried_on(path, *, stop_after=None, die=False, **options):
    """Begin or go on with the run; the result without its times."""
    run = Run.create_or_open(path, {"seed": 7}, "small", 1, "seed = 7\n")

    def on_event(progress):
        # At an event, not by the clock as usual: every time the same files.
        if stop_after is not None and not progress.replayed and progress.number == stop_after - 3:
            assert federation.checkpoint()
        if progress.number == stop_after:
            raise Stop

    try:
        toy = ToyFederation(missing=0.1, **options)
        federation = RecordedSession(toy, run.record, run.ledger, on_event=on_event, checkpoint_share=0.0)
        found = json.loads(json.dumps(method(federation, rounds=ROUNDS)))
        federation.checkpoint()
        rows = run.finish(found)
        for row in rows:
            del row["seconds"]
        return found, rows, run.record.spent()["rounds"]
    except Stop:
        run.stop("here")
    finally:
        if die:  # as by a kill: nothing is put in order, what SQLite wrote stays as it is
            shutil.copytree(path, path.with_name(path.name + "-killed"))
        run.close()


@pytest.fixture(scope="module")
def memory(tmp_path_factory):
    """A directory in memory, where there is one: hundreds of runs need not wait for a disk."""
    shared = Path("/dev/shm")
    if not os.access(shared, os.W_OK):
        yield tmp_path_factory.mktemp("memory")
        return
    with tempfile.TemporaryDirectory(dir=shared) as folder:
        yield Path(folder)


@pytest.fixture
def tmp_path(memory):
    """Instead of pytest's own."""
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def runs(memory):
    """A finished, a stopped and a killed run of the same study, and what it ends in."""
    folder = memory / "runs"
    folder.mkdir()
    whole = carried_on(folder / "finished")
    last = open_read(folder / "finished").record.last
    carried_on(folder / "stopped", stop_after=last // 2)
    carried_on(folder / "x", stop_after=2 * last // 3, die=True)
    (folder / "x-killed").rename(folder / "killed")
    assert (folder / "killed" / "record.sqlite-wal").stat().st_size > 0
    for kind in ("finished", "stopped", "killed"):
        assert any((folder / kind / "checkpoints").iterdir())
    return folder, whole


def flip(data, chance):
    place = chance.randrange(len(data))
    return data[:place] + bytes([data[place] ^ chance.randrange(1, 256)]) + data[place + 1 :]


def cut(data, chance):
    return data[: chance.randrange(len(data))]


def zero(data, chance):
    place, length = chance.randrange(len(data)), chance.choice([16, 512, 4096])
    return data[:place] + bytes(len(data[place : place + length])) + data[place + length :]


def outcome(path, whole):
    """How a damaged run ends: "same" or the message of the refusal; readers must not fail otherwise."""
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        list_runs(path.parent)
        try:
            with open_read(path) as run:
                run.result()
                run.history()
        except FedhpoError:
            pass
        try:
            found = carried_on(path)
        except FedhpoError as error:
            message = str(error)
            found = None
    if found is None:
        assert str(path) in message
        return message
    assert found == whole
    assert json.loads((path / "result.json").read_text()) == whole[0]
    return "same"


@pytest.mark.parametrize("kind", ["finished", "stopped", "killed"])
@pytest.mark.parametrize(("damage", "times"), [(flip, 2 * MORE), (cut, MORE), (zero, MORE)])
def test_no_damage_changes_the_result(runs, tmp_path, kind, damage, times):
    folder, whole = runs
    chance = random.Random(f"{kind} {damage.__name__}")
    files = sorted(f.relative_to(folder / kind) for f in (folder / kind).rglob("*") if f.is_file())
    found = []
    for file in files:
        data = (folder / kind / file).read_bytes()
        # Most of the record matters: it gets more than its share.
        for nth in range((6 if "sqlite" in file.name else 1) * times if data else 0):
            path = tmp_path / f"{file.name}-{nth}" / "run"
            shutil.copytree(folder / kind, path)
            (path / file).write_bytes(damage(data, chance))
            found.append(outcome(path, whole))
            shutil.rmtree(path)
    assert "same" in found
    if kind != "killed":  # there most of the record lies in the log, whose end may be lost: it is run again
        assert set(found) != {"same"}


@pytest.mark.parametrize("kind", ["finished", "stopped", "killed"])
def test_a_file_that_is_gone_changes_nothing_or_is_named(runs, tmp_path, kind):
    folder, whole = runs
    for file in sorted(f.relative_to(folder / kind) for f in (folder / kind).rglob("*") if f.is_file()):
        path = tmp_path / file.name / "run"
        shutil.copytree(folder / kind, path)
        (path / file).unlink()
        found = outcome(path, whole)
        assert found == "same" or "record.sqlite" in found


def test_checkpoints_that_changed_places_are_noticed_and_trained_again(runs, tmp_path):
    folder, whole = runs
    shutil.copytree(folder / "stopped", tmp_path / "run")
    one, other, *_ = sorted((tmp_path / "run" / "checkpoints").iterdir())
    shutil.copy(one, other)
    with pytest.warns(UserWarning, match=rf"{other.name} is damaged: the rounds of run .* are run again"):
        assert carried_on(tmp_path / "run") == whole


def test_a_damaged_checkpoint_of_clients_that_do_not_repeat_is_refused(tmp_path):
    carried_on(tmp_path / "run", stop_after=20, repeatable=False)
    file = sorted((tmp_path / "run" / "checkpoints").iterdir())[0]
    file.write_bytes(flip(file.read_bytes(), random.Random(0)))
    with pytest.raises(
        RunError, match=rf"cannot go on: .*{file.name} is damaged.*restore the file from a copy"
    ):
        carried_on(tmp_path / "run", repeatable=False)


def test_a_result_that_was_changed_is_written_again(runs, tmp_path):
    folder, whole = runs
    path = tmp_path / "run"
    shutil.copytree(folder / "finished", path)
    good = [(path / name).read_bytes() for name in ("result.json", "history.csv", "study.toml")]
    (path / "result.json").write_text(json.dumps(whole[0] | {"trials": [5]}))
    (path / "history.csv").unlink()
    (path / "study.toml").write_text("seed = 8\n")
    with pytest.raises(DamageError, match=r"result.json is damaged: .*`fedhpo resume .*run`"):
        open_read(path).result()
    with pytest.warns(UserWarning, match="is damaged") as told:
        carried_on(path)
    for name in ("result.json", "history.csv", "study.toml"):
        assert any(f"{name} is damaged" in str(warning.message) for warning in told)
    assert [(path / name).read_bytes() for name in ("result.json", "history.csv", "study.toml")] == good


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM events WHERE number = 9",
        "DELETE FROM events WHERE number > 9",
        "UPDATE events SET epsilon = 1.0 WHERE number = 9",
        "UPDATE events SET seconds = seconds + 1 WHERE number = 9",
        "UPDATE events SET rounds = rounds + 1 WHERE number = 9",
        "UPDATE meta SET value = '5' WHERE key = 'checkpoint'",
        "DELETE FROM meta WHERE key = 'study'",
        "UPDATE checkpoints SET bytes = bytes + 1",
        "UPDATE checkpoints SET trial = trial + 1 WHERE trial = (SELECT max(trial) FROM checkpoints)",
        "UPDATE sessions SET active = 1e6",
        "UPDATE sessions SET active = 'long'",
    ],
)
def test_a_changed_row_is_noticed(runs, tmp_path, statement):
    folder, _ = runs
    shutil.copytree(folder / "stopped", tmp_path / "run")
    with sqlite3.connect(tmp_path / "run" / "record.sqlite") as database:
        assert database.execute(statement).rowcount > 0
    with pytest.raises(DamageError, match=r"record.sqlite is damaged: .*; restore the run's directory"):
        carried_on(tmp_path / "run")


def test_two_events_that_changed_places_are_noticed(runs, tmp_path):
    folder, _ = runs
    shutil.copytree(folder / "stopped", tmp_path / "run")
    with sqlite3.connect(tmp_path / "run" / "record.sqlite") as database:
        for old, new in ((2, -1), (3, 2), (-1, 3)):
            database.execute("UPDATE events SET number = ? WHERE number = ?", (new, old))
    with pytest.raises(DamageError, match="event 2 is not as it was written"):
        list(open_read(tmp_path / "run").record.events())


# What a kill leaves in the first moments


def nothing_yet(path):
    path.mkdir()


def locked_only(path):
    path.mkdir()
    (path / "lock").write_text("1")


def no_bytes(path):
    path.mkdir()
    (path / "record.sqlite").touch()


def no_tables(path, mode="wal"):
    path.mkdir()
    database = sqlite3.connect(path / "record.sqlite", isolation_level=None)
    database.execute(f"PRAGMA journal_mode = {mode}")
    database.close()


def rolled_back(path):
    """Killed inside the transaction that makes the tables."""
    path.mkdir()
    database = sqlite3.connect(path / "record.sqlite", isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("BEGIN IMMEDIATE")
    database.execute("CREATE TABLE meta (key TEXT)")
    shutil.copytree(path, path.with_name("copy"))
    database.close()
    shutil.rmtree(path)
    path.with_name("copy").rename(path)


def no_study(path):
    path.mkdir()
    Record(path / "record.sqlite").close()


def half_a_study(path):
    no_study(path)
    (path / "study.toml.part").write_text("seed =")


def study_written(path):
    no_study(path)
    (path / "study.toml").write_text("seed = 7\n")


@pytest.mark.parametrize(
    "begin",
    [
        nothing_yet,
        locked_only,
        no_bytes,
        no_tables,
        partial(no_tables, mode="delete"),
        rolled_back,
        no_study,
        half_a_study,
        study_written,
    ],
)
def test_a_run_that_was_killed_before_it_began_is_begun(runs, tmp_path, begin):
    _, whole = runs
    path = tmp_path / "run"
    begin(path)
    if (path / "record.sqlite").exists():
        with pytest.raises(NotBegunError, match="has not begun"):
            open_read(path)
        assert [facts["status"] for facts in list_runs(tmp_path)] == ["not begun"]
    assert carried_on(path) == whole


def test_an_empty_record_beside_checkpoints_is_damage(runs, tmp_path):
    folder, _ = runs
    shutil.copytree(folder / "stopped", tmp_path / "run")
    (tmp_path / "run" / "record.sqlite").write_bytes(b"")
    with pytest.raises(DamageError, match="it is empty"):
        carried_on(tmp_path / "run")
    (tmp_path / "run" / "record.sqlite").unlink()
    with pytest.raises(DamageError, match=r"record.sqlite is damaged: it is missing, though there is"):
        carried_on(tmp_path / "run")


# What must not be done twice


def private(path, compute, releases=1):
    run = Run.create_or_open(path, {}, "private", 1)
    federation = RecordedSession(ToyFederation(), run.record, run.ledger)
    found = [federation.decide("release", n, compute, epsilon=0.5) for n in range(releases)]
    return run, found


@pytest.mark.parametrize("when", ["charged", "drawn"])
def test_a_private_release_that_the_log_lost_is_not_drawn_again(tmp_path, when):
    path, drawn = tmp_path / "run", []

    def draw():
        drawn.append(1)
        return 7.0

    # The copies are those of a kill: before the release, once it was charged, once it was drawn.
    run, _ = private(path, draw)
    shutil.copytree(path, tmp_path / "early")

    def charge_only():
        if when == "charged":
            raise Stop
        return 8.0

    try:
        run.close()
        run, _ = private(path, charge_only, releases=2)
    except Stop:
        pass
    else:
        run.close()
    shutil.copy(path / "witness", tmp_path / "early" / "witness")
    with pytest.raises(RunError, match=r"has lost its end: it holds 1 events, witness knows of 2"):
        private(tmp_path / "early", draw)
    (tmp_path / "early" / "witness").write_bytes(b"1 1 0123\n")
    with pytest.warns(UserWarning, match="witness is damaged: it is written again"):
        run, found = private(tmp_path / "early", draw)
    run.close()
    assert found == [7.0]
    assert drawn == [1]


def test_a_result_that_the_log_lost_is_not_drawn_again(tmp_path):
    path = tmp_path / "run"

    def draw():
        shutil.copytree(path, tmp_path / "charged")
        return 7.0

    private(path, draw)[0].close()
    shutil.copy(path / "witness", tmp_path / "charged" / "witness")
    with pytest.raises(RunError, match="has lost its end"):
        private(tmp_path / "charged", lambda: 8.0)


# Old runs, and long ones


def test_a_run_of_the_first_format_names_the_commit_to_use(tmp_path):
    path = tmp_path / "old"
    path.mkdir()
    with sqlite3.connect(path / "record.sqlite") as database:
        database.execute("CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID")
        for table in ("events", "checkpoints", "stops", "sessions"):
            database.execute(f"CREATE TABLE {table} (number INTEGER)")
        facts = {"format": 1, "study": {}, "versions": {"fedhpo": "0.1.0"}}
        rows = [(key, json.dumps(value)) for key, value in facts.items()]
        database.executemany("INSERT INTO meta VALUES (?, ?)", rows)
    message = (
        r"begun with fedhpo 0\.1\.0 \(its record has format 1; .* git checkout 0a59939 && pip install -e \."
    )
    with pytest.raises(OtherVersionError, match=message):
        carried_on(path)
    with pytest.raises(OtherVersionError, match=message):
        open_read(path)
    assert [facts["status"] for facts in list_runs(tmp_path)] == ["other version"]


def test_100_000_events_take_one_query(tmp_path):
    record = Record(tmp_path / "record.sqlite")
    for number in range(100_000):
        record.append("decide ask", b"%d" % number, b"1.0", commit=False)
    record.close()
    record = Record(tmp_path / "record.sqlite")
    statements = []
    record._database.set_trace_callback(statements.append)
    assert sum(1 for _ in record.events()) == 100_000
    assert len(statements) == 1
    for number in range(100_000):
        assert record.expect("decide ask", b"%d" % number).number == number + 1
    assert record.expect("decide ask", b"") is None
    assert len(statements) == 2
    record.close()
