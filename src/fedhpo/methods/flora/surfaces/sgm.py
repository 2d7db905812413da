"""SGM and SGM+U: one regressor of all parties' pairs, without and with its uncertainty."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedhpo.core.errors import InputError
from fedhpo.core.streams import derive
from fedhpo.methods.flora.surfaces.surface import Surface, party_weights
from fedhpo.queries.pairs import PartyPairs
from fedhpo.space import Space
from fedhpo.surrogates.cube import Cube, Floats
from fedhpo.surrogates.regressors import Regressor, regressor_class


class SGM(Surface):
    """Single global model: f fitted to the union of the parties' pairs.

    It is the most optimistic surface: a config is good if it was good at any one party.
    """

    name = "sgm"

    def __init__(self, space: Space, parties: Sequence[PartyPairs], pooled: Regressor) -> None:
        super().__init__(space, parties)
        self.pooled = pooled

    def at(self, points: Floats) -> Floats:
        return self.pooled.predict(points)


class SGMU(SGM):
    """Single global model with uncertainty: f + alpha u.

    Where parties disagree, or hardly any has been, the trees (or the process) are unsure, and the surface
    is higher.
    """

    name = "sgm+u"

    def __init__(
        self, space: Space, parties: Sequence[PartyPairs], pooled: Regressor, alpha: float = 1.0
    ) -> None:
        super().__init__(space, parties, pooled)
        if not alpha > 0:
            raise InputError(f"alpha must be above 0, found {alpha}")
        self.alpha = alpha

    def at(self, points: Floats) -> Floats:
        mean, deviation = self.pooled.spread(points)
        return mean + self.alpha * deviation


def pooled_regressor(
    space: Space, parties: Sequence[PartyPairs], regressor: str, weighting: str, seed: int
) -> Regressor:
    """One regressor of all pairs.

    Uniform, every pair counts alike, as in the paper; by size, those of a party count together as its rows.
    """
    cube = Cube(space)
    points = np.vstack([cube.points(party.configs) for party in parties])
    losses = np.concatenate([party.losses for party in parties])
    weights = np.ones(len(losses))
    if weighting == "size":
        shares = party_weights(parties, "size")
        each = [np.full(len(p.losses), w / len(p.losses)) for p, w in zip(parties, shares, strict=True)]
        weights = np.concatenate(each) * len(losses)
    return regressor_class(regressor)(cube, points, losses, weights, derive(seed, "pooled"))
