"""A small run of the chaos harness, and that it sees what it is there to see."""

import doctest
import json
import random
import signal
import sqlite3
import subprocess
import sys
import time
import tomllib
from multiprocessing import shared_memory
from pathlib import Path

import pytest

from fedhpo.study import Study

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

from chaos_parts import chains, damage, flips, looks, starts, studies  # noqa: E402


@pytest.mark.parametrize("module", [chains, damage, flips, looks, starts, studies], ids=lambda m: m.__name__)
def test_the_examples_of_its_parts_hold(module):
    assert doctest.testmod(module).failed == 0


def test_killed_and_damaged_runs_end_in_the_same_result_or_are_refused():
    command = [sys.executable, str(BENCHMARKS / "chaos.py"), "--json", "--seed", "1", "--jobs", "2"]
    options = ["--kills", "4", "--flips", "4", "--methods", "sha,fedex", "--real", "0", "--workers", "0"]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=False, timeout=300)
    assert done.stdout, done.stderr
    facts = json.loads(done.stdout.splitlines()[-1])
    assert facts["kills"] >= 4
    assert facts["flips"]["tried"] >= 4
    assert facts["broken"] == {}, done.stderr
    assert done.returncode == 0


@pytest.mark.parametrize("kind", studies.KINDS)
def test_studies_are_the_same_in_every_order_of_their_keys(kind):
    for seed in range(4):
        study = studies.random_study(seed, kind)
        texts = [studies.to_toml(study, random.Random(order)) for order in range(3)]
        assert all(tomllib.loads(text) == study for text in texts)
        assert len(set(texts)) == 3
        Study.from_dict(study)


def test_a_flip_always_changes_something():
    for seed in range(300):
        content = bytearray(random.Random(seed).randbytes(40))
        before = bytes(content)
        damage.flip(content, random.Random(seed))
        assert content != before


def run_of(folder: Path, result: object, history: str) -> Path:
    folder.mkdir()
    (folder / "result.json").write_text(json.dumps(result))
    (folder / "history.csv").write_text(history)
    return folder


def test_another_result_or_history_is_seen_and_other_times_are_not(tmp_path):
    result = {"best": {"trial": 1, "score": 0.5}, "times": {"wall_seconds": 3.0}}
    run = run_of(tmp_path / "a", result, "event,loss,seconds\n1,0.25,0.1\n")
    uncut = chains.Reference({}, "", looks.outcome(run), 1.0)
    slower = run_of(tmp_path / "b", result | {"times": {}}, "event,loss,seconds\n1,0.25,0.9\n")
    assert chains.compared(uncut, slower) == ""
    other = run_of(
        tmp_path / "c", {"best": {"trial": 1, "score": 0.5000001}}, "event,loss,seconds\n1,0.25,0.1\n"
    )
    assert chains.compared(uncut, other) == "result.best.score: 0.5, now 0.5000001"
    other = run_of(tmp_path / "d", result, "event,loss,seconds\n1,0.26,0.1\n")
    assert chains.compared(uncut, other) == "history.0.loss: 0.25, now 0.26"


def test_a_record_is_read_as_a_kill_left_it(tmp_path):
    run, scratch = tmp_path / "run", tmp_path / "scratch"
    run.mkdir()
    assert looks.look(run, scratch) == looks.Look()
    (run / "record.sqlite").touch()
    assert looks.look(run, scratch) == looks.Look()  # made, but without tables: nothing was begun
    database = sqlite3.connect(run / "record.sqlite", isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("CREATE TABLE meta (key, value)")
    database.execute("CREATE TABLE events (number, kind, call, result, epsilon)")
    assert not looks.look(run, scratch).begun
    database.execute("INSERT INTO meta VALUES ('study', '{}')")
    database.execute("INSERT INTO events VALUES (1, 'decide release', 'a', NULL, 0.5)")
    first = looks.look(run, scratch)
    assert first.begun
    database.execute("INSERT INTO events VALUES (2, 'decide release', 'a', '0.1', 0.5)")
    second = looks.look(run, scratch)
    assert looks.changed(first.events, second.events) == ""
    assert looks.released_twice(second.events) == "event 2 releases again what was released"
    database.close()


def test_processes_that_are_left_are_seen_until_they_end():
    left = subprocess.Popen(["sleep", "60"], start_new_session=True)
    try:
        assert starts.left_of(left.pid) == [left.pid]
    finally:
        left.kill()
        left.wait()
    assert starts.left_of(left.pid) == []


def test_shared_memory_that_nobody_uses_is_seen():
    code = (
        "from multiprocessing import resource_tracker, shared_memory\n"
        "resource_tracker.register = lambda *_: None\n"
        "print(shared_memory.SharedMemory(create=True, size=16).name)"
    )
    before = starts.segments(False)
    name = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()
    try:
        assert f"/dev/shm/{name}" in starts.unused(starts.segments(False) - before)
    finally:
        shared_memory.SharedMemory(name).unlink()


def test_a_process_is_started_in_a_session_of_its_own_and_killed(tmp_path):
    process = starts.start(["--version"], tmp_path, real=True)
    assert process.wait(60) == 0
    assert process.told.startswith("fedhpo ")
    process = starts.start(["schema"], tmp_path, real=True)
    assert process.shoot(signal.SIGKILL, group=True)
    assert process.wait(60) == -signal.SIGKILL
    assert not process.shoot(signal.SIGKILL, group=True)
    assert time.monotonic() - process.began < 60
