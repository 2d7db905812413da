"""Observations 6 to 8 of the paper: whole methods under noise, and proxy search."""

from __future__ import annotations

from collections.abc import Sequence

from fedhpo.protocol.federation import Floats
from fedhpo_papers.noisy_eval.figures import Curves, Dots
from fedhpo_papers.noisy_eval.methods import EARLY_STOPPING, METHODS, NOISELESS, NOISY
from fedhpo_papers.noisy_eval.rules import MARGIN, Claim, Figures, curves, points, weighed
from fedhpo_papers.noisy_eval.subsampling import RANDOM
from fedhpo_papers.shared.tables import Mean
from fedhpo_papers.shared.verdicts import any_of


def method_claims(figures: Figures) -> list[Claim]:
    """Observation 6, from Figures 15 and 16. Methods have searches of their own, and not as many."""
    third, full = curves(figures, "15 and 1"), curves(figures, "16")
    early, no_better, degraded, fallen, names = {}, {}, {}, {}, {}
    others = [name for name in METHODS if name not in EARLY_STOPPING]
    for table in third.tables:

        def errors(figure: Curves, noise: str, name: str, table: str = table) -> Floats:
            return figure.errors(table, noise, name)

        degraded[table] = weighed(
            {
                sign / 2: [
                    errors(full, NOISY if (sign > 0) == (name in EARLY_STOPPING) else NOISELESS, name)
                    for name in (*EARLY_STOPPING, *others)
                ]
                for sign in (1, -1)
            }
        )
        best = min(METHODS, key=lambda name: Mean.of(errors(third, NOISELESS, name)).value)
        rest = [name for name in METHODS if name != best]
        names[table] = f"{table}, {best}"
        fallen[table] = weighed(
            {1.0: [errors(third, NOISY, best)], -1 / 3: [errors(third, NOISY, name) for name in rest]}
        )
        for name in EARLY_STOPPING:
            random = {noise: errors(third, noise, "RS") for noise in (NOISELESS, NOISY)}
            early[f"{table}, {name}"] = apart(random[NOISELESS], errors(third, NOISELESS, name))
            no_better[f"{table}, {name}"] = apart(errors(third, NOISY, name), random[NOISY])
    poor = "as poor as random guessing"
    return [
        Claim("6. Without noise HB and BOHB beat RS at a third of the budget", "yes", early),
        Claim("6. With noise they are no better than RS there", poor, no_better, -MARGIN),
        Claim("6. Noise costs HB and BOHB more than RS and TPE, at the full budget", "yes", degraded),
        Claim(
            "6. What is best without noise is worse than the others' mean with it",
            "the worst",
            fallen,
            names=names,
        ),
    ]


def code_claims(figures: Figures) -> list[Claim]:
    """Observation 6 of Hyperband by the rules of the authors' code."""
    third, full = (curves(figures, f"authors' code, {when}") for when in ("third", "full"))
    early, worse, costs = {}, {}, {}
    for table in third.tables:

        def errors(figure: Curves, noise: str, name: str, table: str = table) -> Floats:
            return figure.errors(table, noise, name)

        early[table] = apart(errors(third, NOISELESS, "RS"), errors(third, NOISELESS, "HB"))
        worse[table] = apart(errors(third, NOISY, "HB"), errors(third, NOISY, "RS"))
        costs[table] = weighed(
            {
                1.0: [errors(full, NOISY, "HB"), errors(full, NOISELESS, "RS")],
                -1.0: [errors(full, NOISELESS, "HB"), errors(full, NOISY, "RS")],
            }
        )
    return [
        Claim("6, their code. Without noise HB beats RS at a third of the budget", "yes", early),
        Claim("6, their code. With noise HB is worse than RS there", "yes", worse),
        Claim("6, their code. Noise costs HB more than RS, at the full budget", "yes", costs),
    ]


def apart(worse: Floats, better: Floats) -> Mean:
    """The difference of the means of searches that have nothing in common."""
    return weighed({1.0: [worse], -1.0: [better]})


def proxy_claims(figures: Figures, same_task: Sequence[tuple[str, str]]) -> list[Claim]:
    """Observations 7 and 8, from Figures 10 to 12."""
    one_shot, budget, dots = curves(figures, "11"), curves(figures, "12"), figures["10 and 14"]
    assert isinstance(dots, Dots)
    related = {*same_task, *((second, first) for first, second in same_task)}

    def found(table: str, source: str) -> Floats:
        return one_shot.errors(table, "proxy search", source)

    pairs = [
        (t, str(point.x))
        for t in one_shot.tables
        for point in one_shot.of(t, "proxy search")
        if point.x not in (t, RANDOM)
    ]
    name = "{1} for {0}".format
    lost = {name(*pair): points(found(*pair), found(pair[0], pair[0])) for pair in pairs}
    kept = {name(*pair): points(found(pair[0], pair[0]), found(*pair)) for pair in pairs if pair in related}
    guessed = {name(*pair): points(found(*pair), found(pair[0], RANDOM)) for pair in pairs}
    alike = {panel: value for panel, value in dots.summary.items() if tuple(panel.split(", ")) in related}
    verdicts = [
        Claim(
            "7. Proxy data that does not match is noise: worse than the clients' own",
            "yes",
            lost,
            MARGIN,
            any_of,
        ),
        Claim("7. ... it can be worse than a choice at random", "yes", guessed, 0.0, any_of),
    ]
    if alike:
        correlation = {p: Mean(r, 0.0, len(dots.panels[p])) for p, r in alike.items()}
        verdicts += [
            Claim(
                "7. Errors of configs correlate between sets of one task",
                "yes",
                correlation,
                shown={panel: f"{r:.2f}" for panel, r in alike.items()},
            ),
            Claim("7. ... and such a proxy is no worse than the clients' own", "competitive", kept, -MARGIN),
        ]
    gains: dict[str, dict[str, Mean]] = {"best": {}, "worst": {}, "clear": {}}
    named: dict[str, dict[str, str]] = {"best": {}, "worst": {}}
    for table in budget.tables:
        private, free = (budget.of(table, f"epsilon = {e}")[-1].errors for e in ("1", "inf"))
        proxies = {
            series: budget.of(table, series)[-1].errors
            for series in budget.series
            if series.startswith("proxy ") and budget.of(table, series)
        }
        ranked = sorted(proxies, key=lambda series: float(proxies[series].mean()))
        if not ranked:
            continue
        best, worst = ranked[0], ranked[-1]
        named["best"][table], named["worst"][table] = f"{table}, {best}", f"{table}, {worst}"
        gains["best"][table] = points(private, proxies[best])
        gains["worst"][table] = points(private, proxies[worst])
        gains["clear"][table] = points(free, proxies[best])
    return [
        *verdicts,
        Claim(
            "8. The best proxy beats search at 1% of clients and epsilon = 1",
            "yes",
            gains["best"],
            names=named["best"],
        ),
        Claim("8. ... even the worst proxy does", "yes", gains["worst"], names=named["worst"]),
        Claim(
            "8. ... the best is no worse than 1% of clients without privacy",
            "competitive",
            gains["clear"],
            -MARGIN,
            names=named["best"],
        ),
    ]
