"""Observations 1 to 5 of the paper, and Figure 13: random search under one source of noise at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from fedhpo.methods.fedex.ranking import spearman
from fedhpo.protocol.federation import Floats
from fedhpo_papers.noisy_eval.figures import Curves, Dots
from fedhpo_papers.noisy_eval.method_claims import method_claims, proxy_claims
from fedhpo_papers.noisy_eval.rules import (
    CATASTROPHE,
    MARGIN,
    TENTH,
    Claim,
    Combine,
    Figures,
    curves,
    no_matter,
    points,
)
from fedhpo_papers.noisy_eval.subsampling import RANDOM
from fedhpo_papers.shared.tables import Mean
from fedhpo_papers.shared.verdicts import HOLDS, above, all_of, any_of

#: Where a verdict is on all tables together.
_TOGETHER = "over the tables"


def claims_of(figures: Figures, same_task: Sequence[tuple[str, str]] = ()) -> list[Claim]:
    """The claims on figures that were made; `same_task` are pairs of tables of one kind."""
    found: list[Claim] = []
    for needed, claims in (
        (("3", "5"), _subsampling),
        (("4", "6", "7"), _heterogeneity),
        (("9",), _privacy),
        (("15 and 1", "16"), method_claims),
        (("13",), _spaces),
    ):
        if set(needed) <= figures.keys():
            found += claims(figures)
    if {"11", "12"} <= figures.keys():
        found += proxy_claims(figures, same_task)
    return sorted(found, key=lambda claim: claim.text.split(".")[0])


def _subsampling(figures: Figures) -> list[Claim]:
    sizes, budget = curves(figures, "3"), curves(figures, "5")
    one, every = "1 client", "all clients"

    def gap(table: str, place: int) -> Floats:
        own, other = (budget.of(table, series)[place].errors for series in (one, every))
        return own - other

    last = {table: sizes.of(table, "RS")[-1].errors for table in sizes.tables}
    hurt = {table: points(sizes.errors(table, "RS", 1), last[table]) for table in sizes.tables}
    trained = {
        table: points(line[0].errors, line[-1].errors)
        for table in budget.tables
        for line in [budget.of(table, one)]
    }
    grown = {table: points(gap(table, -1), gap(table, 3)) for table in budget.tables}
    return [
        Claim("1. Few clients hurt: one, against all", "up to 8 points (CIFAR-10), 2 (others)", hurt),
        Claim("2. More budget helps also at one client: one config, against 16", "yes", trained),
        Claim("2. ... but the gap to all clients grows: 16 configs, against 4", "yes, on all sets", grown),
    ]


def enough(sizes: Curves, table: str) -> float | str:
    """The fewest clients of Figure 3 that are no worse than all of them."""
    line = sizes.of(table, "RS")
    # All of them are, even where there are too few searches to say so.
    known = [above(points(line[-1].errors, point.errors), -MARGIN) == HOLDS for point in line[:-1]]
    return next(point.x for point, good in zip(line, [*known, True], strict=True) if good)


def _heterogeneity(figures: Figures) -> list[Claim]:
    data, systems, dots = curves(figures, "4"), curves(figures, "6"), figures["7"]
    assert isinstance(dots, Dots)
    few, all_asked, alike, biased, worst = {}, {}, {}, {}, {}
    for table in data.tables:
        unlike, same = (np.array([p.errors for p in data.of(table, s)]) for s in ("p = 0", "p = 1"))
        few[table] = points(unlike[:-1].mean(axis=0), same[:-1].mean(axis=0))
        all_asked[table] = points(unlike[-1], same[-1])
        alike[table] = points(same[0], same[-1])
        costs = [
            (points(most.errors, none.errors), most.x)
            for most, none in zip(systems.of(table, "b = 3"), systems.of(table, "b = 0"), strict=True)
        ]
        biased[table], size = max(costs, key=lambda cost: cost[0].value)
        worst[table] = f"{table}, {size}"
    return [
        Claim("3. Few clients hurt more where they are unlike: p = 0, against p = 1", "yes", few),
        Claim("3. ... and also where they are alike (p = 1): one, against all", "yes", alike),
        no_matter("3. ... p makes no difference where all are asked", "none", all_asked),
        Claim(
            f"4. Biased participation can cost {CATASTROPHE:g} points: b = 3, against 0, at its worst rate",
            "90% error on CIFAR-10",
            biased,
            CATASTROPHE,
            any_of,
            names=worst,
        ),
        _where(biased, dots.summary),
    ]


def _where(biased: Mapping[str, Mean], low: Mapping[str, float]) -> Claim:
    """Whether the tables come in the same order by what bias costs and by configs like those."""
    rank, count = float("nan"), 0
    # Two tables are no order, and tables of equal shares have none.
    if len(biased) > 2 and len({low[table] for table in biased}) == len(biased):
        rank = spearman(np.array([biased[t].value for t in biased]), np.array([low[t] for t in biased]))
        count = 0 if np.isnan(rank) else len(biased)
    shares = "; ".join(f"{table}: {100 * low[table]:.0f}% of configs" for table in low)
    return Claim(
        "4. ... the more, the more bad configs there are without error at some client",
        "yes (Figure 7)",
        {_TOGETHER: Mean(rank, 0.0, count)},
        shown={_TOGETHER: f"rank correlation {'–' if np.isnan(rank) else format(rank, '.2f')} ({shares})"},
    )


def _privacy(figures: Figures) -> list[Claim]:
    figure = curves(figures, "9")
    free, loose = "epsilon = inf", "epsilon = 100"

    def lost(series: str, place: int) -> dict[str, Mean]:
        return {
            t: points(figure.of(t, series)[place].errors, figure.of(t, free)[place].errors)
            for t in figure.tables
        }

    no_worse = {t: Mean(-m.value, m.error, m.count) for t, m in lost(loose, -1).items()}
    return [
        Claim("5. Even epsilon = 100 hurts at one client", "yes", lost(loose, 0)),
        _blind(figure, "epsilon = 1", 0, "at one client", "similar to random (< 1% of clients)", all_of),
        _blind(figure, "epsilon = 0.1", -1, "on some set even at all clients", "often on CIFAR-10", any_of),
        Claim("5. ... at all clients epsilon = 100 is no worse than infinity", "yes", no_worse, -MARGIN),
    ]


def _blind(figure: Curves, series: str, place: int, where: str, paper: str, combine: Combine) -> Claim:
    """Whether a search gains, over a choice at random, less than `TENTH` of what it gains without noise."""
    short, shown = {}, {}
    for table in figure.tables:
        random, own = (figure.of(table, s)[place].errors for s in (RANDOM, series))
        gain = random - figure.of(table, "epsilon = inf")[-1].errors
        short[table] = points(TENTH * gain, random - own)
        shown[table] = f"{100 * np.nanmean(random - own) / np.nanmean(gain):.0f}% of the gain"
    text = f"5. ... {series} {where} is hardly better than a choice at random"
    return Claim(text, paper, short, combine=combine, shown=shown)


def _spaces(figures: Figures) -> list[Claim]:
    figure = curves(figures, "13")
    ends = {
        series: {
            table: (line[0].errors, line[-1].errors)
            for table in figure.tables
            for line in [figure.of(table, series)]
        }
        for series in figure.series
    }
    noisy, clear = (ends[series] for series in ("1 client, epsilon = 10", "all clients"))
    helps = {table: points(small, large) for table, (small, large) in clear.items()}
    harms = {table: points(large, small) for table, (small, large) in noisy.items()}
    return [
        Claim("Figure 13. Without noise a larger space is no worse", "it helps", helps, -MARGIN),
        Claim("Figure 13. ... with much noise it can harm", "yes", harms, 0.0, any_of),
    ]
