"""Does a GPU work, give the same, and pay? For whoever has one: none was at hand when this was written.

    python benchmarks/gpu.py [--device cuda] [--rounds 5] [--models mlp cnn_femnist]

The models and rounds of `benchmarks/engine.py`, on the device and on all cores. `difference` is the largest
one between the two models' weights after a round, relative to how far the round moved them: rounding alone
makes some 1e-5, more than 1e-2 is wrong. Whether runs were stacked is printed too.
"""

from __future__ import annotations

import argparse
import functools
import statistics
import sys
from pathlib import Path

import numpy as np

import fedhpo as fh
from fedhpo.engine.device import chosen as device_of
from fedhpo.federations.simulated import SimulatedFederation
from fedhpo.protocol.federation import Work

sys.path.insert(0, str(Path(__file__).parent))
import engine

WRONG = 1e-2


def weights(federation: SimulatedFederation) -> np.ndarray:
    return federation.state(0).arrays["weights"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--models", nargs="*")
    options = parser.parse_args()
    device = device_of(options.device)
    if device == "cpu":
        print("no GPU that PyTorch can use was found: what follows compares the CPU with itself")
    engine.declare()
    work = Work(0, range(engine.CLIENTS), engine.configs(), {}, scores=())
    print(f"{'model':<12} {'all cores':>10} {device:>10} {'speed-up':>9} {'difference':>11} {'stacked':>8}")
    for name in options.models or engine.MODELS:
        factory, rows = engine.MODELS[name]
        data = rows()
        with (
            fh.simulate(factory, data, weighting="uniform") as here,
            fh.simulate(factory, data, weighting="uniform", device=device) as there,
        ):
            times: list[tuple[float, float]] = []
            for federation in (here, there):
                federation.start(0, {}, seed=0)
            start = weights(here)
            for federation in (here, there):
                federation.round([work])
            moved = float(np.abs(weights(here) - start).max())
            difference = float(np.abs(weights(here) - weights(there)).max()) / moved
            for _ in range(options.rounds):
                one, other = (engine.seconds(functools.partial(f.round, [work]))[0] for f in (here, there))
                times.append((one, other))
            stacked = there.describe()["stacked"]
        one, other = (statistics.median(column) for column in zip(*times, strict=True))
        print(
            f"{name:<12} {1e3 * one:8.0f}ms {1e3 * other:8.0f}ms {one / other:8.2f}x {difference:11.1e} "
            f"{'yes' if stacked else 'no':>8}{'   WRONG' if difference > WRONG else ''}",
            flush=True,
        )


if __name__ == "__main__":
    main()
