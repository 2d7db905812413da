"""FedTune: "Demystifying hyperparameter optimization in federated learning", under review at ICLR 2022.

Table 1 (global tuning, FedTune, hand tuning), Table 2 (best learning rates), Figures 1c (cost), 2
(regression, and scores at the cell's own clients), 5 (steps of the tuners), 6 (Gaussian and Poisson skew, a
table of another set), 7 (natural partition, FedAdagrad) and 8 (number of cells). Each set's pool of configs
is simulated once in every cell, and tuners replay it; everything else is kept in pieces, so that the whole
can be stopped and resumed anywhere.

The part `worlds` compares tables that are scored in the mixture, and the paper's, with one config for all:
each world is a fresh draw of everything, and `plan.toml` says beforehand what is judged.

What the paper leaves out or does otherwise: accuracy is the mean of the last five rounds (the paper takes the
best round by test accuracy); clients' data is dealt once, seeds change tuners, first models and cohorts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fedhpo.core.errors import InputError
from fedhpo_papers.fedtune.lab import Lab
from fedhpo_papers.fedtune.parts import PARTS
from fedhpo_papers.fedtune.sets import SCALES
from fedhpo_papers.shared.runs import check_asked, page_name
from fedhpo_papers.shared.runs import kept as kept_data

__all__ = ["PARTS", "SCALES", "run"]

#: The parts that are made of worlds, and where their settings stand.
OF_WORLDS = {"worlds": "world_sets", "cnn": "cnn_sets", "cells": "cells_sets"}


def page(scale: str, out: Path) -> dict[str, Any]:
    """Judge what is kept in `out` again, and write page and figures anew; nothing is run."""
    from fedhpo_papers.fedtune.page import write

    return write(kept_data("fedtune", scale, SCALES, out), out)


def run(
    scale: str = "default",
    *,
    only: Sequence[str] = (),
    runs: str | Path = "runs/fedtune",
    out: str | Path | None = None,
    workers: int | None = None,
    kept: bool = False,
    say: Callable[[str], None] = print,
) -> dict[str, Any]:
    """Run what has not been run, judge the claims, and write page and figures into `out`.

    Parts that are not run now are those of the data that is in `out` already, and so are worlds that were run
    under the same settings: another machine goes on where this one was. With `kept` nothing is run: the page
    is that of the worlds that are done.
    """
    from fedhpo_papers.fedtune.page import write

    check_asked(scale, SCALES, only, tuple(PARTS))
    if kept and set(only) - set(OF_WORLDS):
        raise InputError(f"kept goes with {' and '.join(OF_WORLDS)} only, as --only says")
    earlier, old = _written(scale, out)
    lab = Lab.at(scale, Path(runs) / scale, say, workers, kept, earlier)
    todo = only or tuple(OF_WORLDS if kept else PARTS)
    rows = {**earlier, **{name: part(lab) for name, part in PARTS.items() if name in todo}}
    found: dict[str, Any] = {
        "scale": scale,
        "seeds": lab.scale.seeds,
        "tuner_seeds": lab.scale.tuner_seeds,
        "pool": lab.scale.pool,
        "steps": lab.scale.steps,
        "sets": {name: setting.words for name, setting in lab.scale.sets.items()},
        "world_sets": {name: setting.words for name, setting in lab.scale.world_sets.items()},
        "cnn_sets": {name: setting.words for name, setting in lab.scale.cnn_sets.items()},
        "cells_sets": {name: setting.words for name, setting in lab.scale.cells_sets.items()},
        "rows": {name: rows[name] for name in PARTS if rows.get(name)},
        # Parts of a page that was written before scores carried their noise.
        "earlier": [name for name in old if name not in todo],
    }
    return write(found, None if out is None else Path(out))


def _written(scale: str, out: str | Path | None) -> tuple[dict[str, list[dict[str, Any]]], Sequence[str]]:
    """The rows of all parts that an earlier page has; an accuracy of 0 was a training that diverged.

    Worlds count only where they were run under the settings of now. And which parts are of a page that does
    not say that scores carried their noise.
    """
    if out is None:
        return {}, ()
    path = Path(out) / f"{page_name('fedtune', scale)}.json"
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        rows = {
            name: [{**row, "accuracy": row["accuracy"] or None} if _trained(row) else row for row in rows]
            for name, rows in found["rows"].items()
            if name in PARTS
        }
        for part, key in OF_WORLDS.items():
            words = found[key] if rows.get(part) else {}
            now = getattr(SCALES[scale], key)
            same = {name for name, setting in now.items() if words.get(name) == setting.words}
            rows[part] = [row for row in rows.get(part, []) if row["set"] in same]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}, ()
    return rows, found.get("earlier", tuple(rows))


def _trained(row: dict[str, Any]) -> bool:
    return "accuracy" in row and ("way" in row or "cells" in row)
