"""The arms of a FedEx trial: client hyperparameters around those of its config."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from fedhpo.core.errors import InputError
from fedhpo.space import Space
from fedhpo.space.config import Config

#: Draws for each arm that is wanted: where a space holds fewer, there are fewer arms.
_DRAWS = 20


def draw_arms(
    config: Config,
    space: Space,
    count: int,
    eps: float,
    rng: np.random.Generator,
    given: Iterable[Mapping[str, Any]] = (),
) -> list[Mapping[str, Any]]:
    """`count` different arms: the config's own (the centre), then those `given`, then draws.

    Draws come from the eps-ball around the centre in the sampling scale, or from the whole space if eps is
    1 or more, as a ball of that size, clipped to the box, would mostly hold its bounds.

    >>> from fedhpo.space import Float
    >>> space = Space(client={"lr": Float(0.01, 1.0, log=True), "epochs": 1})
    >>> [arm["lr"] for arm in draw_arms(space.default(), space, 3, 0.1, np.random.default_rng(0))]
    [0.1, 0.113444821191, 0.0655223415965]
    """
    if not any(dimension.scope == "client" for dimension in space.plan):
        raise InputError("fedex has nothing to tune: the space has no client hyperparameter but fixed values")
    whole = space.subspace(["client"], config)
    found = dict.fromkeys((config.client, *given))
    for _ in range(_DRAWS * count):
        if len(found) >= count:
            break
        near = whole.sample(rng) if eps >= 1 else space.ball(config, eps, rng)
        found.setdefault(near.client)
    return list(found)[:count]
