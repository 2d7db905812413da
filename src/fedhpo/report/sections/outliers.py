"""Clients that are unlike the others: by their scores, or by their updates."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fedhpo import figures
from fedhpo.figures.agreement import FAR, Agreement
from fedhpo.figures.deviation import Deviation
from fedhpo.figures.view import RunView
from fedhpo.pages.figure import drawn
from fedhpo.pages.html import Cell, Section, table, text
from fedhpo.pages.numbers import number, whole

#: Clients listed at most.
_MOST = 50


def outliers(view: RunView) -> Section | None:
    """Tables of outliers among all clients, and plots; None where there are none, or too little is known.

    Under privacy nothing of a single client is known, and there is nothing to show.
    """
    parts = [_by_scores(view.agreements)] if any(one.outlies for one in view.agreements) else []
    if any(one.outlies for one in view.deviations):
        parts.append(_by_updates(view.deviations))
    if not parts:
        return None
    caution = (
        "Their data may be unlike the others', they may be broken, or they may lie: this does not tell which."
    )
    return Section("Clients unlike the others", "".join(parts) + f"<p class=note>{text(caution)}</p>")


def _by_scores(found: Sequence[Agreement]) -> str:
    odd = [one for one in found if one.outlies]
    note = (
        f"{whole(len(odd))} of {whole(len(found))} clients are outliers: their scores are more than {FAR:g} "
        "robust standard deviations from the median client's, or fall where those of the others rise."
    )
    rows = [
        [*_client(one.client, one.scores), _number(one.distance), _number(one.agreement)]
        for one in sorted(odd, key=lambda one: -abs(one.distance))[:_MOST]
    ]
    return _part(
        note, ["client", "scores", "distance", "agreement"], rows, drawn(figures.outliers(found), "outliers")
    )


def _by_updates(found: Sequence[Deviation]) -> str:
    odd = [one for one in found if one.outlies]
    note = (
        f"The updates of {whole(len(odd))} of {whole(len(found))} clients are outliers: their length, or "
        f"their agreement with the step of the round, is more than {FAR:g} robust standard deviations from "
        "the cohort's median, or they go against the step."
    )
    rows = [
        [*_client(one.client, one.rounds), _number(one.length), _number(one.direction), _number(one.cosine)]
        for one in sorted(odd, key=lambda one: one.cosine)[:_MOST]
    ]
    columns = ["client", "rounds", "length", "direction", "cosine"]
    return _part(note, columns, rows, drawn(figures.odd_updates(found), "update-outliers"))


def _part(note: str, columns: list[str], rows: list[list[Cell]], plotted: str) -> str:
    listed = table(columns, rows, numeric=columns) if rows else ""
    return f"<p class=note>{text(note)}</p><div class=pair>{listed}{plotted}</div>"


def _client(client: int, count: int) -> list[Cell]:
    return [Cell(str(client), client), Cell(whole(count), count)]


def _number(value: float) -> Cell:
    return Cell("", "") if math.isnan(value) else Cell(number(value), value)
