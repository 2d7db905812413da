"""FLoRA's figures: one training with a surface's config against a search of many trainings, more parties."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from fedhpo.methods.flora.surfaces import SURFACES
from fedhpo.pages.html import Section
from fedhpo_papers.flora.claims import Row, of_parts
from fedhpo_papers.shared import svg as _svg
from fedhpo_papers.shared.pages import side_by_side, static
from fedhpo_papers.shared.verdicts import Verdict

_SEARCH, _DEFAULT = "search of many trainings", "default config"
#: Larger regrets are drawn here.
_HIGHEST = 2.0
_REGRET = "relative regret (2 and more at 2)"


def html(found: Mapping[str, Any], names: Sequence[str], verdicts: Sequence[Verdict], page: str = "") -> str:
    """Figures 2 and 5 to 7 as curves, a set each, and Table 11 by the number of parties."""
    series = [*names, _DEFAULT, _SEARCH]
    sections = []
    for part, title in (("table7", "HGB"), ("table8", "SVM"), ("table9", "MLP")):
        panels = [
            panel
            for row in of_parts(found["rows"], part)
            if (panel := _one_shot(row, names, series)) is not None
        ]
        if panels:
            sections.append(
                Section(f"One training against a search of many: {title}", side_by_side(panels, series))
            )
    series = [*names, _DEFAULT]
    panels = _parties(of_parts(found["rows"], "table11"), names, series)
    if panels:
        sections.append(Section("More parties: HGB", side_by_side(panels, series)))
    return static("FLoRA", f"scale {found['scale']}", verdicts, sections, page)


def _one_shot(row: Row, names: Sequence[str], series: Sequence[str]) -> str | None:
    """The regret of a centralised search after so many trainings, and as levels what one training gives."""
    default, best, last = row["defaults"][0], row["best"], row["evaluations"]
    if not best > default:
        return None
    steps: list[tuple[float, float]] = []
    for trainings, accuracy in row["curve"]:
        value = _drawn((best - accuracy) / (best - default))
        steps += [(trainings, steps[-1][1]), (trainings, value)] if steps else [(trainings, value)]
    levels = {_DEFAULT: 1.0, **dict(zip(names, (row["regrets"][name] for name in SURFACES), strict=True))}
    shown = {_SEARCH: [_point(x, y) for x, y in [*steps, (last, steps[-1][1])]]}
    shown |= {name: [_point(1, _drawn(y)), _point(last, _drawn(y))] for name, y in levels.items()}
    return _svg.lines(row["set"], shown, series, "trainings", _REGRET, log=True)


def _parties(rows: Sequence[Row], names: Sequence[str], series: Sequence[str]) -> list[str]:
    """Regrets by the number of parties, a set each."""
    panels = []
    for name in dict.fromkeys(row["set"] for row in rows):
        own = [row for row in rows if row["set"] == name and row["best"] > row["defaults"][0]]
        if len(own) > 1:
            shown = {
                label: [_point(row["parties"], _drawn(row["regrets"][surface])) for row in own]
                for label, surface in zip(names, SURFACES, strict=True)
            }
            shown[_DEFAULT] = [_point(row["parties"], 1.0) for row in own]
            panels.append(_svg.lines(name, shown, series, "parties", _REGRET, log=True))
    return panels


def _drawn(regret: float) -> float:
    return min(_HIGHEST, regret)


def _point(x: float, y: float) -> tuple[float, float, float, float]:
    """A point of a line without a band."""
    return x, y, y, y


def improvements(losses: Sequence[float]) -> list[tuple[int, float]]:
    """After which training a search was better than ever before, and its accuracy then.

    >>> improvements([0.5, 0.75, 0.25, 0.5])
    [(1, 0.5), (3, 0.75)]
    """
    found, best = [], math.inf
    for place, loss in enumerate(losses):
        if loss < best:
            best = loss
            found.append((place + 1, 1 - loss))
    return found
