"""Does a round cost more in a large federation? Time per round against the number of clients and the cohort.

    python benchmarks/scale.py [--json] [--rounds 5] [--workers N] [--clients 100 10000 1000000]
                               [--cohorts 10 1000 10000] [--kinds loaded lazy] [--record DIRECTORY]

Clients have 20 samples of 10 features each. They are synthetic and in memory ("loaded"), or made by a
function when they are met, with a cache of 64 MB a process ("lazy", `fedhpo.from_loader`). Cohorts are drawn
anew for each round. Federations of one kind are interleaved and compared by their medians: `ratio` is the
slowest median of a cohort over that of the smallest federation, and `flat` says whether it stays within 1.5.
CPU time is that of the whole process tree, and so is memory, with shared pages counted once. With `--record`
a study of two trials and two rounds with the largest cohort and federation is recorded in DIRECTORY, scored
at 1,000 clients, and its report is written; nobody tests, which would load every client.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil

import fedhpo as fh
from fedhpo.federations.simulated import SimulatedFederation

SAMPLES, FEATURES, CLASSES, CACHE_MB = 20, 10, 10, 64
MEGABYTE = 1e6
FLAT = 1.5


def load(client: int) -> tuple[Any, Any]:
    """A client's rows, from its number."""
    rng = np.random.default_rng(client)
    x = rng.standard_normal((SAMPLES, FEATURES), dtype=np.float32)
    return x, (x @ rng.standard_normal((FEATURES, CLASSES), dtype=np.float32)).argmax(1)


def data_of(kind: str, clients: int) -> fh.FederatedData:
    if kind == "lazy":
        return fh.from_loader(load, np.full(clients, SAMPLES), classes=CLASSES, cache_mb=CACHE_MB)
    return fh.load("synthetic", clients=clients, samples=SAMPLES, dimension=FEATURES, classes=CLASSES)


def tree() -> list[psutil.Process]:
    parent = psutil.Process()
    return [parent, *parent.children(recursive=True)]


def tree_memory() -> float:
    """Memory of this process and its workers in bytes, shared pages counted once."""
    return float(sum(p.memory_full_info().pss for p in tree()))


def tree_cpu() -> float:
    return float(sum(sum(p.cpu_times()[:2]) for p in tree()))


def make(kind: str, clients: int, workers: int | None) -> tuple[SimulatedFederation, dict[str, float]]:
    """A federation whose workers have started, and what it took."""
    before, begin, cpu = tree_memory(), time.perf_counter(), tree_cpu()
    data = data_of(kind, clients)
    federation = fh.simulate("mlp", data, workers=workers)
    federation.start(0, {}, seed=0)
    one_round(federation, 10, np.random.default_rng(0))
    facts = {
        "start_seconds": time.perf_counter() - begin,
        "start_cpu_seconds": tree_cpu() - cpu,
        "memory_mb": (tree_memory() - before) / MEGABYTE,
    }
    return federation, facts


def one_round(federation: SimulatedFederation, cohort: int, rng: np.random.Generator) -> tuple[float, float]:
    """Wall and CPU seconds of a round."""
    chosen = [int(c) for c in rng.choice(federation.train_clients, cohort, replace=False)]
    begin, cpu = time.perf_counter(), tree_cpu()
    federation.round([fh.Work(0, chosen, {"lr": 0.1, "batch_size": 8}, scores=())])
    return time.perf_counter() - begin, tree_cpu() - cpu


def measure(kind: str, options: argparse.Namespace) -> dict[int, dict[str, Any]]:
    """Facts by number of clients; `rounds` by cohort: milliseconds of wall and CPU time."""
    facts: dict[int, dict[str, Any]] = {}
    with contextlib.ExitStack() as stack:
        federations = {}
        for size in sorted(options.clients):
            federations[size], facts[size] = make(kind, size, options.workers)
            stack.enter_context(federations[size])
            facts[size]["rounds"] = {}
        rng = np.random.default_rng(1)
        for cohort in sorted(options.cohorts):
            times: dict[int, list[tuple[float, float]]] = {size: [] for size in facts if size >= cohort}
            for _ in range(options.rounds):
                for size, found in times.items():
                    if cohort <= 100:
                        one_round(federations[size], cohort, rng)  # the workers of this size wake up
                    found.append(one_round(federations[size], cohort, rng))
            for size, found in times.items():
                wall, cpu = zip(*found, strict=True)
                facts[size]["rounds"][cohort] = 1e3 * statistics.median(wall), 1e3 * statistics.fmean(cpu)
        for size in facts:
            facts[size]["tree_memory_mb"] = tree_memory() / MEGABYTE
    return facts


def ratio(facts: dict[int, dict[str, Any]]) -> float:
    """The slowest round over that of the smallest federation with the same cohort."""
    worst = 1.0
    for cohort in {cohort for fact in facts.values() for cohort in fact["rounds"]}:
        times = [fact["rounds"][cohort][0] for fact in facts.values() if cohort in fact["rounds"]]
        worst = max(worst, max(times) / times[0])
    return worst


def record(directory: Path, options: argparse.Namespace) -> dict[str, float]:
    """Seconds and bytes of a recorded study with the largest cohort, and of its report."""
    from fedhpo.report import write_report

    sizes = np.full(max(options.clients), SAMPLES)
    data = fh.from_loader(load, sizes, classes=CLASSES, cache_mb=CACHE_MB, test=0.0)
    space = fh.Space(client={"lr": fh.Float(0.01, 1.0, log=True)})
    cohort = max(options.cohorts)
    settings = {
        "rounds": 2,
        "total": 4,
        "cohort": cohort,
        "evaluation": fh.Evaluator(clients=min(1000, len(sizes))),
    }
    found = {}
    for name, where in (("unrecorded", None), ("recorded", directory)):
        with fh.simulate("mlp", data, workers=options.workers) as federation:
            begin = time.perf_counter()
            fh.tune(federation, space, "random", run=where, **settings)
            found[f"{name}_seconds"] = time.perf_counter() - begin
    begin = time.perf_counter()
    write_report([directory], directory / "scale.html")
    found["report_seconds"] = time.perf_counter() - begin
    found["record_mb"] = (directory / "record.sqlite").stat().st_size / MEGABYTE
    found["report_mb"] = (directory / "scale.html").stat().st_size / MEGABYTE
    return found


def show(kind: str, facts: dict[int, dict[str, Any]], cohorts: list[int]) -> None:
    print(f"{kind}: wall (CPU) milliseconds a round, by cohort")
    print(f"{'clients':>9} {'start (CPU)':>16} {'memory':>9} " + " ".join(f"{c:>16,}" for c in cohorts))
    for size, fact in facts.items():
        cells = ["{:.1f} ({:.1f})".format(*fact["rounds"][c]) if c in fact["rounds"] else "" for c in cohorts]
        started = f"{fact['start_seconds']:.1f} ({fact['start_cpu_seconds']:.1f}) s"
        print(
            f"{size:>9,} {started:>16} {fact['memory_mb']:7.0f}MB "
            + " ".join(f"{cell:>16}" for cell in cells)
        )
    worst = ratio(facts)
    print(f"slowest against the smallest federation: {worst:.2f}x ({'' if worst <= FLAT else 'NOT '}flat)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=None)
    parser.add_argument("--clients", type=int, nargs="+", default=[100, 10_000, 1_000_000])
    parser.add_argument("--cohorts", type=int, nargs="+", default=[10, 1_000, 10_000])
    parser.add_argument("--kinds", nargs="+", default=["loaded", "lazy"], choices=["loaded", "lazy"])
    parser.add_argument("--record", type=Path)
    options = parser.parse_args()
    found: dict[str, Any] = {}
    for kind in options.kinds:
        facts = measure(kind, options)
        found[kind] = {"clients": facts, "ratio": ratio(facts), "flat": ratio(facts) <= FLAT}
        if not options.json:
            show(kind, facts, sorted(options.cohorts))
    if options.record:
        found["record"] = record(options.record, options)
        if not options.json:
            print("; ".join(f"{name} {value:.2f}" for name, value in found["record"].items()))
    if options.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
