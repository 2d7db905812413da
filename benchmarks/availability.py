"""Wall time of studies on a trace of 1,000 clients: planned, simulated, and FedPop with and without waiting.

    OMP_NUM_THREADS=1 python benchmarks/availability.py availability.jsonl [--seeds 8] [--clients 1000]

The trace is a week of the stays of each client: a night's rest on the charger, by clocks of its own, and a
few short stays by day. Speeds spread by a factor of 1.8, a tenth of all tasks takes eight times as long, a
twentieth is dropped, and after two minutes a reply is too late. Every study is planned once (`fedhpo plan`,
five draws), then tuned for each seed. Each run is a line of the file, and is not done again. The tables of
all lines are printed at the end.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import statistics
from pathlib import Path
from typing import Any

import numpy as np

from fedhpo.core.streams import stream
from fedhpo.protocol.federation import Federation
from fedhpo.study import Study

HOUR, DAYS = 3600.0, 7
METHODS: dict[str, dict[str, Any]] = {
    "random": {"name": "random", "trials": 5},
    "sha": {"name": "sha"},
    "hyperband": {"name": "hyperband"},
    "fedpop": {"name": "fedpop", "population": 5, "interval": 5},
    "fedpop, asynchronous": {"name": "fedpop", "population": 5, "interval": 5, "asynchronous": True},
}


def write_trace(path: Path, clients: int) -> None:
    """A week of stays: nights on the charger, and short ones by day."""
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["client", "begin", "end"])
        for client in range(clients):
            rng = stream(0, "stays", client)
            zone = rng.normal(0, 3)
            for day in range(DAYS):
                night = 24 * day + (22 + zone + rng.normal(0, 1)) % 24
                stays = [(night, night + rng.uniform(4, 9))]
                for _ in range(int(rng.poisson(3))):
                    begin = 24 * day + rng.uniform(8, 22)
                    stays.append((begin, begin + rng.exponential(1 / 3)))
                for begin, end in stays:
                    rows.writerow([client, round(begin * HOUR), round(end * HOUR) + 1])


def write_devices(path: Path, clients: int) -> None:
    """Speeds in rows a second."""
    speeds = 20 * np.exp(0.6 * stream(0, "speeds").normal(size=clients))
    lines = [f"{client},{speed:.3f}" for client, speed in enumerate(speeds)]
    path.write_text("\n".join(["client,speed", *lines]) + "\n", encoding="utf-8")


def study_of(method: str, folder: Path, clients: int, seed: int) -> Study:
    """One method on the trace, from noon on."""
    return Study.from_dict(
        {
            "seed": seed,
            "data": {"name": "synthetic", "clients": clients, "samples": [40, 200], "iid": True},
            "model": {"name": "linear"},
            "space": {
                "client": {
                    "lr": {"low": 1e-3, "high": 1.0, "log": True},
                    "epochs": {"low": 1, "high": 3},
                    "batch_size": {"values": [8, 16, 32]},
                },
                "server": {"lr": {"low": 0.3, "high": 3.0, "log": True}},
            },
            "method": METHODS[method],
            "budget": {"rounds": 40, "total": 200, "cohort": 10},
            "evaluation": {"clients": 50},
            "federation": {
                "availability": str(folder / "trace.csv"),
                "devices": str(folder / "devices.csv"),
                "begin": 12.0,
                "stragglers": 0.1,
                "slowdown": 8.0,
                "dropouts": 0.05,
                "deadline": 120.0,
            },
        }
    )


def measured(method: str, seed: int | None, study: Study, federation: Federation) -> dict[str, Any]:
    """One line: the plan of a method where there is no seed, else what a run of it came to."""
    if seed is None:
        plan = study.plan(federation=federation)
        return {"method": method, "seed": None, **plan.to_dict()}
    result = study.tune(federation=federation)
    missing = sum(one["count"] for one in result.facts["failures"] if one["status"] == "missing")
    return {
        "method": method,
        "seed": seed,
        "seconds": result.cost["simulated_seconds"],
        "rounds": result.cost["rounds"],
        "missing": missing / result.cost["client_rounds"],
        "accuracy": result.facts["best"]["test"]["accuracy"],
    }


def mean(values: list[float]) -> str:
    """A mean with its standard error."""
    error = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return f"{statistics.fmean(values):.2f} ± {error:.2f}"


def shown(lines: list[dict[str, Any]]) -> str:
    """The tables."""
    found = ["| method | planned, hours | simulated, hours | error of the plan, % | replies lost, % |"]
    found.append("| --- | --- | --- | --- | --- |")
    plans = {one["method"]: one for one in lines if one["seed"] is None}
    runs = {
        name: {o["seed"]: o for o in lines if o["method"] == name and o["seed"] is not None} for name in plans
    }
    for name, plan in plans.items():
        own = list(runs[name].values())
        if not own:
            continue
        hours = [one["seconds"] / HOUR for one in own]
        errors = [100 * (plan["mean_seconds"] / one["seconds"] - 1) for one in own]
        spread = f"{plan['least_seconds'] / HOUR:.2f} to {plan['most_seconds'] / HOUR:.2f}"
        size = f"{statistics.fmean(errors):+.1f}, at most {max(map(abs, errors)):.1f}"
        lost = f"{100 * statistics.fmean(one['missing'] for one in own):.1f}"
        found.append(
            f"| {name} | {plan['mean_seconds'] / HOUR:.2f} ({spread}) | {mean(hours)} | {size} | {lost} |"
        )
    waits, hurries = runs.get("fedpop", {}), runs.get("fedpop, asynchronous", {})
    pairs = [(waits[seed], hurries[seed]) for seed in sorted(waits.keys() & hurries.keys())]
    if pairs:
        saved = mean([100 * (1 - b["seconds"] / a["seconds"]) for a, b in pairs])
        gain = mean([100 * (b["accuracy"] - a["accuracy"]) for a, b in pairs])
        found.append(f"\nasynchronous, {len(pairs)} pairs: time saved {saved} %, accuracy {gain} points")
    for name, own in runs.items():
        accuracy = mean([100 * one["accuracy"] for one in own.values()])
        rounds = mean([float(one["rounds"]) for one in own.values()])
        found.append(f"{name}: test accuracy {accuracy} %, {rounds} rounds")
    return "\n".join(found)


def main() -> None:
    """Run what is not done yet, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--clients", type=int, default=1000)
    options = parser.parse_args()
    folder = options.file.parent
    write_trace(folder / "trace.csv", options.clients)
    write_devices(folder / "devices.csv", options.clients)
    lines = (
        [json.loads(line) for line in options.file.read_text().splitlines()] if options.file.exists() else []
    )
    federation: Federation | None = None  # of all studies: their clients are the same
    done = {(one["method"], one["seed"]) for one in lines}
    for seed in (None, *range(options.seeds)):
        for method in METHODS:
            if (method, seed) not in done:
                study = study_of(method, folder, options.clients, seed or 0)
                federation = federation or study.federation(workers=0)
                lines.append(measured(method, seed, study, federation))
                with options.file.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(lines[-1]) + "\n")
    print(shown(lines))


if __name__ == "__main__":
    main()
