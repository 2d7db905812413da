"""Leave one party out: what a surface of the others is worth to it, and which surface that recommends."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedhpo.core.streams import derive
from fedhpo.methods.flora.surfaces.aplm import APLM
from fedhpo.methods.flora.surfaces.fit import SURFACES
from fedhpo.methods.flora.surfaces.mplm import MPLM
from fedhpo.methods.flora.surfaces.sgm import SGM, SGMU, pooled_regressor
from fedhpo.methods.flora.surfaces.surface import Surface, party_weights
from fedhpo.queries.pairs import PartyPairs
from fedhpo.space import Space
from fedhpo.surrogates.regressors import Regressor

#: More parties than this are left out in so many groups.
GROUPS = 10
#: From here on the parties differ so much that only MPLM degrades gracefully (the paper's section D.5).
DIFFERENT = 1.15


@dataclass(frozen=True)
class LeftOut:
    """How a surface does at parties that it knows nothing of: means over these.

    Attributes:
        error: root mean square error of the predicted losses
        rank: rank correlation (Spearman) of predicted and own losses
        regret: own loss of the config predicted best among those that the party tried, above the lowest
        deviation: standard error of the mean regret
    """

    error: float
    rank: float
    regret: float
    deviation: float


def leave_out(
    space: Space,
    parties: Sequence[PartyPairs],
    own: Sequence[Regressor],
    *,
    seed: int,
    alpha: float = 1.0,
    regressor: str = "forest",
    weighting: str = "uniform",
) -> dict[str, LeftOut]:
    """The figures of each surface; empty with a single party. `own` are the parties' own regressors."""
    if len(parties) < 2:
        return {}
    found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in SURFACES}
    for group in range(min(GROUPS, len(parties))):
        out = range(group, len(parties), GROUPS)
        stay = [place for place in range(len(parties)) if place not in out]
        known, theirs = [parties[place] for place in stay], [own[place] for place in stay]
        pooled = pooled_regressor(space, known, regressor, weighting, derive(seed, "left out", group))
        weights = party_weights(known, weighting)
        surfaces: tuple[Surface, ...] = (
            SGM(space, known, pooled),
            SGMU(space, known, pooled, alpha),
            MPLM(space, known, theirs, weights),
            APLM(space, known, theirs, weights),
        )
        for surface in surfaces:
            found[surface.name] += [_compared(surface, parties[place]) for place in out]
    return {name: _mean(figures) for name, figures in found.items()}


def _compared(surface: Surface, party: PartyPairs) -> tuple[float, float, float]:
    from scipy.stats import rankdata

    predicted, losses = surface.predict(party.configs), np.array(party.losses)
    error = math.sqrt(float(np.square(predicted - losses).mean()))
    regret = float(losses[int(np.argmin(predicted))] - losses.min())
    ranks = np.stack([rankdata(predicted), rankdata(losses)])
    flat = bool((ranks == ranks[:, :1]).all(axis=1).any())
    return error, math.nan if flat else float(np.corrcoef(ranks)[0, 1]), regret


def _mean(figures: Sequence[tuple[float, float, float]]) -> LeftOut:
    error, rank, regret = np.array(figures).T
    ranks = rank[~np.isnan(rank)]
    deviation = float(regret.std(ddof=1)) / math.sqrt(len(regret))
    return LeftOut(
        float(error.mean()),
        float(ranks.mean()) if len(ranks) else math.nan,
        float(regret.mean()),
        deviation,
    )


def recommend(figures: Mapping[str, LeftOut], gamma: float, reason: str = "") -> tuple[str, str]:
    """The surface to use, and why.

    Of the surfaces whose regret is within a standard error of the lowest: APLM, the paper's best over all;
    MPLM if the parties differ much; else the one of lowest regret. `reason` says why there are no figures.

    >>> alike = LeftOut(0.1, 0.9, 0.02, 0.01)
    >>> recommend({name: alike for name in SURFACES}, gamma=1.3)[0]
    'mplm'
    """
    favourite = "mplm" if gamma >= DIFFERENT else "aplm"
    differ = f"gamma = {gamma:.2f}: the parties differ {'much' if gamma >= DIFFERENT else 'little'}"
    if not figures:
        return favourite, f"{differ}; {reason or 'with a single party nothing can be left out'}"
    lowest = min(figures, key=lambda name: figures[name].regret)
    if figures[favourite].regret <= figures[lowest].regret + figures[lowest].deviation:
        return favourite, f"{differ}, and no surface does clearly better at a party that is left out"
    return lowest, (
        f"{differ}, but at parties left out {lowest} has a regret of {figures[lowest].regret:.4f}, "
        f"{favourite} one of {figures[favourite].regret:.4f}"
    )
