"""The claims of the critique of FedEx, judged by what was measured.

Each claim is one or several means over replicates that must be above 0, named before anything is looked at:
what the paper found is taken from the paper, and the plain setting that `FedEx.auto()` is compared with was
chosen on other seeds. So none of them holds by chance more often than its level says, however many settings
there are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedhpo.research.statistics import Paired, holm
from fedhpo_papers.fedex_critique.settings import GAMMAS, PLAIN, RULES, plain
from fedhpo_papers.shared.tables import Mean
from fedhpo_papers.shared.verdicts import DOES_NOT, HOLDS, UNDECIDED, Verdict

Row = Mapping[str, Any]
NAMES = {"kendall": "Kendall tau", "spearman": "Spearman", "average_precision": "AP_4@10"}
#: What `FedEx.auto()` must be better at, or in accuracy at most so much worse.
AUTO = {"kendall": 0.0, "average_precision": 0.0, "accuracy": 0.01}
#: The rounds of the paper's trainings, and the discount that it finds best for each step rule.
_PAPER_ROUNDS = 200
_PAPER_GAMMAS = {"constant": 0.5, "adaptive": 0.0, "aggressive": 1.0}
#: Of one plain setting by metric and number of clients: what `auto()` is compared with.
Chosen = Mapping[str, Mapping[int, str]]


class Rows:
    """What was measured, by setting and number of clients; a ranking that is not known counts as none."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._values: dict[tuple[str, int], dict[int, Row]] = {}
        for row in rows:
            self._values.setdefault((row["setting"], row["clients"]), {})[row["seed"]] = row
        self.clients = sorted({row["clients"] for row in rows})

    def values(self, what: str, setting: str, clients: int) -> dict[int, float]:
        """One value by seed."""
        found = self._values.get((setting, clients), {})
        return {seed: _known(row[what]) for seed, row in found.items()}

    def rounds_to_collapse(self, setting: str, clients: int) -> dict[int, float]:
        """The round after which one arm had 99% of the weight, by seed; infinite if there is none."""
        found = self._values.get((setting, clients), {})
        return {seed: math.inf if row["collapse"] is None else row["collapse"] for seed, row in found.items()}

    def mean(self, what: str, setting: str, clients: int) -> Mean:
        """Its mean over seeds."""
        return Mean.of(self.values(what, setting, clients).values())

    def gap(self, what: str, setting: str, other: str, clients: int) -> dict[int, float]:
        """How much more one setting has than another, seed by seed."""
        a, b = (self.values(what, name, clients) for name in (setting, other))
        return {seed: a[seed] - b[seed] for seed in sorted(a.keys() & b.keys())}

    def best(self, what: str, settings: Sequence[str], clients: int) -> str:
        """The setting with the largest mean."""
        means = {name: self.mean(what, name, clients).value for name in settings}
        return max(means, key=lambda name: -math.inf if math.isnan(means[name]) else means[name])

    def has(self, setting: str) -> bool:
        """Whether it was run."""
        return any(name == setting for name, _ in self._values)


def _known(value: float | None) -> float:
    return 0.0 if value is None or math.isnan(value) else float(value)


@dataclass(frozen=True)
class Claim:
    """What the paper says, and the means that are above 0 if it is so: all of them, or `any` of them."""

    name: str
    paper: str
    here: str
    cases: tuple[Paired, ...]
    any: bool = False

    @property
    def p_value(self) -> tuple[float, str]:
        """The p-value of what the means speak for, and that.

        All must be there for the one verdict, so that the largest p-value is valid; one is enough for the
        other, so that the smallest counts times their number.
        """
        if not self.cases or any(case.count < 2 for case in self.cases):
            return 1.0, UNDECIDED
        whole, part = (DOES_NOT, HOLDS) if self.any else (HOLDS, DOES_NOT)
        side = -1 if self.any else 1
        if all(side * case.mean > 0 for case in self.cases):
            return max(case.p_value() for case in self.cases), whole
        against = [case.p_value() for case in self.cases if side * case.mean <= 0]
        return min(1.0, len(self.cases) * min(against)), part


def judge(rows: Rows, rounds: int, chosen: Chosen, replicates: int) -> list[Verdict]:
    """All claims that what was run can speak to, with Holm's correction; unfinished ones are undecided."""
    claims = made(rows, rounds, chosen)
    found = [claim.p_value for claim in claims]
    whole = [all(case.count >= replicates for case in claim.cases) for claim in claims]
    values = [value if ready else 1.0 for (value, _), ready in zip(found, whole, strict=True)]
    verdicts = []
    for claim, (_, word), p_value in zip(claims, found, holm(values), strict=True):
        told = f"{claim.here}; p = {p_value:.2g}" if p_value < 1 else claim.here
        decided = word if p_value <= 0.05 else UNDECIDED
        verdicts.append(Verdict(claim.name, claim.paper, told, decided))
    return verdicts


def made(rows: Rows, rounds: int, chosen: Chosen) -> list[Claim]:
    """All claims."""
    found: list[Claim] = []
    if all(rows.has(name) for name in PLAIN):
        found += [step_rules(rows), gammas(rows), *collapses(rows, rounds), *rankings(rows)]
    if rows.has("adaptive pretrain") and rows.has(plain("adaptive", 0.0)):
        found += pretrain(rows)
    if rows.has("auto") and rows.has(plain("adaptive", 0.0)):
        found += auto(rows, chosen)
    return found


def _paired(gap: Mapping[int, float]) -> Paired:
    return Paired(tuple(gap[seed] for seed in sorted(gap)))


def _sum(gaps: Iterable[Mapping[int, float]]) -> Paired:
    """The sum over cases, of the seeds that all have."""
    parts = list(gaps)
    seeds = set.intersection(*(set(part) for part in parts))
    return Paired(tuple(math.fsum(part[seed] for part in parts) for seed in sorted(seeds)))


def _points(paired: Paired) -> str:
    return str(Paired(tuple(100 * value for value in paired.differences))) + " points"


def step_rules(rows: Rows) -> Claim:
    """Figure 1: constant is ahead of aggressive with few clients, and behind with many."""
    few, many = rows.clients[0], rows.clients[-1]
    constant, aggressive = plain("constant", 0.0), plain("aggressive", 0.0)
    leads = [
        _paired(rows.gap("accuracy", constant, aggressive, few)),
        _paired(rows.gap("accuracy", aggressive, constant, many)),
    ]
    return Claim(
        "the best step rule changes with the number of clients",
        "constant at B = 4, aggressive at B = 30",
        f"constant leads by {_points(leads[0])} at B = {few}, aggressive by {_points(leads[1])} at {many}",
        tuple(leads),
    )


def gammas(rows: Rows) -> Claim:
    """Figure 2: the paper's best discount of each step rule against the two others, over all rules."""
    few = rows.clients[0]
    gaps = [
        rows.gap("accuracy", plain(rule, best), plain(rule, other), few)
        for rule, best in _PAPER_GAMMAS.items()
        for other in GAMMAS
        if other != best
    ]
    gain = Paired(tuple(value / len(gaps) for value in _sum(gaps).differences))
    return Claim(
        f"the best discount differs by step rule, as the paper says (B = {few})",
        "constant 0.5, adaptive 0, aggressive 1",
        f"these are ahead of the others by {_points(gain)}",
        (gain,),
    )


def pretrain(rows: Rows) -> list[Claim]:
    """Section 3: the loss before training as first baseline, with the adaptive rule."""
    reported = dict(zip(rows.clients, ("4.3 points", "5.5 points"), strict=False))
    found = []
    for clients in rows.clients:
        gain = _paired(rows.gap("accuracy", "adaptive pretrain", plain("adaptive", 0.0), clients))
        name = f"first baseline pretrain gains accuracy over zero (adaptive, B = {clients})"
        found.append(Claim(name, reported[clients], _points(gain), (gain,)))
    return found


def collapses(rows: Rows, rounds: int) -> list[Claim]:
    """Figures 3 and 4: when one arm has 99% of the weight; never counts as the whole training."""
    few = rows.clients[0]
    fast = _settled(rows, plain("aggressive", 0.0), few, rounds)
    slow = _settled(rows, plain("constant", 0.0), few, rounds)
    third = 70 / _PAPER_ROUNDS * rounds
    octaves = [math.log2(max(value, 0.5) / third) for value in slow.differences]
    return [
        Claim(
            f"aggressive steps settle on one arm in less than 10 rounds (B = {few})",
            "fewer than 10",
            _level(fast),
            (Paired(tuple(10 - value for value in fast.differences)),),
        ),
        Claim(
            f"constant steps settle on one arm after about a third of the training (B = {few})",
            "about round 70 of 200",
            f"{_level(slow)} of {rounds}, where {third:.0f} within a factor of 2 is asked",
            tuple(Paired(tuple(1 + side * value for value in octaves)) for side in (1, -1)),
        ),
    ]


def _level(paired: Paired) -> str:
    low, high = paired.interval()
    return f"round {paired.mean:.1f} [{low:.1f}, {high:.1f}] ({paired.count})"


def _settled(rows: Rows, setting: str, clients: int, rounds: int) -> Paired:
    found = rows.rounds_to_collapse(setting, clients)
    return Paired(tuple(min(float(rounds), found[seed]) for seed in sorted(found)))


def _above(rows: Rows, what: str, rule: str, clients: int, threshold: float, side: int) -> Paired:
    values = rows.values(what, plain(rule, 0.0), clients)
    return Paired(tuple(side * (values[seed] - threshold) for seed in sorted(values)))


def rankings(rows: Rows) -> list[Claim]:
    """Figures 3 to 5: what the policy and its exploration say of the true ranking, with discount 0."""
    cases = [(rule, clients) for rule in RULES for clients in rows.clients]
    special = ("aggressive", rows.clients[-1])

    def means(what: str, some: Iterable[tuple[str, int]] = cases) -> str:
        values = [rows.mean(what, plain(rule, 0.0), clients).value for rule, clients in some]
        known = [value for value in values if not math.isnan(value)]
        return f"{min(known):.2f} to {max(known):.2f}" if known else "–"

    others = [case for case in cases if case != special]
    falling = [("adaptive", clients) for clients in rows.clients]
    return [
        Claim(
            "correlations of the final policy with the truth stay below 0.4",
            "all below 0.4",
            f"tau {means('kendall')}, Spearman {means('spearman')}",
            tuple(_above(rows, what, *case, 0.4, -1) for what in ("kendall", "spearman") for case in cases),
        ),
        Claim(
            f"AP_4@10 is above 0.6 for aggressive steps at B = {special[1]} only",
            "above 0.6 there, below elsewhere",
            f"{rows.mean('average_precision', plain(special[0], 0.0), special[1])} there, "
            f"{means('average_precision', others)} elsewhere",
            tuple(_above(rows, "average_precision", *c, 0.6, 1 if c == special else -1) for c in cases),
        ),
        Claim(
            "how often an arm is used does not go with how good it is (tau below 0.4)",
            "no correlation",
            f"tau {means('used_kendall')}",
            tuple(_above(rows, "used_kendall", *case, 0.4, -1) for case in cases),
        ),
        Claim(
            "with adaptive steps the ranking gets worse, to a tau below -0.2",
            "below -0.2",
            f"tau {means('kendall', falling)}",
            tuple(_above(rows, "kendall", *case, -0.2, -1) for case in falling),
            any=True,
        ),
    ]


def auto(rows: Rows, chosen: Chosen) -> list[Claim]:
    """`FedEx.auto()` against the plain setting that was best for each metric on other seeds."""
    found = []
    for clients in rows.clients:
        for what, slack in AUTO.items():
            best, name = chosen.get(what, {}).get(clients), NAMES.get(what, what)
            if best is None:
                continue
            gap = _paired(rows.gap(what, "auto", best, clients))
            more = f"at most {slack:g} less" if slack else "more"
            found.append(
                Claim(
                    f"auto() has {more} {name} than the plain setting chosen on other seeds (B = {clients})",
                    "not in the paper",
                    f"{rows.mean(what, 'auto', clients)} against {rows.mean(what, best, clients)} ({best})",
                    (Paired(tuple(value + slack for value in gap.differences)),),
                )
            )
        values = rows.values("kendall", "auto", clients)
        found.append(
            Claim(
                f"auto() has a Kendall tau above 0.4 (B = {clients})",
                "not in the paper",
                str(rows.mean("kendall", "auto", clients)),
                (Paired(tuple(values[seed] - 0.4 for seed in sorted(values))),),
            )
        )
    return found


def best_plain(rows: Rows) -> dict[str, dict[int, str]]:
    """The plain setting with the largest mean, by metric and number of clients, of those that were run."""
    known = [name for name in PLAIN if rows.has(name)]
    return {what: {clients: rows.best(what, known, clients) for clients in rows.clients} for what in AUTO}
