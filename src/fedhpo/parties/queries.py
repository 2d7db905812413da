"""Queries as they arrive at a client: each is made again from what its `to_dict` wrote."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedhpo import samplers
from fedhpo.core.errors import InputError, unknown_name
from fedhpo.federations.remote.replies import TaskFailed, TaskMissing
from fedhpo.privacy.local import LocalPrivacy
from fedhpo.protocol.federation import Answer, Status
from fedhpo.protocol.reasons import Reason, Why
from fedhpo.protocol.sampler import Sampler
from fedhpo.queries.local_search import LocalSearch
from fedhpo.space import Space

#: Why noise that the server's seed determines is refused where clients are real.
SIMULATED = (
    "release = 'simulated' is for simulation: whoever knows the seed can subtract the noise; use 'exact'"
)
_SAMPLERS: dict[str, Any] = {kind.__name__: kind for kind in (samplers.TPE, samplers.Random, samplers.GP)}


def local_search_of(given: Mapping[str, Any]) -> LocalSearch:
    """FLoRA's query.

    >>> from fedhpo.space import Float
    >>> privacy = LocalPrivacy(5.0, release="exact")
    >>> asked = LocalSearch(Space(client={"lr": Float(0, 1)}), configs=5, privacy=privacy)
    >>> local_search_of(asked.to_dict()) == asked
    True
    """
    values = dict(given)
    privacy = values.pop("privacy")
    if privacy is not None:
        known = ("epsilon", "unit", "sensitivity", "release")
        privacy = LocalPrivacy(**{key: privacy[key] for key in known})
        if privacy.release != "exact":
            raise InputError(SIMULATED)
    return LocalSearch(
        space=Space.from_dict(values.pop("space")),
        sampler=sampler_of(values.pop("sampler")),
        privacy=privacy,
        **values,
    )


def searched(answer: Answer, tells: bool) -> tuple[dict[str, Any], dict[str, int]]:
    """The result of a client's own search and its cost; its number of rows only if it `tells`."""
    if answer.status == Status.MISSING:
        raise TaskMissing(answer.reason or Reason(Why.LATE))
    if answer.status != Status.OK:
        raise TaskFailed(answer.reason or Reason(Why.RAISED))
    size = answer.content["size"]
    content = answer.content | {"size": size if tells else min(size, 1)}
    return content, {
        "evaluations": answer.cost.evaluations,
        "samples": answer.cost.samples if tells else 0,
    }


def sampler_of(given: Mapping[str, Any]) -> Sampler:
    """A sampler by its name and settings, each a plain value.

    >>> sampler_of({"name": "TPE", "gamma": 0.2, "startup": None}).gamma
    0.2
    """
    settings = dict(given)
    name = settings.pop("name")
    if name not in _SAMPLERS:
        raise unknown_name("sampler of a local search", name, _SAMPLERS)
    made: Sampler = _SAMPLERS[name](**settings)
    return made
