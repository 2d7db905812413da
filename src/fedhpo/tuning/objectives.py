"""What is optimised, as `fedhpo.tune` and study files are told: one objective or several, and constraints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedhpo.core.errors import InputError
from fedhpo.core.settings import shown
from fedhpo.methods import Auto, Tuner
from fedhpo.methods.preset import Preset
from fedhpo.protocol.criteria import CostObjective, Criteria, aim_of
from fedhpo.protocol.method import Method
from fedhpo.protocol.objective import Objective
from fedhpo.search.evaluator import Evaluator
from fedhpo.tuning.arguments import checked_objective


def objectives_of(objective: Any, objectives: Any, constraints: Any) -> tuple[Objective, Criteria]:
    """The first objective, and what trials are judged by besides."""
    limits = _listed("constraints", constraints, "['bytes_up <= 1e6']")
    if objectives is None:
        first = checked_objective(objective)
        return first, _criteria(first, (), limits)
    if objective is not None:
        raise InputError(
            "objective and objectives: give one of them, the first of objectives is the main one"
        )
    listed = _listed("objectives", objectives, "['accuracy', 'bytes_up']")
    if not listed:
        raise InputError("objectives is empty: name at least one, such as ['accuracy', 'bytes_up']")
    try:
        first_aim = aim_of(listed[0])
    except InputError as error:
        raise InputError(f"objectives[0]: {error}") from None
    if isinstance(first_aim, CostObjective):
        raise InputError(
            f"objectives[0]: {first_aim.name} is a cost; the first objective must be a score such as "
            "'accuracy', because the best trial is the best by it: put the cost behind it"
        )
    return first_aim.objective, _criteria(first_aim.objective, listed[1:], limits)


def _criteria(first: Objective, others: Sequence[Any], constraints: Sequence[Any]) -> Criteria:
    """As `Criteria.parse`, with the place of what is wrong in the message."""
    for name, start, listed in (("objectives", 1, others), ("constraints", 0, constraints)):
        for place, one in enumerate(listed):
            alone = {"objectives": ([one], []), "constraints": ([], [one])}[name]
            try:
                Criteria.parse(first, *alone)
            except InputError as error:
                raise InputError(f"{name}[{start + place}]: {error}") from None
    return Criteria.parse(first, others, constraints)


def _listed(name: str, given: Any, example: str) -> list[Any]:
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Sequence):
        raise InputError(f"{name} must be a list, such as {example}, not {shown(given)}")
    return list(given)


def check_criteria(criteria: Criteria, method: Method | Tuner, evaluator: Evaluator) -> None:
    """Refuse methods that look at one objective only, and privacy, which pays for one score."""
    if not criteria:
        return
    what = "several objectives" if criteria.others else "constraints"
    if evaluator.privacy is not None:
        raise InputError(f"{what} cannot go with privacy: what is released of a trial is one score")
    if isinstance(method, Auto):  # it takes one that can
        return
    tuner = method.tuner() if isinstance(method, Preset) else method
    if (
        not isinstance(tuner, Tuner)
        or tuner.exchange is not None
        or not getattr(tuner.schedule, "several_objectives", True)
    ):
        raise InputError(
            f"{method.name} goes by one objective: {what} need a method made of a schedule and a sampler, "
            "such as 'sha', 'hyperband', 'bohb', 'tpe', 'gp', 'random' or 'grid'"
        )
