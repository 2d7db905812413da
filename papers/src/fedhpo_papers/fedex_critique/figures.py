"""Figures 1 to 5 of the critique, as one page in HTML."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedhpo.pages.html import Section
from fedhpo_papers.fedex_critique.claims import NAMES, Rows
from fedhpo_papers.fedex_critique.settings import GAMMAS, REMEDIES, RULES, plain
from fedhpo_papers.shared import svg as _svg
from fedhpo_papers.shared.pages import side_by_side, static
from fedhpo_papers.shared.verdicts import Verdict

Found = dict[str, Any]


def html(found: Found, main: Rows, verdicts: Sequence[Verdict], page: str = "") -> str:
    """Figures 1 to 5 and the remedies, each in a section."""
    rules, few, parts = [plain(rule, 0.0) for rule in RULES], main.clients[0], []
    if main.has(rules[0]):
        by_rule = [
            _accuracies(main, {"gamma 0": dict(zip(RULES, rules, strict=True))}, c) for c in main.clients
        ]
        parts.append(Section("Figure 1: step rules", side_by_side(by_rule)))
        by_gamma = {f"gamma {g:g}": {rule: plain(rule, g) for rule in RULES} for g in GAMMAS}
        body = side_by_side([_accuracies(main, by_gamma, few)], list(by_gamma))
        parts.append(Section("Figure 2: discounts", body))
        for number, clients in enumerate(main.clients, start=3):
            body = _explored(found, rules, clients)
            parts.append(Section(f"Figure {number}: exploration, B = {clients}", body))
        parts.append(Section("Figure 5: ranking", _rankings(found, main, rules)))
    if main.has("auto"):
        parts.append(Section("Remedies", _rankings(found, main, list(REMEDIES))))
    return static("FedEx and its critique", found["setup"], verdicts, parts, page)


def _accuracies(rows: Rows, series: dict[str, dict[str, str]], clients: int) -> str:
    """Means with standard errors, by series and step rule."""
    marks: dict[str, dict[str, tuple[float, float, float]]] = {}
    for name, settings in series.items():
        for rule, setting in settings.items():
            mean = rows.mean("accuracy", setting, clients)
            error = 0.0 if np.isnan(mean.error) else mean.error
            marks.setdefault(name, {})[rule] = (mean.value - error, mean.value, mean.value + error)
    return _svg.bars(f"B = {clients}", marks, "step rule", "test accuracy")


def _explored(found: Found, rules: Sequence[str], clients: int) -> str:
    """What arms are worth alone, how often they were used, and the largest weight."""
    [truth] = [t["values"] for t in found["truth"] if (t["arms"], t["clients"]) == ("plain", clients)]
    used = [_svg.columns(name, _used(found, name, clients), "arm", "times used") for name in rules]
    weights = _lines(found, rules, clients, "largest", "largest weight")
    panels = [_svg.columns("each arm alone", truth, "arm", "test accuracy"), *used, *weights]
    return side_by_side(panels, rules)


def _rankings(found: Found, main: Rows, settings: Sequence[str]) -> str:
    panels = [
        panel
        for what, shown in NAMES.items()
        for clients in main.clients
        for panel in _lines(found, settings, clients, what, shown)
    ]
    return side_by_side(panels, settings)


def _used(found: Found, setting: str, clients: int) -> list[float]:
    """Mean over seeds."""
    counts = [row["used"] for row in _rows(found, setting, clients)]
    return [float(value) for value in np.mean(counts, axis=0)] if counts else []


def _rows(found: Found, setting: str, clients: int) -> list[Any]:
    return [
        row
        for row in found["rows"]
        if (row["setting"], row["clients"]) == (setting, clients)
        and not row["failed"]
        and row["part"] != "develop"
    ]


def _lines(found: Found, settings: Sequence[str], clients: int, what: str, title: str) -> list[str]:
    """The mean over seeds after each round, in a band of one standard deviation: a panel, if it is known."""
    series: dict[str, list[tuple[float, float, float, float]]] = {}
    for name in settings:
        curves = np.array([row["curves"][what] for row in _rows(found, name, clients)], dtype=np.float64)
        if not len(curves):
            continue
        known = np.flatnonzero(~np.isnan(curves).any(axis=0)).tolist()
        if known:
            series[name] = [_svg.banded(x, curves[:, x].tolist()) for x in known]
    return [_svg.lines(f"{title}, B = {clients}", series, settings, "round", title)] if series else []
