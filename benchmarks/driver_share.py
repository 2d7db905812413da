"""How much of a round's CPU is the server's? Above a few percent it would soon hold up more workers.

    python benchmarks/driver_share.py [--json] [--rounds 5] [--cohort 64] [--samples 64] [--workers 2]

CPU time of the driver (this process) and of its workers over some rounds of multilayer perceptrons with one
million and 27 million parameters. By Amdahl's law rounds with a share of s speed up at most 1/s times,
however many workers there are.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import numpy as np
import psutil

import fedhpo as fh
from fedhpo.federations.simulated import SimulatedFederation

#: Hidden layers by number of parameters, for 32 features and 10 classes.
MODELS = {"1M": (1000, 950), "27M": (5100, 5150)}
LIMIT = 0.05


def clients(count: int, samples: int) -> list[tuple[Any, Any]]:
    rng = np.random.default_rng(0)
    return [
        (rng.standard_normal((samples, 32)).astype(np.float32), rng.integers(0, 10, samples))
        for _ in range(count)
    ]


def worker_seconds(federation: SimulatedFederation) -> float:
    return sum(sum(psutil.Process(pid).cpu_times()[:2]) for pid in federation.pids)


def share(hidden: tuple[int, ...], options: argparse.Namespace) -> dict[str, float]:
    """The driver's share, and CPU seconds a round of driver and workers."""
    data = fh.from_clients(clients(options.cohort, options.samples))
    with fh.simulate("mlp", data, workers=options.workers, stacking=False) as federation:
        federation.start(0, {"hidden": list(hidden)}, seed=0)
        work = fh.Work(0, range(options.cohort), {"lr": 0.1, "batch_size": 16})
        federation.round([work])  # everything is built and warm
        begin = time.process_time(), worker_seconds(federation)
        for _ in range(options.rounds):
            federation.round([work])
        driver, workers = time.process_time() - begin[0], worker_seconds(federation) - begin[1]
        facts = federation.describe()
    return {
        "parameters": facts["parameters"],
        "share": driver / (driver + workers),
        "driver_seconds": driver / options.rounds,
        "worker_seconds": workers / options.rounds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cohort", type=int, default=64)
    parser.add_argument("--samples", type=int, default=64)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    options = parser.parse_args()
    found = {name: share(MODELS[name], options) for name in options.models}
    if options.json:
        print(json.dumps(found))
        return
    for name, f in found.items():
        verdict = "below" if f["share"] < LIMIT else "NOT below"
        print(
            f"{name:>4} {f['parameters']:>11,} parameters: driver {f['driver_seconds']:.3f} s and workers "
            f"{f['worker_seconds']:.3f} s of CPU a round, {f['share']:.1%} ({verdict} {LIMIT:.0%}), "
            f"at most {1 / f['share']:.0f} workers' worth"
        )


if __name__ == "__main__":
    main()
