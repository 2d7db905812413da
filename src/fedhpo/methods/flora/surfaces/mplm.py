"""MPLM: the maximum of the parties' own predictions."""

from __future__ import annotations

from fedhpo.methods.flora.surfaces.own import OfParties
from fedhpo.surrogates.cube import Floats


class MPLM(OfParties):
    """Maximum of per-party local models: a config is good only if it is good at every party.

    It is the most pessimistic surface, for parties whose data differ much. A maximum has no weights.
    """

    name = "mplm"

    def at(self, points: Floats) -> Floats:
        highest: Floats = self.of_each(points).max(axis=0)
        return highest
