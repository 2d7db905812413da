"""Counting and enumerating the configs of a space without visiting inactive combinations."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from fedhpo.core.errors import InputError, unknown_name
from fedhpo.core.settings import whole_number
from fedhpo.space.config import Config

if TYPE_CHECKING:
    from fedhpo.space._space import Space

#: Values of one hyperparameter, and combinations, that nobody can try.
MOST_VALUES, MOST_CONFIGS = 10_000, 1_000_000

OTHER = object()  # stands for all values of a parent that no condition mentions


def grid(space: Space, points: int | Mapping[str, int]) -> Iterator[Config]:
    """All combinations; inactive hyperparameters do not branch, so no config comes twice."""
    values = {name: _values(space, name, points) for name in space.names}
    if isinstance(points, Mapping):
        for name in points:
            if name not in values:
                raise unknown_name("hyperparameter in points", name, space.names)

    # What hangs on a condition may not branch: only what always does is counted.
    always = math.prod(len(values[dimension.name]) for dimension in space.plan if not dimension.condition)
    if always > MOST_CONFIGS:
        raise InputError(
            f"points: the grid has {always:,} configs; at most {MOST_CONFIGS:,} are allowed: use fewer "
            "points, or random search"
        )

    def combine(step: int, chosen: dict[str, Any]) -> Iterator[Config]:
        if step == len(space.plan):
            yield space.build(lambda dimension: chosen[dimension.name])
            return
        dimension = space.plan[step]
        if not dimension.active(chosen):
            yield from combine(step + 1, chosen)
            return
        for value in values[dimension.name]:
            yield from combine(step + 1, {**chosen, dimension.name: value})

    return combine(0, dict(space.fixed))


def _values(space: Space, name: str, points: int | Mapping[str, int]) -> list[Any]:
    hyperparameter = space.hyperparameters[name]
    count: int | None
    if isinstance(points, Mapping):
        count = points.get(name)
    else:
        count = points if math.isinf(hyperparameter.count) else None
    if count is None and math.isinf(hyperparameter.count):
        raise InputError(f"points: {name} is continuous and needs a number of values")
    count = None if count is None else whole_number(f"points of {name}", count)
    values = hyperparameter.count if count is None else min(count, hyperparameter.count)
    if values > MOST_VALUES:
        raise InputError(
            f"points: the grid would have {values:,} values of {name}; at most {MOST_VALUES:,} are allowed: "
            f"name a number of them, points = {{{name!r}: 5}}"
        )
    return hyperparameter.grid(count)


def size(space: Space) -> float:
    """Only the values that conditions mention make a difference: the rest of a parent is one case."""
    mentioned: dict[str, list[Any]] = {}
    for dimension in space.plan:
        for parent, allowed in dimension.condition:
            known = mentioned.setdefault(parent, [])
            known.extend(value for value in allowed if value not in known)

    def count(step: int, chosen: dict[str, Any]) -> float:
        if step == len(space.plan):
            return 1
        dimension = space.plan[step]
        if not dimension.active(chosen):
            return count(step + 1, chosen)
        total, cases = dimension.hyperparameter.count, mentioned.get(dimension.name)
        if cases is None:
            return total * count(step + 1, chosen)
        found = sum(count(step + 1, {**chosen, dimension.name: value}) for value in cases)
        rest = total - len(cases)
        return found + (rest * count(step + 1, {**chosen, dimension.name: OTHER}) if rest else 0)

    return count(0, dict(space.fixed))
