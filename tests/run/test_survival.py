"""A run killed at any moment and resumed ends in the same result, bit for bit."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from small_method import main, method

from fedhpo.core.run_errors import ReplayError, RunError
from fedhpo.run import Run, open_read
from fedhpo.run.recorded import RecordedSession
from fedhpo.testing import ToyFederation

PROGRAM = Path(__file__).with_name("small_method.py")


def begin(directory, pause):
    return subprocess.Popen(
        [sys.executable, str(PROGRAM), str(directory), str(pause)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def events_of(directory):
    try:
        with open_read(directory) as run:
            return run.record.last
    except (RunError, ValueError):
        return 0


def test_killed_at_random_moments_ends_in_the_same_result(tmp_path):
    whole = main(tmp_path / "whole")
    generator = random.Random(3)
    kills = 0
    while kills < 10:
        process = begin(tmp_path / "broken", 0.01)
        # Each time a little further than before, then at some moment: also in the middle of a write.
        goal = events_of(tmp_path / "broken") + generator.randint(1, 4)
        while events_of(tmp_path / "broken") < goal and process.poll() is None:
            time.sleep(0.002)
        time.sleep(generator.uniform(0, 0.02))
        process.send_signal(signal.SIGKILL)
        _, errors = process.communicate()
        assert process.returncode == -signal.SIGKILL, errors.decode()
        kills += 1
    killed = open_read(tmp_path / "broken")
    assert killed.status == "stopped"
    assert 0 < killed.record.last < open_read(tmp_path / "whole").record.last

    process = begin(tmp_path / "broken", 0.0)
    output, errors = process.communicate()
    assert process.returncode == 0, errors.decode()
    assert json.loads(output) == json.loads(json.dumps(whole))
    one, other = open_read(tmp_path / "whole"), open_read(tmp_path / "broken")
    assert other.result() == one.result()
    spent = [{k: v for k, v in run.record.spent().items() if k != "seconds"} for run in (one, other)]
    assert spent[0] == spent[1]
    assert spent[0]["rounds"] == whole["spent"]["rounds"] > 0
    assert other.facts()["repeats"] is True


def test_a_second_process_is_refused_and_told_who_holds_the_run(tmp_path):
    process = begin(tmp_path / "run", 0.5)
    try:
        while events_of(tmp_path / "run") < 3:
            assert process.poll() is None
            time.sleep(0.01)
        with pytest.raises(RunError, match=rf"in use by another process \(pid {process.pid}\)"):
            Run.create_or_open(tmp_path / "run", {"seed": 7}, "small", 1)
        assert open_read(tmp_path / "run").status == "running"
    finally:
        process.kill()
        process.communicate()
    Run.create_or_open(tmp_path / "run", {"seed": 7}, "small", 1).close()  # the kernel let go of the lock


class Stop(Exception):
    """What a callback raises to end a run."""


def stop_after(events):
    seen = []

    def on_event(progress):
        if not progress.replayed:
            seen.append(progress)
        if len(seen) == events:
            raise Stop

    return on_event


def test_stops_are_recorded_and_change_nothing(tmp_path):
    whole = main(tmp_path / "whole")
    for _ in range(4):
        with Run.create_or_open(tmp_path / "run", {"seed": 7}, "small", 1) as run:
            toy = ToyFederation(missing=0.1)
            federation = RecordedSession(toy, run.record, run.ledger, on_event=stop_after(7))
            with pytest.raises(Stop):
                method(federation)
            assert federation.checkpoint()
            run.stop("time limit")
    stopped = open_read(tmp_path / "run")
    assert stopped.status == "stopped"
    assert [(stop["event"], stop["reason"]) for stop in stopped.record.stops()] == [
        (7 * i, "time limit") for i in (1, 2, 3, 4)
    ]
    assert main(tmp_path / "run") == whole


def test_ctrl_c_is_a_stop_and_an_exception_a_failure(tmp_path):
    def leave(error):
        with Run.create_or_open(tmp_path / "run", {}, "small", 1):
            raise error

    with pytest.raises(KeyboardInterrupt):
        leave(KeyboardInterrupt())
    assert open_read(tmp_path / "run").status == "stopped"
    with pytest.raises(ZeroDivisionError):
        leave(ZeroDivisionError("oh"))
    run = open_read(tmp_path / "run")
    assert run.status == "failed"
    assert [stop["reason"] for stop in run.record.stops()] == ["interrupted", "ZeroDivisionError: oh"]


def test_a_call_interrupted_midway_is_not_checkpointed(tmp_path):
    class Interrupted(ToyFederation):
        def round(self, work):
            super().round(work)
            raise KeyboardInterrupt

    with Run.create_or_open(tmp_path / "run", {}, "small", 1) as run:
        federation = RecordedSession(Interrupted(), run.record, run.ledger)
        with pytest.raises(KeyboardInterrupt):
            method(federation)
        assert not federation.checkpoint()
        assert run.record.checkpoint == 6  # the six decisions, before any trial was started


def test_a_changed_method_stops_with_the_first_difference(tmp_path):
    main(tmp_path / "run")

    def again(**options):
        with Run.create_or_open(tmp_path / "run", {"seed": 7}, "small", 1) as run:
            federation = RecordedSession(ToyFederation(missing=0.1), run.record, run.ledger)
            run.finish(method(federation, **options))

    # The decisions are served; what depends on them is the same even so.
    again(factor=2.0)
    with pytest.raises(
        ReplayError, match=r"the method ended after event \d+, the record goes on to event \d+"
    ):
        again_short(tmp_path / "run")
    with pytest.raises(
        ReplayError, match=r"event 7 \(start\) differs from the record: seed was 100, now it is 101"
    ):
        again(seed=101)
    with open_read(tmp_path / "run") as run:
        first_round = next(event.number for event in run.record.events() if event.kind == "round")
    with pytest.raises(
        ReplayError, match=rf"event {first_round} \(round\) .* the call was 'round', now it is 'evaluate'"
    ):
        again(first="evaluate")


def again_short(path):
    with Run.create_or_open(path, {"seed": 7}, "small", 1) as run:
        federation = RecordedSession(ToyFederation(missing=0.1), run.record, run.ledger)
        federation.decide("ask", {"trial": 0}, lambda: None)
        run.finish({})


def limited_disk(directory):
    """A program whose files cannot grow beyond 200 kB, as on a full disk."""
    return f"""
import resource, sys
sys.path.insert(0, {str(PROGRAM.parent)!r})
from small_method import *
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
with Run.create_or_open({str(directory)!r}, {{}}, "small", 1) as run:
    federation = RecordedSession(ToyFederation(2000), run.record, run.ledger)
    federation.start(0, {{}}, seed=0)
    while True:
        federation.round([Work(0, range(2000), {{"lr": 0.1}})])
"""


def test_files_that_cannot_grow_are_a_clear_error_and_the_record_stays(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", limited_disk(tmp_path / "run")], capture_output=True, text=True
    )
    last = done.stderr.strip().splitlines()[-1]
    assert re.match(r"fedhpo.errors.RunError: cannot write the (record|checkpoint) .*run", last), done.stderr
    assert_goes_on(tmp_path / "run")


def assert_goes_on(path):
    with open_read(path) as run:
        rows = run.history()
        assert len(rows) == run.record.last - 1 >= 1
        assert [row["round"] for row in rows] == list(range(1, len(rows) + 1))


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 1 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode != 0:
        pytest.skip("mounting is not permitted here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_is_a_clear_error_and_the_run_goes_on_with_more_room(small_disk):
    program = limited_disk(small_disk / "run").replace("resource.setrlimit", "print")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    last = done.stderr.strip().splitlines()[-1]
    assert re.match(r"fedhpo.errors.RunError: cannot write .*run.*(full|No space)", last), done.stderr
    assert_goes_on(small_disk / "run")
    subprocess.run(["mount", "-o", "remount,size=3m", str(small_disk)], check=True)
    before = open_read(small_disk / "run").record.last
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "RunError: cannot write" in done.stderr
    assert open_read(small_disk / "run").record.last > before


def test_a_read_only_disk_is_a_clear_error(small_disk):
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(RunError, match=r"cannot make the run's directory .*run: Read-only file system"):
        Run.create_or_open(small_disk / "run", {}, "small", 1)


def test_a_read_only_disk_can_be_read(small_disk):
    subprocess.run(["mount", "-o", "remount,size=3m", str(small_disk)], check=True)
    main(small_disk / "run")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with open_read(small_disk / "run") as run:
        assert run.status == "finished"
        assert len(run.history()) > 10
    with pytest.raises(RunError, match=r"cannot lock .*lock: Read-only file system"):
        Run.create_or_open(small_disk / "run", {"seed": 7}, "small", 1)


def test_a_path_below_a_file_is_a_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match=r"cannot make the run's directory .*file/run: Not a directory"):
        Run.create_or_open(tmp_path / "file" / "run", {}, "small", 1)
