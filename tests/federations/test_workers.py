"""Worker processes: the same bits however many there are, and whatever happens to them."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import warnings
from pathlib import Path

import numpy as np
import psutil
import pytest

from fedhpo.data import from_clients
from fedhpo.federations.simulate import simulate
from fedhpo.protocol.federation import Status, Work

pytestmark = pytest.mark.skipif(os.name != "posix", reason="worker processes are tested on POSIX")

CONFIGS = [
    {"lr": 0.3, "momentum": 0.5, "batch_size": 4 + 4 * (c % 2), "epochs": 1 + c % 3, "prox": 0.1 * (c % 2)}
    for c in range(10)
]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)

    def rows(n):
        return rng.normal(size=(n, 6)).astype(np.float32), rng.integers(0, 3, n)

    return from_clients([{"train": rows(6 + c), "validation": rows(3)} for c in range(10)], classes=3)


def history(federation, disturb=lambda: None):
    """Two trials, two rounds side by side and one submitted; every number that came of it."""
    federation.start(0, {}, seed=1)
    federation.start(1, {"hidden": 9}, seed=2)
    found = []
    for _ in range(2):
        for report in federation.round([Work(0, range(10), CONFIGS), Work(1, [7, 2, 4, 5, 1], {"lr": 0.2})]):
            assert not report.reasons
            found += [report.loss_before, report.loss_after]
    federation.submit(Work(0, range(10), CONFIGS))
    federation.submit(Work(1, range(10), CONFIGS))
    disturb()
    found += [federation.next_done(1).loss_after, federation.next_done(0).loss_after]
    found += [scores.loss for scores in federation.evaluate([1, 0], range(10))]
    for trial in (0, 1):
        found += [np.array(array) for array in federation.state(trial).arrays.values()]
        federation.stop(trial)
    return b"".join(array.tobytes() for array in found)


def options(stacking):
    return {"server": "fedyogi", "stacking": stacking}


ZOO = {
    "mlp": ((6,), 0),
    "cnn_small": ((1, 8, 8), 0),
    "lstm": ((7,), 9),
}


@pytest.mark.parametrize("model", ZOO)
def test_what_is_cut_for_workers_is_the_same_bits_without_them(model, monkeypatch):
    """Evaluations are cut for the workers there are: here as finely as they go."""
    monkeypatch.setattr("fedhpo.engine.effort.GRAIN", 1e-9)
    monkeypatch.setattr("fedhpo.engine.effort.MOST_BATCH", 32)
    shape, tokens = ZOO[model]
    rng = np.random.default_rng(0)

    def rows(n):
        x = rng.integers(0, tokens, (n, *shape)) if tokens else rng.normal(size=(n, *shape))
        return x.astype(np.uint8 if tokens else np.float32), rng.integers(0, 3, n)

    clients = from_clients([{"train": rows(6 + c), "validation": rows(50 + c)} for c in range(10)], classes=3)
    found = []
    for workers in (0, 2):
        with simulate(model, clients, workers=workers) as federation:
            federation.start(0, {}, seed=1)
            federation.round([Work(0, range(10), {"lr": 0.1, "batch_size": 8})])
            [scores] = federation.evaluate([0], range(10))
            weights = federation.state(0).arrays["weights"]
            found.append((weights.tobytes(), scores.loss.tobytes(), scores.accuracy.tobytes()))
            assert federation.describe()["worker_kind"] == ("processes" if workers else "inline")
    assert found[0] == found[1]


def wait_until_gone(pids, seconds=300):
    until = time.monotonic() + seconds
    while living := [p for p in pids if psutil.pid_exists(p) and psutil.Process(p).status() != "zombie"]:
        assert time.monotonic() < until, living
        time.sleep(0.05)


def descriptors():
    """How many files this process has open; 0 where that cannot be told."""
    return len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0


def inline(data, stacking):
    with simulate("mlp", data, workers=0, **options(stacking)) as federation:
        return history(federation)


@pytest.fixture(scope="module")
def expected(data):
    return inline(data, stacking=False)


@pytest.fixture(scope="module")
def two(data):
    with simulate("mlp", data, workers=2, **options(stacking=False)) as federation:
        yield federation


@pytest.mark.parametrize("stacking", [True, False], ids=["stacked", "unstacked"])
def test_one_worker_gives_the_same_bits_as_none_and_goes_closed_or_not(stacking, data):
    federation = simulate("mlp", data, workers=1, **options(stacking))
    assert history(federation) == inline(data, stacking)
    assert federation.describe()["worker_kind"] == "processes"
    assert federation.describe()["stacked"] is stacking
    [pid], before = federation.pids, descriptors()
    if stacking:
        federation.close()
    del federation
    wait_until_gone([pid])
    assert descriptors() < before or before == 0


def test_two_workers_give_the_same_bits_as_none(expected, two):
    assert history(two) == expected
    assert history(two) == expected
    assert len(two.pids) == 2


def test_a_worker_killed_in_the_middle_of_a_round_changes_nothing(expected, two):
    victims = []

    def kill():
        victims.append(two.pids[0])
        os.kill(two.pids[0], signal.SIGKILL)

    assert history(two, kill) == expected
    assert victims[0] not in two.pids
    assert len(two.pids) == 2
    for pid in two.pids:  # also while they have nothing to do
        os.kill(pid, signal.SIGKILL)
    assert history(two) == expected


class Local:
    """A rule that no worker can import by this name."""

    def resolve(self, labels, classes):
        return {"lr": 0.1}

    def to_dict(self):
        return {}


def test_a_rule_that_cannot_be_sent_is_a_failure_and_the_workers_go_on(expected, two):
    class Unsendable(Local):
        pass

    two.start(5, {}, 0)
    for _ in range(3):
        [report] = two.round([Work(5, [0, 1, 2], Unsendable())])
        assert report.status.tolist() == [Status.FAILED] * 3
        assert "cannot be sent" in report.reasons[0].text
    two.stop(5)
    assert history(two) == expected


# Programs of their own

PRELUDE = """
import json, os, pathlib, sys, time, warnings
import numpy as np
import fedhpo as fh
from torch import nn

warnings.simplefilter("always")
rng = np.random.default_rng(0)
clients = [
    {"train": (rng.normal(size=(6 + c, 6)).astype(np.float32), rng.integers(0, 3, 6 + c))} for c in range(6)
]
for c in range(6):
    clients[c]["train"][0][0, 0] = c
"""

NET = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(6, 3)

    def forward(self, x):
        return self.out(x)
"""

MAIN = """
def train(model, workers, cohort=range(6)):
    with fh.simulate(model, clients, workers=workers, stacking=False) as federation:
        federation.start(0, {}, seed=0)
        [report] = federation.round([fh.Work(0, cohort, {"lr": 0.5, "batch_size": 50, "epochs": 2})])
        facts = federation.describe()
        weights = federation.state(0).arrays["weights"]
        return {
            "kind": facts["worker_kind"], "note": facts["note"], "weights": weights.tobytes().hex(),
            "status": report.status.tolist(), "reasons": [str(why) for why in report.reasons.values()],
        }
"""


def environment(tmp_path):
    scratch = tmp_path / "scratch"
    scratch.mkdir(exist_ok=True)
    return os.environ | {"TMPDIR": str(scratch), "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "default"}


def run(tmp_path, program, arguments=None, stdin=None, prefix=()):
    """Run a program as a script, or in another way; what it printed, and its errors."""
    script = tmp_path / "script.py"
    script.write_text(program)
    finished = subprocess.run(
        [*prefix, sys.executable, *(arguments or [str(script)])],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=300,
        env=environment(tmp_path),
        cwd=tmp_path,
    )
    assert finished.returncode == 0, finished.stderr
    [line] = finished.stdout.splitlines()  # a script run again by its workers would print twice
    assert not list((tmp_path / "scratch").iterdir())
    return json.loads(line), finished.stderr


DEADLY = """
class Deadly(Net):
    def forward(self, x):
        if self.training and float(x[:, 0].max()) == 5.0:  # a row of the last client
            with open("attempts", "a") as file:
                file.write("x")
            os._exit(3)
        return super().forward(x)
"""
OWN = PRELUDE + NET + MAIN
GUARDED = """
if __name__ == "__main__":
    calls = [(Net, 1, range(6)), (Deadly, 1, range(6)), (Deadly, 0, range(5))]
    print(json.dumps([train(*call) for call in calls] + [pathlib.Path("attempts").read_text()]))
"""


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """Models of the script's own, below a main guard."""
    found, errors = run(tmp_path_factory.mktemp("guarded"), PRELUDE + NET + DEADLY + MAIN + GUARDED)
    assert errors == ""
    return found


@pytest.fixture(scope="module")
def by_processes(guarded):
    return guarded[0]


def test_a_guarded_script_has_worker_processes(by_processes):
    assert by_processes["kind"] == "processes"
    assert by_processes["note"] == ""
    assert by_processes["status"] == [0] * 6


def test_a_client_that_always_kills_its_worker_fails_alone_after_two_attempts(guarded):
    _, found, without, attempts = guarded
    assert found["kind"] == "processes"
    assert found["status"] == [0, 0, 0, 0, 0, Status.FAILED]
    assert "died twice" in found["reasons"][0]
    assert "exit code 3" in found["reasons"][0]
    assert attempts == "xx"
    assert found["weights"] == without["weights"]


def test_a_script_without_main_guard_has_threads_for_its_own_models_and_workers_for_ours(
    by_processes, tmp_path
):
    program = OWN + "print(json.dumps([train('linear', 1), train(Net, 1)]))\n"
    (ours, own), errors = run(tmp_path, program)
    assert ours["kind"] == "processes"
    assert ours["note"] == ""
    of_threads(own, errors, "__name__ == '__main__'", by_processes)


def of_threads(found, errors, reason, by_processes):
    assert found["kind"] == "threads"
    assert reason in found["note"]
    assert errors.count("UserWarning") == 1
    assert found["note"] in errors
    assert "Traceback" not in errors
    assert found["weights"] == by_processes["weights"]


def test_threads_serve_where_nothing_can_be_imported_again(by_processes, tmp_path):
    found, errors = run(tmp_path, "", ["-"], stdin=OWN + "print(json.dumps(train(Net, 1)))\n")
    of_threads(found, errors, "session", by_processes)
    asked = "from fedhpo.workers.spawn import main_is_a_file; print(main_is_a_file())"
    told = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, timeout=300)
    assert told.stdout == "False\n"


def test_threads_serve_a_model_that_cannot_be_pickled(by_processes):
    script = {"__name__": "script"}
    with warnings.catch_warnings(record=True) as warned:
        exec(OWN, script)
        found = script["train"](lambda: script["Net"](), workers=1)
    said = "".join(f"{one.category.__name__}: {one.message}" for one in warned)
    of_threads(found, said, "lambda", by_processes)


LONG = """
if __name__ == "__main__":
    federation = fh.simulate("mlp", clients, workers=2, stacking=False)
    federation.start(0, {}, seed=0)
    print("starting workers", flush=True)
    federation.evaluate([0], [0])
    federation.submit(fh.Work(0, range(6), {"batch_size": 1, "epochs": 10**6}))
    print(*federation.pids, flush=True)
    federation.next_done()
"""


def begin(tmp_path, program):
    script = tmp_path / "script.py"
    script.write_text(program)
    return subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(tmp_path),
        start_new_session=True,
    )


def shared_memory():
    return set(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else set()


def test_nothing_stays_when_the_parent_is_killed(tmp_path):
    before = shared_memory()
    parent = begin(tmp_path, PRELUDE + LONG)
    try:
        parent.stdout.readline()
        workers = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(workers) == 2
        helpers = [p.pid for p in psutil.Process(parent.pid).children(recursive=True)]
        assert set(workers) <= set(helpers)
        time.sleep(0.3)  # in the middle of the round
    finally:
        parent.kill()
        parent.communicate(timeout=300)
    wait_until_gone(helpers)
    assert shared_memory() <= before  # others may have gone meanwhile
    assert not list((tmp_path / "scratch").iterdir())


def test_ctrl_c_is_the_parents_affair(tmp_path):
    parent = begin(tmp_path, PRELUDE + LONG.replace("workers=2", "workers=1"))
    try:
        parent.stdout.readline()
        until = time.monotonic() + 1.0
        while time.monotonic() < until:  # workers are starting
            for helper in psutil.Process(parent.pid).children(recursive=True):
                helper.send_signal(signal.SIGINT)
            time.sleep(0.02)
        [worker] = [int(pid) for pid in parent.stdout.readline().split()]
        time.sleep(0.3)  # in the middle of the round
        os.killpg(parent.pid, signal.SIGINT)
        _, errors = parent.communicate(timeout=300)
    finally:
        parent.kill()
    assert parent.returncode != 0
    assert errors.count("Traceback (most recent call last)") == 1, errors
    assert errors.strip().endswith("KeyboardInterrupt")
    wait_until_gone([worker])


def test_dev_shm_is_not_used():
    """In a container it holds 64 MB; here next to nothing."""
    small = "mount -t tmpfs -o size=64k tmpfs /dev/shm"
    inside = ["unshare", "--mount", "sh", "-c"]
    try:
        allowed = subprocess.run([*inside, small], capture_output=True, timeout=10).returncode == 0
        if not allowed:
            inside.insert(1, "--map-root-user")
            allowed = subprocess.run([*inside, small], capture_output=True, timeout=10).returncode == 0
    except FileNotFoundError:
        allowed = False
    if not allowed:
        pytest.skip("mounting is not permitted here")
    program = PRELUDE + textwrap.dedent("""
        if __name__ == "__main__":
            assert os.statvfs("/dev/shm").f_blocks * os.statvfs("/dev/shm").f_frsize == 64 << 10
            with fh.simulate("mlp", clients, workers=1) as federation:
                federation.start(0, {"hidden": 50_000}, seed=0)
                [report] = federation.round([fh.Work(0, range(4), {"lr": 0.01, "batch_size": 50})])
                size = federation.state(0).arrays["weights"].nbytes
                print(json.dumps({"status": report.status.tolist(), "size": size, **federation.describe()}))
    """)
    with tempfile.TemporaryDirectory() as folder:  # tests' own files may lie in what is mounted over
        found, _ = run(Path(folder), program, prefix=[*inside, f'{small} && exec "$@"', "sh"])
    assert found["worker_kind"] == "processes"
    assert found["status"] == [0] * 4
    assert found["size"] > 2e6
