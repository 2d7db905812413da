"""`diagnose`: what the parties' pairs say about the parties, the surfaces and the recommended config."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from fedhpo.core.errors import InputError
from fedhpo.methods.flora.surfaces.bound import bound_terms
from fedhpo.methods.flora.surfaces.heterogeneity import best_scores, gamma
from fedhpo.methods.flora.surfaces.left_out import leave_out, recommend
from fedhpo.methods.flora.surfaces.own import own_regressors
from fedhpo.methods.flora.surfaces.surface import checked, party_weights
from fedhpo.pages.numbers import finite
from fedhpo.queries.pairs import PartyPairs
from fedhpo.space import Space
from fedhpo.space.config import Config


def diagnose(
    space: Space,
    parties: Sequence[PartyPairs],
    *,
    seed: int = 0,
    config: Config | None = None,
    default_losses: Sequence[float] | None = None,
    distances: Mapping[str, Any] | None = None,
    alpha: float = 1.0,
    regressor: str = "forest",
    weighting: str = "uniform",
) -> dict[str, Any]:
    """Facts about the parties and the surfaces, JSON-able; what cannot be told is None.

    Parameters
    ----------
    config
        The recommended config, for its distance to what each party tried.
    default_losses
        Each party's loss of the default config, for what its own search gained over it.
    distances
        In simulation, what `fedhpo.data.wasserstein` found between the parties' rows.

    Returns
    -------
    `gamma`, `pmin` and `pmax` (heterogeneity); `parties`: for each its `best` score, `gap` (that less the
    default's), `delta` and `nearest` (terms of the optimality bound), `given_up` (what its own model expects
    of the config beyond its own best); `optimality_gap`: the mean of what is given up. No config is better at
    every party than each one's own best, as far as they searched, so the mean loss that is expected of the
    config is at most so far from the lowest. `wasserstein`: the distances; `left_out`: the
    leave-one-party-out figures of each surface; the `recommended` surface and `why`.
    """
    checked(space, parties, weighting)
    if default_losses is not None and len(default_losses) != len(parties):
        raise InputError(
            f"default_losses must have one entry for each of {len(parties)} parties, "
            f"found {len(default_losses)}"
        )
    own = own_regressors(space, parties, regressor, seed)
    scores, differ = best_scores(parties), gamma(parties)
    settings: dict[str, Any] = {"alpha": alpha, "regressor": regressor, "weighting": weighting}
    try:
        figures, reason = leave_out(space, parties, own, seed=seed, **settings), ""
    except InputError as error:  # more pairs than a Gaussian process of all of them takes
        figures, reason = {}, f"no party was left out: {error}"
    recommended, why = recommend(figures, differ, reason)
    # Delta does not depend on the config; any will do where none was recommended.
    terms = bound_terms(space, parties, own, parties[0].configs[0] if config is None else config)
    counts = party_weights(parties, weighting)
    rows = [
        {
            "party": party.party,
            "size": party.size,
            "pairs": len(party.losses),
            "best": scores[place],
            "gap": None if default_losses is None else scores[place] - (1 - default_losses[place]),
            "delta": terms[place].delta,
            "nearest": None if config is None else terms[place].nearest,
            "given_up": None if config is None else terms[place].given_up,
        }
        for place, party in enumerate(parties)
    ]
    found: dict[str, Any] = finite(
        {
            "gamma": differ,
            "pmin": min(scores),
            "pmax": max(scores),
            "optimality_gap": None if config is None else float(counts @ [one.given_up for one in terms]),
            "parties": rows,
            "wasserstein": None if distances is None else dict(distances),
            "left_out": {name: asdict(figure) for name, figure in figures.items()},
            "recommended": recommended,
            "why": why,
        }
    )
    return found
