"""What a first run waits for: imports before its first round, and processes that begin early."""

import os
import subprocess
import sys
from multiprocessing.connection import Connection
from pathlib import Path

from fedhpo.workers import spawn

STUDY = """
[data]
name = "digits"
clients = 8
[model]
name = "linear"
[space.client]
lr = { low = 0.1, high = 1.0 }
[method]
name = "random"
trials = 2
[budget]
rounds = 1
cohort = 2
"""

FIRST = """
import sys
from fedhpo.study import Study
def stop(event):
    if event.kind == "round":
        print(len(sys.modules), *sorted({name.partition(".")[0] for name in sys.modules}))
        raise SystemExit(0)
Study.load("study.toml").tune("run", workers=0, callbacks=[stop])
"""


def test_the_first_round_needs_few_imports(tmp_path: Path) -> None:
    """Modules of scikit-learn and pandas would take as long as all of the search."""
    (tmp_path / "study.toml").write_text(STUDY)
    done = subprocess.run(
        [sys.executable, "-c", FIRST], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=120
    )
    count, *packages = done.stdout.split()
    assert not {"sklearn", "pandas", "plotly", "flwr", "ray", "optuna"} & set(packages)
    assert "torch" in packages
    assert int(count) < 1900


def _answer(pipe: Connection, number: int) -> None:
    pipe.send((os.getpid(), number, "colorsys" in sys.modules))


def test_a_process_that_began_early_takes_work_on() -> None:
    spawn.begin_early(2, "colorsys", "no_such_module")
    early = {worker.pid for worker, _ in spawn._EARLY}
    assert len(early) == 2
    answers = []
    for number in range(3):
        worker, pipe = spawn.spawn(_answer, number)
        answers.append(pipe.recv())
        worker.join()
        pipe.close()
    assert {pid for pid, _, _ in answers[:2]} == early
    assert answers[2][0] not in early
    assert [number for _, number, _ in answers] == [0, 1, 2]
    assert [imported for _, _, imported in answers] == [True, True, False]


def test_processes_that_nobody_needed_end() -> None:
    spawn.begin_early(1)
    (worker, _pipe), *_ = spawn._EARLY
    spawn.end_early()
    worker.join(20)
    assert worker.exitcode is not None
    assert not spawn._EARLY


def test_an_early_process_that_died_is_passed_over() -> None:
    spawn.begin_early(1)
    (dead, _), *_ = spawn._EARLY
    dead.kill()
    dead.join()
    worker, pipe = spawn.spawn(_answer, 5)
    assert pipe.recv()[:2] == (worker.pid, 5)
    worker.join()
