"""What worlds say: accuracy by way, what diverged, the headroom, the verdicts of the plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedhpo.research.statistics import Paired, Rate
from fedhpo_papers.fedtune.paper import CHANCE
from fedhpo_papers.fedtune.worlds_part import plan
from fedhpo_papers.shared.tables import markdown
from fedhpo_papers.shared.verdicts import Verdict

Row = Mapping[str, Any]

WAYS = {
    "own": "the paper's hand-set config (its Table 3)",
    "global": "one config for all, tuned in the mixture",
    "mixture": "table, scored in the mixture",
    "guarded": "the same, kept only if ahead on fresh deals",
    "weights": "one config, weights that fall with the index",
    "fednova": "one config, FedNova",
    "cells": "table, each cell tuned alone (the paper's)",
}
HALF = "half of the headroom"


def judge_worlds(rows: Sequence[Row]) -> list[Verdict]:
    """The claims of the plan; one whose worlds are not all there is undecided."""
    planned = plan()
    judged = planned.judge(lambda way, name: endpoints(rows, way, name))
    found = []
    for claim in planned.claims:
        one, wanted = judged[claim.name], claim.replicates * len(claim.sets)
        if not one.paired.count:
            continue
        here = str(one.paired) if one.paired.count == wanted else f"{one.paired} of {wanted} worlds"
        found.append(Verdict(claim.name, _PAPER.get(claim.second, "not in it"), here, one.verdict))
    return found


_PAPER = {"global": "+4 to +7 points"}


def endpoints(rows: Sequence[Row], way: str, name: str) -> dict[int, float]:
    """A way's accuracy in each world of a set in which it was tried; chance where it diverged."""
    own = [row for row in rows if row["set"] == name and (way == HALF or way in row["accuracy"])]
    if way == HALF:
        flat = endpoints(rows, "global", name)
        return {row["world"]: flat[row["world"]] + headroom(row) / 2 for row in own}
    return {row["world"]: _counted(row, way) for row in own}


def _counted(row: Row, way: str) -> float:
    found = row["accuracy"][way]
    return CHANCE[row["set"]] if found is None else float(found)


def headroom(row: Row) -> float:
    """The best table of the grid minus its best constant, both picked on the test rows of this world."""
    best: dict[bool, float] = {}
    for name in row["accuracy"]:
        if name.startswith("grid "):
            falling = float(name.split()[2]) != 0
            best[falling] = max(best.get(falling, 0.0), _counted(row, name))
    # A table may have slopes 0: it is never behind.
    return max(best[True], best[False]) - best[False]


def worlds_table(rows: Sequence[Row]) -> str:
    """Accuracy by way and set; differences to one config for all; what diverged; the headroom."""
    parts = []
    for name in dict.fromkeys(row["set"] for row in rows):
        own = [row for row in rows if row["set"] == name]
        lines = [_line(own, way, words) for way, words in WAYS.items() if _tried(own, way)]
        over = ("over one config: median", "mean ± error", "worlds better")
        parts += [
            f"### {name}, {len(own)} worlds",
            markdown(["way", "worlds", "median", "mean", *over, "diverged"], lines),
            _room(own),
        ]
    return "\n\n".join(parts)


def _tried(rows: Sequence[Row], way: str) -> list[Row]:
    return [row for row in rows if way in row["accuracy"]]


def _line(rows: Sequence[Row], way: str, words: str) -> list[Any]:
    """What a way came to in the worlds of a set, and over one config for all in the same worlds."""
    tried, name = _tried(rows, way), rows[0]["set"]
    known = [row["accuracy"][way] for row in tried if row["accuracy"][way] is not None]
    diverged = Rate(len(tried) - len(known), len(tried))
    gap = Paired.of(endpoints(rows, way, name), endpoints(rows, "global", name))
    over = [f"{gap.median:+.2f}", _with_error(gap), f"{sum(d > 0 for d in gap.differences)} of {gap.count}"]
    return [
        words,
        len(tried),
        f"{np.median(known):.2f}" if known else "–",
        f"{np.mean(known):.2f}" if known else "–",
        *(["–"] * 3 if way == "global" else over),
        str(diverged) if diverged.count else f"0 of {diverged.of}",
    ]


def _room(rows: Sequence[Row]) -> str:
    """The headroom, what the table took of it, and what the tables look like."""
    name = rows[0]["set"]
    room = Paired(tuple(headroom(row) for row in rows))
    gap = Paired.of(endpoints(rows, "mixture", name), endpoints(rows, "global", name))
    half = Paired.of(endpoints(rows, "mixture", name), endpoints(rows, HALF, name))
    kept = sum(bool(row["facts"]["compared"]["kept"]) for row in rows)
    slopes = [row["facts"]["mixture"]["policy"]["index_slope"] for row in rows]
    of_grid = [f"{100 * value:.0f}%" for value in _diverged_of_grid(rows).values()]
    share = f", {100 * gap.mean / room.mean:.0f}% of it" if room.mean > 0 else ""
    return (
        f"Headroom (best falling table minus best constant of a grid, both picked on test): "
        f"{_with_error(room)}. The table gained {_with_error(gap)}{share}; over half of the headroom that is "
        f"{_with_error(half)}. The guard kept {kept} of {len(rows)} tables; median slope of the rate "
        f"{np.median(slopes):+.2f} doublings per 0.3 of the index, capped in "
        f"{sum(bool(row['facts']['capped']) for row in rows)}. Of the grid's trainings {of_grid[0]} of the "
        f"constants and {of_grid[1]} of the falling tables diverged."
    )


def _diverged_of_grid(rows: Sequence[Row]) -> dict[bool, float]:
    """The share of the grid's trainings that diverged: of constants, of falling tables."""
    lost: dict[bool, list[bool]] = {False: [], True: []}
    for row in rows:
        for name, accuracy in row["accuracy"].items():
            if name.startswith("grid "):
                lost[float(name.split()[2]) != 0].append(accuracy is None)
    return {falling: float(np.mean(found)) for falling, found in lost.items()}


def _with_error(paired: Paired) -> str:
    return f"{paired.mean:+.2f} ± {paired.error:.2f}"
