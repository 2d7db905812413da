"""Several objectives: the trials worth a choice, and whether constraints are kept."""

from __future__ import annotations

from fedhpo import figures
from fedhpo.figures.view import RunView
from fedhpo.pages.figure import drawn
from fedhpo.pages.html import Cell, Section, table, text
from fedhpo.pages.numbers import number

_NOTE = "No trial is at least as good as one of the Pareto set in every objective, and better in one."


def pareto(view: RunView) -> Section | None:
    """The plane of the first two objectives, and the Pareto set; None where there is one objective."""
    result = view.result
    names = [one["name"] for one in result.get("objectives", ())]
    limits = list(result.get("constraints", ()))
    by_number = {row["trial"]: row for row in result["trials"] if row.get("objectives")}
    if not by_number or (len(names) < 2 and not limits):
        return None
    shown = [by_number[number] for number in result.get("pareto", ()) if number in by_number]
    body = drawn(figures.pareto(view), "pareto", _NOTE) if len(names) > 1 else ""
    if shown:
        columns = ["trial", "rounds", *names, *limits]
        rows = [
            [
                Cell(number(value), value if isinstance(value, int | float) else "")
                for value in (
                    row["trial"],
                    row["rounds"],
                    *(row["objectives"].get(name) for name in names),
                    *(row["constraints"].get(limit) for limit in limits),
                )
            ]
            for row in shown
        ]
        body += table(columns, rows, numeric=columns)
    else:
        body += f"<p class=note>{text('No trial keeps all constraints.')}</p>"
    title = "What can be had for what" if len(names) > 1 else "Constraints"
    return Section(title, body)
