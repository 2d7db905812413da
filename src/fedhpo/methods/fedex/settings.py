"""What can be set of FedEx."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

from fedhpo.core.claims import GIVEN, setting
from fedhpo.core.errors import InputError, unknown_name
from fedhpo.core.settings import whole_number
from fedhpo.methods.fedex.baseline import FIRST_BASELINES, FirstBaseline
from fedhpo.methods.fedex.learned import LearnedPolicy
from fedhpo.methods.fedex.scores import METRICS, Metric
from fedhpo.methods.fedex.steps import STEP_RULES, StepRule


@dataclass(frozen=True)
class FedExSettings:
    """What can be set of FedEx; see `FedEx`."""

    arms: int = setting(27, grid=None, start=None)
    eps: float = setting(0.1, start=None)
    steps: StepRule = "aggressive"
    gamma: float = 0.0
    baseline: FirstBaseline = "pretrain"
    metric: Metric = "loss"
    difference: bool = False
    clip: float | None = setting(None, metric="loss")
    shrink: float = 0.0
    cutoff: float = 0.0
    until: float = 1.0
    explore: float | Literal["auto"] = 0.0
    entropy: float = 0.0
    eliminate: float = 0.0
    landmarks: int = 0
    landmark_rounds: int = setting(5, landmarks=GIVEN)
    start: LearnedPolicy | str | None = None
    grid: int | Mapping[str, Sequence[Any]] | None = None


#: Settings that concern the whole search; the others may be tuned in the space's scope `policy`.
OF_THE_SEARCH = ("landmarks", "landmark_rounds", "start", "grid")


def as_dict(settings: FedExSettings) -> dict[str, Any]:
    """The settings, JSON-able; a file that `start` names is written out, as the file may change."""
    values = {f.name: getattr(settings, f.name) for f in fields(FedExSettings)}
    if not values["shrink"]:
        del values["shrink"]  # records of 0.2.0 know nothing of it
    start = values["start"]
    if isinstance(start, str):
        start = LearnedPolicy.load(start)
    grid = values["grid"]
    if isinstance(grid, Mapping):
        grid = {name: list(some) for name, some in grid.items()}
    return values | {"start": None if start is None else start.to_dict(), "grid": grid}


def check(settings: FedExSettings) -> None:
    """Refuse values that cannot be."""
    for name, least in (("arms", 2), ("landmarks", 0), ("landmark_rounds", 1)):
        whole_number(name, getattr(settings, name), least)
    most = {
        "gamma": 1.0,
        "explore": 1.0,
        "eliminate": 0.5,
        "entropy": math.inf,
        "cutoff": math.inf,
        "shrink": math.inf,
    }
    for name, high in most.items():
        value, may_be_auto = getattr(settings, name), name == "explore"
        if may_be_auto and value == "auto":
            continue
        if isinstance(value, str) or not 0 <= value <= high:
            allowed = "at least 0" if math.isinf(high) else f"in [0, {high:g}]"
            allowed += ", or 'auto'" if may_be_auto else ""
            raise InputError(f"{name} must be a number {allowed}, not {value!r}")
    until: Any = settings.until
    if isinstance(until, str) or not 0 < until <= 1:
        raise InputError(f"until must be a number in (0, 1], not {until!r}")
    if not 0 < settings.eps < math.inf:
        raise InputError(f"eps must be a positive number, not {settings.eps!r}")
    if settings.clip is not None and not 0 < settings.clip < math.inf:
        raise InputError(f"clip must be a positive number, or left out, not {settings.clip!r}")
    for name, known in (("steps", STEP_RULES), ("baseline", FIRST_BASELINES), ("metric", METRICS)):
        if getattr(settings, name) not in known:
            raise unknown_name(name, getattr(settings, name), known)
    if settings.grid is not None:
        _check_grid(settings)
    if settings.landmarks >= settings.arms:
        raise InputError(f"landmarks must be fewer than arms ({settings.arms}), not {settings.landmarks}")


def _check_grid(settings: FedExSettings) -> None:
    grid: Any = settings.grid
    if isinstance(grid, Mapping):
        for name, values in grid.items():
            if isinstance(values, str) or not isinstance(values, Sequence) or not values:
                raise InputError(f"grid: {name} must be a list of values, not {values!r}")
        if not grid:
            raise InputError("grid must name at least one client hyperparameter")
    else:
        whole_number("grid", grid, least=2)
    for name in ("landmarks", "start"):
        if getattr(settings, name):
            raise InputError(f"{name} goes with arms, not with a grid: leave one of them out")
