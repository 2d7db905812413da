"""A private run is copied before its first release; the run, the copy and a restored copy are all finished.

Each set of released values is one spending of epsilon. There must be no more of them than the ledger charged.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import warnings
from pathlib import Path

import fedhpo as fh
from fedhpo.run import open_read
from fedhpo.testing import ToyFederation


def tune(run: Path, ledger: Path, stop: str | None = None) -> None:
    """The run of epsilon 1 under a total of 1.5, stopped after the first event of a kind."""
    callbacks = [lambda event: event.kind == stop] if stop else []
    fh.tune(
        ToyFederation(),
        fh.Space(client={"lr": fh.Float(1e-3, 10.0, log=True)}),
        fh.SHA(trials=9, finalists=1),
        rounds=8,
        total=48,
        cohort=4,
        evaluation=fh.Evaluator(privacy=fh.Privacy(1.0, budget=str(ledger), total=1.5, release="exact")),
        run=run,
        callbacks=callbacks,
    )


def released(run: Path) -> str:
    """All values that the record holds."""
    with open_read(run) as held:
        return json.dumps(
            [json.loads(e.result) for e in held.record.events() if e.kind == "decide release" and e.result]
        )


def main() -> int:
    """Copy, finish, restore, finish."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["FEDHPO_STATE"] = str(Path(folder) / "state")
        run, ledger = Path(folder) / "run", Path(folder) / "clients.privacy"
        tune(run, ledger, stop="round")
        backup = shutil.copytree(run, Path(folder) / "backup")
        seen, refused = set(), 0
        for attempt in range(3):
            place = run
            if attempt:
                place = shutil.copytree(backup, Path(folder) / f"copy{attempt}")
            try:
                tune(place, ledger)
                seen.add(released(place))
            except fh.FedhpoError:
                refused += 1
        spent = max(fh.PrivacyLedger(ledger).spent.values())
    print(
        f"{len(seen)} different sets of exact values for a spending of {spent:g} under a total of 1.5, "
        f"{refused} refused"
    )
    return 0 if len(seen) <= spent + 1e-9 else 1


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.exit(main())
