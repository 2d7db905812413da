"""APLM: the average of the parties' own predictions."""

from __future__ import annotations

from fedhpo.methods.flora.surfaces.own import OfParties
from fedhpo.surrogates.cube import Floats


class APLM(OfParties):
    """Average of per-party local models, uniform or weighted by size: a config is good if it is at most."""

    name = "aplm"

    def at(self, points: Floats) -> Floats:
        average: Floats = self.weights @ self.of_each(points)
        return average
