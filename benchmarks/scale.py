"""Does a round cost more in a large federation? Time per round against the number of clients.

    python benchmarks/scale.py [--json] [--rounds 15] [--workers N] [--clients 100 1000 10000 100000]

Every federation holds synthetic clients of 20 samples each and trains rounds of a cohort of 10, drawn
anew each time. The sizes are interleaved and compared by their medians: `ratio` is the slowest median
over that of the smallest federation, and `flat` says whether it stays within 1.5. Memory is that of the
whole process tree, before and after the federation was made, with shared pages counted once.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import time
from typing import Any

import numpy as np
import psutil

import fedhpo as fh
from fedhpo.federations.simulated import SimulatedFederation

COHORT, SAMPLES = 10, 20
MEGABYTE = 1e6
FLAT = 1.5


def tree_memory() -> float:
    """Memory of this process and its workers in bytes, shared pages counted once."""
    parent = psutil.Process()
    return float(sum(p.memory_full_info().pss for p in [parent, *parent.children(recursive=True)]))


def make(clients: int, workers: int | None) -> tuple[SimulatedFederation, dict[str, float]]:
    """A federation whose workers have started, and what it took."""
    before, begin = tree_memory(), time.perf_counter()
    data = fh.load("synthetic", clients=clients, samples=SAMPLES)
    loaded = time.perf_counter()
    federation = fh.simulate("mlp", data, workers=workers)
    federation.start(0, {}, seed=0)
    one_round(federation, np.random.default_rng(0))
    facts = {
        "load_seconds": loaded - begin,
        "start_seconds": time.perf_counter() - loaded,
        "memory_mb": (tree_memory() - before) / MEGABYTE,
        "data_mb": (data.x.nbytes + data.y.nbytes) / MEGABYTE,
    }
    return federation, facts


def one_round(federation: SimulatedFederation, rng: np.random.Generator) -> float:
    """The seconds that a round takes."""
    cohort = [int(c) for c in rng.choice(federation.train_clients, COHORT, replace=False)]
    begin = time.perf_counter()
    federation.round([fh.Work(0, cohort, {"lr": 0.1, "batch_size": 8})])
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--workers", type=int, default=None)
    parser.add_argument("--clients", type=int, nargs="+", default=[100, 1_000, 10_000, 100_000])
    options = parser.parse_args()
    sizes: list[int] = sorted(options.clients)
    facts: dict[int, dict[str, Any]] = {}
    times: dict[int, list[float]] = {size: [] for size in sizes}
    with contextlib.ExitStack() as stack:
        federations = {}
        for size in sizes:
            federations[size], facts[size] = make(size, options.workers)
            stack.enter_context(federations[size])
        rng = np.random.default_rng(1)
        for _ in range(options.rounds):
            for size in sizes:
                one_round(federations[size], rng)  # the workers of this size wake up
                times[size].append(one_round(federations[size], rng))
        total = tree_memory() / MEGABYTE
    for size in sizes:
        facts[size]["round_ms"] = 1e3 * statistics.median(times[size])
    ratio = max(f["round_ms"] for f in facts.values()) / facts[sizes[0]]["round_ms"]
    if options.json:
        print(json.dumps({"sizes": facts, "ratio": ratio, "flat": ratio <= FLAT, "tree_memory_mb": total}))
        return
    print(f"{'clients':>8} {'a round':>9} {'load':>8} {'start':>8} {'data':>8} {'memory':>9}")
    for size, f in facts.items():
        print(
            f"{size:>8} {f['round_ms']:7.1f}ms {f['load_seconds']:7.2f}s {f['start_seconds']:7.2f}s "
            f"{f['data_mb']:6.0f}MB {f['memory_mb']:7.0f}MB"
        )
    verdict = "flat" if ratio <= FLAT else "NOT flat"
    print(f"slowest against {sizes[0]} clients: {ratio:.2f}x ({verdict}: up to {FLAT}x is)")
    print(f"memory of the whole tree: {total:.0f} MB")


if __name__ == "__main__":
    main()
