"""The parties' own regressors: each is fitted to the pairs of one party and sees nothing of the others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedhpo.core.streams import derive
from fedhpo.methods.flora.surfaces.surface import Surface
from fedhpo.queries.pairs import PartyPairs
from fedhpo.space import Space
from fedhpo.surrogates.cube import Cube, Floats
from fedhpo.surrogates.regressors import Regressor, regressor_class


def own_regressors(
    space: Space, parties: Sequence[PartyPairs], regressor: str, seed: int
) -> tuple[Regressor, ...]:
    """One regressor for each party, f^(i) of the paper."""
    cube, make = Cube(space), regressor_class(regressor)
    return tuple(
        make(
            cube,
            cube.points(party.configs),
            np.array(party.losses),
            np.ones(len(party.losses)),
            derive(seed, "own", party.party),
        )
        for party in parties
    )


class OfParties(Surface):
    """A surface that puts the parties' own predictions together."""

    def __init__(
        self, space: Space, parties: Sequence[PartyPairs], regressors: Sequence[Regressor], weights: Floats
    ) -> None:
        super().__init__(space, parties)
        self.regressors, self.weights = tuple(regressors), weights

    def of_each(self, points: Floats) -> Floats:
        """The prediction of each party's regressor, one row for each party."""
        return np.stack([regressor.predict(points) for regressor in self.regressors])
