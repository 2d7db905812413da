"""FedPop killed in the middle of a round and of an exchange: resumed, it ends in the same result."""

import subprocess
import sys
from signal import SIGKILL

import pytest

import fedhpo as fh
from fedhpo.run import open_read
from fedhpo.testing import ToyFederation

#: Every event is on disk at once, so that a kill leaves as much as there can be.
PROGRAM = """
import os, signal, sys
import fedhpo as fh
from fedhpo import tuning
from fedhpo.testing import ToyFederation

run, asynchronous, schedule, call, count = sys.argv[1:]
tuning.COMMIT_EVERY = 0.0
federation = ToyFederation(noise=0.02)
done, left = getattr(federation, call), [int(count)]

def counted(*arguments):
    left[0] -= 1
    if left[0] == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return done(*arguments)

setattr(federation, call, counted)
space = fh.Space(client={"lr": fh.Float(1e-3, 10.0, log=True)}, server={"lr": fh.Float(0.2, 1.0)})
method = fh.FedPop(population=9, schedule=schedule, asynchronous=bool(int(asynchronous)))
fh.tune(federation, space, method, rounds=20, total=100 if schedule == "halving" else 180, cohort=6, run=run)
"""
SPACE = fh.Space(client={"lr": fh.Float(1e-3, 10.0, log=True)}, server={"lr": fh.Float(0.2, 1.0)})


def tune(asynchronous, schedule, run=None):
    method = fh.FedPop(population=9, schedule=schedule, asynchronous=asynchronous)
    total = 100 if schedule == "halving" else 180
    return fh.tune(ToyFederation(noise=0.02), SPACE, method, rounds=20, total=total, cohort=6, run=run)


def facts(result):
    return {name: value for name, value in result.facts.items() if name != "times"}


@pytest.mark.parametrize(
    ("asynchronous", "schedule", "kills"),
    [
        (False, "halving", [("fork", 2), ("round", 8)]),
        (True, "fixed", [("fork", 5), ("next_done", 60)]),
    ],
)
def test_killed_it_ends_in_the_same_result(tmp_path, asynchronous, schedule, kills):
    path, behind = tmp_path / "a", 0
    for call, count in kills:
        command = [sys.executable, "-c", PROGRAM, str(path), str(int(asynchronous)), schedule, call]
        assert subprocess.run([*command, str(count)], check=False).returncode == -SIGKILL
        with open_read(path) as run:
            assert run.status == "stopped"
            assert run.record.last >= behind
            behind = run.record.last
    assert behind > 20
    result, unbroken = tune(asynchronous, schedule, path), tune(asynchronous, schedule)
    assert facts(result) == facts(unbroken)
    assert list(result.lineage) == list(unbroken.lineage)
    assert len(result.lineage) > 5
