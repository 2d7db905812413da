"""Six private runs of epsilon 0.5 under a total of 2.0, while the ledger's disk is full.

What runs released must not exceed what the ledger says, nor the total.
"""

from __future__ import annotations

import errno
import os
import sys
import tempfile
import warnings
from pathlib import Path

import fedhpo as fh
from fedhpo.testing import ToyFederation

RUNS, EPSILON, TOTAL = 6, 0.5, 2.0


def fill_disk(path: Path, room: int) -> None:
    """Let this file hold `room` bytes and no more, as the kernel does it: short writes, then ENOSPC."""
    pwrite, write = os.pwrite, os.write

    def allowed(descriptor: int, data: bytes, offset: int) -> bytes:
        if os.path.realpath(f"/proc/self/fd/{descriptor}") != os.path.realpath(path):
            return data
        fits = max(0, room - offset)
        if not fits:
            raise OSError(errno.ENOSPC, "No space left on device")
        return data[:fits]

    os.pwrite = lambda fd, data, offset: pwrite(fd, allowed(fd, bytes(data), offset), offset)
    os.write = lambda fd, data: write(fd, allowed(fd, bytes(data), os.fstat(fd).st_size))


def tune(ledger: Path, seed: int) -> float:
    """One private run, and what it says that it spent."""
    privacy = fh.Privacy(EPSILON, budget=str(ledger), total=TOTAL)
    space = fh.Space(client={"lr": fh.Float(1e-3, 10.0, log=True)})
    result = fh.tune(
        ToyFederation(),
        space,
        fh.RandomSearch(trials=2),
        rounds=2,
        total=4,
        cohort=4,
        seed=seed,
        evaluation=fh.Evaluator(privacy=privacy),
    )
    return float(result.facts["privacy"]["epsilon_spent"])


def main() -> int:
    """Run them, and compare."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["FEDHPO_STATE"] = str(Path(folder) / "state")
        ledger = Path(folder) / "clients.privacy"
        released = tune(ledger, 0)
        fill_disk(ledger, ledger.stat().st_size + 100)  # in the middle of the next line
        passed = 1
        for seed in range(1, RUNS):
            try:
                released += tune(ledger, seed)
                passed += 1
            except fh.FedhpoError:
                continue
        spent = max(fh.PrivacyLedger(ledger).spent.values())
    print(
        f"{passed} of {RUNS} runs released epsilon {released:g} under a total of {TOTAL:g}; "
        f"the ledger says {spent:g}"
    )
    return 0 if released <= min(spent, TOTAL) + 1e-9 else 1


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.exit(main())
