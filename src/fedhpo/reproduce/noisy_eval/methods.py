"""Figures 1, 8, 15 and 16: four methods without noise and with it; and two remedies beyond the paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Literal

import numpy as np

from fedhpo.methods import BOHB, TPE, Hyperband, RandomSearch
from fedhpo.privacy.privacy import Privacy
from fedhpo.protocol.federation import Floats
from fedhpo.protocol.method import Method
from fedhpo.reproduce.noisy_eval.figures import Curves, Point
from fedhpo.reproduce.noisy_eval.replays import Job, replays
from fedhpo.reproduce.noisy_eval.search import CONFIGS, Bench
from fedhpo.research.compare.comparison import Incumbents, value_at
from fedhpo.search.evaluator import Evaluator

#: Random search one config after the other: it has an incumbent on the way, and chooses the same. TPE has one
#: density for each hyperparameter, as in the paper.
METHODS: Mapping[str, Method] = {
    "RS": RandomSearch(side_by_side=1),
    "TPE": TPE(multivariate=False),
    "HB": Hyperband(),
    "BOHB": BOHB(),
}
EARLY_STOPPING = ("HB", "BOHB")
NOISELESS, NOISY = "noiseless", "noisy"
#: The paper's noise: 1% of the clients, every config at its own, and epsilon 100.
SHARE, EPSILON = 0.01, 100.0
THIRD, FULL = "at a third of the budget", "at the full budget"
#: Places on the x-axis of figure 8.
_STEPS = 24

#: Clients asked, same ones for all trials of a rung, average over a trial's evaluations.
REMEDIES = {
    "as in the paper": Evaluator(paired=False),
    "paired": Evaluator(paired=True),
    "averaged": Evaluator(paired=False, average="recent"),
    "both": Evaluator(paired=True, average="recent"),
}
ASKED = (1, 10)


def noisy(method: str) -> Evaluator:
    """The paper's noise: Laplace on each of the scores, or the one-shot top-k where rungs are chosen from.

    Its accounting too: every client is charged for every release.
    """
    mechanism: Literal["topk", "laplace"] = "topk" if method in EARLY_STOPPING else "laplace"
    privacy = Privacy(EPSILON, mechanism=mechanism, accounting="basic")
    return Evaluator(clients=SHARE, paired=False, privacy=privacy)


def methods(bench: Bench, paths: Mapping[str, str], seeds: int, workers: int | None) -> list[Curves]:
    """Figure 8, the budget being spent, and Figures 15 and 16, which look at it at a third and at the end."""
    cells = list(product(bench.tables, METHODS, (NOISELESS, NOISY)))
    jobs = [
        Job(paths[table], METHODS[name], noisy(name) if noise == NOISY else Evaluator(), seed)
        for table, name, noise in cells
        for seed in range(seeds)
    ]
    runs = iter(replays(jobs, workers))
    online, third, full = [], [], []
    for table, name, noise in cells:
        own = [next(runs) for _ in range(seeds)]
        total = CONFIGS * int(bench.tables[table].rounds[-1])
        for spent in [round(total * (step + 1) / _STEPS) for step in range(_STEPS)]:
            errors = at(own, spent)
            if np.isfinite(errors).any():
                online.append(Point(table, f"{name}, {noise}", spent, errors))
        third.append(Point(table, noise, name, at(own, total / 3)))
        full.append(Point(table, noise, name, at(own, total)))
    about = "four methods without noise, and with 1% of the clients and epsilon = 100"
    return [
        Curves("8", f"Budget spent by {about}", "rounds spent", online),
        Curves("15 and 1", f"{THIRD.capitalize()}: {about}", "method", third),
        Curves("16", f"{FULL.capitalize()}: {about}", "method", full),
    ]


def at(runs: Sequence[Incumbents], spent: float) -> Floats:
    """The incumbents' true errors when so much was spent."""
    return np.array([value_at(run, spent * (1 + 1e-9)) for run in runs])


def remedies(bench: Bench, paths: Mapping[str, str], seeds: int, workers: int | None) -> list[Curves]:
    """Hyperband, and random search, with each remedy at few clients; no privacy."""
    cells = list(product(bench.tables, ASKED, REMEDIES))
    jobs = [
        Job(paths[table], METHODS["HB"], replace(REMEDIES[name], clients=clients), seed)
        for table, clients, name in cells
        for seed in range(seeds)
    ]
    runs = iter(replays(jobs, workers))
    halved, chosen = [], []
    for table, clients, name in cells:
        own = [next(runs) for _ in range(seeds)]
        total = CONFIGS * int(bench.tables[table].rounds[-1])
        halved.append(Point(table, name, clients, at(own, total)))
    for table in bench.tables:
        for size, name in product(bench.sizes(table), ("as in the paper", "paired")):
            found = bench.search(table, replace(REMEDIES[name], clients=size), uniform=True)
            chosen.append(Point(table, name, size, found.errors))
    asked = "validation clients asked"
    return [
        Curves("remedies, HB", "Hyperband with remedies", asked, halved, log=True),
        Curves("remedies, RS", "Random search, all configs at the same clients", asked, chosen, log=True),
    ]
