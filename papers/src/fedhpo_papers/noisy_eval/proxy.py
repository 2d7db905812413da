"""Figures 10, 11, 12 and 14: configs found on one table, trained on another."""

from __future__ import annotations

from itertools import permutations

import numpy as np

from fedhpo.methods.fedex.ranking import spearman
from fedhpo.protocol.federation import Floats
from fedhpo.search.evaluator import Evaluator
from fedhpo_papers.noisy_eval.figures import Curves, Dots, Point
from fedhpo_papers.noisy_eval.search import Bench
from fedhpo_papers.noisy_eval.subsampling import RANDOM, asking, shown, spent

#: Privacy budgets of Figure 12, at 1% of the clients.
EPSILONS = (1.0, 10.0, 100.0, None)


def proxy(bench: Bench) -> list[Curves | Dots]:
    """All pairs of tables that hold the same configs; nothing if there are none."""
    pairs = [pair for pair in permutations(bench.tables, 2) if bench.related(*pair)]
    if not pairs:
        return []
    tables = list(dict.fromkeys(first for first, _ in pairs))
    panels, axes, correlation = {}, {}, {}
    for first, second in pairs:
        if list(bench.tables).index(first) < list(bench.tables).index(second):
            x, y = (100 * bench.pilot(name).means for name in (first, second))
            panel = f"{first}, {second}"
            panels[panel] = np.stack([x, y], axis=1)
            axes[panel] = (f"error on {first}", f"error on {second}")
            correlation[panel] = spearman(x, y)
    one_shot, budget = [], []
    for table in tables:
        sources = [source for source in tables if source == table or (table, source) in pairs]
        for source in sources:
            one_shot.append(Point(table, "proxy search", source, proxied(bench, source, table)))
        one_shot.append(Point(table, "proxy search", RANDOM, bench.search(table, Evaluator()).at_random))
        for epsilon in EPSILONS:
            noisy = asking(bench.one_percent(table), epsilon=epsilon)
            budget += spent(bench, table, shown(epsilon), bench.search(table, noisy, uniform=True))
        once = int(bench.tables[table].rounds[-1])
        for source in sources:
            if source != table:
                found = proxied(bench, source, table, uniform=True)
                budget += [Point(table, f"proxy {source}", once * k, found) for k in (1, 16)]
    return [
        Dots(
            "10 and 14",
            "Each config: its error on two tables",
            panels,
            axes,
            correlation,
            "Spearman's correlation",
        ),
        Curves("11", "One-shot proxy search: chosen on one table, trained on another", "chosen on", one_shot),
        Curves("12", "Proxy search against private search at 1% of the clients", "rounds spent", budget),
    ]


def proxied(bench: Bench, source: str, table: str, *, uniform: bool = False) -> Floats:
    """The error on a table of what each search would choose, without noise, on another."""
    found = bench.search(source, Evaluator(), uniform=uniform)
    chosen = np.take_along_axis(bench.members(source), found.seen.argmin(axis=1)[:, None], axis=1)[:, 0]
    errors: Floats = bench.pilot(table, uniform=uniform).means[chosen]
    return errors
