"""Figures 1, 8, 15 and 16: four methods without noise and with it; and two remedies beyond the paper."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Literal

import numpy as np

from fedhpo.core.streams import stream
from fedhpo.methods import BOHB, TPE, Hyperband, RandomSearch
from fedhpo.privacy.privacy import Privacy
from fedhpo.protocol.federation import Floats
from fedhpo.protocol.method import Method
from fedhpo.research.incumbents import Incumbents, value_at
from fedhpo.search.evaluator import Evaluator
from fedhpo_papers.noisy_eval.figures import Curves, Point
from fedhpo_papers.noisy_eval.halving import hyperband, hyperband_as_in_the_code
from fedhpo_papers.noisy_eval.replays import Job
from fedhpo_papers.noisy_eval.search import CONFIGS, Bench, Searches
from fedhpo_papers.noisy_eval.subsampling import asking

#: Random search one config after the other: it has an incumbent on the way, and chooses the same. TPE has one
#: density for each hyperparameter, as in the paper.
METHODS: Mapping[str, Method] = {
    "RS": RandomSearch(side_by_side=1),
    "TPE": TPE(multivariate=False),
    "HB": Hyperband(),
    "BOHB": BOHB(),
}
EARLY_STOPPING = ("HB", "BOHB")
#: Methods that learn from scores: each search is a replay.
REPLAYED = ("TPE", "BOHB")
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

#: Incumbents of replays by table, method and noise.
Replayed = Mapping[tuple[str, str, str], Sequence[Incumbents]]


def noisy(method: str, clients: int | float = SHARE) -> Evaluator:
    """The paper's noise: Laplace on each of the scores, or the one-shot top-k where rungs are chosen from.

    Its accounting too: every client is charged for every release.
    """
    mechanism: Literal["topk", "laplace"] = "topk" if method in EARLY_STOPPING else "laplace"
    privacy = Privacy(EPSILON, mechanism=mechanism, accounting="basic", held_out=0.0)
    return Evaluator(clients=clients, paired=False, privacy=privacy)


def replay_jobs(bench: Bench, seeds: int, part: int | None = None) -> dict[tuple[str, str, str], list[Job]]:
    """The replays that `methods` needs, of whole tables or of one part of each."""
    return {
        (table, name, noise): [
            Job(
                table,
                METHODS[name],
                noisy(name, bench.one_percent(table)) if noise == NOISY else Evaluator(),
                seed,
                part,
            )
            for seed in range(seeds)
        ]
        for table, name, noise in product(bench.tables, REPLAYED, (NOISELESS, NOISY))
    }


def methods(bench: Bench, replayed: Replayed) -> list[Curves]:
    """Figure 8, the budget being spent, and Figures 15 and 16, which look at it at a third and at the end.

    Random search and Hyperband are simulated, TPE and BOHB replayed.
    """
    online, third, full = [], [], []
    for table, name, noise in product(bench.tables, METHODS, (NOISELESS, NOISY)):
        length = int(bench.tables[table].rounds[-1])
        total = CONFIGS * length
        found = _searched(bench, table, name, noise, replayed)
        for spent in [round(total * (step + 1) / _STEPS) for step in range(_STEPS)]:
            errors = found(spent)
            if np.isfinite(errors).any():
                online.append(Point(table, f"{name}, {noise}", spent, errors))
        third.append(Point(table, noise, name, found(total / 3)))
        full.append(Point(table, noise, name, found(total)))
    about = "four methods without noise, and with 1% of the clients and epsilon = 100"
    return [
        Curves("8", f"Budget spent by {about}", "rounds spent", online),
        Curves("15 and 1", f"{THIRD.capitalize()}: {about}", "method", third),
        Curves("16", f"{FULL.capitalize()}: {about}", "method", full),
    ]


def _searched(
    bench: Bench, table: str, name: str, noise: str, replayed: Replayed
) -> Callable[[float], Floats]:
    """The true errors of a method's searches, by the rounds that were spent."""
    length = int(bench.tables[table].rounds[-1])
    if name == "RS":
        evaluator = Evaluator() if noise == NOISELESS else asking(bench.one_percent(table), epsilon=EPSILON)
        incumbents = bench.search(table, evaluator, uniform=True).incumbents
        return lambda spent: _after(incumbents, int(spent * (1 + 1e-9)) // length)
    if name == "HB":
        return hyperband(
            bench.tables[table],
            bench.bootstraps,
            CONFIGS * length,
            stream(bench.seed, "hyperband", table, noise),
            clients=None if noise == NOISELESS else bench.one_percent(table),
            epsilon=None if noise == NOISELESS else EPSILON,
        ).at
    own = replayed[table, name, noise]
    return lambda spent: at(own, spent)


def _after(incumbents: Floats, configs: int) -> Floats:
    """The incumbents after so many configs; none before the first."""
    return incumbents[:, configs - 1] if configs else np.full(len(incumbents), np.nan)


def as_in_the_code(bench: Bench) -> list[Curves]:
    """Random search and Hyperband by the rules of the authors' code, see `halving`."""
    third: list[Point] = []
    full: list[Point] = []
    for table, noise in product(bench.tables, (NOISELESS, NOISY)):
        length = int(bench.tables[table].rounds[-1])
        total, few = CONFIGS * length, None if noise == NOISELESS else bench.one_percent(table)
        evaluator = Evaluator() if few is None else asking(few, epsilon=EPSILON)
        random = bench.search(table, evaluator, uniform=True)
        clipped = np.where(np.isfinite(random.seen), random.seen.clip(0, 1), np.inf)
        incumbents = Searches(clipped, random.truth).incumbents
        found = hyperband_as_in_the_code(
            bench.tables[table],
            bench.bootstraps,
            stream(bench.seed, "authors' code", table, noise),
            clients=few,
            epsilon=None if few is None else EPSILON,
        )
        for share, into in ((1 / 3, third), (1, full)):
            into.append(Point(table, noise, "RS", _after(incumbents, int(share * total) // length)))
            into.append(Point(table, noise, "HB", found.at(share * total)))
    about = "random search and Hyperband by the rules of the authors' code"
    return [
        Curves("authors' code, third", f"{THIRD.capitalize()}: {about}", "method", third),
        Curves("authors' code, full", f"{FULL.capitalize()}: {about}", "method", full),
    ]


def at(runs: Sequence[Incumbents], spent: float) -> Floats:
    """The incumbents' true errors when so much was spent."""
    return np.array([value_at(run, spent * (1 + 1e-9)) for run in runs])


def remedies(
    bench: Bench, replay_all: Callable[[Sequence[Job]], list[Incumbents]], seeds: int
) -> list[Curves]:
    """Hyperband, and random search, with each remedy at few clients; no privacy."""
    cells = list(product(bench.tables, ASKED, REMEDIES))
    jobs = [
        Job(table, METHODS["HB"], replace(REMEDIES[name], clients=clients), seed)
        for table, clients, name in cells
        for seed in range(seeds)
    ]
    runs = iter(replay_all(jobs))
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
