"""The tuned model in the run's directory: `model.safetensors`, which no program has to be trusted to read.

Torch models are kept as their state, boosted trees (XGBoost) in their own format; beside it stand, as text,
what builds the model and what a row must go through. Other estimators have no format that is safe to read:
they are fitted again, which the run's record allows.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedhpo.core.errors import InputError
from fedhpo.core.settings import shown
from fedhpo.data.columns import Preparation
from fedhpo.data.encoding import Encoding
from fedhpo.protocol.federation import Federation
from fedhpo.tuning.predict import Predictor

if TYPE_CHECKING:
    from torch import nn

FILE = "model.safetensors"
_FACTS = "fedhpo"


def keep_model(
    directory: Path | None, federation: Federation, model: Any, hyperparameters: Mapping[str, Any]
) -> None:
    """Write the model into the run's directory, where there is one and the model has a safe format."""
    if directory is None or model is None:
        return
    booster: Any = getattr(model, "booster_", None)
    facts: dict[str, Any] = {"hyperparameters": dict(hyperparameters)}
    if hasattr(model, "state_dict"):
        from safetensors.torch import save as save_tensors

        facts |= {"kind": "torch", "zoo": federation.about.zoo}
        tensors = {name: one.detach().cpu().contiguous().clone() for name, one in model.state_dict().items()}
        save: Any = partial(save_tensors, tensors)
    elif hasattr(booster, "save_raw"):
        from safetensors.numpy import save as save_arrays

        facts |= {"kind": "trees", "classes": len(model.classes_)}
        raw = np.frombuffer(bytes(booster.save_raw("ubj")), np.uint8)
        save = partial(save_arrays, {"booster": raw})
    else:
        return
    about = federation.about
    if about.encoding is not None and about.preparation is not None:
        facts |= {"encoding": about.encoding.to_dict(), "preparation": about.preparation.to_dict()}
    data = save(metadata={_FACTS: json.dumps(facts)})
    if (directory / FILE).is_file() and (directory / FILE).read_bytes() == data:
        return
    part = directory / f"{FILE}.part"
    part.write_bytes(data)
    os.replace(part, directory / FILE)


def load_model(directory: Path, given: Any = None) -> tuple[Any, Predictor | None]:
    """The model of a run, and how it predicts; None where the run keeps none, or it cannot be built.

    `given` builds the module, or is the module that takes the weights, where the model is the user's own.
    """
    from safetensors import safe_open

    path = directory / FILE
    if not path.is_file() or path.is_symlink():
        return None, None
    with safe_open(path, framework="np") as file:
        facts = json.loads((file.metadata() or {}).get(_FACTS, "{}"))
    if facts.get("kind") == "trees":
        model = _trees(path, facts)
    else:
        model = _module(path, facts, given)
    if model is None or "encoding" not in facts:
        return model, None
    prepare = Preparation.from_dict(facts["preparation"])
    return model, Predictor(model, Encoding.from_dict(facts["encoding"]), prepare)


def _trees(path: Path, facts: Mapping[str, Any]) -> Any:
    from safetensors.numpy import load_file

    from fedhpo.learners.boosted import BoostedTrees

    return BoostedTrees().adopt(load_file(path)["booster"].tobytes(), facts["classes"])


def _module(path: Path, facts: Mapping[str, Any], given: Any) -> nn.Module | None:
    from safetensors.torch import load_file
    from torch import nn

    zoo: Any = facts.get("zoo")
    if given is None and zoo is None:
        return None
    if isinstance(given, nn.Module):
        module = given
    elif given is None:
        from fedhpo.models import build

        module = build(zoo["name"], tuple(zoo["shape"]), zoo["classes"], **facts["hyperparameters"])
    else:
        if not callable(given):
            raise InputError(
                f"model must be a torch.nn.Module, or a function that builds one, not {shown(given)}"
            )
        module = given(**facts["hyperparameters"])
    try:
        module.load_state_dict(load_file(path))
    except RuntimeError as error:
        raise InputError(f"{path}: its weights do not fit the model: {error}") from None
    return module
