"""What a user says is what happens: each fault that was found, on the commit that had it and on this tree.

    python benchmarks/truth.py --before COMMIT [--only 03 ledger] [--jobs 2] [--json]

A file of `benchmarks/truths` reproduces one fault. It sees only what fedhpo exports, prints in one line what
it saw, and exits with 0 where the behaviour is right and with 1 where it is wrong; any other exit code is a
fault of the script. The exit code of this command is 1 if a script is not wrong before, or not right now.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TRUTHS = Path(__file__).resolve().parent / "truths"
#: Seconds that a script may take; it needs far fewer on an idle machine.
LIMIT = 240
#: What an exit code says.
VERDICTS = {0: "right", 1: "wrong"}


@dataclass(frozen=True)
class Seen:
    """What a script saw on one tree."""

    verdict: str
    line: str
    seconds: float


@contextmanager
def tree_of(commit: str) -> Iterator[Path]:
    """The sources of a commit in a directory of their own, for a while."""
    with tempfile.TemporaryDirectory(prefix="fedhpo-before-") as directory:
        archive = subprocess.run(
            ["git", "archive", commit], cwd=ROOT, check=True, stdout=subprocess.PIPE
        ).stdout
        subprocess.run(["tar", "-x", "-C", directory], input=archive, check=True)
        yield Path(directory)


def seen(script: Path, tree: Path) -> Seen:
    """Run a script on the fedhpo of a tree, in an empty directory and with an empty home."""
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="fedhpo-truth-") as home:
        environment = {
            **os.environ,
            "PYTHONPATH": str(tree / "src"),
            "HOME": home,
            "OMP_NUM_THREADS": "1",
            "COLUMNS": "200",
        }
        try:
            done = subprocess.run(
                [sys.executable, str(script)],
                cwd=home,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=LIMIT,
            )
        except subprocess.TimeoutExpired:
            return Seen("hung", f"no answer within {LIMIT} s", time.perf_counter() - begin)
    said = done.stdout.strip().splitlines() or done.stderr.strip().splitlines() or ["nothing was printed"]
    verdict = VERDICTS.get(done.returncode, f"exit {done.returncode}")
    return Seen(verdict, said[-1], time.perf_counter() - begin)


def main() -> int:
    """Run the scripts on both trees and print what each saw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--before", required=True, help="the commit that has the faults")
    parser.add_argument("--only", nargs="+", default=[""], help="parts of names of scripts")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    scripts = [
        one for one in sorted(TRUTHS.glob("[0-9]*.py")) if any(part in one.stem for part in options.only)
    ]
    with tree_of(options.before) as before, ThreadPoolExecutor(options.jobs) as pool:
        jobs = [(script, tree) for script in scripts for tree in (before, ROOT)]
        found = list(pool.map(lambda job: seen(*job), jobs))
    rows = {
        script.stem: {"before": old, "now": new}
        for script, old, new in zip(scripts, found[::2], found[1::2], strict=True)
    }
    as_wanted = {
        name
        for name, row in rows.items()
        if (row["before"].verdict, row["now"].verdict) == ("wrong", "right")
    }
    if options.json:
        print(
            json.dumps({name: {when: asdict(one) for when, one in row.items()} for name, row in rows.items()})
        )
    else:
        for name, row in rows.items():
            print(f"{name}{'' if name in as_wanted else '   <-- not as wanted'}")
            for when, one in row.items():
                print(f"    {when:6} {one.verdict:6} {one.seconds:5.1f} s  {one.line[:200]}")
        print(f"{len(as_wanted)} of {len(rows)} faults reproduced before and gone now")
    return 0 if rows and len(as_wanted) == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
