"""A run that is killed at any moment ends, resumed, in the same result, bit for bit."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

KILLS = 5  # `benchmarks/chaos.py` kills a thousand times

SCRIPT = """
import sys, warnings
import fedhpo as fh

def main(run, workers):
    data = fh.load("digits", clients=30, partition={"kind": "dirichlet", "alpha": 0.5})
    space = fh.Space(
        client={"lr": fh.Float(1e-3, 1.0, log=True), "batch_size": fh.Ordinal([8, 16, 32]), "epochs": 2},
        server={"lr": fh.Float(0.5, 5.0, log=True), "momentum": fh.Choice([0.0, 0.9])},
    )
    federation = fh.simulate("mlp", data, server="fedavgm", workers=workers)
    print("ready", flush=True)
    fh.tune(federation, space, rounds=30, total=210, cohort=6, seed=1, run=run, baseline=True)
    federation.close()

if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
"""


def begin(script: Path, run: Path, workers: int) -> subprocess.Popen:
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(script), str(run), str(workers)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True
    )


def result(run: Path) -> dict:
    found = json.loads((run / "result.json").read_text())
    del found["times"]
    return found


def test_killed_again_and_again_it_ends_in_the_same_result(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    unbroken = begin(script, whole, workers=0)
    chance = random.Random(0)
    kills = 0
    while kills < KILLS:
        # Every seventh process has workers of its own, which are killed with it.
        process = begin(script, broken, workers=2 if kills % 7 == 3 else 0)
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "ready"
        time.sleep(chance.uniform(0.0, 3.0 if kills % 7 == 3 else 0.8))
        kills += 1
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        else:  # too fast a machine for the rest of the kills: begin another run
            assert unbroken.wait(timeout=120) == 0
            assert result(broken) == result(whole)
            broken = tmp_path / f"broken-{kills}"
        process.stdout.close()
    last = begin(script, broken, workers=0)
    assert last.wait(timeout=120) == 0
    assert unbroken.wait(timeout=120) == 0
    assert result(broken) == result(whole)
    for process in (last, unbroken):
        process.stdout.close()
