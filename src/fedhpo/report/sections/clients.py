"""What the model is worth at each client, and who gets the least of it."""

from __future__ import annotations

import numpy as np

from fedhpo.pages.figure import drawn
from fedhpo.pages.html import Cell, Section, how_to_read, table, text
from fedhpo.pages.numbers import score, whole
from fedhpo.pages.plots import spread
from fedhpo.protocol.federation import Floats, Ints
from fedhpo.report.view import RunView

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
    named = {"winner": view.winner, "your config (trial 0)": view.own}
    known = {
        name: _known(*view.clients[trial])
        for name, trial in named.items()
        if trial is not None and trial in view.clients and (name == "winner" or trial != view.winner)
    }
    known = {name: found for name, found in known.items() if len(found[0]) >= 3}
    if "winner" not in known or view.result.get("privacy"):
        return None
    who, values = known["winner"]
    order = np.argsort(values if view.maximise else -values, kind="stable")[:_WORST]
    other = (
        dict(zip(*(part.tolist() for part in known["your config (trial 0)"]), strict=True))
        if ("your config (trial 0)" in known)
        else {}
    )
    columns = ["client", view.metric, *(["under your config"] if other else [])]
    rows = [
        [
            Cell(str(who[i]), int(who[i])),
            Cell(score(float(values[i])), float(values[i])),
            *([Cell(score(other.get(int(who[i]))), other.get(int(who[i]), ""))] if other else []),
        ]
        for i in order
    ]
    figure = drawn(
        spread({name: found[1].tolist() for name, found in known.items()}, view.metric), "clients", _NOTE
    )
    worst = table(columns, rows, numeric=columns)
    low, mean = float(values[order[0]]), float(values.mean())
    told = (
        f"Client {who[order[0]]} gets the least: {score(low)}, against a mean of {score(mean)} over "
        f"{whole(len(values))} clients, each counting the same. Scores are those of the last evaluation."
    )
    return Section("Clients", f"<p>{text(told)}</p><div class=pair>{figure}<div>{worst}</div></div>{_ABOUT}")


def _known(who: Ints, values: Floats) -> tuple[Ints, Floats]:
    """Those that replied with a number."""
    kept = np.isfinite(values)
    return who[kept], values[kept]
