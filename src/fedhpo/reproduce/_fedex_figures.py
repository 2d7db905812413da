"""Figures 1 to 5 of the critique, as one page in HTML."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from fedhpo.report.figure import OTHER, SEVERAL, axis, drawn, figure
from fedhpo.report.html import Section
from fedhpo.report.numbers import finite
from fedhpo.report.page import frame
from fedhpo.reproduce._fedex_claims import NAMES, Rows
from fedhpo.reproduce._fedex_settings import GAMMAS, REMEDIES, RULES, plain


def html(found: dict[str, Any], main: Rows) -> str:
    """Figures 1 to 5 and the remedies, each in a section."""
    rules, few, parts = [plain(rule, 0.0) for rule in RULES], main.clients[:1], []
    if main.has(rules[0]):
        parts.append(("Figure 1: step rules", [bars(main, rules, clients) for clients in main.clients]))
        by_gamma = [[plain(rule, gamma) for gamma in GAMMAS] for rule in RULES]
        parts.append(("Figure 2: discounts", [bars(main, names, c) for names in by_gamma for c in few]))
        for number, clients in enumerate(main.clients, start=3):
            parts.append((f"Figure {number}: exploration, B = {clients}", _explored(found, rules, clients)))
        parts.append(("Figure 5: ranking", _rankings(found, main, rules)))
    if main.has("auto"):
        parts.append(("Remedies", _rankings(found, main, list(REMEDIES))))
    sections = [Section(title, _pair(f"part-{i}", figures)) for i, (title, figures) in enumerate(parts)]
    return frame("FedEx and its critique", found["setup"], sections)


def _explored(found: dict[str, Any], rules: list[str], clients: int) -> list[dict[str, Any]]:
    """What arms are worth alone, how often they were used, and the largest weight."""
    [truth] = [t["values"] for t in found["truth"] if (t["arms"], t["clients"]) == ("plain", clients)]
    used = [arm_bars(_used(found, name, clients), f"times used: {name}") for name in rules]
    return [
        arm_bars(truth, "accuracy alone"),
        *used,
        lines(found, rules, clients, "largest", "largest weight"),
    ]


def _rankings(found: dict[str, Any], main: Rows, settings: list[str]) -> list[dict[str, Any]]:
    return [
        lines(found, settings, clients, what, f"{shown}, B = {clients}")
        for what, shown in NAMES.items()
        for clients in main.clients
    ]


def _pair(name: str, figures: Iterable[dict[str, Any]]) -> str:
    """Figures two by two; the name tells them from those of other sections."""
    inner = "".join(drawn(one, f"{name}-{i}") for i, one in enumerate(figures))
    return f"<div class=pair>{inner}</div>"


def bars(rows: Rows, settings: list[str], clients: int) -> dict[str, Any]:
    """Means with standard errors."""
    means = [rows.mean("accuracy", name, clients) for name in settings]
    trace = {
        "type": "bar",
        "x": settings,
        "y": [mean.value for mean in means],
        "error_y": {"type": "data", "array": [finite(mean.error) for mean in means]},
        "marker": {"color": SEVERAL[0]},
    }
    return figure([trace], axis(""), axis(f"test accuracy, B = {clients}"), showlegend=False)


def arm_bars(values: Any, title: str) -> dict[str, Any]:
    """One bar for each arm."""
    trace = {"type": "bar", "x": list(range(len(values))), "y": list(values), "marker": {"color": OTHER}}
    return figure([trace], axis("arm"), axis(title), showlegend=False, height=240)


def _used(found: dict[str, Any], setting: str, clients: int) -> list[float]:
    """Mean over seeds."""
    counts = [row["used"] for row in _rows(found, setting, clients)]
    return [float(value) for value in np.mean(counts, axis=0)] if counts else []


def _rows(found: dict[str, Any], setting: str, clients: int) -> list[Any]:
    return [
        row
        for row in found["rows"]
        if (row["setting"], row["clients"]) == (setting, clients)
        and not row["failed"]
        and row["part"] != "develop"
    ]


def lines(found: dict[str, Any], settings: list[str], clients: int, what: str, title: str) -> dict[str, Any]:
    """The mean over seeds after each round, with a band of one standard deviation."""
    traces = []
    for i, name in enumerate(settings):
        curves = np.array([row["curves"][what] for row in _rows(found, name, clients)], dtype=np.float64)
        if not len(curves):
            continue
        known = ~np.isnan(curves).any(axis=0)
        mean, spread = curves[:, known].mean(axis=0), curves[:, known].std(axis=0)
        x, colour = np.flatnonzero(known).tolist(), SEVERAL[i % len(SEVERAL)]
        band = {"type": "scatter", "mode": "lines", "x": x, "line": {"width": 0}, "hoverinfo": "skip"}
        group = {"legendgroup": name, "showlegend": False}
        traces += [
            {**band, **group, "y": (mean - spread).tolist()},
            {**band, **group, "y": (mean + spread).tolist(), "fill": "tonexty", "fillcolor": f"{colour}22"},
            {
                "type": "scatter",
                "mode": "lines",
                "x": x,
                "y": mean.tolist(),
                "name": name,
                "legendgroup": name,
                "line": {"color": colour, "width": 2},
            },
        ]
    return figure(traces, axis("round"), axis(title))
