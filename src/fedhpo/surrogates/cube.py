"""The unit cube as arrays: many points at once, where `Space` works on one config at a time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedhpo.space import Choice, Float, Hyperparameter, Int, Ordinal, Space
from fedhpo.space.config import Config

Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]


def sobol(dimensions: int, count: int, rng: np.random.Generator) -> Floats:
    """Quasi-random points of the unit cube."""
    from scipy.stats import qmc  # takes long to import, and most searches need none of it

    points: Floats = qmc.Sobol(dimensions, rng=rng).random(count)
    return points


def cells(hyperparameter: Hyperparameter, units: Floats) -> NDArray[np.int64]:
    """The index of the discrete value at each coordinate.

    >>> cells(Int(1, 4), np.array([0.0, 0.3, 1.0]))
    array([0, 1, 3])
    """
    count = int(hyperparameter.count)
    if isinstance(hyperparameter, Int) and hyperparameter.log:
        start, width = _log_scale(hyperparameter)
        found = np.floor(np.exp(start + units * width) + 0.5) - hyperparameter.low
    else:
        found = np.floor(units * count)
    index: NDArray[np.int64] = np.clip(found, 0, count - 1).astype(np.int64)
    return index


def edges(hyperparameter: Hyperparameter, units: Floats) -> tuple[Floats, Floats]:
    """Where the cells begin and end that these coordinates lie in.

    >>> edges(Choice(["a", "b"]), np.array([0.1, 0.9]))
    (array([0. , 0.5]), array([0.5, 1. ]))
    """
    index = cells(hyperparameter, units)
    if isinstance(hyperparameter, Int) and hyperparameter.log:
        start, width = _log_scale(hyperparameter)
        value = index + hyperparameter.low
        return (np.log(value - 0.5) - start) / width, (np.log(value + 0.5) - start) / width
    return index / hyperparameter.count, (index + 1) / hyperparameter.count


def _log_scale(hyperparameter: Int) -> tuple[float, float]:
    start = float(np.log(hyperparameter.low - 0.5))
    return start, float(np.log(hyperparameter.high + 0.5)) - start


class Cube:
    """The unit cube of a space.

    >>> from fedhpo.space import Float
    >>> cube = Cube(Space(client={"epochs": Int(1, 4), "lr": Float(0, 1, when={"client.epochs": 1})}))
    >>> cube.snap(np.array([[0.1, 0.9], [0.9, 0.9]]))
    array([[0.125, 0.9  ],
           [0.875, 0.5  ]])
    """

    def __init__(self, space: Space) -> None:
        self.space = space
        self.axes = [space.hyperparameters[name] for name in space.names]
        self._places = {name: index for index, name in enumerate(space.names)}

    def points(self, configs: Iterable[Config]) -> Floats:
        """One row for each config."""
        rows = [self.space.to_unit(config) for config in configs]
        return np.array(rows).reshape(len(rows), len(self.axes))

    def snap(self, points: Floats) -> Floats:
        """The points of the configs there: discrete values in the centre of their cell, inactive at 0.5."""
        snapped = np.clip(points, 0.0, 1.0)
        for index, axis in enumerate(self.axes):
            if not isinstance(axis, Float):
                low, high = edges(axis, snapped[:, index])
                snapped[:, index] = (low + high) / 2
        snapped[~self.active(snapped)] = 0.5
        return snapped

    def active(self, points: Floats) -> Bools:
        """Which hyperparameters are active at each point."""
        active = np.ones(points.shape, dtype=np.bool_)
        for dimension in self.space.plan:
            for parent, allowed in dimension.condition:
                if parent in self.space.fixed:
                    active[:, dimension.index] &= self.space.fixed[parent] in allowed
                else:
                    place = self._places[parent]
                    held = _holds(self.axes[place], allowed, points[:, place])
                    active[:, dimension.index] &= active[:, place] & held
        return active

    def features(self, points: Floats) -> tuple[Floats, NDArray[np.int64]]:
        """Columns whose Euclidean distance suits a kernel, and the axis that each belongs to.

        A choice becomes one column per option, so scaled that two different options are 1 apart. A list with
        `log` is seen as the logarithms of its values, from 0 to 1.
        """
        columns, owners = [], []
        for index, axis in enumerate(self.axes):
            if isinstance(axis, Choice):
                option = cells(axis, points[:, index])
                block = (option[:, None] == np.arange(int(axis.count))) / np.sqrt(2)
            elif isinstance(axis, Ordinal) and axis.log:
                logs = np.log(np.array(axis.values, np.float64))
                span = float(np.ptp(logs)) or 1.0
                block = ((logs - logs.min()) / span)[cells(axis, points[:, [index]])]
            else:
                block = points[:, [index]]
            columns.append(block)
            owners += [index] * block.shape[1]
        return np.hstack(columns), np.array(owners, dtype=np.int64)


def _holds(axis: Hyperparameter, allowed: Sequence[Any], units: Floats) -> Bools:
    if isinstance(axis, Float):
        return np.array([axis.from_unit(unit) in allowed for unit in units], dtype=np.bool_)
    wanted = cells(axis, np.array([axis.to_unit(value) for value in allowed]))
    return np.isin(cells(axis, units), wanted)
