"""How long a resumed run takes to catch up, and what recording costs.

    python benchmarks/replay.py [directory]

4,000 rounds of 27 trials, a config for each of the 10 members of a cohort, are recorded and replayed.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from fedhpo.federation.fine_tune import FineTune
from fedhpo.federation.protocol import RoundReport, Work
from fedhpo.federation.recorded import RecordedFederation
from fedhpo.run import Run
from fedhpo.testing import ToyFederation

TRIALS, ROUNDS, COHORT, CLIENTS = 27, 4000, 10, 1000
EVENT_SECONDS = 0.05
UNDER_WAY = 2000  # events, after which the write-ahead log is recycled instead of growing


def works(generator: np.random.Generator, trials: int) -> list[Work]:
    """A round of each trial, with seven client hyperparameters drawn for each member."""
    names = ("lr", "momentum", "weight_decay", "epochs", "batch_size", "dropout", "mu")
    found = []
    for trial in range(trials):
        cohort = generator.choice(CLIENTS, COHORT, replace=False).tolist()
        configs = [dict(zip(names, row, strict=True)) for row in generator.random((COHORT, 7)).tolist()]
        found.append(Work(trial, cohort, configs, {"lr": 1.0, "momentum": 0.9}))
    return found


def method(federation: RecordedFederation, side_by_side: int) -> None:
    """`ROUNDS` rounds, so many trials at a time."""
    generator = np.random.default_rng(0)
    for trial in range(TRIALS):
        federation.start(trial, {}, seed=trial)
    for _ in range(ROUNDS // side_by_side):
        federation.round(works(generator, side_by_side))


def timed(path: Path, side_by_side: int) -> float:
    """Run the method over the record in `path`, new or not."""
    begun = time.perf_counter()
    with Run.create_or_open(path, {}, "benchmark", 1) as run:
        federation = RecordedFederation(ToyFederation(CLIENTS), run.record, run.ledger)
        method(federation, side_by_side)
        federation.checkpoint()
        run.finish({})
    return time.perf_counter() - begun


class BusyFederation(ToyFederation):
    """Each round keeps the processor busy, as training does; sleeping would let its caches go cold."""

    def round(self, work: Sequence[Work]) -> list[RoundReport]:
        """Rounds of `EVENT_SECONDS`."""
        end = time.perf_counter() + EVENT_SECONDS
        matrix = np.ones((100, 100))
        while time.perf_counter() < end:
            matrix = matrix @ matrix / 100
        return super().round(work)


def recording(directory: Path, events: int = 60) -> float:
    """The share of time that recording adds to events of `EVENT_SECONDS`, once a run is under way."""

    def clock(call: Callable[[list[Work]], object]) -> float:
        generator, times = np.random.default_rng(0), []
        for _ in range(events):
            work = works(generator, 1)
            begun = time.perf_counter()
            call(work)
            times.append(time.perf_counter() - begun)
        return float(np.median(times))

    plain = BusyFederation(CLIENTS)
    plain.start(0, {}, seed=0)
    alone = clock(plain.round)
    with Run.create_or_open(directory / "recording", {}, "benchmark", 1) as run:
        federation = RecordedFederation(BusyFederation(CLIENTS), run.record, run.ledger, checkpoint_share=0.0)
        for trial in range(2):
            federation.start(trial, {}, seed=0)
        while federation.record.last < UNDER_WAY:
            federation.query(FineTune(1, {}), list(range(100)))
        return clock(federation.round) / alone - 1


def main() -> None:
    """Print the numbers."""
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as folder:
        directory = Path(folder)
        for side_by_side in (1, 10, 25):
            path = directory / f"of-{side_by_side}"
            first, again = timed(path, side_by_side), timed(path, side_by_side)
            size = (path / "record.sqlite").stat().st_size / 1e6
            print(
                f"{ROUNDS} rounds, {side_by_side} in an event: recorded in {first:.2f} s ({size:.1f} MB), "
                f"replayed in {again:.2f} s"
            )
        print(f"recording adds {recording(directory):.2%} to events of {EVENT_SECONDS * 1000:.0f} ms")


if __name__ == "__main__":
    main()
