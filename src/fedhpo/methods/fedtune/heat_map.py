"""A reference table as pictures: one heat map for each tuned hyperparameter, and one of the scores."""

from __future__ import annotations

import math

from fedhpo.methods.fedtune.reference_table import ReferenceTable
from fedhpo.pages.figure import SCALE, Figure, axis, figure
from fedhpo.pages.numbers import number


def heat_maps(table: ReferenceTable) -> dict[str, Figure]:
    """Figures for plotly by name: rows are indices, columns quantities, each cell says its value.

    >>> from fedhpo.methods.fedtune import Cells
    >>> from fedhpo.space import Float, Space
    >>> space = Space(client={"lr": Float(0.01, 1.0, log=True), "momentum": 0.9})
    >>> configs = ({"lr": 0.1, "momentum": 0.9}, {"lr": 0.5, "momentum": 0.9})
    >>> maps = heat_maps(ReferenceTable(Cells((0.2, 0.8), (100,)), configs, space))
    >>> maps["lr"]["data"][0]["text"]
    [['0.1'], ['0.5']]
    """
    maps = {}
    for name, hyperparameter in table.space.hyperparameters.items():
        key = name.partition(".")[2]
        values = [config.get(key) for config in table.configs]
        units = [None if value is None else hyperparameter.to_unit(value) for value in values]
        maps[key] = _heat_map(table, key, units, ["" if v is None else number(v) for v in values])
    known = [score for score in table.scores if score is not None]
    if known:
        low, span = min(known), (max(known) - min(known)) or 1.0
        units = [None if score is None else (score - low) / span for score in table.scores]
        shown = ["" if score is None else f"{score:.3f}" for score in table.scores]
        maps["score"] = _heat_map(table, "score on proxy data", units, shown)
    return maps


def _heat_map(table: ReferenceTable, title: str, units: list[float | None], shown: list[str]) -> Figure:
    """Colours are the place in the hyperparameter's own scale, whatever its unit."""
    width = len(table.cells.quantities)
    rows = range(0, len(table.cells), width)
    trace = {
        "type": "heatmap",
        "x": [str(quantity) for quantity in table.cells.quantities],
        "y": [f"{index:g}" for index in table.cells.indices],
        "z": [[_finite(unit) for unit in units[row : row + width]] for row in rows],
        "text": [shown[row : row + width] for row in rows],
        "texttemplate": "%{text}",
        "hovertemplate": "index %{y}, quantity %{x}: %{text}<extra></extra>",
        "colorscale": [list(stop) for stop in SCALE],
        "zmin": 0,
        "zmax": 1,
        "showscale": False,
    }
    return figure(
        [trace],
        axis("quantity", type="category"),
        axis("index", type="category"),
        title={"text": title, "font": {"size": 13}},
        height=260,
        showlegend=False,
    )


def _finite(unit: float | None) -> float | None:
    return None if unit is None or not math.isfinite(unit) else round(unit, 4)
