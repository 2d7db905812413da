"""The learning rate over a trial's rounds: what `lr` is multiplied by in each of them.

The factors are those of torch's own schedulers, stepped once a round: `CosineAnnealingLR`, `StepLR`, and
before them `LinearLR` as warm-up. A client remembers no rounds, so a schedule is a function of the round.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from fedhpo.core.errors import InputError, unknown_name
from fedhpo.core.objects import import_object
from fedhpo.space import ends

if TYPE_CHECKING:
    from fedhpo.engine.hyperparameters import Local

#: The schedules that have a name; another is the user's own, `package.module:function`.
CONSTANT, COSINE, STEP = SCHEDULES = "constant", "cosine", "step"
#: `function(round, horizon)` gives the factor of a round, counted from 0.
OwnSchedule = Callable[[int, int], float]


def check_schedule(name: Any) -> None:
    """Refuse what is no schedule; a function of the user's own is imported when it is first needed."""
    if not isinstance(name, str) or (name not in SCHEDULES and ":" not in name):
        known = (*SCHEDULES, "package.module:function")
        raise unknown_name("client.lr_schedule", name, known)


def factor(h: Local, round: int, rounds: int) -> float:
    """What the learning rate is multiplied by in a round; `rounds` is the length of one full training.

    >>> from fedhpo.engine.hyperparameters import Local
    >>> cosine = Local(lr_schedule="cosine", warmup=1)
    >>> [float(f"{factor(cosine, t, 5):.3f}") for t in range(6)]
    [0.5, 1.0, 0.854, 0.5, 0.146, 0.0]
    """
    if h.lr_schedule == CONSTANT and not h.warmup:
        return 1.0
    horizon = rounds if isinstance(h.horizon, str) else h.horizon
    if round < h.warmup:
        return (round + 1) / (h.warmup + 1)
    after = round - h.warmup
    if h.lr_schedule == CONSTANT:
        return 1.0
    if h.lr_schedule == STEP:
        return float(h.lr_gamma ** (after // h.lr_step))
    if not horizon:
        raise InputError(
            f"client.lr_schedule = {h.lr_schedule!r}: nobody says how many rounds a full training has: call "
            "federation.expect(rounds) first, or set client.horizon"
        )
    if h.lr_schedule == COSINE:
        share = min(after / max(horizon - h.warmup, 1), 1.0)
        return h.lr_min + (1 - h.lr_min) * (1 + math.cos(math.pi * share)) / 2
    return _own(h.lr_schedule, round, horizon)


def _own(name: str, round: int, horizon: int) -> float:
    found = _function(name)(round, horizon)
    if isinstance(found, bool) or not isinstance(found, int | float) or not 0 <= found < math.inf:
        raise InputError(
            f"client.lr_schedule = {name!r} gives {found!r} in round {round} of {horizon}; a factor of the "
            "learning rate is needed: a number of at least 0"
        )
    return float(found)


def why_no_horizon(client: Mapping[str, Any]) -> str:
    """Why schedules of these client hyperparameters do not follow the number of rounds; empty if they do."""
    fixed = [one for one in ends(client.get("horizon", "full")) if not isinstance(one, str)]
    if fixed:
        return f"client.horizon = {fixed[0]} says where schedules end"
    if set(ends(client.get("lr_schedule", CONSTANT))) <= {CONSTANT, STEP}:
        return "no client.lr_schedule ends with the training ('cosine', or a function of your own)"
    return ""


@cache
def _function(name: str) -> OwnSchedule:
    found: OwnSchedule = import_object(name, "client.lr_schedule")
    if not callable(found):
        raise InputError(f"client.lr_schedule = {name!r} is no function(round, horizon)")
    return found
