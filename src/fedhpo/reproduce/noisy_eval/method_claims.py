"""Observations 6 to 8 of the paper: whole methods under noise, and proxy search."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedhpo.protocol.federation import Floats
from fedhpo.reproduce.noisy_eval.figures import Curves, Dots
from fedhpo.reproduce.noisy_eval.methods import EARLY_STOPPING, METHODS, NOISELESS, NOISY
from fedhpo.reproduce.noisy_eval.rules import MARGIN, Figures, curves, over, points
from fedhpo.reproduce.noisy_eval.subsampling import RANDOM
from fedhpo.reproduce.shared.tables import Mean
from fedhpo.reproduce.shared.verdicts import Verdict, above, all_of, any_of


def method_claims(figures: Figures) -> list[Verdict]:
    """Observation 6, from Figures 15 and 16."""
    third, full = curves(figures, "15 and 1"), curves(figures, "16")
    early, no_better, degraded, fallen = {}, {}, {}, {}
    for table in third.tables:

        def errors(figure: Curves, noise: str, name: str, table: str = table) -> Floats:
            return figure.errors(table, noise, name)

        lost = {name: errors(full, NOISY, name) - errors(full, NOISELESS, name) for name in METHODS}
        stopping = np.mean([lost[name] for name in EARLY_STOPPING], axis=0)
        others = np.mean([lost[name] for name in METHODS if name not in EARLY_STOPPING], axis=0)
        degraded[table] = points(stopping, others)
        best = min(METHODS, key=lambda name: float(np.nanmean(errors(third, NOISELESS, name))))
        rest = np.mean([errors(third, NOISY, name) for name in METHODS if name != best], axis=0)
        fallen[f"{table}, {best}"] = points(errors(third, NOISY, best), rest)
        for name in EARLY_STOPPING:
            random = {noise: errors(third, noise, "RS") for noise in (NOISELESS, NOISY)}
            early[f"{table}, {name}"] = points(random[NOISELESS], errors(third, NOISELESS, name))
            no_better[f"{table}, {name}"] = points(errors(third, NOISY, name), random[NOISY])
    return [
        over("6. Without noise HB and BOHB beat RS at a third of the budget", "yes", early),
        over(
            "6. With noise they are no better than RS there", "as poor as random guessing", no_better, -MARGIN
        ),
        over("6. Noise costs HB and BOHB more than RS and TPE, at the full budget", "yes", degraded),
        over("6. What is best without noise is worse than the others' mean with it", "the worst", fallen),
    ]


def proxy_claims(figures: Figures, same_task: Sequence[tuple[str, str]]) -> list[Verdict]:
    """Observations 7 and 8, from Figures 10 to 12."""
    one_shot, budget, dots = curves(figures, "11"), curves(figures, "12"), figures["10 and 14"]
    assert isinstance(dots, Dots)
    related = {*same_task, *((second, first) for first, second in same_task)}

    def found(table: str, source: str) -> Floats:
        return one_shot.errors(table, "proxy search", source)

    pairs = [(t, s) for t in one_shot.tables for s in one_shot.tables if t != s]
    name = "{1} for {0}".format
    lost = {name(*pair): points(found(*pair), found(pair[0], pair[0])) for pair in pairs}
    kept = {name(*pair): points(found(pair[0], pair[0]), found(*pair)) for pair in pairs if pair in related}
    guessed = {name(*pair): points(found(*pair), found(pair[0], RANDOM)) for pair in pairs}
    alike = {panel: value for panel, value in dots.summary.items() if tuple(panel.split(", ")) in related}
    verdicts = [
        over(
            "7. Proxy data that does not match is noise: worse than the clients' own",
            "yes",
            lost,
            MARGIN,
            any_of,
        ),
        over("7. ... it can be worse than a choice at random", "yes", guessed, 0.0, any_of),
    ]
    if alike:
        count = len(next(iter(dots.panels.values())))
        fisher = {p: Mean(r, ((1 - r**2) / (count - 2)) ** 0.5, count) for p, r in alike.items()}
        text = "; ".join(f"{panel}: {mean.value:.2f}" for panel, mean in fisher.items())
        verdict = all_of([above(mean, 0.0) for mean in fisher.values()])
        verdicts += [
            Verdict("7. Errors of configs correlate between sets of one task", "yes", text, verdict),
            over("7. ... and such a proxy is no worse than the clients' own", "competitive", kept, -MARGIN),
        ]
    gains: dict[str, dict[str, Mean]] = {"best": {}, "worst": {}, "clear": {}}
    for table in budget.tables:
        private, free = (budget.of(table, f"epsilon = {e}")[-1].errors for e in ("1", "inf"))
        proxies = {
            series: budget.of(table, series)[-1].errors
            for series in budget.series
            if series.startswith("proxy ") and budget.of(table, series)
        }
        ranked = sorted(proxies, key=lambda series: float(proxies[series].mean()))
        best, worst = ranked[0], ranked[-1]
        gains["best"][f"{table}, {best}"] = points(private, proxies[best])
        gains["worst"][f"{table}, {worst}"] = points(private, proxies[worst])
        gains["clear"][f"{table}, {best}"] = points(free, proxies[best])
    return [
        *verdicts,
        over("8. The best proxy beats search at 1% of clients and epsilon = 1", "yes", gains["best"]),
        over("8. ... even the worst proxy does", "yes", gains["worst"]),
        over(
            "8. ... the best is no worse than 1% of clients without privacy",
            "competitive",
            gains["clear"],
            -MARGIN,
        ),
    ]
