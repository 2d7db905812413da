"""What failed at clients, by reason and client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedhpo.figures.view import RunView
from fedhpo.pages.html import Cell, Section, table, text
from fedhpo.pages.numbers import whole

#: Clients named for each reason.
_CLIENTS = 20


def failures(view: RunView) -> Section | None:
    """A row for each reason; None where every reply could be used."""
    found = view.result.get("failures")
    if not found:
        return None
    columns = ["reason", "reply", "in", "replies", "clients", "first", "by client"]
    names = view.result.get("client_names")
    rows = [_cells(one, names) for one in found]
    total = sum(one["count"] for one in found)
    note = (
        f"{whole(total)} replies of clients could not be used. They were left out; the rounds went on with "
        "the others, or were repeated where too few were left."
    )
    return Section("Failures", f"<p class=note>{text(note)}</p>{table(columns, rows, numeric=columns[3:5])}")


def _cells(one: Mapping[str, Any], names: Sequence[str] | None) -> list[Cell]:
    def called(client: int) -> str:
        return str(client) if names is None else names[client]

    first, by_client = one["first"], one["by_client"]
    begun = f"client {called(first['client'])}"
    if first["trial"] is not None:
        begun += f", trial {first['trial']}, round {first['round']}"
    shown = ", ".join(f"{called(client)} ({count})" for client, count, *_ in by_client[:_CLIENTS])
    more = one["clients"] - min(len(by_client), _CLIENTS)
    return [
        Cell(one["reason"]),
        Cell(one["status"]),
        Cell(one["during"]),
        Cell(whole(one["count"]), one["count"]),
        Cell(whole(one["clients"]), one["clients"]),
        Cell(begun),
        Cell(f"{shown} and {more} more" if more > 0 else shown),
    ]
