"""What was spent, in all and by trial."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedhpo import figures
from fedhpo.figures.view import RunView
from fedhpo.pages.figure import drawn
from fedhpo.pages.html import Section, facts
from fedhpo.pages.numbers import duration, megabytes, whole
from fedhpo.pages.phrasing import proxy_cost, rounds_of

_NOTE = "Rounds of each trial."


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
    bars = drawn(figures.cost(view), "cost", _NOTE) if view.trials else ""
    return Section("Cost", f"<div class=pair>{facts(rows)}{bars}</div>")


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
