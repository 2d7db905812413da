"""APLM where parties may lie: the trimmed mean of the parties' own predictions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedhpo.aggregation.sizes import WEIGHT_CAP
from fedhpo.methods.flora.surfaces.own import OfParties
from fedhpo.protocol.middle import weighted_middles
from fedhpo.queries.pairs import PartyPairs
from fedhpo.space import Space
from fedhpo.surrogates.cube import Floats
from fedhpo.surrogates.regressors import Regressor


class TrimmedAPLM(OfParties):
    """The mean over parties without the share `trim` of them at either end, at each config.

    Parties differ in how high their losses are, and that says nothing of a config: what is trimmed is how far
    a prediction lies from the median of the party's own losses. A party weighs at most two median ones.
    """

    name = "aplm (trimmed)"

    def __init__(
        self,
        space: Space,
        parties: Sequence[PartyPairs],
        regressors: Sequence[Regressor],
        weights: Floats,
        trim: float,
    ) -> None:
        capped = np.minimum(weights, WEIGHT_CAP * np.median(weights))
        super().__init__(space, parties, regressors, capped / capped.sum())
        self._trim = trim
        self._levels = np.array([float(np.median(party.losses)) for party in parties])

    def at(self, points: Floats) -> Floats:
        apart = self.of_each(points) - self._levels[:, None]
        level = weighted_middles(self._levels[None], self.weights, self._trim)
        return weighted_middles(apart.T, self.weights, self._trim) + level
