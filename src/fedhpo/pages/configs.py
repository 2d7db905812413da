"""Configs and their hyperparameters on a page."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


def flat(config: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The config's values by their full names."""
    return {f"{scope}.{key}": value for scope, values in config.items() for key, value in values.items()}


def scale_of(table: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The kind of a hyperparameter's axis ("category", "log", "linear"), and how it is marked.

    Listed values are drawn at equal distances, in the order of the list.
    """
    options = table.get("values", table.get("choices"))
    if options:
        return "category", {"categoryorder": "array", "categoryarray": [str(option) for option in options]}
    if table.get("log") and not table.get("complement"):
        return "log", _decades(table["low"], table["high"])
    return "linear", {}


def unit(table: Mapping[str, Any], value: Any) -> float | None:
    """Where a value lies between the ends of its hyperparameter, from 0 to 1; None where it has none.

    >>> unit({"low": 0.01, "high": 1.0, "log": True}, 0.1), unit({"choices": ["a", "b", "c"]}, "c")
    (0.5, 1.0)
    """
    options = table.get("values", table.get("choices"))
    if value is None:
        return None
    if options:
        return options.index(value) / max(len(options) - 1, 1) if value in options else None
    ends = [table["low"], table["high"], value]
    if table.get("complement"):
        ends = [1 - end for end in ends]
    if table.get("log"):
        ends = [math.log(max(end, 1e-300)) for end in ends]
    low, high, place = ends
    return round((place - low) / (high - low), 12) if high != low else 0.5


def _decades(low: float, high: float) -> dict[str, Any]:
    """Ticks at powers of ten, written out.

    >>> _decades(0.01, 1.0)["ticktext"]
    ['0.01', '0.1', '1']
    """
    powers = range(math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9) + 1)
    ticks = [10.0**power for power in powers] or [low, high]
    return {"tickvals": ticks, "ticktext": [f"{tick:g}" for tick in ticks]}
