"""Configs learned from the tables of other data: a greedy portfolio, and one-shot proxy search.

Tables of other spaces can be learned from where their hyperparameters have the same names: a config has the
same values there, and the nearest config of the pool, on the scale of its own space, stands for it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fedhpo.core.errors import InputError
from fedhpo.protocol.federation import Floats
from fedhpo.research.tables import CurveTable
from fedhpo.space import Float
from fedhpo.space.config import Config


def portfolio(table: CurveTable, others: Sequence[CurveTable], count: int) -> list[Config]:
    """The configs of the pool that together, one after the other, help most on the other tables.

    Greedily: each next one lowers most the mean over tables of the best error so far, in units of the spread
    of the table's errors (as submodular portfolios are built, Streeter and Golovin, 2008).
    """
    known = related(table, others)
    scaled = np.array([_scaled(_transferred(table, other)) for other in known])
    chosen: list[int] = []
    best = np.full(len(known), np.inf)
    for _ in range(min(count, len(table.configs))):
        gain = np.minimum(best[:, None], scaled).mean(axis=0)
        gain[chosen] = np.inf
        chosen.append(int(gain.argmin()))
        best = np.minimum(best, scaled[:, chosen[-1]])
    return [table.configs[place] for place in chosen]


def proxied(table: CurveTable, others: Sequence[CurveTable]) -> Config:
    """The config of the pool that is best on the other tables, without noise: one-shot proxy search."""
    return portfolio(table, others, 1)[0]


def related(table: CurveTable, others: Sequence[CurveTable]) -> list[CurveTable]:
    """Those of other data whose hyperparameters have the same names; refused if there are none."""
    names, data = set(table.space.hyperparameters), table.study_tables["data"].get("name")
    found = [
        other
        for other in others
        if set(other.space.hyperparameters) == names and other.study_tables["data"].get("name") != data
    ]
    if not found:
        raise InputError(
            f"no other table has the hyperparameters of table {table.name}: there is nothing to learn from"
        )
    return found


def _transferred(table: CurveTable, other: CurveTable) -> Floats:
    """For each config of the pool, the error of the nearest config on another table after full training."""
    own = np.array([table.space.to_unit(config) for config in table.configs])
    theirs = np.array([_real(table, config) for config in other.configs])
    nearest = ((own[:, None] - theirs[None]) ** 2).sum(axis=2).argmin(axis=1)
    errors = other.errors()[:, -1].mean(axis=1)
    found: Floats = np.where(np.isfinite(errors), errors, 1.0)[nearest]
    return found


def _real(table: CurveTable, config: Config) -> list[float]:
    """A config of another space by its values: places on the scale of this one, beyond 0 and 1 outside it.

    Of values in a list the nearest one stands for a number that is not in it.
    """
    found = []
    for key, own in table.space.hyperparameters.items():
        scope, name = key.split(".", 1)
        value = getattr(config, scope)[name]
        if isinstance(own, Float):
            scale = math.log if own.log else float
            found.append((scale(value) - scale(own.low)) / (scale(own.high) - scale(own.low)))
        else:
            listed = own.grid(None)
            numbers = all(isinstance(one, int | float) for one in (value, *listed))
            near = min(listed, key=lambda one: abs(one - value)) if numbers else value
            found.append(own.to_unit(near) if near in listed else 0.5)
    return found


def _scaled(errors: Floats) -> Floats:
    """Errors from 0, the best, in units of their standard deviation."""
    scaled: Floats = (errors - errors.min()) / (errors.std() or 1.0)
    return scaled
