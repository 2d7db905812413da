"""Clients whose scores are outliers: far from the others, or ranking models the other way round."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from fedhpo.pages.figure import OTHER, OWN, axis, drawn, figure
from fedhpo.pages.html import Cell, Section, table, text
from fedhpo.pages.numbers import number, whole
from fedhpo.report.agreement import FAR, Agreement
from fedhpo.report.view import RunView

#: Clients listed at most.
_MOST = 50


def outliers(view: RunView) -> Section | None:
    """A table of outliers and a plot of all clients; None where too few scores are known one by one.

    Under privacy no score of a single client is known, and there is nothing to show.
    """
    found = view.agreements
    odd = [one for one in found if one.outlies]
    if not found:
        return None
    note = (
        f"{whole(len(odd))} of {whole(len(found))} clients are outliers: their scores are more than {FAR:g} "
        "robust standard deviations from the median client's, or fall where those of the others rise. Their "
        "data may be unlike the others', they may be broken, or they may lie: this does not tell which."
    )
    columns = ["client", "scores", "distance", "agreement"]
    rows = [_cells(one) for one in sorted(odd, key=lambda one: -abs(one.distance))[:_MOST]]
    listed = table(columns, rows, numeric=columns) if rows else ""
    body = f"<div class=pair>{listed}{drawn(plot(found), 'outliers')}</div>"
    return Section("Clients unlike the others", f"<p class=note>{text(note)}</p>{body}")


def _cells(one: Agreement) -> list[Cell]:
    agreement = None if math.isnan(one.agreement) else one.agreement
    return [
        Cell(str(one.client), one.client),
        Cell(whole(one.scores), one.scores),
        Cell(number(one.distance), one.distance),
        Cell("" if agreement is None else number(agreement), "" if agreement is None else agreement),
    ]


def plot(found: Sequence[Agreement]) -> dict[str, Any]:
    """Each client by its distance and its agreement."""
    kinds = (("outlier", True, OWN), ("other clients", False, OTHER))
    traces = []
    for name, odd, colour in kinds:
        members = [one for one in found if one.outlies == odd and not math.isnan(one.agreement)]
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "x": [one.distance for one in members],
                "y": [one.agreement for one in members],
                "text": [f"client {one.client}" for one in members],
                "name": name,
                "marker": {"color": colour, "size": 8},
                "hovertemplate": "%{text}: %{x:.2f}, %{y:.2f}<extra></extra>",
            }
        )
    return figure(traces, axis("distance from the median client"), axis("agreement with it"), height=280)
