"""What was spent, in all and by trial."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedhpo.pages.figure import OTHER, OWN, WINNER, axis, drawn, figure
from fedhpo.pages.html import Section, facts
from fedhpo.pages.numbers import duration, megabytes, whole
from fedhpo.pages.phrasing import proxy_cost, rounds_of
from fedhpo.report.view import RunView


def cost(view: RunView) -> Section:
    """The ledger's sums beside the rounds of each trial."""
    spent = view.result["cost"]
    rows = [
        ("rounds", f"{whole(rounds_of(spent)[0])} of {whole(spent['budget']['rounds'])}"),
        *((name.replace("_", " "), whole(spent[key])) for name, key in _EXTRAS if spent.get(key)),
        *_earlier(spent),
        ("client-rounds", whole(spent["client_rounds"])),
        ("sent to clients", megabytes(spent["bytes_down"])),
        ("sent to the server", megabytes(spent["bytes_up"])),
        ("samples trained on", whole(spent["samples"])),
        ("evaluations at clients", whole(spent["evaluations"])),
        ("wall time", duration(view.result["times"]["wall_seconds"])),
    ]
    if view.result.get("proxy") is not None:
        rows.insert(0, ("proxy search", proxy_cost(view.result["proxy"])))
    return Section("Cost", f"<div class=pair>{facts(rows)}{drawn(by_trial(view), 'cost')}</div>")


def _earlier(spent: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What was spent on comparisons and test scores that were done anew when the total was raised."""
    earlier = spent.get("earlier_conclusions")
    if not earlier:
        return []
    words = f"{whole(earlier['rounds'])} rounds, {whole(earlier['evaluations'])} evaluations"
    return [("compared before the total was raised", words)]


_EXTRAS = (
    ("rounds left over", "unspent_rounds"),
    ("more rounds for your config", "baseline_rounds"),
    ("rounds repeated", "repeated_rounds"),
)


def by_trial(view: RunView) -> dict[str, Any]:
    """Rounds of each trial."""
    trials = view.result["trials"]
    colours = [
        WINNER if t["trial"] == view.winner else OWN if t["trial"] == view.own else OTHER for t in trials
    ]
    bars = {
        "type": "bar",
        "x": [trial["trial"] for trial in trials],
        "y": [trial["rounds"] for trial in trials],
        "marker": {"color": colours},
        "hovertemplate": "trial %{x}: %{y} rounds<extra></extra>",
    }
    return figure(
        [bars],
        axis("trial", tickmode="auto", nticks=15),
        axis("rounds"),
        height=280,
        showlegend=False,
        bargap=0.25,
        margin={"l": 48, "r": 8, "t": 8, "b": 40},
    )
