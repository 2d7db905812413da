"""The parties' own predictions, put together as an objective puts clients' scores together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedhpo.core.errors import InputError
from fedhpo.methods.flora.surfaces.own import OfParties
from fedhpo.protocol.objective import Objective
from fedhpo.queries.pairs import PartyPairs
from fedhpo.space import Space
from fedhpo.surrogates.cube import Floats
from fedhpo.surrogates.regressors import Regressor


class PLM(OfParties):
    """Per-party local models over the parties that are worst off ("tail"), or over the middle ones.

    For the mean it would be APLM, for "worst" MPLM.
    """

    def __init__(
        self,
        space: Space,
        parties: Sequence[PartyPairs],
        regressors: Sequence[Regressor],
        weights: Floats,
        objective: Objective,
    ) -> None:
        super().__init__(space, parties, regressors, weights)
        self.objective = objective
        self.name = f"plm ({objective.over})"

    def at(self, points: Floats) -> Floats:
        return together(self.of_each(points), self.weights, self.objective)


def together(losses: Floats, weights: Floats, objective: Objective) -> Floats:
    """One loss for each column, of one row for each party.

    >>> losses = np.array([[0.1], [0.2], [0.6], [0.9]])
    >>> [together(losses, np.ones(4), Objective(over=over, tail=0.5))[0].round(3).item()
    ...  for over in ("mean", "worst", "tail", "median", "trimmed")]
    [0.45, 0.9, 0.75, 0.4, 0.4]
    """
    if objective.over == "worst":
        return np.asarray(losses.max(axis=0))
    if objective.over == "median":
        return np.asarray(np.median(losses, axis=0))
    if objective.over == "trimmed":
        cut = int(objective.trim * len(losses) + 1e-9)
        return np.asarray(np.sort(losses, axis=0)[cut : len(losses) - cut].mean(axis=0))
    shares = np.broadcast_to((weights / weights.sum())[:, None], losses.shape)
    if objective.over == "tail":
        worst_first = np.argsort(-losses, axis=0, kind="stable")
        losses, shares = (np.take_along_axis(each, worst_first, axis=0) for each in (losses, shares))
        before = np.cumsum(shares, axis=0) - shares
        shares = np.where(before < objective.tail - 1e-12, shares, 0.0)  # those that make up the tail
    return np.asarray((shares * losses).sum(axis=0) / shares.sum(axis=0))


def check_over(surface: str, weighting: str, objective: Objective) -> None:
    """Refuse a surface that would not recommend what the objective asks for."""
    over = objective.over
    if over == "mean":
        return
    follows = "surface = 'aplm' puts the parties' own models together in this way"
    if surface.startswith("sgm"):
        raise InputError(
            f"objective over = {over!r} does not go with surface = {surface!r}, one model of all parties' "
            f"pairs: {follows}"
        )
    if surface == "mplm" and over != "worst":
        raise InputError(
            f"objective over = {over!r} does not go with surface = 'mplm', which is over = 'worst': {follows}"
        )
    if weighting != "uniform" and over != "tail":
        raise InputError(
            f"weighting = {weighting!r} has no effect with objective over = {over!r}, where parties count "
            "alike: leave it out"
        )
