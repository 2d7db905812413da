"""What should a party of FLoRA send, if it sends few pairs: its best, or half best and half spread?

    FEDHPO_DATA=... python benchmarks/spread_pairs.py FOLDER [--workers 2]

Local searches of 60 configs at three and at six parties of five small sets, with two learners: 20 cases. Of
each search a party sends all pairs, its best T', or half best and half spread over the quantiles of the other
losses. Every surface recommends a config, which is scored with all rows in one place (cross-validated
balanced accuracy). Printed are paired differences in points, spread minus best, over the cases. What is
done is kept in FOLDER, and another call goes on from there.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedhpo.core.streams import derive
from fedhpo.methods.flora.surfaces import SURFACES, fit_surface, minimise
from fedhpo.queries.pairs import PartyPairs
from fedhpo.research.statistics import Paired
from fedhpo.space.config import Config
from fedhpo_papers.flora.data import Table, learner_of
from fedhpo_papers.flora.work import Search, do_all, read_json, write_json

TRIES, FOLDS = 60, 5
ROWS = {"heart_statlog": None, "sonar": None, "oil_spill": None, "pc3": None, "pollen": 900}
CASES = [
    Table(name, learner, parties, rows, FOLDS, FOLDS)
    for parties in (3, 6)
    for learner in ("svm", "mlp_sklearn")
    for name, rows in ROWS.items()
]
SENT = (5, 10, 20)
#: By what was sent, then by surface.
Losses = Mapping[str, Mapping[str, float]]


def ways(pairs: list[PartyPairs]) -> dict[str, list[PartyPairs]]:
    """What is sent, by name."""
    found = {"all": pairs}
    for n in SENT:
        found[f"best {n}"] = [party.best(n) for party in pairs]
        found[f"spread {n}"] = [party.spread(n) for party in pairs]
    return found


def recommended(case: Table, folder: Path) -> Losses:
    """The loss of what each surface recommends, by what was sent."""
    file = folder / f"{case.name}.json"
    if file.is_file():
        return read_json(file)
    pairs = [Search(case, party, TRIES).pairs(folder) for party in range(case.parties)]
    space = learner_of(case).space
    assert space is not None
    known: dict[Config, float] = {}
    found: dict[str, dict[str, float]] = {}
    for way, sent in ways(pairs).items():
        found[way] = {}
        for surface in SURFACES:
            seed = derive(0, case.name)  # the same for all: a seed alone moves what is recommended
            fitted = fit_surface(surface, space, sent, seed=seed, regressor="forests")
            config, _ = minimise(fitted, space, seed)
            if config not in known:
                known[config] = case.central_loss(config)
            found[way][surface] = known[config]
    write_json(file, found)
    return found


def row(losses: Sequence[Losses], sent: int, surfaces: Sequence[str]) -> dict[str, Any]:
    """Spread against best over the cases; the mean of several surfaces counts as one."""

    def accuracy(way: str) -> list[float]:
        return [100 - 100 * float(np.mean([case[way][name] for name in surfaces])) for case in losses]

    best, spread = accuracy(f"best {sent}"), accuracy(f"spread {sent}")
    paired = Paired(tuple(s - b for s, b in zip(spread, best, strict=True)))
    return {
        "sent": sent,
        "surface": surfaces[0] if len(surfaces) == 1 else "mean of all",
        "difference": paired.mean,
        "error": paired.error,
        "better": sum(d > 0 for d in paired.differences),
        "worse": sum(d < 0 for d in paired.differences),
        "best": float(np.mean(best)),
        "spread": float(np.mean(spread)),
        "all": float(np.mean(accuracy("all"))),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    searches = [Search(case, party, TRIES) for case in CASES for party in range(case.parties)]
    do_all(searches, options.folder, options.workers, print)
    losses = [recommended(case, options.folder) for case in CASES]
    rows = [row(losses, n, names) for n in SENT for names in [*([name] for name in SURFACES), list(SURFACES)]]
    if options.json:
        print(json.dumps(rows))
        return
    for one in rows:
        print(
            "T' = {sent:2}  {surface:14} {difference:+.2f} ± {error:.2f}  ({better} better, {worse} worse)  "
            "best {best:.2f}  spread {spread:.2f}  all {all:.2f}".format(**one)
        )


if __name__ == "__main__":
    main()
