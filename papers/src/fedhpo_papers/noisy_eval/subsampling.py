"""Figures 3 to 7, 9 and 13: random search under one source of noise at a time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fedhpo.core.streams import stream
from fedhpo.privacy.privacy import Privacy
from fedhpo.protocol.federation import Floats, Ints
from fedhpo.research.advise import Noise, Pilot
from fedhpo.search.evaluator import Evaluator
from fedhpo.space import Float
from fedhpo_papers.noisy_eval.drawing import observed
from fedhpo_papers.noisy_eval.figures import Curves, Dots, Point
from fedhpo_papers.noisy_eval.search import CONFIGS, Bench, Searches

HETEROGENEITY, BIASES = (0.0, 0.5, 1.0), (0.0, 1.0, 1.5, 3.0)
#: None is an infinite budget: not private.
EPSILONS = (0.1, 1.0, 10.0, 100.0, None)
#: Figure 13: powers of ten that a range of server learning rates spans, around 10^-4 as in the paper; around
#: the middle of a table's range where that is narrower.
WIDTHS, CENTRE = (1, 2, 3, 4), -4.0
BEST, RANDOM = "best config", "at random"
_CLIENTS = "validation clients asked"


def asking(clients: int, bias: float = 0.0, epsilon: float | None = None) -> Evaluator:
    """The paper's evaluation: every config at clients of its own; and its accounting."""
    privacy = None if epsilon is None else Privacy(epsilon, accounting="basic", held_out=0.0)
    return Evaluator(clients=clients, paired=False, bias=bias, privacy=privacy)


def shown(epsilon: float | None) -> str:
    """A privacy budget as a figure names it."""
    return f"epsilon = {'inf' if epsilon is None else format(epsilon, 'g')}"


def subsampling(bench: Bench) -> list[Curves]:
    """Figures 3 and 5: fewer clients, at the end and as the budget is spent."""
    by_size, by_budget = [], []
    for name in bench.tables:
        pilot, able = bench.pilot(name), bench.able(name)
        best = np.full(bench.bootstraps, pilot.means[able].min())
        for size in bench.sizes(name):
            found = bench.search(name, asking(size))
            by_size += [Point(name, "RS", size, found.errors), Point(name, BEST, size, best)]
            if size in (1, 10, bench.clients(name)):
                label = "all clients" if size == bench.clients(name) else f"{size} client{'s'[: size > 1]}"
                by_budget += spent(bench, name, label, found)
    return [
        Curves("3", "Random search at fewer validation clients", _CLIENTS, by_size, log=True),
        Curves("5", "Random search as its budget is spent", "rounds spent", by_budget),
    ]


def spent(bench: Bench, name: str, series: str, found: Searches) -> list[Point]:
    """The incumbent after each config that was trained to the end."""
    rounds = int(bench.tables[name].rounds[-1])
    return [
        Point(name, series, rounds * (place + 1), errors) for place, errors in enumerate(found.incumbents.T)
    ]


def heterogeneity(bench: Bench) -> list[Curves | Dots]:
    """Figures 4, 6 and 7: alike and unlike clients, and clients that reply more often where they do well."""
    data, systems, dots, low_clients = [], [], {}, {}
    for name in bench.tables:
        for size in bench.sizes(name):
            for p in HETEROGENEITY:
                found = bench.search(name, asking(size), heterogeneity=p)
                data.append(Point(name, f"p = {p:g}", size, found.errors))
            for b in BIASES:
                found = bench.search(name, asking(size, b if size < bench.clients(name) else 0.0))
                systems.append(Point(name, f"b = {b:g}", size, found.errors))
        pilot = bench.pilot(name)
        lowest = pilot.values.min(axis=1)
        dots[name] = 100 * np.stack([pilot.means, lowest], axis=1)
        low_clients[name] = float(((pilot.means > np.median(pilot.means)) & (lowest == 0)).mean())
    return [
        Curves("4", "Random search where validation data is dealt out anew", _CLIENTS, data, log=True),
        Curves("6", "Random search under biased participation", _CLIENTS, systems, log=True),
        Dots(
            "7",
            "Each config: error over all clients, and at its best client",
            dots,
            dict.fromkeys(dots, ("error over all clients", "error at the best client")),
            low_clients,
            "share of configs that are worse than the median, but without error at some client",
        ),
    ]


def privacy(bench: Bench) -> list[Curves]:
    """Figure 9: budgets of epsilon, split over the 16 scores of a search; all clients count the same."""
    points = []
    for name in bench.tables:
        for size in bench.sizes(name):
            for epsilon in EPSILONS:
                found = bench.search(name, asking(size, epsilon=epsilon), uniform=True)
                points.append(Point(name, shown(epsilon), size, found.errors))
            points.append(Point(name, RANDOM, size, found.at_random))
    return [Curves("9", "Random search under privacy", _CLIENTS, points, log=True)]


def spaces(bench: Bench) -> list[Curves]:
    """Figure 13: nested ranges of the server's learning rate, with much noise and without."""
    points = [point for name in bench.tables for point in _spaces(bench, name)]
    title = "Random search of 128 configs in nested ranges of the server's learning rate"
    return [Curves("13", title, "powers of ten in the range", points)] if points else []


def _spaces(bench: Bench, name: str) -> Iterator[Point]:
    """A table has fewer than 128 configs in a range: those that it has are drawn again and again."""
    table, pilot, able = bench.tables[name], bench.pilot(name, uniform=True), bench.able(name)
    rate = table.space.hyperparameters.get("server.lr")
    if not isinstance(rate, Float):
        return
    low, high = np.log10([rate.low, rate.high])
    centre = CENTRE if low <= CENTRE - 2 and high >= CENTRE + 2 else (low + high) / 2
    rates = np.log10([config.server["lr"] for config in table.configs])
    for width in WIDTHS:
        inside = np.flatnonzero(able & (np.abs(rates - centre) <= width / 2))
        if not len(inside) or width > high - low + 1e-9:
            continue
        rng = stream(bench.seed, "space", width)
        members = inside[rng.integers(len(inside), size=(bench.bootstraps, 8 * CONFIGS))]
        for series, size, epsilon in (("1 client, epsilon = 10", 1, 10.0), ("all clients", 0, None)):
            yield Point(name, series, width, _chosen(pilot, members, size, epsilon, rng))


def _chosen(
    pilot: Pilot, members: Ints, size: int, epsilon: float | None, rng: np.random.Generator
) -> Floats:
    """The true error of what each search chooses; a config that was drawn twice is scored twice."""
    asked = size or pilot.clients
    seen = observed(pilot, members, [asked], rng=rng)[asked]
    if epsilon is not None:
        scale = Noise(asked, pilot.clients, epsilon, members.shape[1]).scale
        seen = seen + rng.laplace(scale=scale, size=seen.shape)
    return Searches(seen, pilot.means[members]).errors
