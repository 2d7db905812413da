"""FLoRA's line 7: the config of lowest predicted loss, and what can be said of it, parties and surfaces."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fedhpo.core.errors import InputError
from fedhpo.core.streams import derive
from fedhpo.methods.flora.guided import local_part
from fedhpo.methods.flora.surfaces import Surface, diagnose, minimise
from fedhpo.queries.pairs import PartyPairs
from fedhpo.space.config import Config

if TYPE_CHECKING:
    from fedhpo.methods.flora.method import FLoRA
    from fedhpo.search.search import Search

#: The page with pictures of the surface, in the run's directory, and whose pairs it shows.
PLOTS, _DRAWN = "surface.html", 8


def recommend(
    method: FLoRA, parties: Sequence[PartyPairs], surface: Surface, search: Search
) -> dict[str, Any]:
    """The config of lowest predicted loss (Eq. 2.7), and what can be said of it."""
    config, loss = minimise(surface, surface.space, derive(search.seed, "minimise"))
    diagnosed = method.diagnose and method.chosen is None  # a few noisy pairs tell nothing of parties
    if method.diagnose and search.session.kept:
        from fedhpo.methods.flora.surfaces.plots import write_plots

        try:
            write_plots(surface, config, parties[:_DRAWN], search.session.directory / PLOTS)
        except (InputError, OSError) as error:
            warnings.warn(f"{PLOTS} is left out: {error}", stacklevel=2)
    own = local_part(search.space.default())
    known = method.chosen != 1  # of one config parties send no loss
    return {
        "surface": surface.name,
        "config": config.to_dict(),
        "predicted_loss": loss if known else None,
        "predicted_default_loss": float(surface.predict([own])[0]) if known else None,
        "diagnostics": _diagnosed(method, parties, surface, config, search) if diagnosed else None,
    }


def _diagnosed(
    method: FLoRA, parties: Sequence[PartyPairs], surface: Surface, config: Config, search: Search
) -> dict[str, Any] | None:
    """Diagnostics of parties and surfaces; a run goes on where they cannot be computed."""
    own, over = local_part(search.space.default()), search.objective.over
    try:
        found = diagnose(
            surface.space,
            parties,
            seed=search.seed,
            config=config,
            default_losses=_losses_of(own, parties),
            distances=_distances(method, parties, search),
            **method.regression,
        )
    except InputError as error:
        warnings.warn(f"flora's diagnostics are left out: {error}", stacklevel=2)
        return None
    if over == "mean":
        return found
    return found | {"recommended": surface.name, "why": f"the objective is over = {over!r}"}


def _distances(method: FLoRA, parties: Sequence[PartyPairs], search: Search) -> dict[str, Any] | None:
    """Between the parties' rows, where they are at hand and not private."""
    if method.privacy is not None:
        return None
    return search.session.distances([party.party for party in parties], search.seed)


def _losses_of(config: Config, parties: Sequence[PartyPairs]) -> list[float] | None:
    """Each party's loss of a config, if all of them sent it."""
    if not all(config in party.configs for party in parties):
        return None
    return [party.losses[party.configs.index(config)] for party in parties]
