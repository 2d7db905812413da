"""How long a resumed run takes to catch up, and what recording, checkpoints and the preflight cost.

    python benchmarks/replay.py [directory]

4,000 rounds of 27 trials, a config for each of the 10 members of a cohort, are recorded and replayed. Then
the study of examples/digits.toml is run: the time before its first round that goes into trying one batch, and
the share of the run that goes into checkpoints, with their digests.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import fedhpo as fh
from fedhpo.protocol.federation import RoundReport, Work
from fedhpo.run import Run, open_read
from fedhpo.run.recorded import RecordedSession
from fedhpo.space.config import Config
from fedhpo.study import Study
from fedhpo.testing import ToyFederation
from fedhpo.tuning.tune import COMMIT_EVERY

TRIALS, ROUNDS, COHORT, CLIENTS = 27, 4000, 10, 1000


def works(generator: np.random.Generator, trials: int) -> list[Work]:
    """A round of each trial, with seven client hyperparameters drawn for each member."""
    names = ("lr", "momentum", "weight_decay", "epochs", "batch_size", "dropout", "mu")
    found = []
    for trial in range(trials):
        cohort = generator.choice(CLIENTS, COHORT, replace=False).tolist()
        configs = [dict(zip(names, row, strict=True)) for row in generator.random((COHORT, 7)).tolist()]
        found.append(Work(trial, cohort, configs, {"lr": 1.0, "momentum": 0.9}))
    return found


def method(federation: RecordedSession, side_by_side: int) -> None:
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
        federation = RecordedSession(ToyFederation(CLIENTS), run.record, run.ledger)
        method(federation, side_by_side)
        federation.checkpoint()
        run.finish({})
    return time.perf_counter() - begun


def recording(directory: Path, rounds: int = 100) -> float:
    """The share of time that recording adds to a round of 27 trials of the digits MLP.

    Checkpoints, which have a share of their own (5% at most), are left out.
    """
    data = fh.load("digits", clients=50)
    generator = np.random.default_rng(0)
    inside, outside = [], []
    with (
        fh.simulate("mlp", data) as federation,
        Run.create_or_open(directory / "recording", {}, "benchmark", 1) as run,
    ):
        train = federation.round

        def clocked(work: Sequence[Work]) -> list[RoundReport]:
            begun = time.perf_counter()
            reports = train(work)
            inside.append(time.perf_counter() - begun)
            return reports

        setattr(federation, "round", clocked)  # noqa: B010
        recorded = RecordedSession(
            federation, run.record, run.ledger, checkpoint_share=0.0, commit_every=COMMIT_EVERY
        )
        for trial in range(TRIALS):
            recorded.start(trial, {}, seed=trial)
        for _ in range(rounds):
            work = [
                Work(trial, generator.choice(50, COHORT, replace=False).tolist(), {"lr": 0.1}, {"lr": 1.0})
                for trial in range(TRIALS)
            ]
            begun = time.perf_counter()
            recorded.round(work)
            outside.append(time.perf_counter() - begun)
    return sum(outside[10:]) / sum(inside[10:]) - 1


def digits(directory: Path) -> tuple[list[float], list[float]]:
    """Seconds of the preflight, and the share of checkpoints, of three runs of examples/digits.toml."""
    study = Study.load(Path(__file__).parents[1] / "examples" / "digits.toml")
    preflights, shares = [], []
    for number in range(3):
        with study.federation() as federation:
            tried = federation.preflight

            def clocked(config: Config, metric: str, tried: Any = tried) -> None:
                begun = time.perf_counter()
                tried(config, metric)
                preflights.append(time.perf_counter() - begun)

            setattr(federation, "preflight", clocked)  # noqa: B010
            study.tune(directory / f"digits-{number}", federation=federation)
        with open_read(directory / f"digits-{number}") as run:
            shares.append(run.facts()["checkpoint_share"])
    return preflights, shares


def main() -> None:
    """Print the numbers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", nargs="?", help="where the record is written")
    with tempfile.TemporaryDirectory(dir=parser.parse_args().directory) as folder:
        directory = Path(folder)
        for side_by_side in (1, 10, 25):
            path = directory / f"of-{side_by_side}"
            first, again = timed(path, side_by_side), timed(path, side_by_side)
            size = (path / "record.sqlite").stat().st_size / 1e6
            print(
                f"{ROUNDS} rounds, {side_by_side} in an event: recorded in {first:.2f} s ({size:.1f} MB), "
                f"replayed in {again:.2f} s"
            )
        print(f"recording adds {recording(directory):.2%} to the time of the digits MLP with {TRIALS} trials")
        preflights, shares = digits(directory)
        print(
            f"examples/digits.toml, three times: preflight {' '.join(f'{s:.3f}' for s in preflights)} s; "
            f"checkpoints {' '.join(f'{share:.2%}' for share in shares)} of the run"
        )


if __name__ == "__main__":
    main()
