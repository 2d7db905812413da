"""The values between which a hyperparameter lies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedhpo.core.settings import is_number
from fedhpo.space._continuous import Float
from fedhpo.space._discrete import Choice, Int, Ordinal


def ends(value: Any) -> list[Any]:
    """The least and the greatest value of a hyperparameter, or all of them; a fixed value itself.

    >>> ends(Float(0.1, 0.5)), ends(Choice(["sgd", "adamw"])), ends(3)
    ([0.1, 0.5], ['sgd', 'adamw'], [3])
    """
    if isinstance(value, Float | Int):
        return [value.low, value.high]
    if isinstance(value, Ordinal):
        return list(value.values)
    if isinstance(value, Choice):
        return list(value.options)
    return [value]


#: How near an end of a range counts as at it, as a share of the range in the sampling scale.
_NEAR = 0.02


def at_bounds(hyperparameters: Mapping[str, Any], values: Mapping[str, Any]) -> list[str]:
    """A sentence for each value that lies at an end of its range: see `Space.at_bounds`."""
    found = []
    for name, one in hyperparameters.items():
        value = values.get(name)
        if not is_number(value) or isinstance(one, Choice) or one.is_own(value):
            continue
        low, *_, high = ends(one)
        if isinstance(one, Float):
            place = one.to_unit(min(high, max(low, value)))  # methods that perturb may step beyond
            lower, upper = place <= _NEAR, place >= 1 - _NEAR
        else:
            lower, upper = (one.count > 2 and value == end for end in (low, high))
        limit = low == 0 or (low == 1 and isinstance(one, Int))
        if (lower and not limit) or upper:
            end = "lower" if lower else "upper"
            found.append(
                f"{name} = {value:.4g} lies at the {end} end of its range ({low:.4g} to {high:.4g}): "
                "a wider one may hold a better value"
            )
    return found
