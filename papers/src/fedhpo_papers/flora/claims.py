"""The claims of the FLoRA paper, judged by what was measured.

There is one deal of the rows, as in the paper. So a claim about counts is judged by the counts, and one about
means by the differences over the cases, which must be two standard errors from 0; both only where all cases
of the scale were run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from fedhpo.methods.flora.surfaces import SURFACES
from fedhpo_papers.flora.paper import MAIN, MEDIAN_SAVINGS, PARTIES
from fedhpo_papers.flora.settings import LEARNERS
from fedhpo_papers.shared.tables import Mean
from fedhpo_papers.shared.verdicts import DOES_NOT, HOLDS, UNDECIDED, Verdict, above, all_of

Row = Mapping[str, Any]
_MAIN = ("table7", "table8", "table9")
#: Cases of Tables 7 to 9.
CASES = sum(len(rows) for rows in MAIN.values())


def of_parts(rows: Iterable[Row], *parts: str) -> list[Row]:
    """The rows of these tables."""
    return [row for row in rows if row["part"] in parts]


def tally(rows: Sequence[Row], surface: str) -> tuple[int, int, int]:
    """Wins, ties and losses of a surface against the default config."""
    gaps = [row["accuracies"][surface] - row["defaults"][0] for row in rows]
    won, lost = sum(gap > 1e-12 for gap in gaps), sum(gap < -1e-12 for gap in gaps)
    return won, len(gaps) - won - lost, lost


def wilcoxon(rows: Sequence[Row], surface: str) -> tuple[float, float]:
    """The paper's test: statistic and p of "regrets are below 1", signed ranks, normal approximation.

    Cases without a gap have no regret, and ties with the default no sign: they do not take part.

    >>> rows = [{"regrets": {"sgm": r}} for r in (0.66, 0.43, 0.17, 1.33, 0.69, 0.47, 0.14)]
    >>> statistic, p = wilcoxon(rows, "sgm")
    >>> statistic, round(p, 5)
    (26.0, 0.02126)
    """
    from scipy.stats import wilcoxon as signed_ranks

    gains = [round(1 - value, 9) for value in known(rows, surface)]
    if not any(gains):
        return math.nan, math.nan
    found = signed_ranks(gains, alternative="greater", method="asymptotic", correction=False)
    return float(found.statistic), float(found.pvalue)


def known(rows: Sequence[Row], surface: str, what: str = "regrets") -> list[float]:
    """The values of a surface that are known."""
    values = [row[what][surface] for row in rows if what in row]
    return [value for value in values if not math.isnan(value)]


def mean(values: Sequence[float]) -> float:
    """NaN of nothing."""
    return float(np.mean(values)) if values else math.nan


def judge(rows: Sequence[Row]) -> list[Verdict]:
    """All claims that what was run can speak to."""
    claims: tuple[Callable[[Sequence[Row]], list[Verdict]], ...] = (
        _defaults,
        _wins,
        _trees_win,
        _savings,
        _many_parties,
        _few,
        _imbalances,
        _testbed,
    )
    return [verdict for claim in claims for verdict in claim(rows)]


def _verdict(true: bool, enough: bool = True) -> str:
    return (HOLDS if true else DOES_NOT) if enough else UNDECIDED


def _larger(rows: Sequence[Row], one: str, *others: str) -> str:
    """Whether the regrets of a surface are larger in the mean than those of each of the others."""
    regrets = [row["regrets"] for row in rows]
    return all_of([above(Mean.of(own[one] - own[other] for own in regrets), 0) for other in others])


def _each(values: Mapping[str, Any]) -> str:
    return "; ".join(
        f"{name} {value:.2f}" if isinstance(value, float) else f"{name} {value}"
        for name, value in values.items()
    )


def _defaults(rows: Sequence[Row]) -> list[Verdict]:
    """Whether this is the paper's setting at all: the default config's balanced accuracy, by HGB."""
    found = of_parts(rows, "table7")
    gaps = {row["set"]: 100 * mean(row["baseline"]) - MAIN["hgb"][row["set"]].default for row in found}
    if not gaps:
        return []
    near = sum(abs(gap) <= 3 for gap in gaps.values())
    # Six near decide it, two far refute it, however many were run.
    decided = near >= 6 or len(gaps) - near >= 2
    return [
        Verdict(
            "HGB's default config scores within 3 points of SSBaseline on at least six of seven sets",
            "SSBaseline of Table 7",
            f"{near} of {len(gaps)}: " + "; ".join(f"{name} {gap:+.2f}" for name, gap in gaps.items()),
            _verdict(near >= 6, decided),
        )
    ]


def _wins(rows: Sequence[Row]) -> list[Verdict]:
    found = of_parts(rows, *_MAIN)
    if {row["part"] for row in found} != set(_MAIN):
        return []
    enough = len(found) == CASES
    tallies = {name: tally(found, name) for name in SURFACES}
    shown = {name: "/".join(map(str, counts)) for name, counts in tallies.items()}
    tests = {name: wilcoxon(found, name) for name in SURFACES}
    quartiles = {name: float(np.quantile(known(found, name), 0.75)) for name in SURFACES}
    means = {name: mean(known(found, name)) for name in SURFACES}
    lowest = min(tests, key=lambda name: tests[name][1])
    won, _, lost = tallies["aplm"]
    return [
        Verdict(
            "APLM beats the default config in at least 15 of 20 cases",
            "18/0/2",
            shown["aplm"],
            _verdict(won >= 15, won >= 15 or lost > 5 or enough),
        ),
        Verdict(
            "Every surface wins more often than it loses against the default",
            "16/0/4; 14/1/5; 15/1/4; 18/0/2",
            _each(shown),
            _verdict(all(counts[0] > counts[2] for counts in tallies.values()), enough),
        ),
        Verdict(
            "Every surface improves on the default by a Wilcoxon test (p < 0.05)",
            "p = 0.005; 0.003; 0.032; 0.002",
            "; ".join(f"{name} p = {p:.4f}" for name, (_, p) in tests.items()),
            _verdict(all(p < 0.05 for _, p in tests.values()), enough),
        ),
        Verdict(
            "APLM is the best overall: the most wins and the least p",
            "yes",
            f"wins {_each({name: counts[0] for name, counts in tallies.items()})}; least p {lowest}",
            _verdict(
                tallies["aplm"][0] == max(counts[0] for counts in tallies.values()) and lowest == "aplm",
                enough,
            ),
        ),
        Verdict(
            "The third quartile of regrets is below 1 for every surface",
            "0.97; 1.01; 0.99; 0.79 (its own SGM+U does not)",
            _each(quartiles),
            _verdict(all(value < 1 for value in quartiles.values()), enough),
        ),
        Verdict(
            "MPLM has the largest mean regret overall",
            "0.64; 0.64; 1.02; 0.63",
            _each(means),
            _larger(found, "mplm", "sgm", "sgm+u", "aplm") if enough else UNDECIDED,
        ),
    ]


def _trees_win(rows: Sequence[Row]) -> list[Verdict]:
    found = of_parts(rows, "table7")
    if not found:
        return []
    means = {name: mean(known(found, name)) for name in SURFACES}
    return [
        Verdict(
            "With HGB, SGM+U, MPLM and APLM have a lower mean regret than SGM",
            "0.56; 0.52; 0.47; 0.45",
            _each(means),
            _larger(found, "sgm", *SURFACES[1:]) if len(found) == len(MAIN["hgb"]) else UNDECIDED,
        )
    ]


def _savings(rows: Sequence[Row]) -> list[Verdict]:
    found = []
    for part, learner in zip(_MAIN, LEARNERS, strict=True):
        own = of_parts(rows, part)
        saved = known(own, "aplm", "savings")
        if saved:
            median = float(np.median(saved))
            paper = MEDIAN_SAVINGS[learner]
            found.append(
                Verdict(
                    f"With {learner}, one training with APLM's config is worth at least half as many of "
                    "multi-shot search as in the paper (median over sets)",
                    f"{paper:g} trainings",
                    f"{median:g} trainings (of {len(saved)} sets)".replace("inf", "more"),
                    _verdict(median >= paper / 2, len(own) == len(MAIN[learner])),
                )
            )
    return found


def _many_parties(rows: Sequence[Row]) -> list[Verdict]:
    found = of_parts(rows, "table11")
    if not found:
        return []
    by_set: dict[str, list[Row]] = {}
    for row in sorted(found, key=lambda row: row["parties"]):
        by_set.setdefault(row["set"], []).append(row)
    enough = set(by_set) == set(PARTIES)
    grows = {name: f"{own[0]['gamma']:.2f} to {own[-1]['gamma']:.2f}" for name, own in by_set.items()}
    most = [own[-1] for own in by_set.values()]
    means = {name: mean(known(most, name)) for name in SURFACES}
    grown = Mean.of(_of_all(own[-1]) - _of_all(own[0]) for own in by_set.values())
    return [
        Verdict(
            "gamma grows with the number of parties, on every set",
            "1.01 to 1.20; 1.01 to 1.14; 1.02 to 1.16",
            _each(grows),
            _verdict(all(own[-1]["gamma"] > own[0]["gamma"] for own in by_set.values()), enough),
        ),
        Verdict(
            "Regrets are larger at the most parties than at three (mean over sets and surfaces)",
            "0.26 to 0.78",
            f"{mean([_of_all(own[0]) for own in by_set.values()]):.2f} to {mean(list(means.values())):.2f}: "
            + grown.signed,
            above(grown, 0) if enough else UNDECIDED,
        ),
        Verdict(
            "MPLM degrades the most gracefully: the lowest mean regret at the most parties",
            "0.90; 0.81; 0.63; 0.78",
            _each(means),
            all_of([_larger(most, name, "mplm") for name in SURFACES if name != "mplm"])
            if enough
            else UNDECIDED,
        ),
    ]


def _of_all(row: Row) -> float:
    """The mean regret of all surfaces."""
    return mean(list(row["regrets"].values()))


def _few(rows: Sequence[Row]) -> list[Verdict]:
    found = []
    for part, column, what, paper in (
        ("table12", "tries", "configs tried", "0.40 against 0.22"),
        ("table13", "sent", "pairs sent", "0.91 against 0.23"),
    ):
        own = of_parts(rows, part)
        cases = [
            [row for row in own if (row["learner"], row["set"]) == case]
            for case in dict.fromkeys((row["learner"], row["set"]) for row in own)
        ]
        little = [mean(known([row for row in case if row[column] < 20], "aplm")) for case in cases]
        much = [mean(known([row for row in case if row[column] >= 40], "aplm")) for case in cases]
        gap = Mean.of(one - other for one, other in zip(little, much, strict=True))
        if gap.count:
            claim = f"Fewer than 20 {what} are too few for APLM: a larger regret than with 40 and more"
            here = f"{mean(little):.2f} against {mean(much):.2f}: {gap.signed}"
            found.append(Verdict(claim, paper, here, above(gap, 0)))
    return found


def _imbalances(rows: Sequence[Row]) -> list[Verdict]:
    found = of_parts(rows, "table14")
    if not found:
        return []
    mplm = {f"{row['learner']} {row['set']}": row["regrets"]["mplm"] for row in found}
    verdicts = [
        Verdict(
            "MPLM improves on the default whatever the imbalance",
            "0.29; 0.71; 0.01; 0.64",
            _each(mplm),
            _verdict(all(value < 1 for value in mplm.values()), len(found) == 4),
        )
    ]
    worst = [row for row in found if row["set"] == "imb2"]
    if worst:
        regrets = worst[0]["regrets"]
        verdicts.append(
            Verdict(
                "With distinct classes at each party (imb2) SGM fails and MPLM is the best",
                "20.63; 1.53; 0.71; 1.10",
                _each(regrets),
                _verdict(
                    regrets["sgm"] > 1 and min(regrets, key=regrets.__getitem__) == "mplm", len(found) == 4
                ),
            )
        )
    return verdicts


def _testbed(rows: Sequence[Row]) -> list[Verdict]:
    found = of_parts(rows, "table15")
    if not found:
        return []
    above = {
        row["set"]: sum(row["accuracies"][name] > row["defaults"][0] for name in SURFACES) for row in found
    }
    return [
        Verdict(
            "Trained federated, boosted trees with every surface's config beat the default config",
            "4 of 4 on all three sets",
            "; ".join(f"{name} {count} of 4" for name, count in above.items()),
            _verdict(all(count == 4 for count in above.values()), len(found) == 3),
        )
    ]
