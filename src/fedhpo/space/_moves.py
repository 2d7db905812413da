"""Moves in a space: balls around a config, evolutionary perturbation, and the distance between two.

Each move draws all its random numbers at once, the same count every time, so that what one
coordinate does never changes the numbers that another one gets.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fedhpo.core.errors import InputError, unknown_name
from fedhpo.space._discrete import Choice
from fedhpo.space.config import SCOPES, Config

if TYPE_CHECKING:
    from fedhpo.space._space import Dimension, Space

NORMS = ("box", "euclidean")
#: What is drawn anew at once: each coordinate by its own coin, or all of a scope by one.
RESAMPLED_BY = ("coordinate", "vector")


def ball(space: Space, config: Config, eps: float, rng: np.random.Generator, scopes: Sequence[str]) -> Config:
    check_scopes(scopes)
    check_width("eps", eps)
    values = config.flat()
    move, draw = rng.random((2, space.dimensions)).tolist()

    def pick(dimension: Dimension) -> Any:
        index, hyperparameter = dimension.index, dimension.hyperparameter
        if dimension.name not in values:
            return hyperparameter.from_unit(draw[index])
        value = values[dimension.name]
        if dimension.scope not in scopes:
            return value
        return hyperparameter.near(value, eps, move[index], draw[index])

    return space.build(pick)


def perturb(
    space: Space,
    config: Config,
    eps: float,
    resample: float,
    rng: np.random.Generator,
    scopes: Sequence[str],
    by: str,
    within: tuple[Config, float] | None,
) -> Config:
    check_scopes(scopes)
    check_width("eps", eps)
    if not 0 <= resample <= 1:
        raise InputError(f"resample must be a probability from 0 to 1, found {resample!r}")
    if by not in RESAMPLED_BY:
        raise unknown_name("resample_by", by, RESAMPLED_BY)
    values = config.flat()
    centre, radius = ({}, 0.0) if within is None else (within[0].flat(), within[1])
    again, move, draw = rng.random((3, space.dimensions)).tolist()
    coins: dict[str, float] = {}

    def pick(dimension: Dimension) -> Any:
        index, hyperparameter = dimension.index, dimension.hyperparameter
        if dimension.name not in values:
            return hyperparameter.from_unit(draw[index])
        value = values[dimension.name]
        if dimension.scope not in scopes:
            return value
        coin = again[index] if by == "coordinate" else coins.setdefault(dimension.scope, again[index])
        if coin < resample:
            if dimension.name in centre:
                return hyperparameter.near(centre[dimension.name], radius, draw[index], move[index])
            return hyperparameter.from_unit(draw[index])
        return hyperparameter.evolve(value, eps, move[index], draw[index])

    return space.build(pick)


def clip_to_ball(
    space: Space, config: Config, centre: Config, radius: float, scopes: Sequence[str], norm: str
) -> Config:
    check_scopes(scopes)
    check_width("radius", radius)
    if norm not in NORMS:
        raise unknown_name("norm", norm, NORMS)
    values, middle = config.flat(), centre.flat()
    fraction = 1.0
    if norm == "euclidean":
        gaps = [
            dimension.hyperparameter.gap(middle[dimension.name], values[dimension.name])
            for dimension in space.plan
            if dimension.scope in scopes and dimension.name in values and dimension.name in middle
        ]
        length = math.hypot(*gaps)
        fraction = min(1.0, radius / length) if length > 0 else 1.0

    def pick(dimension: Dimension) -> Any:
        name, hyperparameter = dimension.name, dimension.hyperparameter
        if name not in values:
            return middle[name] if name in middle else hyperparameter.default_value()
        value = values[name]
        if dimension.scope not in scopes or name not in middle:
            return value
        if norm == "box":
            return hyperparameter.clip(value, middle[name], radius)
        return value if fraction == 1.0 else hyperparameter.between(middle[name], value, fraction)

    return space.build(pick)


def distance(space: Space, a: Config, b: Config, rho: float) -> float:
    if not rho >= 1:
        raise InputError(f"rho must be at least 1 for a norm, found {rho!r}")
    left, right = a.flat(), b.flat()
    gaps, differing = [], 0
    for name, hyperparameter in space.hyperparameters.items():
        if name not in left or name not in right:
            differing += (name in left) != (name in right)
        elif isinstance(hyperparameter, Choice):
            differing += left[name] != right[name]
        else:
            gaps.append(abs(hyperparameter.gap(left[name], right[name])))
    if math.isinf(rho):
        return max(gaps, default=0.0) + differing
    return float(sum(gap**rho for gap in gaps) ** (1 / rho) + differing)


def check_scopes(scopes: Sequence[str]) -> None:
    if isinstance(scopes, str) or not isinstance(scopes, list | tuple | set | frozenset):
        raise InputError(f"scopes must be a list such as ('client',), found {scopes!r}")
    for scope in scopes:
        if scope not in SCOPES:
            raise unknown_name("scope", scope, SCOPES)


def check_width(name: str, value: float) -> None:
    if not 0 <= value < math.inf:
        raise InputError(f"{name} must be a finite number of at least 0, found {value!r}")
