"""A ledger whose total is spent is edited, cut, emptied, deleted or put back: no further run may begin."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import fedhpo as fh
from fedhpo.testing import ToyFederation


def tune(ledger: Path, seed: int) -> None:
    """One private run of epsilon 1 under a total of 2."""
    fh.tune(
        ToyFederation(),
        fh.Space(client={"lr": fh.Float(1e-3, 10.0, log=True)}),
        fh.RandomSearch(trials=2),
        rounds=2,
        total=4,
        cohort=4,
        seed=seed,
        evaluation=fh.Evaluator(privacy=fh.Privacy(1.0, budget=str(ledger), total=2.0)),
    )


def main() -> int:
    """Try each change on a ledger of its own."""
    changes: dict[str, Callable[[bytes, bytes], bytes | None]] = {
        "edited": lambda first, both: both.replace(b": 1.0", b": 0.0"),
        "cut": lambda first, both: both[: len(first) + 40],
        "a line less": lambda first, both: both[: both[:-1].rfind(b"\n") + 1],
        "emptied": lambda first, both: b"",
        "deleted": lambda first, both: None,
        "put back": lambda first, both: first,
    }
    accepted = []
    for name, change in changes.items():
        with tempfile.TemporaryDirectory() as folder:
            os.environ["FEDHPO_STATE"] = str(Path(folder) / "state")
            ledger = Path(folder) / "clients.privacy"
            tune(ledger, 0)
            first = ledger.read_bytes()
            tune(ledger, 1)
            changed = change(first, ledger.read_bytes())
            ledger.unlink()
            if changed is not None:
                ledger.write_bytes(changed)
            try:
                tune(ledger, 2)
                accepted.append(name)
            except fh.FedhpoError:
                continue
    named = ", ".join(accepted) or "none"
    print(f"of {len(changes)} changed ledgers {len(accepted)} let a third run in: {named}")
    return 1 if accepted else 0


if __name__ == "__main__":
    sys.exit(main())
