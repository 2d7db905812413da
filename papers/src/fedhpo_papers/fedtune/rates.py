"""Best learning rates: by index, batch size and quantity (Table 2), and guessed by regression (Figure 2)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from fedhpo.methods.fedtune import Cells, Simulator
from fedhpo.space.config import Config
from fedhpo_papers.fedtune.baselines import Quadratic
from fedhpo_papers.fedtune.lab import Lab

TABLE_2_INDICES = (0.15, 0.5, 0.75)
FIGURE_2_INDICES = (0.0, 0.17, 0.36, 0.6, 0.8)


def table_2(lab: Lab) -> list[dict[str, Any]]:
    """The best learning rate by index, batch size and quantity."""
    few, many = lab.scale.table_2_quantities
    rows: list[dict[str, Any]] = []
    for seed in range(lab.scale.seeds):
        for batch, quantity, printed in ((5, few, 400), (10, few, 400), (20, many, 800), (30, many, 800)):
            cells = Cells(TABLE_2_INDICES, (quantity,))
            found = lab.pieces.get(
                f"table2-{batch}-{quantity}-{seed}", partial(_by_rate, lab, cells, batch, seed)
            )
            facts = {"batch": batch, "quantity": quantity, "printed": printed, "seed": seed}
            rows += [
                {"index": index, **facts, "lr": _best(scores)[0]}
                for index, scores in zip(TABLE_2_INDICES, found, strict=True)
            ]
    return rows


def figure_2(lab: Lab) -> list[dict[str, Any]]:
    """Learning rates by quadratic regression over the other indices, against tuned ones."""
    cells = Cells(FIGURE_2_INDICES, (lab.scale.table_2_quantities[1],))
    rows: list[dict[str, Any]] = []
    for seed in range(lab.scale.seeds):
        tuned = lab.pieces.get(f"figure2-tuned-{seed}", partial(_by_rate, lab, cells, 8, seed))
        best = [_best(scores) for scores in tuned]
        points = [(index, rate) for index, (rate, _) in zip(FIGURE_2_INDICES, best, strict=True)]
        inner = range(1, len(points) - 1)
        others = [[p for p in points if p != point] for point in points]
        guesses = [Quadratic.through(others[i], {}, 0.002, 0.8).lr(points[i][0]) for i in inner]
        more = [[], *([guess] for guess in guesses), []]
        found = lab.pieces.get(f"figure2-guessed-{seed}", partial(_by_rate, lab, cells, 8, seed, more))
        rows += [
            {
                "index": points[i][0],
                "seed": seed,
                "tuned": points[i][1],
                "estimated": guess,
                "accuracy": 100 * best[i][1],
                "lost": 100 * (best[i][1] - (found[i][-1][1] or 0.0)),
            }
            for i, guess in zip(inner, guesses, strict=True)
        ]
    return rows


def _best(scores: Sequence[Sequence[Any]]) -> tuple[float, float]:
    """The learning rate with the highest score, the first of several, and that score."""
    rate, score = max(scores, key=lambda pair: -1.0 if pair[1] is None else pair[1])
    return float(rate), float(score or 0.0)


def _by_rate(
    lab: Lab, cells: Cells, batch: int, seed: int, more: Sequence[Sequence[float]] = ()
) -> list[list[Any]]:
    """(Learning rate, score) pairs of each cell, one epoch a round.

    `more` are further rates of each cell, in place of the usual ones.
    """
    world, scale = lab.world(lab.hardest), lab.scale
    proxies = world.proxy.federation(cells, scale.simulated_clients, seed=seed)
    usual = np.geomspace(0.002, 0.8, scale.rates).round(4).tolist()
    rates = [list(own) for own in more] if more else [usual] * len(cells)
    asked = [
        (cell, Config(client={"lr": rate, "batch_size": batch, "epochs": 1}))
        for cell, own in enumerate(rates)
        for rate in own
    ]
    with lab.federation(world.setting)(proxies.data) as federation:
        simulator = Simulator(
            federation,
            proxies.groups,
            proxies.scorer,
            scale.simulated_rounds,
            scale.simulated_clients,
            model=world.setting.shape,
            seed=seed,
        )
        scores = iter([one.held_out for one in simulator.simulate(asked)])
    return [[[rate, None if math.isnan(s := next(scores)) else s] for rate in own] for own in rates]
