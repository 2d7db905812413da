"""The page of FedPop at many seeds: verdicts, accuracies, collapses and lineages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from fedhpo.research.statistics import Judged, Paired, Plan, Planned
from fedhpo_papers.fedpop.many import SCALES, Done, about
from fedhpo_papers.fedpop.sets import Setting
from fedhpo_papers.shared.tables import markdown
from fedhpo_papers.shared.verdicts import Verdict

#: Ends so many points below the baseline are collapses.
DEPTH = 10.0
_BASELINES = ("sha", "sha-3")

_DID = (
    "Chen et al. (2025), FedPop: federated population-based hyperparameter tuning. A population of models "
    "trains side by side; the worst become changed copies of the best, and inside each model the clients "
    "of a round try values of their own. The paper reports it ahead of FedEx and of plain halving on all "
    "its benchmarks."
)
_RAN = (
    "Here {} are trained over many seeds, so that differences can be told from chance, and "
    "besides the paper's method {} compared."
)
_HOW = (
    "What is compared, over how many seeds and within which margin stood in a file before the first run "
    "(`src/fedhpo/reproduce/fedpop/{}`); settings were chosen on other federations and seeds. A run "
    "with its seed is one pair; brackets are 95% intervals (Student's t), numbers of pairs in parentheses. "
    "**holds**: the lower bound is above 0; **does not hold**: the upper bound is below 0, both with Holm's "
    "correction over all claims; **equivalent**: the interval of 90% lies inside the margin; else "
    "**undecided**. A claim whose runs are not all there is undecided."
)


_OTHERS = {
    "default": (
        "Four of these methods with a CNN and an LSTM are on [a page of their own](fedpop-deep.md), the "
        "paper's tables with CNNs and an LSTM, over 3 seeds, on [another](fedpop-cnn.md)."
    ),
    "deep": (
        "A model that knows the most common letter only is at 15.35% on these rows of Shakespeare: many of "
        "the LSTMs learned no more, so that this set says little. More methods, sets and seeds with smaller "
        "models are on [the main page](fedpop.md)."
    ),
}


class Table:
    """What was run, by method and set."""

    def __init__(self, done: Sequence[Done]) -> None:
        self._rows: dict[tuple[str, str], dict[int, Done]] = {}
        for one in done:
            self._rows.setdefault((one.method, one.set), {})[one.seed] = one

    def values(self, method: str, set: str) -> dict[int, float]:
        """Accuracies by seed."""
        return {seed: one.accuracy for seed, one in self._rows.get((method, set), {}).items()}

    def lineages(self, method: str, sets: Sequence[str]) -> list[int]:
        """How many lineages each run's finalists were of; none of a run that diverged."""
        rows = [self._rows.get((method, set), {}).values() for set in sets]
        return [one.lineages for some in rows for one in some if not one.diverged]

    def gaps(self, method: str, other: str, sets: Sequence[str]) -> Paired:
        """The differences of two methods, set by set and seed by seed."""
        found: tuple[float, ...] = ()
        for set in sets:
            found += Paired.of(self.values(method, set), self.values(other, set)).differences
        return Paired(found)


def page(scale: str, plan: Plan, sets: Mapping[str, Setting], done: Sequence[Done]) -> str:
    """The whole page."""
    own = SCALES[scale]
    table, judged = Table(done), plan.judge(Table(done).values)
    most = sum(len(plan.seeds(method, set)) for method in plan.methods for set in plan.sets)
    parts = [
        f"# FedPop (Chen et al., 2025), {own.models} and many seeds",
        _DID,
        f"{_RAN.format(own.models, own.besides)} {len(done)} of {most} planned runs are done. "
        f"{_came(judged)}",
        "## Verdicts",
        _verdicts(plan, judged),
        "## How it was run",
        f"Made by `fedhpo reproduce fedpop --scale {scale}`. {_HOW.format(own.plan.name)} "
        f"Endpoint: {plan.endpoint}.",
        markdown(["set", "run here"], [[name, sets[name].words] for name in plan.sets]),
        "## By set",
        _by_set(plan, table),
        "## Accuracy, collapses, lineages",
        _methods(plan, table),
    ]
    lost = [one for one in done if one.diverged]
    if lost:
        names = ", ".join(f"{one.method} on {one.set}, seed {one.seed}" for one in lost)
        parts.append(f"In these runs no trial could be trained; they count at chance: {names}.")
    parts.append(_OTHERS[scale])
    return "\n\n".join(parts) + "\n"


def _verdicts(plan: Plan, judged: Mapping[str, Judged]) -> str:
    rows = []
    for claim in plan.claims:
        one = judged[claim.name]
        rows.append(
            [
                claim.name,
                str(one.paired),
                f"{one.paired.median:+.2f}" if one.paired.count else "–",
                _margin(claim),
                str(one.paired.collapses(DEPTH)),
                f"{one.p_value:.3g}",
                f"**{one.verdict}**" + _missing(claim, one),
            ]
        )
    columns = ["claim", "mean difference", "median", "margin", "collapses", "p (Holm)", "verdict"]
    return (
        markdown(columns, rows)
        + f"\n\nA collapse ends more than {DEPTH:g} points below; with its exact interval."
    )


def _came(judged: Mapping[str, Judged]) -> str:
    """How many claims have which verdict."""
    words = [one.verdict for one in judged.values()]
    counts = ", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(words))
    return f"The verdicts on {len(words)} claims: {counts}."


def _margin(claim: Planned) -> str:
    return "–" if claim.margin is None else f"{claim.margin:g}"


def _missing(claim: Planned, one: Judged) -> str:
    wanted = claim.replicates * len(claim.sets)
    return "" if one.paired.count == wanted else f" ({one.paired.count} of {wanted} pairs)"


def _by_set(plan: Plan, table: Table) -> str:
    rows = [
        [claim.name, *(str(table.gaps(claim.first, claim.second, [set])) for set in plan.sets)]
        for claim in plan.claims
    ]
    return markdown(["claim", *plan.sets], rows)


def _methods(plan: Plan, table: Table) -> str:
    rows = []
    for method in plan.methods:
        cells = [_spread(list(table.values(method, set).values())) for set in plan.sets]
        below = [str(table.gaps(method, other, plan.sets).collapses(DEPTH)) for other in _BASELINES]
        counts = table.lineages(method, plan.sets)
        rows.append([method, *cells, *below, f"{np.mean(counts):.2f}" if counts else "–"])
    columns = [
        "method",
        *(f"{set}: mean (median)" for set in plan.sets),
        "collapses below SHA",
        "below SHA with three",
        "lineages among finalists",
    ]
    return markdown(columns, rows)


def _spread(values: list[float]) -> str:
    return f"{np.mean(values):.2f} ({np.median(values):.2f})" if values else "–"


def differences(plan: Plan, done: Sequence[Done]) -> list[Verdict]:
    """Each claim with its mean difference on every set that has pairs, and its standard error."""
    table, judged, found = Table(done), plan.judge(Table(done).values), []
    for claim in plan.claims:
        gaps = {set: table.gaps(claim.first, claim.second, [set]) for set in plan.sets}
        here = "; ".join(
            f"{set} {one.mean:+.2f} ± {one.error:.2f}" for set, one in gaps.items() if one.count > 1
        )
        found.append(Verdict(claim.name, "", here, judged[claim.name].verdict))
    return found


def facts(plan: Plan, sets: Mapping[str, Setting], done: Sequence[Done]) -> dict[str, Any]:
    """The data beside the page, JSON-able."""
    judged = plan.judge(Table(done).values)
    return {
        **about(plan, sets),
        "verdicts": {name: {"verdict": one.verdict, "p_value": one.p_value} for name, one in judged.items()},
        "rows": [asdict(one) for one in done],
    }
