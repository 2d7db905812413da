"""`fit_surface`: a loss surface by its name."""

from __future__ import annotations

from collections.abc import Sequence

from fedhpo.core.errors import InputError, unknown_name
from fedhpo.methods.flora.surfaces.aplm import APLM
from fedhpo.methods.flora.surfaces.mplm import MPLM
from fedhpo.methods.flora.surfaces.over import PLM, check_over
from fedhpo.methods.flora.surfaces.own import own_regressors
from fedhpo.methods.flora.surfaces.sgm import SGM, SGMU, pooled_regressor
from fedhpo.methods.flora.surfaces.surface import Surface, checked, party_weights
from fedhpo.methods.flora.surfaces.trimmed import TrimmedAPLM
from fedhpo.protocol.objective import Objective
from fedhpo.queries.pairs import PartyPairs
from fedhpo.space import Space

#: The four surfaces of the paper (its Table 2), from the most optimistic on.
SURFACES = ("sgm", "sgm+u", "mplm", "aplm")


def fit_surface(
    name: str,
    space: Space,
    parties: Sequence[PartyPairs],
    *,
    seed: int,
    alpha: float = 1.0,
    regressor: str = "forest",
    weighting: str = "uniform",
    objective: Objective | None = None,
    trim: float = 0.0,
) -> Surface:
    """The surface of what the parties sent, all of it; `PartyPairs.best` cuts it down before.

    Parameters
    ----------
    name
        "sgm", "sgm+u", "mplm" or "aplm".
    alpha
        How much uncertainty counts in "sgm+u".
    regressor
        "forest" (100 trees, as in the paper), "forests" (three of them), "gp", or "cones" for few pairs.
    weighting
        "uniform", or "size": parties count by their rows. The maximum of "mplm" has no weights.
    objective
        What a config is wanted for: "aplm" puts the parties' own models together by its `over`.
    trim
        The share of parties that "aplm" leaves out at either end, where some may lie and `over` is the mean.
    """
    objective = Objective() if objective is None else objective
    checked(space, parties, weighting)
    if name not in SURFACES:
        raise unknown_name("surface", name, SURFACES)
    check_over(name, weighting, objective)
    if name in ("sgm", "sgm+u"):
        pooled = pooled_regressor(space, parties, regressor, weighting, seed)
        return SGM(space, parties, pooled) if name == "sgm" else SGMU(space, parties, pooled, alpha)
    if name == "mplm" and weighting != "uniform":
        raise InputError(f"weighting={weighting!r}: mplm takes the maximum over the parties; use 'uniform'")
    own = own_regressors(space, parties, regressor, seed)
    weights = party_weights(parties, weighting)
    if name == "mplm" or objective.over == "worst":
        return MPLM(space, parties, own, weights)
    if objective.over == "mean" and trim:
        return TrimmedAPLM(space, parties, own, weights, trim)
    if objective.over == "mean":
        return APLM(space, parties, own, weights)
    return PLM(space, parties, own, weights, objective)
