"""The claims of the FedTune paper, judged by what was measured: accuracies in percent, seed against seed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from fedhpo.research.statistics import Paired
from fedhpo_papers.fedtune.paper import CHANCE, STEPS, TABLE_1
from fedhpo_papers.fedtune.worlds_page import judge_worlds
from fedhpo_papers.shared.tables import Mean
from fedhpo_papers.shared.verdicts import DOES_NOT, HOLDS, UNDECIDED, Verdict, above, all_of, opposite

Row = Mapping[str, Any]
Rows = Mapping[str, Sequence[Row]]


def judge(rows: Rows) -> list[Verdict]:
    """All claims that what was run can speak to."""
    found: list[Verdict] = judge_worlds(rows["worlds"]) if rows.get("worlds") else []
    for part, claims in _CLAIMS.items():
        if rows.get(part):
            found += claims(rows[part])
    return found


def gap(rows: Iterable[Row], way: str, other: str, **which: Any) -> Mean:
    """How much better one way is than another, seed by seed; what diverged counts at chance."""
    return Mean.of(paired(rows, way, other, **which).differences)


def paired(rows: Iterable[Row], way: str, other: str, **which: Any) -> Paired:
    """The same, difference by difference."""
    chosen = [row for row in rows if all(row[key] == value for key, value in which.items())]
    ours, theirs = ({row["seed"]: counted(row) for row in chosen if row["way"] == w} for w in (way, other))
    return Paired.of(ours, theirs)


def counted(row: Row) -> float:
    """The accuracy of a training in percent; where it diverged, that of a model which learned nothing.

    >>> counted({"set": "cifar10", "accuracy": None}), counted({"set": "cifar10", "accuracy": 70.5})
    (10.0, 70.5)
    """
    found = row["accuracy"]
    return CHANCE.get(row.get("set", "femnist"), 10.0) if found is None else float(found)


def below(measured: Mean, threshold: float) -> str:
    """Whether the mean is below the threshold.

    >>> below(Mean(0.5, 0.1, 5), 0.8)
    'holds'
    """
    return opposite(above(measured, threshold))


def _claim(claim: str, paper: str, gaps: Mapping[str, Mean], verdict: str | None = None) -> Verdict:
    here = "; ".join(f"{name} {one.signed}".lstrip() for name, one in gaps.items())
    return Verdict(claim, paper, here, verdict or all_of([above(one, 0) for one in gaps.values()]))


def _sets(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(row["set"] for row in rows))


def _table_1(rows: Sequence[Row]) -> list[Verdict]:
    sets = _sets(rows)
    published = {s: TABLE_1[s]["fedtune"] - TABLE_1[s]["global"] for s in sets if s in TABLE_1}
    paper = "; ".join(f"{s} {value:+.2f}" for s, value in published.items())
    over = {s: gap(rows, "fedtune", "global", set=s) for s in sets}
    hand = {s: gap(rows, "hand", "fedtune", set=s) for s in sets}
    own = {s: gap(rows, "fedtune", "own clients", set=s) for s in sets}
    lost = {s: gap(rows, "fedtune", "regression", set=s) for s in sets}
    moved = {s: gap(rows, "transferred", "global", set=s) for s in sets}
    return [
        _claim("FedTune is above global tuning on every set (Table 1)", paper, over),
        _claim(
            "Hand tuning is less than a point above FedTune (Table 1)",
            "at most 0.40",
            hand,
            all_of([below(one, 1.0) for one in hand.values()]),
        ),
        _claim("Scores on held-out rows beat scores at the cell's own clients (Figure 2c)", "yes", own),
        _claim("The table beats learning rates by regression over the index (Figure 2)", "yes", lost),
        _claim("A table of another set is above global tuning (Figure 6)", "yes", moved),
    ]


def _table_2(rows: Sequence[Row]) -> list[Verdict]:
    def log_rate(index: float, batch: int, seed: int) -> float:
        found = [r["lr"] for r in rows if (r["index"], r["batch"], r["seed"]) == (index, batch, seed)]
        return float(np.log10(found[0]))

    indices, batches = sorted({r["index"] for r in rows}), sorted({r["batch"] for r in rows})
    seeds = sorted({r["seed"] for r in rows})
    rising = {
        f"batch {b}": Mean.of(log_rate(indices[-1], b, s) - log_rate(indices[0], b, s) for s in seeds)
        for b in batches
    }
    wider = {
        f"index {i}": Mean.of(log_rate(i, batches[-1], s) - log_rate(i, batches[0], s) for s in seeds)
        for i in indices
    }
    return [
        _claim("The best learning rate rises with the index (Table 2; decades)", "+0.30 or more", rising),
        _claim("It rises with batch size and quantity (Table 2; decades)", "+0.46 or more", wider),
    ]


def _cells(rows: Sequence[Row]) -> list[Verdict]:
    most = most_cells(rows)

    def claim(words: str, paper: str, way: str, other: str) -> Verdict:
        """Few worlds: by Student's t, with which two standard errors are too little."""
        gaps = {name: paired(rows, way, other, set=name) for name in _sets(rows)}
        sides = [
            HOLDS if one.interval()[0] > 0 else DOES_NOT if one.interval()[1] < 0 else UNDECIDED
            for one in gaps.values()
        ]
        return Verdict(words, paper, "; ".join(f"{name} {one}" for name, one in gaps.items()), all_of(sides))

    own = f"Scores on held-out rows beat those at own clients, {most} (Figure 2c)"
    return [
        claim("Hand tuning is above one config for all (Figure 1a)", "+7.4", "hand", "1 cell"),
        claim(own, "yes", most, "own clients"),
        claim(f"A table of {most} is above one config (Figure 8)", "yes", most, "1 cell"),
    ]


def most_cells(rows: Sequence[Row]) -> str:
    """The way of the largest table."""
    ways = {str(row["way"]) for row in rows if str(row["way"]).endswith("cells")}
    return max(ways, key=lambda way: int(way.split()[0]))


def _figure_2(rows: Sequence[Row]) -> list[Verdict]:
    lost = {f"index {i}": Mean.of(r["lost"] for r in rows if r["index"] == i) for i in _indices(rows)}
    verdict = all_of([above(one, 5.0) for one in lost.values()])
    claim = "An estimated learning rate costs more than 5 points against the tuned one (Figure 2b)"
    return [_claim(claim, "about 15 at index 0.36", lost, verdict)]


def _indices(rows: Sequence[Row]) -> list[float]:
    return sorted({row["index"] for row in rows})


def medians(rows: Sequence[Row], set: str, tuner: str) -> dict[int, float]:
    """For each seed the median over cells of the steps that a tuner needs."""
    chosen = [row for row in rows if row["set"] == set and row["tuner"] == tuner]
    seeds = sorted({row["seed"] for row in chosen})
    return {s: float(np.median([row["steps"] for row in chosen if row["seed"] == s])) for s in seeds}


def _figure_5(rows: Sequence[Row]) -> list[Verdict]:
    saved, warm, grid = {}, {}, {}
    for name in _sets(rows):
        gp, random = medians(rows, name, "gp"), medians(rows, name, "random")
        saved[name] = Mean.of(random[seed] - gp[seed] for seed in gp)
        warmed = medians(rows, name, "gp warm")
        warm[name] = Mean.of(gp[seed] - warmed[seed] for seed in gp)
        ordered = medians(rows, name, "grid")[0]
        grid[name] = Mean.of(ordered - gp[seed] for seed in gp)
    paper = f"FEMNIST: {STEPS['gp']:,} against {STEPS['random']:,}"
    return [
        _claim("The GP needs fewer steps than random search to within 0.5 points (Figure 5)", paper, saved),
        _claim("And fewer than a grid in order (Figure 5)", f"{STEPS['grid']:,}", grid),
        _claim("Neighbours' best configs as a warm start save steps", "not in the paper", warm),
    ]


def _figure_6(rows: Sequence[Row]) -> list[Verdict]:
    gaps = {
        f"{s} {skew}": gap(rows, "fedtune", "global", set=s, skew=skew)
        for s in _sets(rows)
        for skew in ("gaussian", "poisson")
    }
    return [_claim("FedTune is above global tuning under Gaussian and Poisson skew (Figure 6)", "yes", gaps)]


def _figure_7(rows: Sequence[Row]) -> list[Verdict]:
    published = {"natural": "+2.3", "fedadagrad": "+4"}
    words = {"natural": "with the natural partition", "fedadagrad": "with FedAdagrad at the server"}
    return [
        _claim(
            f"FedTune is above global tuning {words[case]} (Figure 7)",
            published[case],
            {"": gap(rows, "fedtune", "global", case=case)},
        )
        for case in dict.fromkeys(row["case"] for row in rows)
    ]


def _figure_8(rows: Sequence[Row]) -> list[Verdict]:
    counts = sorted({row["cells"] for row in rows})
    by = {count: {row["seed"]: counted(row) for row in rows if row["cells"] == count} for count in counts}
    steps = {
        f"{few} to {many} cells": Mean.of(by[many][seed] - by[few][seed] for seed in by[many])
        for few, many in pairwise(counts)
    }
    whole = Mean.of(by[counts[-1]][seed] - by[counts[0]][seed] for seed in by[counts[0]])
    claim = "More cells bring more accuracy than one (Figure 8)"
    return [_claim(claim, "up to 24 cells", {"all to one": whole, **steps}, above(whole, 0))]


_CLAIMS = {
    "cells": _cells,
    "table1": _table_1,
    "figure6": _figure_6,
    "figure7": _figure_7,
    "figure8": _figure_8,
    "figure5": _figure_5,
    "table2": _table_2,
    "figure2": _figure_2,
}
