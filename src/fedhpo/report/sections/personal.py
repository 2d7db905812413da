"""What the model is worth at each client, before and after it was fine-tuned there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedhpo.figures.clients import MODELS, deciles
from fedhpo.figures.view import RunView
from fedhpo.pages.figure import drawn
from fedhpo.pages.html import Cell, Section, table, text
from fedhpo.pages.numbers import score, whole


def personal(view: RunView) -> Section | None:
    """Mean, spread and worst tenth over clients, and all deciles; None where it was not asked."""
    found = view.result.get("personal")
    if not found or not found["clients"]:
        return None
    # Where there are no classes there is no accuracy.
    metric = "accuracy" if found["global"]["accuracy"]["mean"] is not None else "loss"
    rows = [_row(name, found[key][metric]) for key, name, _ in MODELS]
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
