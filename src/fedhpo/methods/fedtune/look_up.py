"""Which cell, or what between cells, suits a profile."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from fedhpo.methods.fedtune.cells import Cells
from fedhpo.space import Choice, Space


def nearest(cells: Cells, index: float, quantity: float) -> int:
    """The cell nearest in index and, separately, in the logarithm of the quantity; ties go to the smaller.

    >>> cells = Cells((0.2, 0.4), (100, 400))
    >>> nearest(cells, 0.31, 150), nearest(cells, 0.3, 200), nearest(cells, 0.1, 5000)
    (2, 0, 1)
    """
    row = _nearest(cells.indices, index)
    column = _nearest([math.log(value) for value in cells.quantities], _log(quantity))
    return row * len(cells.quantities) + column


def _nearest(values: Sequence[float], wanted: float) -> int:
    # Rounded: 0.3 is as far from 0.2 as from 0.4 whatever the last bits say.
    return min(range(len(values)), key=lambda place: (round(abs(values[place] - wanted), 9), place))


def interpolated(
    cells: Cells, configs: Sequence[Mapping[str, Any]], space: Space, index: float, quantity: float
) -> Mapping[str, Any]:
    """Bilinear between the four cells around the profile, in the sampling scale of each hyperparameter.

    Choices, and hyperparameters that one of the four has not, are those of the nearest cell. Beyond the
    table's edge its outermost cells count.
    """
    rows = _weights(cells.indices, index)
    columns = _weights([math.log(value) for value in cells.quantities], _log(quantity))
    width = len(cells.quantities)
    around = [(r * width + c, share * part) for r, share in rows for c, part in columns if share * part > 0]
    found = dict(configs[nearest(cells, index, quantity)])
    for name, hyperparameter in space.hyperparameters.items():
        key = name.partition(".")[2]
        everywhere = all(key in configs[cell] for cell, _ in around)
        if key not in found or not everywhere or isinstance(hyperparameter, Choice):
            continue
        unit = sum(weight * hyperparameter.to_unit(configs[cell][key]) for cell, weight in around)
        found[key] = hyperparameter.from_unit(min(1.0, max(0.0, unit)))
    return found


def _weights(values: Sequence[float], wanted: float) -> list[tuple[int, float]]:
    """The two places around a value, and the share of each.

    >>> _weights([0.2, 0.4, 0.8], 0.5)
    [(1, 0.75), (2, 0.25)]
    """
    if wanted <= values[0]:
        return [(0, 1.0)]
    if wanted >= values[-1]:
        return [(len(values) - 1, 1.0)]
    upper = next(place for place, value in enumerate(values) if value > wanted)
    share = round((wanted - values[upper - 1]) / (values[upper] - values[upper - 1]), 12)
    return [(upper - 1, 1 - share), (upper, share)]


def _log(quantity: float) -> float:
    return math.log(max(quantity, 1))
