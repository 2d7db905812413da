"""The values between which a hyperparameter lies."""

from __future__ import annotations

from typing import Any

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
