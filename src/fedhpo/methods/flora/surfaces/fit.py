"""`fit_surface`: a loss surface by its name."""

from __future__ import annotations

from collections.abc import Sequence

from fedhpo.core.errors import InputError, unknown_name
from fedhpo.methods.flora.surfaces.aplm import APLM
from fedhpo.methods.flora.surfaces.mplm import MPLM
from fedhpo.methods.flora.surfaces.own import own_regressors
from fedhpo.methods.flora.surfaces.sgm import SGM, SGMU, pooled_regressor
from fedhpo.methods.flora.surfaces.surface import Surface, checked, party_weights
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
) -> Surface:
    """The surface of what the parties sent, all of it; `PartyPairs.best` cuts it down before.

    Parameters
    ----------
    name
        "sgm", "sgm+u", "mplm" or "aplm".
    alpha
        How much uncertainty counts in "sgm+u".
    regressor
        "forest" (100 trees, as in the paper), "forests" (three of them) or "gp".
    weighting
        "uniform", or "size": parties count by their rows. The maximum of "mplm" has no weights.
    """
    checked(space, parties, weighting)
    if name not in SURFACES:
        raise unknown_name("surface", name, SURFACES)
    if name in ("sgm", "sgm+u"):
        pooled = pooled_regressor(space, parties, regressor, weighting, seed)
        return SGM(space, parties, pooled) if name == "sgm" else SGMU(space, parties, pooled, alpha)
    if name == "mplm" and weighting != "uniform":
        raise InputError(f"weighting={weighting!r}: mplm takes the maximum over the parties; use 'uniform'")
    of_parties = MPLM if name == "mplm" else APLM
    own = own_regressors(space, parties, regressor, seed)
    return of_parties(space, parties, own, party_weights(parties, weighting))
