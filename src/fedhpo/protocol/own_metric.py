"""Metrics of a user's own by name: `package.module:Name`, or what an installed package brings.

Such a metric is a dataclass that is called with outputs and targets, and says by `maximise` whether more is
better. Only whoever tunes imports it: a name that comes by a message is never opened here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fedhpo.core.errors import InputError
from fedhpo.core.registry import Registry
from fedhpo.protocol.metrics import NAMED, Metric, direction_of
from fedhpo.protocol.objective import Objective

metrics: Registry[Any] = Registry("metric", NAMED)


def own_metric(name: Any, key: str = "metric") -> Metric | None:
    """The metric of this name, where it is a user's own or a package's; None where it is not."""
    if not isinstance(name, str) or not metrics.brings(name) or direction_of(name) is not None:
        return None
    made = metrics.build(name, key)
    maximise = getattr(made, "maximise", None)
    if not callable(made) or not isinstance(maximise, bool):
        raise InputError(
            f"{key} = {name!r}: must be called with outputs and targets, and say by maximise = True or False "
            "whether more is better"
        )
    return Metric(name, made, maximise, bool(getattr(made, "pooled", False)))


def opened(objective: Objective | str | None, key: str = "objective") -> tuple[Any, list[Metric]]:
    """An objective whose metric is a user's own, with its direction, and that metric."""
    found = own_metric(objective.metric if isinstance(objective, Objective) else objective, key)
    if found is None:
        return objective, []
    direction = "maximize" if found.maximise else "minimize"
    if isinstance(objective, Objective):
        if objective.direction not in (None, direction):
            said = f"direction of {found.name} is {direction!r}, not {objective.direction!r}"
            raise InputError(f"{key}: {said}")
        return replace(objective, direction=direction), [found]
    return Objective(found.name, direction=direction), [found]
