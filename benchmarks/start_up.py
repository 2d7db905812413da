"""From a command to its end: `fedhpo tune examples/digits.toml`, this source and another, in turn.

    python benchmarks/start_up.py OLD [--pairs 10]

OLD is a clone of fedhpo at another commit. Each run begins in an empty directory, in a process of its own.
Told are medians, and the least and most: seconds until the first round is reported and until the process has
ended, and CPU seconds of the process and its workers. On a busy machine only the CPU seconds mean something.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]


def measured(clone: Path) -> dict[str, float]:
    """Of one run of a clone's own source on its own example."""
    with tempfile.TemporaryDirectory(prefix="start-up-") as folder:
        begun = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, "-u", "-m", "fedhpo", "tune", str(clone / "examples" / "digits.toml")],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(clone / "src")},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert process.stdout is not None
        first = None
        for line in process.stdout:
            if first is None and "round" in line:
                first = time.perf_counter() - begun
        _, status, usage = os.wait4(process.pid, 0)
        whole = time.perf_counter() - begun
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode or first is None:
        raise SystemExit(f"{clone}: the command failed ({process.returncode})")
    return {"first round": first, "whole": whole, "CPU": usage.ru_utime + usage.ru_stime}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("old", type=Path, metavar="OLD", help="a clone of fedhpo at another commit")
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    clones = {"before": options.old.resolve(), "after": HERE}
    found: dict[str, list[dict[str, float]]] = {name: [] for name in clones}
    for pair in range(options.pairs):
        for name in list(clones)[:: 1 if pair % 2 else -1]:
            found[name].append(measured(clones[name]))
    if options.json:
        print(json.dumps({"load": os.getloadavg()[0], **found}))
        return
    print(f"load {os.getloadavg()[0]:.1f}, {options.pairs} pairs; median (least to most), seconds")
    for what in ("first round", "whole", "CPU"):
        said = []
        for name, runs in found.items():
            values = [run[what] for run in runs]
            said.append(f"{name} {statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})")
        print(f"{what:<12} {', '.join(said)}")


if __name__ == "__main__":
    main()
