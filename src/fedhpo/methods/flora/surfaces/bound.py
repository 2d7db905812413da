"""The terms of the paper's optimality bound (Theorem 2.1, Eq. 2.9) that can be computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedhpo.queries.pairs import PartyPairs
from fedhpo.space import Space
from fedhpo.space.config import Config
from fedhpo.surrogates.cube import Cube
from fedhpo.surrogates.regressors import Regressor


@dataclass(frozen=True)
class BoundTerms:
    """What one party adds to the bound, its Lipschitz constants (which nobody knows) left out.

    Attributes:
        delta: delta_i, the largest error of the party's own regressor on its own pairs
        nearest: the distance from the recommended config to the nearest that the party tried
        given_up: what its own regressor expects of the config, beyond the party's own lowest loss
    """

    delta: float
    nearest: float
    given_up: float


def bound_terms(
    space: Space, parties: Sequence[PartyPairs], own: Sequence[Regressor], config: Config
) -> list[BoundTerms]:
    """The terms of each party at a config, with `Space.distance` (the paper's Eq. C.4)."""
    cube = Cube(space)
    return [
        BoundTerms(
            delta=float(np.abs(np.array(party.losses) - regressor.predict(cube.points(party.configs))).max()),
            nearest=min(space.distance(config, tried) for tried in party.configs),
            given_up=float(regressor.predict(cube.points([config]))[0]) - min(party.losses),
        )
        for party, regressor in zip(parties, own, strict=True)
    ]
