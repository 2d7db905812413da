"""SIGTERM and Ctrl-C inside `fh.tune` of a script: the script must not go on as if nothing had happened."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SCRIPT = """
import signal
import sys
import fedhpo as fh

if __name__ == "__main__":
    # As in a terminal: a shell that starts this in the background has it ignore Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    federation = fh.simulate("linear", fh.load("digits", clients=10), workers=1)
    space = fh.Space(client={"lr": fh.Float(0.01, 1.0, log=True)})
    say = lambda event: print(event.kind, flush=True)
    budget = {"rounds": 20000, "total": 40000, "cohort": 3}
    fh.tune(federation, space, "random", **budget, run=sys.argv[1], callbacks=[say])
    print("went on", flush=True)
"""


def outcome(folder: Path, number: int) -> tuple[int, bool, str, list[str]]:
    """Exit code, whether the script went on, how the run stands, and which workers are left."""
    place = folder / f"run-{number}"
    script = subprocess.Popen(
        [sys.executable, str(folder / "script.py"), str(place)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    assert script.stdout is not None
    while script.stdout.readline() not in ("round\n", ""):
        pass
    children = Path(f"/proc/{script.pid}/task/{script.pid}/children").read_text().split()
    os.killpg(script.pid, number)
    told = script.communicate(timeout=120)[0]
    end = time.monotonic() + 10
    while (left := [pid for pid in children if os.path.exists(f"/proc/{pid}")]) and time.monotonic() < end:
        time.sleep(0.1)
    listed = [sys.executable, "-m", "fedhpo", "runs", str(folder), "--json"]
    found = subprocess.run(listed, capture_output=True, text=True, check=True).stdout
    return script.returncode, "went on" in told, "stopped" if '"stopped"' in found else "other", left


with tempfile.TemporaryDirectory() as name:
    (Path(name) / "script.py").write_text(SCRIPT)
    term, interrupt = (outcome(Path(name), number) for number in (signal.SIGTERM, signal.SIGINT))
said = "exit code {}, went on: {}, run {}, workers left {}"
print(f"SIGTERM: {said.format(*term)}; Ctrl-C: {said.format(*interrupt)}")
right = term == (143, False, "stopped", []) and interrupt[0] in (-signal.SIGINT, 130)
right = right and interrupt[1:] == term[1:]
sys.exit(0 if right else 1)
