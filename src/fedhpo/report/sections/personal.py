"""What the model is worth at each client, before and after it was fine-tuned there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedhpo.pages.figure import OTHER, WINNER, axis, drawn, figure
from fedhpo.pages.html import Cell, Section, table, text
from fedhpo.pages.numbers import score, whole
from fedhpo.report.view import RunView

_MODELS = (("global", "the model as it is", OTHER), ("fine_tuned", "fine-tuned at each client", WINNER))


def personal(view: RunView) -> Section | None:
    """Mean, spread and worst tenth over clients, and all deciles; None where it was not asked."""
    found = view.result.get("personal")
    if not found or not found["clients"]:
        return None
    # Where there are no classes there is no accuracy.
    metric = "accuracy" if found["global"]["accuracy"]["mean"] is not None else "loss"
    rows = [_row(name, found[key][metric]) for key, name, _ in _MODELS]
    columns = [f"test {metric}", "mean", "standard deviation", "worst tenth of clients"]
    failed = f" Fine-tuning failed at {whole(found['failed'])}." if found["failed"] else ""
    note = (
        f"At {whole(found['clients'])} clients, each counting the same; fine-tuned on the client's training "
        f"data with the tuned client hyperparameters, scored on its test data; never selected on.{failed}"
    )
    figures = drawn(deciles(found, metric), "personal")
    body = f"<div class=pair>{table(columns, rows, numeric=columns[1:])}{figures}</div>"
    return Section("Personalised scores", f"{body}<p class=note>{text(note)}</p>")


def _row(name: str, spread: Mapping[str, Any]) -> list[Cell]:
    values = [spread[key] for key in ("mean", "standard_deviation", "lowest_decile")]
    return [Cell(name), *(Cell(score(value), "" if value is None else value) for value in values)]


def deciles(found: Mapping[str, Any], metric: str) -> dict[str, Any]:
    """The score that each share of the clients does not reach."""
    traces = [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "x": list(range(0, 101, 10)),
            "y": found[key][metric]["deciles"],
            "name": name,
            "line": {"color": colour, "width": 2},
            "hovertemplate": "%{x}% of clients: at most %{y:.4f}<extra></extra>",
        }
        for key, name, colour in _MODELS
        if found[key][metric]["deciles"] is not None
    ]
    return figure(traces, axis("share of clients in %"), axis(f"test {metric}"), height=280)
