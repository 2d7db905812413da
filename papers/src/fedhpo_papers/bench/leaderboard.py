"""The tables of a bench's page as plain rows, for Markdown, HTML and JSON alike."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from fedhpo_papers.bench.estimates import Estimate
from fedhpo_papers.bench.results import Results
from fedhpo_papers.bench.settings import Setting


@dataclass(frozen=True)
class Ranking:
    """Methods by mean regret over these settings, the best first, each as a row of text."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    data: Sequence[dict[str, Any]]


def ranking(results: Results, title: str, settings: Sequence[str]) -> Ranking:
    """Mean regret on each table and on average, ranks, and differences to the reference.

    The intervals of all differences hold together with 95% confidence.
    """
    methods = [method for method in results.methods if results.played(method, settings)]
    if not methods:
        return Ranking(title, [], [], [])
    means = {method: results.regret(method, settings) for method in methods}
    methods.sort(key=lambda method: means[method].mean)
    ranks = results.ranks(settings, methods)
    compared = results.reference in methods
    several = len(results.tables) > 1
    columns = ["method", *(["mean regret"] if several else []), *results.tables, "unseen clients", "rank"]
    columns += ["seeds"]
    columns += [f"more than {results.reference}", "ratio"] if compared else []
    rows, data = [], []
    for method in methods:
        each = {table: results.regret(method, settings, [table]) for table in results.tables}
        unseen = results.regret(method, settings, what="elsewhere")
        row = [method, *([_estimate(means[method])] if several else []), *map(_estimate, each.values())]
        seeds = results.seeds(method, settings)
        row += [f"{unseen.mean:.2f}", f"{ranks[method]:.2f}", ", ".join(map(str, _one_if_same(seeds)))]
        facts: dict[str, Any] = {
            "method": method,
            "regret": means[method].to_dict(),
            "tables": {table: one.to_dict() for table, one in each.items()},
            "unseen_clients": unseen.to_dict(),
            "rank": ranks[method],
            "seeds": dict(zip(results.tables, seeds, strict=True)),
        }
        if compared:
            more, told = _against(results, method, settings, len(methods) - 1)
            row += told
            facts |= more
        rows.append(row)
        data.append(facts)
    return Ranking(title, columns, rows, data)


def _against(
    results: Results, method: str, settings: Sequence[str], others: int
) -> tuple[dict[str, Any], list[str]]:
    """The difference to the reference, with its simultaneous interval, and the ratio of regrets."""
    if method == results.reference:
        return {}, ["", ""]
    difference, ratio = results.difference(method, settings), results.ratio(method, settings)
    low, high = difference.interval(others)
    clear = " *" if low > 0 or high < 0 else ""
    told = f"{difference.mean:+.2f} ({low:+.2f} to {high:+.2f}){clear}"
    return {"difference": difference.to_dict(), "interval": [low, high], "ratio": ratio}, [
        told,
        f"{ratio:.2f}",
    ]


#: What the default is meant to reach under noise: this ratio, and this bound on it with 95% confidence.
GOAL, GOAL_BOUND = 0.6, 0.8
#: And where scores are exact: this ratio, or so many points behind.
EXACT_GOAL, EXACT_BEHIND = 1.1, 0.3


def against_best(results: Results, kinds: Mapping[str, str], where: str = "") -> Ranking:
    """The reference beside the best method of others under each setting, the best being chosen in hindsight.

    `kinds` are those of the entries. First among methods as they are known, then with remedies, then with
    what was learned on other data too. `where` is what the title says of the tables.
    """
    rows, data = [], []
    for setting, (words, among) in product(results.settings, _RIVALS.items()):
        rivals = [name for name in results.methods if kinds[name] in among and name != results.reference]
        rivals = [name for name in rivals if "robust" not in name and results.played(name, [setting])]
        if not rivals or not results.played(results.reference, [setting]):
            continue
        found = {name: results.verdict(name, [setting])[0] for name in rivals}
        best = max(rivals, key=lambda name: found[name].mean)
        ratio, bound = math.exp(found[best].mean), math.exp(found[best].interval(level=0.9)[1])
        flip, seeds = results.verdict(best, [setting])[1], min(results.seeds(best, [setting]))
        each = {table: math.exp(results.log_ratio(best, [setting], [table]).mean) for table in results.tables}
        ahead = results.difference(best, [setting]).mean
        met = ratio <= GOAL and bound < GOAL_BOUND
        if setting == Setting().name:
            met = ratio <= EXACT_GOAL or ahead >= -EXACT_BEHIND
        rows.append(
            [
                setting,
                words,
                best,
                f"{ratio:.2f}",
                f"{bound:.2f}",
                "met" if met else "missed",
                f"{ahead:+.2f}",
                *(f"{r:.2f}" for r in each.values()),
                str(seeds),
            ]
        )
        data.append(
            {
                "setting": setting,
                "rivals": words,
                "best": best,
                "ratio": ratio,
                "bound": bound,
                "met": met,
                "ahead": ahead,
                "tables": each,
                "seeds": seeds,
                "sign_flip": flip,
            }
        )
    columns = ["setting", "rivals", "the best of them", "ratio", "below, with 95%", "goal", "points ahead"]
    columns += [*results.tables, "seeds"]
    title = f"Regret of {results.reference} over that of the best other method{where}"
    return Ranking(title, columns, rows, data)


def taken_away(results: Results, kinds: Mapping[str, str], where: str = "") -> Ranking:
    """Under each setting how much more regret there is with a part of `robust` taken away."""
    rows, data = [], []
    for method in results.methods:
        if kinds[method] != "ablation" or not results.played(method, results.settings):
            continue
        found = {one: results.difference(method, [one]) for one in results.settings}
        rows.append([method, *(f"{one.mean:+.2f} ± {one.standard_error:.2f}" for one in found.values())])
        data.append({"method": method, **{setting: one.to_dict() for setting, one in found.items()}})
    title = f"More regret than {results.reference}, with a part of robust taken away{where}"
    return Ranking(title, ["method", *results.settings], rows, data)


_RIVALS = {
    "known methods": ("known",),
    "and plain remedies": ("known", "remedy"),
    "and learned on other data": ("known", "remedy", "learned"),
}


def costs(results: Results, settings: Sequence[str]) -> Ranking:
    """What each method spends, on average over tables, settings and seeds."""
    names = ("trials", "rounds", "evaluations", "messages")
    rows, data = [], []
    for method in results.methods:
        spent = {name: _mean(results, method, settings, name) for name in names}
        if spent["rounds"] is not None:
            rows.append([method, *(f"{value:,.0f}" for value in spent.values())])
            data.append({"method": method, **spent})
    return Ranking("What each costs", ["method", *names], rows, data)


def _mean(results: Results, method: str, settings: Sequence[str], what: str) -> float | None:
    found = [
        value
        for table in results.tables
        for setting in settings
        for value in results.values(table, setting, method, what).values()
    ]
    return sum(found) / len(found) if found else None


def _one_if_same(counts: list[int]) -> list[int]:
    return counts[:1] if len(set(counts)) == 1 else counts


def _estimate(one: Estimate) -> str:
    return f"{one.mean:.2f} ± {one.standard_error:.2f}"
