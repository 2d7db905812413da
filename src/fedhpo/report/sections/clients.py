"""What the model is worth at each client, and who gets the least of it."""

from __future__ import annotations

from fedhpo import figures
from fedhpo.figures.clients import known_clients
from fedhpo.figures.view import RunView
from fedhpo.pages.figure import drawn
from fedhpo.pages.html import Cell, Section, how_to_read, table, text
from fedhpo.pages.numbers import score, whole

#: Clients named.
_WORST = 6
_NOTE = "Read it as: this share of the clients has at most this score. A flat line treats all clients alike."
_ABOUT = how_to_read(
    "A client with few rows has a rough score: with four of them it can only be 0, 0.25, 0.5, 0.75 or "
    "1. So the lowest scores are often those of the smallest clients.",
    "Clients that are badly served by one config for all are a reason to look at the worst ones while "
    'tuning (over = "tail" in the objective) or at hyperparameters that depend on the client (FedEx, '
    "FedTune).",
)


def clients(view: RunView) -> Section | None:
    """The scores of all clients under the winner and under the user's own config; the worst are named."""
    found = known_clients(view, view.winner)
    if found is None:
        return None
    who, values = found
    other = None if view.own == view.winner else known_clients(view, view.own)
    under = {} if other is None else dict(zip(other[0].tolist(), other[1].tolist(), strict=True))
    names = view.result.get("client_names")
    columns = ["client", view.metric, *(["under your config"] if under else [])]
    rows = [
        [
            Cell(names[client] if names else str(client), client),
            Cell(score(value), value),
            *([Cell(score(under.get(client)), under.get(client, ""))] if under else []),
        ]
        for client, value in zip(who[:_WORST].tolist(), values[:_WORST].tolist(), strict=True)
    ]
    shown = drawn(figures.clients(view), "clients", _NOTE)
    worst = table(columns, rows, numeric=columns)
    told = (
        f"Client {rows[0][0].shown} gets the least: {score(float(values[0]))}, against a mean of "
        f"{score(float(values.mean()))} over {whole(len(values))} clients, each counting the same. Scores "
        "are those of the last evaluation."
    )
    return Section("Clients", f"<p>{text(told)}</p><div class=pair>{shown}<div>{worst}</div></div>{_ABOUT}")
