"""FedTune: "Demystifying hyperparameter optimization in federated learning", under review at ICLR 2022.

Table 1 (global tuning, FedTune, hand tuning), Table 2 (best learning rates), Figures 1c (cost), 2
(regression, and scores at the cell's own clients), 5 (steps of the tuners), 6 (Gaussian and Poisson skew, a
table of another set), 7 (natural partition, FedAdagrad) and 8 (number of cells). Each set's pool of configs
is simulated once in every cell, and tuners replay it; everything else is kept in pieces, so that the whole
can be stopped and resumed anywhere.

What the paper leaves out or does otherwise: accuracy is the mean of the last five rounds (the paper takes the
best round by test accuracy); clients' data is dealt once, seeds change tuners, first models and cohorts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fedhpo.reproduce.fedtune.lab import Lab
from fedhpo.reproduce.fedtune.parts import PARTS
from fedhpo.reproduce.fedtune.sets import SCALES
from fedhpo.reproduce.shared.runs import check_asked

__all__ = ["PARTS", "SCALES", "run"]


def run(
    scale: str = "default",
    *,
    only: Sequence[str] = (),
    runs: str | Path = "runs/fedtune",
    out: str | Path | None = None,
    workers: int | None = None,
    say: Callable[[str], None] = print,
) -> dict[str, Any]:
    """Run what has not been run, judge the claims, and write page and figures into `out`."""
    from fedhpo.reproduce.fedtune.page import write

    check_asked(scale, SCALES, only, tuple(PARTS))
    lab = Lab.at(scale, Path(runs) / scale, say, workers)
    found: dict[str, Any] = {
        "scale": scale,
        "seeds": lab.scale.seeds,
        "tuner_seeds": lab.scale.tuner_seeds,
        "pool": lab.scale.pool,
        "steps": lab.scale.steps,
        "sets": {name: setting.words for name, setting in lab.scale.sets.items()},
        "rows": {name: part(lab) for name, part in PARTS.items() if name in (only or PARTS)},
    }
    return write(found, None if out is None else Path(out))
