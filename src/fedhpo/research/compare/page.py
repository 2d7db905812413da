"""A comparison of methods as one page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fedhpo.core.errors import InputError
from fedhpo.pages.figure import SEVERAL, axis, drawn, figure
from fedhpo.pages.html import Cell, Section, table, text
from fedhpo.pages.numbers import score
from fedhpo.pages.page import frame
from fedhpo.research.compare.comparison import Comparison


def write_comparison(comparison: Comparison, output: str | Path) -> Path:
    """Write the page and return where it is."""
    output = Path(output)
    where = "table" if "table" in comparison.setting else "study"
    subtitle = (
        f"{', '.join(comparison.methods)} · {len(comparison.seeds)} seeds · {where} {comparison.name} · "
        f"{comparison.total} rounds"
    )
    sections = [_results(comparison), _curves(comparison), _tests(comparison), _runs(comparison)]
    try:
        output.write_text(frame("Methods compared", subtitle, sections), encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot write the page {output}: {error.strerror or error}") from None
    return output


def _results(comparison: Comparison) -> Section:
    metric = comparison.metric
    columns = ["method", "mean rank", f"{metric} at 1/3 of the budget", f"{metric} at the full budget"]
    rows = []
    for row in comparison.summary():
        cells = [Cell(row["method"]), Cell(f"{row['mean_rank']:.2f}", row["mean_rank"])]
        cells += [_spread(row[name]) for name in ("at_a_third", "at_full_budget")]
        rows.append(cells)
    note = (
        f"Median and quartiles over seeds of the incumbent's true {metric}: over all "
        f"{comparison.setting['validation_clients']} validation clients, whatever the method saw. A dash: "
        "not every run had an incumbent by then."
    )
    return Section("Results", table(columns, rows, numeric=columns[1:]) + _note(note))


def _spread(found: Mapping[str, Any]) -> Cell:
    low, high = found["quartiles"]
    if not np.isfinite(found["median"]):
        return Cell("–", "")
    return Cell(f"{score(found['median'])} ({score(low)} to {score(high)})", found["median"])


def _curves(comparison: Comparison) -> Section:
    traces: list[dict[str, Any]] = []
    for i, method in enumerate(comparison.methods):
        colour = SEVERAL[i % len(SEVERAL)]
        quartiles = comparison.quartiles(method, comparison.grid)
        known = np.isfinite(quartiles).all(axis=0)
        x = np.array(comparison.grid)[known].tolist()
        low, middle, high = (values[known].tolist() for values in quartiles)
        line = {"type": "scatter", "mode": "lines", "legendgroup": method}
        bound = {**line, "line": {"shape": "hv", "width": 0}, "showlegend": False, "hoverinfo": "skip"}
        traces += [
            {**bound, "x": x, "y": low},
            {**bound, "x": x, "y": high, "fill": "tonexty", "fillcolor": _faint(colour)},
            {
                **line,
                "x": x,
                "y": middle,
                "name": text(method),
                "line": {"shape": "hv", "color": colour, "width": 2},
                "hovertemplate": "%{x} rounds spent: %{y:.4f}<extra></extra>",
            },
        ]
    kind = "log" if comparison.metric == "loss" else "linear"
    drawing = figure(
        traces,
        axis("rounds spent over all trials", rangemode="tozero"),
        axis(f"true {comparison.metric} of the incumbent", type=kind),
        height=420,
    )
    return Section(
        "Incumbents against the budget", drawn(drawing, "methods") + _note("Median and quartiles.")
    )


def _tests(comparison: Comparison) -> Section:
    columns = ["methods", "better", "worse", "tied", "median difference", "Wilcoxon p", "sign test p"]
    rows = [
        [
            Cell(f"{pair.first} – {pair.second}"),
            Cell(str(pair.wins), pair.wins),
            Cell(str(pair.losses), pair.losses),
            Cell(str(pair.ties), pair.ties),
            Cell(score(pair.median_difference), pair.median_difference),
            Cell(f"{pair.wilcoxon_p:.3g}", pair.wilcoxon_p),
            Cell(f"{pair.sign_p:.3g}", pair.sign_p),
        ]
        for pair in comparison.pairs
    ]
    said = "".join(f"<p>{text(line)}</p>" for line in comparison.in_words())
    note = "Seeds are paired; differences are positive where the first is better; p-values after Holm."
    return Section("More than chance?", said + table(columns, rows, numeric=columns[1:]) + _note(note))


def _runs(comparison: Comparison) -> Section:
    scores = comparison.scores()
    columns = ["seed", *comparison.methods]
    rows = [
        [Cell(str(seed), seed), *(Cell(score(scores[m][i]), scores[m][i]) for m in comparison.methods)]
        for i, seed in enumerate(comparison.seeds)
    ]
    return Section("Every run at the full budget", table(columns, rows, numeric=columns))


def _note(words: str) -> str:
    return f"<p class=note>{text(words)}</p>"


def _faint(colour: str) -> str:
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.15)"
