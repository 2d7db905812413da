"""The data and the model that a study names, ours or the user's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fedhpo.core.errors import InputError
from fedhpo.core.objects import call_own
from fedhpo.study.sections import Data

if TYPE_CHECKING:
    from fedhpo.data import FederatedData


def dealt_data(section: Data, given: Mapping[str, Any]) -> FederatedData:
    """The data that a study's section names: one of ours, or what the user's function returns.

    `given` is the section as it stands in the file: the function takes all its keys.
    """
    from fedhpo.data import DATASETS, FederatedData, datasets, from_clients, load

    if section.name in DATASETS:
        try:
            return load(
                section.name,
                clients=section.clients,
                partition=section.partition,
                split=section.split,
                seed=section.seed,
                path=section.path,
                part=section.part,
                **section.others,
            )
        except InputError as error:
            raise InputError(f"data: {error}") from error
    prefix = f"data.name = {section.name!r}"
    function = datasets.find(section.name, "data.name")
    ours = ("name", "mixing")
    arguments = {key: value for key, value in given.items() if key not in ours}
    found = call_own(function, arguments, prefix)
    if isinstance(found, FederatedData):
        return found.validate()
    taken: FederatedData = call_own(
        lambda: from_clients(found, seed=section.seed, name=section.name),
        {},
        f"{prefix}: what it returned",
    )
    return taken


def model_for(name: str, hyperparameters: Mapping[str, Any], data: FederatedData) -> Any:
    """The model as `simulate` takes it, after one was built with these hyperparameters."""
    from torch import nn

    from fedhpo.models import MODELS, models
    from fedhpo.models import build as build_model

    prefix = f"model.name = {name!r}"
    if name in MODELS:
        # Called like a user's own, so that what it refuses is told with the key.
        call_own(lambda: build_model(name, data.shape, data.classes or 1, **hyperparameters), {}, prefix)
        return name
    own = models.find(name, "model.name")
    if not callable(own):
        raise InputError(f"{prefix}: must be a function or a class, found {type(own).__name__}")
    built = call_own(own, dict(hyperparameters), prefix)
    if not isinstance(built, nn.Module):
        raise InputError(f"{prefix}: must build a torch.nn.Module, found {type(built).__name__}")
    return own
