"""Training under attack: many trials side by side, each with an adversary of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

import numpy as np

import fedhpo as fh
from fedhpo.core.streams import stream
from fedhpo.engine.gather import Gathering
from fedhpo.protocol.federation import Ints, Scores
from fedhpo.testing.attacks import Hostile, flipped, hostile_clients
from hostility.cells import LABELS, NONE, RULES, SPLITS, Cell, attack_of

CLIENTS, ROUNDS = 20, 40
CONFIG = {"lr": 0.5, "batch_size": 16, "epochs": 2}
#: Test rows are many here, so that a point of accuracy is more than one row.
SPLIT = {"kind": "inside", "validation": 0.1, "test": 0.3}


class Each:
    """An adversary for each of several trials."""

    def __init__(self, adversaries: Mapping[int, Hostile]) -> None:
        self._of = adversaries

    def announced(self, trial: int, clients: Ints, sizes: Ints) -> Ints:
        """The rows that clients say they have."""
        return self._of[trial].announced(trial, clients, sizes) if trial in self._of else sizes

    def gathering(self, trial: int, honest: Gathering, cohort: Ints) -> Gathering:
        """The trial's own."""
        return self._of[trial].gathering(trial, honest, cohort) if trial in self._of else honest

    def scores(self, honest: Scores) -> Scores:
        """Here nobody lies about scores."""
        return honest


def digits(split: str, seed: int) -> fh.FederatedData:
    """The data of a seed."""
    return fh.load("digits", clients=CLIENTS, partition=SPLITS[split], split=SPLIT, seed=seed)


def trained(cells: Sequence[Cell], cohort: int = CLIENTS) -> dict[Cell, float]:
    """The test accuracy of each cell; all have the same split, rule and seed."""
    found: dict[Cell, float] = {}
    for share in sorted({cell.share for cell in cells if cell.attack == LABELS}):
        found |= _together([cell for cell in cells if (cell.attack, cell.share) == (LABELS, share)], cohort)
    return found | _together([cell for cell in cells if cell.attack != LABELS], cohort)


def _together(cells: Sequence[Cell], cohort: int) -> dict[Cell, float]:
    if not cells:
        return {}
    one = cells[0]
    data = digits(one.split, one.seed)
    lying = {share: hostile_clients(range(CLIENTS), share, one.seed) for share in {c.share for c in cells}}
    if one.attack == LABELS:
        data = flipped(data, lying[one.share].tolist())
    how = asdict(RULES[one.rule])
    how["aggregation"] = how.pop("rule")
    with fh.simulate("mlp", data, workers=0, **how) as federation:
        federation.adversary = Each(
            {
                trial: Hostile(lying[cell.share], attack_of(cell.attack, cell.strength), one.seed)
                for trial, cell in enumerate(cells)
                if cell.attack not in (NONE, LABELS)
            }
        )
        for trial in range(len(cells)):
            federation.start(trial, {}, one.seed)
        for number in range(ROUNDS):
            drawn = stream(one.seed, "cohort", number).choice(CLIENTS, cohort, replace=False)
            chosen = np.sort(drawn).tolist()
            federation.round([fh.Work(trial, chosen, CONFIG, scores=()) for trial in range(len(cells))])
        federation.adversary = None
        scores = federation.evaluate(range(len(cells)), federation.test_clients, "test")
        return {cell: score.mean("accuracy") for cell, score in zip(cells, scores, strict=True)}
