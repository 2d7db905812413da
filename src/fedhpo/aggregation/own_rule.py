"""Aggregation rules of a user's own: a dataclass that is called with a round's updates.

A study file names one in `[server]`, by name alone or with settings:

    aggregation = { name = "package.module:GeometricMedian", steps = 8 }
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from fedhpo.aggregation.held import Updates
from fedhpo.core.errors import InputError
from fedhpo.core.registry import Registry
from fedhpo.core.settings import shown
from fedhpo.core.user_code import in_words
from fedhpo.core.vectors import Vector


@runtime_checkable
class Rule(Protocol):
    """Puts the updates of a round together.

    Every client counts once, unless the class says `by_size = True`: then `weights` are the clients' training
    rows, and else 1. `fedhpo.testing.aggregation.AggregationSuite` tests one.
    """

    def __call__(self, updates: Updates, weights: Sequence[float]) -> Vector:
        """One vector from the updates, which are the rows of a matrix of float32."""


def rule_of(
    given: str | Mapping[str, Any] | Rule, ours: Sequence[str], key: str = "aggregation"
) -> tuple[str, Rule | None]:
    """The name of a rule, and the rule itself where it is not one of ours."""
    if isinstance(given, str) and given in ours:
        return given, None
    if isinstance(given, Mapping) and given.get("name") in ours:
        if len(given) > 1:
            raise InputError(
                f"{key}: {given['name']!r} has no settings of its own; trim and clip_norm stand beside it"
            )
        return str(given["name"]), None
    if isinstance(given, str | Mapping):
        registry: Registry[Any] = Registry("aggregation", dict.fromkeys(ours), "aggregation rule")
        made: Any = registry.build(given, key)
        name = given if isinstance(given, str) else str(given["name"])
    else:
        made, name = given, f"{type(given).__module__}:{type(given).__qualname__}"
    if isinstance(made, type) or not callable(made):
        raise InputError(
            f"{key} must be a name, or a rule that is called with updates and weights, not {shown(made)}"
        )
    return name, made


def by_own_rule(rule: Rule, name: str, updates: Updates, weights: Sequence[float]) -> Vector:
    """What a user's rule makes of the updates, checked.

    >>> by_own_rule(lambda updates, weights: updates.sum(0), "sum", np.ones((2, 3), np.float32), [1, 1])
    array([2., 2., 2.], dtype=float32)
    """
    counts = weights if getattr(rule, "by_size", False) else [1.0] * len(weights)
    try:
        found = np.asarray(rule(updates.copy(), counts), np.float32)
    except Exception as error:
        raise InputError(f"aggregation = {name!r}: it raised {in_words(error)}") from error
    if found.shape != updates.shape[1:]:
        raise InputError(
            f"aggregation = {name!r}: must give one vector of {updates.shape[1]} numbers, found an array of "
            f"shape {found.shape}"
        )
    return found
