"""Checks of hyperparameters that the models share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fedhpo.core.errors import InputError
from fedhpo.core.settings import whole_number


def sizes(name: str, values: Any) -> tuple[int, ...]:
    if not isinstance(values, Sequence) or isinstance(values, str) or not values:
        raise InputError(f"{name} must be a list of whole numbers, found {values!r}")
    return tuple(whole_number(name, value) for value in values)


def rate(name: str, value: Any) -> float:
    if type(value) not in (int, float) or not 0 <= value < 1:
        raise InputError(f"{name} must be a number from 0 to below 1, found {value!r}")
    return float(value)


def image(model: str, shape: tuple[int, ...]) -> tuple[int, int, int]:
    if len(shape) != 3:
        raise InputError(f"{model} takes images of shape (channels, height, width), found shape {shape}")
    return shape[0], shape[1], shape[2]
