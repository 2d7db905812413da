"""FedTune's tables beside the paper's: a page in Markdown; beside it the curves in HTML, and the data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedhpo.pages.html import Section
from fedhpo_papers.fedtune.cells_page import cells_table
from fedhpo_papers.fedtune.claims import Row, judge, medians
from fedhpo_papers.fedtune.paper import TABLE_1, TABLE_2
from fedhpo_papers.fedtune.worlds_page import worlds_table
from fedhpo_papers.shared import svg as _svg
from fedhpo_papers.shared import verdicts as _verdicts
from fedhpo_papers.shared.pages import VERDICTS, publish, side_by_side, static
from fedhpo_papers.shared.papers import Paper
from fedhpo_papers.shared.tables import Mean, markdown

PAPER = Paper(
    "FedTune",
    "Demystifying hyperparameter optimization in federated learning (FedTune), under review at ICLR 2022",
    "Clients differ in how many rows and classes they hold, and the paper finds that the best learning "
    "rate differs with that. FedTune simulates clients of every kind on public data at the server, finds "
    "good hyperparameters for each kind, and gives every client those of its own kind. It reports 4 to 7 "
    "points over one config for all, and less than a point lost against tuning each client by hand.",
    "Here smaller models, fewer clients and shorter simulations were run on three sets. What is compared was "
    "run under the same conditions; the paper's accuracies themselves are of larger models.",
)


def write(found: dict[str, Any], out: Path | None) -> dict[str, Any]:
    """Judge, and write fedtune.md, .html and .json if there is an `out`; the verdicts come back."""
    verdicts = judge(found["rows"])
    page = text(found, verdicts)
    figures = html(found, verdicts, page)
    found = {**found, "verdicts": [verdict.to_dict() for verdict in verdicts]}
    return publish("fedtune", found, page, out, figures, verdicts)


def text(found: dict[str, Any], verdicts: list[_verdicts.Verdict]) -> str:
    """The page in Markdown."""
    parts = [f"# {PAPER.title}", *PAPER.opening(verdicts)]
    if verdicts:
        parts += [VERDICTS, _verdicts.table(verdicts)]
    parts += [
        "## How it was run",
        f"Made by `fedhpo reproduce fedtune --scale {found['scale']}`. Models, clients and simulations "
        "are smaller than the paper's unless the scale is `paper`, so that what is run here is to be "
        "compared with itself. A training that diverged is told, and counts at chance in differences; "
        "means and medians of accuracies are of the others.",
    ]
    if found["rows"].get("worlds"):
        parts += [_WORLDS, markdown(["set", "worlds"], list(found["world_sets"].items()))]
    if found["rows"].get("cells"):
        count = len(_distinct(found["rows"]["cells"], "seed"))
        words = found.get("cells_sets", {})
        parts += [_CELLS.format(count=count), markdown(["set", "24 cells"], list(words.items()))]
    if set(found["rows"]) - {"worlds", "cnn", "cells"}:
        parts += [
            "" if found["rows"].get("worlds") else _NO_WORLDS,
            "**The other parts** are of one deal of each set: test accuracy in percent, mean ± standard "
            f"error over {found['seeds']} paired seeds of tuners and trainings. A claim on them holds, or "
            "does not, if two standard errors of the paired differences say so. Each pool has "
            f"{found['pool']} configs; FedTune takes {found['steps']} steps in each cell, global tuning as "
            "many in all (at most the whole pool)." + _EARLIER * bool(found.get("earlier")),
            markdown(["set", "run here"], list(found["sets"].items())),
        ]
    for part, title, make in _TABLES:
        if found["rows"].get(part):
            parts += [f"## {title}", make(found["rows"][part])]
    return "\n\n".join(part for part in parts if part) + "\n"


def _accuracy(rows: Iterable[Row], **which: Any) -> str:
    values = [r["accuracy"] for r in rows if all(r[key] == value for key, value in which.items())]
    known = [value for value in values if value is not None]
    diverged = f"{len(values) - len(known)} of {len(values)} diverged"
    if not known:
        return diverged if values else "–"
    found = Mean.of(known)
    return (
        f"{found.value:.2f}"
        + (f" ± {found.error:.2f}" if found.count > 1 else "")
        + (f" ({diverged})" if len(known) < len(values) else "")
    )


def _distinct(rows: Sequence[Row], key: str) -> list[Any]:
    return list(dict.fromkeys(row[key] for row in rows))


def _table_1(rows: Sequence[Row]) -> str:
    lines = []
    for way in _distinct(rows, "way"):
        cells = []
        for name in _distinct(rows, "set"):
            paper = TABLE_1.get(name, {}).get(way)
            beside = "" if paper is None else f" / {paper:.2f}"
            cells.append(_accuracy(rows, way=way, set=name) + beside)
        lines.append([way, *cells])
    return markdown(["way", *(f"{name} (here / paper)" for name in _distinct(rows, "set"))], lines)


def _table_2(rows: Sequence[Row]) -> str:
    columns = list(dict.fromkeys((r["batch"], r["quantity"], r["printed"]) for r in rows))
    lines = []
    for index in _distinct(rows, "index"):
        cells = []
        for batch, _, printed in columns:
            rates = [r["lr"] for r in rows if (r["index"], r["batch"]) == (index, batch)]
            mean = float(np.exp(np.mean(np.log(rates))))
            cells.append(f"{mean:.4f} / {TABLE_2[index, batch, printed]:g}")
        lines.append([f"{index:g}", *cells])
    heads = [f"batch {batch}, {quantity} rows (paper: {printed})" for batch, quantity, printed in columns]
    return markdown(["index", *heads], lines) + "\n\nGeometric means over seeds, here / paper."


def _figure_1(rows: Sequence[Row]) -> str:
    return markdown(list(rows[0]), [list(row.values()) for row in rows]) + (
        "\n\nLocal trainings that tuning takes, by the number of clients; the server simulates its own."
    )


def _figure_2(rows: Sequence[Row]) -> str:
    lines = []
    for index in _distinct(rows, "index"):
        own = [row for row in rows if row["index"] == index]
        means = [float(np.mean([row[key] for row in own])) for key in ("tuned", "estimated")]
        lines.append([f"{index:g}", *(f"{m:.4f}" for m in means), str(Mean.of(r["lost"] for r in own))])
    return markdown(["index", "tuned lr", "estimated lr", "points lost"], lines)


def _figure_5(rows: Sequence[Row]) -> str:
    lines = []
    for name in _distinct(rows, "set"):
        for tuner in _distinct(rows, "tuner"):
            own = [row for row in rows if row["set"] == name and row["tuner"] == tuner]
            every = [row["steps"] for row in own]
            quartiles = np.percentile(every, [25, 50, 75])
            lines.append(
                [
                    name,
                    tuner,
                    f"{quartiles[1]:g} ({quartiles[0]:g} to {quartiles[2]:g})",
                    f"{np.mean(list(medians(rows, name, tuner).values())):.1f}",
                    f"{np.mean([row['stopped'] for row in own]):.1f}",
                    f"{np.mean([row['behind_then'] for row in own]):.2f}",
                ]
            )
    columns = [
        "set",
        "tuner",
        "steps to within 0.5 points: median (quartiles) over cells and seeds",
        "mean over seeds of the median over cells",
        "steps by the rule of 5 without improvement",
        "points behind the best then",
    ]
    return markdown(columns, lines)


def _figure_6(rows: Sequence[Row]) -> str:
    lines = [
        [name, skew, *(_accuracy(rows, set=name, skew=skew, way=way) for way in ("global", "fedtune"))]
        for name in _distinct(rows, "set")
        for skew in _distinct(rows, "skew")
    ]
    return markdown(["set", "skew", "global", "FedTune"], lines)


def _figure_7(rows: Sequence[Row]) -> str:
    lines = [
        [case, *(_accuracy(rows, case=case, way=way) for way in ("global", "fedtune"))]
        for case in _distinct(rows, "case")
    ]
    return markdown(["case", "global", "FedTune"], lines)


def _figure_8(rows: Sequence[Row]) -> str:
    spaces = {row["cells"]: row["space"] for row in rows}
    lines = [[count, f"{spaces[count]:,}", _accuracy(rows, cells=count)] for count in sorted(spaces)]
    return markdown(["cells", "configs in all cells", "accuracy"], lines)


_NO_WORLDS = (
    "**Worlds**, the part that can tell tables from one config for all (`--only worlds`), were not run: "
    "nothing on this page is about tables that are scored in the mixture."
)
_EARLIER = (
    " They were run before the process knew the noise of its scores and the logarithm of the rate, and "
    "before it chose by posterior mean."
)
_WORLDS = (
    "**Worlds.** Each is a fresh draw of test rows, public rows, clients, simulations and trainings. "
    "Searches of a table and of one config have the same budget; candidates share deals, cohorts and first "
    "models. What is compared, over how many worlds, was written down before the first (`plan.toml`); "
    "verdicts are by `fedhpo.research.statistics`, with Holm's correction over all claims of the plan."
)
_CELLS = (
    "**24 cells** were filled in worlds of their own (here {count} of 4), with rates on a log scale; a claim "
    "on them holds, or does not, if the interval of 95% of the differences over worlds (Student's t) says so."
)
_TABLES = (
    ("worlds", "Worlds: one config for all against tables", worlds_table),
    ("cnn", "Worlds with the convolutional model", worlds_table),
    ("cells", "24 cells with small models: Figures 1a, 1b, 2c and 8", cells_table),
    ("table1", "Table 1: accuracy by way of tuning", _table_1),
    ("table2", "Table 2: best learning rates", _table_2),
    ("figure1", "Figure 1c: tuning iterations", _figure_1),
    ("figure2", "Figure 2: learning rates by quadratic regression", _figure_2),
    ("figure5", "Figure 5: steps of the tuners", _figure_5),
    ("figure6", "Figure 6: Gaussian and Poisson skew", _figure_6),
    ("figure7", "Figure 7: natural partition, FedAdagrad", _figure_7),
    ("figure8", "Figure 8: number of cells", _figure_8),
)


def html(found: dict[str, Any], verdicts: list[_verdicts.Verdict], page: str = "") -> str:
    """Figure 4 (accuracy over rounds) and Figure 5 (points behind the best over steps), a set each."""
    sections = []
    for part, title, key, x, y in (
        ("table1", "Accuracy over rounds", "way", "round", "test accuracy in %"),
        ("figure5", "Tuners over steps", "tuner", "step", "points behind the best of the pool"),
    ):
        rows = found["rows"].get(part) or []
        kinds = _distinct(rows, key)
        panels = []
        for name in _distinct(rows, "set"):
            own = {k: [_curve(r) for r in rows if r["set"] == name and r[key] == k] for k in kinds}
            panels.append(_svg.lines(name, {k: _line(c) for k, c in own.items() if c}, kinds, x, y))
        if panels:
            sections.append(Section(title, side_by_side(panels, kinds)))
    return static(PAPER.title, f"scale {found['scale']}", verdicts, sections, page)


def _curve(row: Row) -> dict[int, float]:
    if "curve" in row:
        return {int(x): float(y) for x, y in row["curve"]}
    return {i + 1: value for i, value in enumerate(row["behind"])}


def _line(curves: list[dict[int, float]]) -> list[tuple[float, float, float, float]]:
    """Mean and spread over seeds (and cells), where all are known."""
    shared = sorted(set.intersection(*(set(curve) for curve in curves)))
    return [_svg.banded(x, [curve[x] for curve in curves]) for x in shared]
