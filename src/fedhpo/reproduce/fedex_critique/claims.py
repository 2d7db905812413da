"""The claims of the critique of FedEx, judged by what was measured."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from fedhpo.reproduce.fedex_critique.settings import GAMMAS, PLAIN, RULES, plain
from fedhpo.reproduce.shared.tables import Mean
from fedhpo.reproduce.shared.verdicts import (
    DOES_NOT,
    HOLDS,
    UNDECIDED,
    Verdict,
    above,
    all_of,
    any_of,
    opposite,
)

Row = Mapping[str, Any]
NAMES = {"kendall": "Kendall tau", "spearman": "Spearman", "average_precision": "AP_4@10"}
#: What `FedEx.auto()` must be better at, or in accuracy as good.
_AUTO = {"kendall": "Kendall tau", "average_precision": "AP_4@10", "accuracy": "accuracy"}
#: The rounds of the paper's trainings.
_PAPER_ROUNDS = 200


class Rows:
    """What was measured, by setting and number of clients."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = list(rows)
        self.clients = sorted({row["clients"] for row in rows})

    def values(self, what: str, setting: str, clients: int) -> dict[int, float]:
        """One value by seed."""
        return {
            row["seed"]: float(row[what])
            for row in self._rows
            if row["setting"] == setting and row["clients"] == clients
        }

    def mean(self, what: str, setting: str, clients: int) -> Mean:
        """Its mean over seeds."""
        return Mean.of(self.values(what, setting, clients).values())

    def gap(self, what: str, setting: str, other: str, clients: int) -> Mean:
        """How much more one setting has than another, seed by seed."""
        a, b = (self.values(what, name, clients) for name in (setting, other))
        return Mean.of(a[seed] - b[seed] for seed in sorted(a.keys() & b.keys()))

    def best(self, what: str, settings: Sequence[str], clients: int) -> str:
        """The setting with the largest mean."""
        means = {name: self.mean(what, name, clients).value for name in settings}
        return max(means, key=lambda name: -math.inf if math.isnan(means[name]) else means[name])

    def has(self, setting: str) -> bool:
        """Whether it was run."""
        return any(row["setting"] == setting for row in self._rows)


def judge(rows: Rows, rounds: int) -> list[Verdict]:
    """All claims that what was run can speak to."""
    found: list[Verdict] = []
    if all(rows.has(name) for name in PLAIN):
        found += [step_rules(rows), gammas(rows), *collapses(rows, rounds), *rankings(rows)]
    if rows.has("adaptive pretrain") and rows.has(plain("adaptive", 0.0)):
        found += pretrain(rows)
    if rows.has("auto") and all(rows.has(name) for name in PLAIN):
        found += auto(rows)
    return found


def step_rules(rows: Rows) -> Verdict:
    """Figure 1: the best step rule is another one with more clients."""
    few, many = rows.clients[0], rows.clients[-1]
    settings = [plain(rule, 0.0) for rule in RULES]
    best_few, best_many = (rows.best("accuracy", settings, clients) for clients in (few, many))
    if best_few == best_many:
        others = [s for s in settings if s != best_few]
        leads = [above(rows.gap("accuracy", best_few, s, c), 0) for s in others for c in (few, many)]
        verdict = DOES_NOT if all_of(leads) == HOLDS else UNDECIDED
    else:
        leads = [
            above(rows.gap("accuracy", best_few, best_many, few), 0),
            above(rows.gap("accuracy", best_many, best_few, many), 0),
        ]
        verdict = all_of(leads)
    here = f"{_rule(best_few)} at B = {few}, {_rule(best_many)} at B = {many}"
    return Verdict(
        "the best step rule changes with the number of clients",
        "constant at B = 4, aggressive at B = 30",
        here,
        verdict,
    )


def _rule(setting: str) -> str:
    return setting.partition(" ")[0]


def gammas(rows: Rows) -> Verdict:
    """Figure 2: the best discount is another one for each step rule."""
    few = rows.clients[0]
    best = {rule: rows.best("accuracy", [plain(rule, g) for g in GAMMAS], few) for rule in RULES}
    chosen = {rule: name.rpartition(" ")[2] for rule, name in best.items()}
    # They differ for sure if some rule does better with its own discount than with another rule's.
    leads = [
        above(rows.gap("accuracy", best[rule], f"{rule} gamma {other}", few), 0)
        for rule in RULES
        for other in sorted(set(chosen.values()) - {chosen[rule]})
    ]
    if not leads:  # the same for all rules, if that is not chance
        rivals = [(rule, g) for rule in RULES for g in GAMMAS if plain(rule, g) != best[rule]]
        sure = [above(rows.gap("accuracy", best[rule], plain(rule, g), few), 0) for rule, g in rivals]
        leads = [opposite(all_of(sure))] if all_of(sure) == HOLDS else [UNDECIDED]
    verdict = any_of(leads)
    return Verdict(
        f"the best discount differs by step rule (B = {few})",
        "constant 0.5, adaptive 0, aggressive 1",
        ", ".join(f"{rule} {gamma}" for rule, gamma in chosen.items()),
        verdict,
    )


def pretrain(rows: Rows) -> list[Verdict]:
    """Section 3: the loss before training as first baseline, with the adaptive rule."""
    reported = dict(zip(rows.clients, ("4.3 points", "5.5 points"), strict=False))
    found = []
    for clients in rows.clients:
        gain = rows.gap("accuracy", "adaptive pretrain", plain("adaptive", 0.0), clients)
        found.append(
            Verdict(
                f"first baseline pretrain gains accuracy over zero (adaptive, B = {clients})",
                reported[clients],
                f"{100 * gain.value:+.1f} ± {100 * gain.error:.1f} points",
                above(gain, 0),
            )
        )
    return found


def collapses(rows: Rows, rounds: int) -> list[Verdict]:
    """Figures 3 and 4: when one arm has 99% of the weight; never is infinitely late."""
    few = rows.clients[0]
    fast = list(rows.values("collapse", plain("aggressive", 0.0), few).values())
    slow = list(rows.values("collapse", plain("constant", 0.0), few).values())
    share = 70 / _PAPER_ROUNDS
    about = [share / 2 * rounds <= value <= 2 * share * rounds for value in slow]
    return [
        Verdict(
            f"aggressive steps settle on one arm in less than 10 rounds (B = {few})",
            "fewer than 10",
            _each(fast),
            _share([value < 10 for value in fast]),
        ),
        Verdict(
            f"constant steps settle on one arm after about a third of the training (B = {few})",
            "about round 70 of 200",
            f"{_each(slow)} of {rounds}",
            _share(about),
        ),
    ]


def _each(values: Sequence[float]) -> str:
    return "rounds " + ", ".join("never" if math.isinf(value) else f"{value:.0f}" for value in values)


def _share(seeds: Sequence[bool]) -> str:
    """All seeds, none of them, or some."""
    return HOLDS if all(seeds) else UNDECIDED if any(seeds) else DOES_NOT


def rankings(rows: Rows) -> list[Verdict]:
    """Figures 3 to 5: what the policy and its exploration say of the true ranking, with discount 0."""
    cases = [(rule, clients) for rule in RULES for clients in rows.clients]
    correlations = {
        (what, rule, clients): rows.mean(what, plain(rule, 0.0), clients)
        for what in ("kendall", "spearman")
        for rule, clients in cases
    }
    used = [rows.mean("used_kendall", plain(rule, 0.0), clients) for rule, clients in cases]
    precision = {case: rows.mean("average_precision", plain(case[0], 0.0), case[1]) for case in cases}
    special = ("aggressive", rows.clients[-1])
    only = [above(precision[special], 0.6)]
    only += [opposite(above(value, 0.6)) for case, value in precision.items() if case != special]
    falling = [rows.mean("kendall", plain("adaptive", 0.0), clients) for clients in rows.clients]
    return [
        Verdict(
            "correlations of the final policy with the truth stay below 0.4",
            "all below 0.4",
            f"{_span(correlations.values())}",
            all_of([opposite(above(value, 0.4)) for value in correlations.values()]),
        ),
        Verdict(
            f"AP_4@10 is above 0.6 for aggressive steps at B = {special[1]} only",
            "above 0.6 there, below elsewhere",
            f"{precision[special]} there, {_span(v for c, v in precision.items() if c != special)} elsewhere",
            all_of(only),
        ),
        Verdict(
            "how often an arm is used does not go with how good it is (tau below 0.4)",
            "no correlation",
            _span(used),
            all_of([opposite(above(value, 0.4)) for value in used]),
        ),
        Verdict(
            "with adaptive steps the ranking gets worse, to a tau below -0.2",
            "below -0.2",
            _span(falling),
            any_of([opposite(above(value, -0.2)) for value in falling]),
        ),
    ]


def _span(means: Any) -> str:
    values = [mean.value for mean in means if not math.isnan(mean.value)]
    return f"{min(values):.2f} to {max(values):.2f}" if values else "–"


def auto(rows: Rows) -> list[Verdict]:
    """`FedEx.auto()` against the best of the nine plain settings, which is taken anew for each metric."""
    found = []
    for clients in rows.clients:
        for what, name in _AUTO.items():
            best = rows.best(what, list(PLAIN), clients)
            gap = rows.gap(what, "auto", best, clients)
            verdict = above(gap, 0)
            if what == "accuracy" and gap.count > 1 and gap.value >= 0:
                verdict = HOLDS  # at least as good is all that is asked
            more = "at least" if what == "accuracy" else "more than"
            found.append(
                Verdict(
                    f"auto() has {more} the {name} of the best plain setting (B = {clients})",
                    "not in the paper",
                    f"{rows.mean(what, 'auto', clients)} against {rows.mean(what, best, clients)} ({best})",
                    verdict,
                )
            )
    return found
