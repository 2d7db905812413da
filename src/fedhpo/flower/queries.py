"""Queries as they arrive at a client: each is made again from what its `to_dict` wrote."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from fedhpo import samplers
from fedhpo.errors import InputError, unknown_name
from fedhpo.federation.local_privacy import LocalPrivacy
from fedhpo.federation.local_search import LocalSearch
from fedhpo.samplers import Sampler
from fedhpo.space import Space

_SAMPLERS: dict[str, Any] = {kind.__name__: kind for kind in (samplers.TPE, samplers.Random, samplers.GP)}


def local_search_of(given: Mapping[str, Any]) -> LocalSearch:
    """FLoRA's query.

    >>> from fedhpo.space import Float
    >>> asked = LocalSearch(Space(client={"lr": Float(0, 1)}), configs=5, privacy=LocalPrivacy(2.0))
    >>> local_search_of(asked.to_dict()) == asked
    True
    """
    values = dict(given)
    privacy = values.pop("privacy")
    if privacy is not None:
        known = ("epsilon", "unit", "sensitivity", "release")
        privacy = LocalPrivacy(**{key: privacy[key] for key in known})
    return LocalSearch(
        space=Space.from_dict(values.pop("space")),
        sampler=sampler_of(values.pop("sampler")),
        privacy=privacy,
        **values,
    )


def sampler_of(text: str) -> Sampler:
    """A sampler as it is written: its name and settings, each a plain value. Nothing is evaluated.

    >>> sampler_of("TPE(gamma=0.2, startup=None)").gamma
    0.2
    """
    call = ast.parse(text, mode="eval").body
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.args:
        raise InputError(f"sampler = {text!r}: must be a name with settings, such as TPE(gamma=0.1)")
    if call.func.id not in _SAMPLERS:
        raise unknown_name("sampler of a local search", call.func.id, _SAMPLERS)
    settings = {str(setting.arg): ast.literal_eval(setting.value) for setting in call.keywords}
    made: Sampler = _SAMPLERS[call.func.id](**settings)
    return made
