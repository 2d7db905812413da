"""The tuned model in the run's directory, in formats that are read without running a program of theirs.

Torch models are kept as their state (`model.safetensors`), boosted trees in XGBoost's own format
(`model.ubj`), estimators by skops (`model.skops`), which builds only types that are trusted. `model.json`
beside it says what builds the model and what a row must go through, so that new rows need neither the study
nor its data.
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedhpo.core.errors import InputError
from fedhpo.core.settings import shown
from fedhpo.data.columns import Preparation
from fedhpo.data.encoding import Encoding
from fedhpo.protocol.federation import Federation
from fedhpo.tuning.predict import Predictor

if TYPE_CHECKING:
    from torch import nn

FACTS = "model.json"
STATE, TREES, ESTIMATOR = "model.safetensors", "model.ubj", "model.skops"
_FILES = {"torch": STATE, "trees": TREES, "estimator": ESTIMATOR}
#: Where runs of 0.2.0 have the facts: in the metadata of their only file.
_BEFORE = "fedhpo"
#: Types that estimators of scikit-learn and XGBoost consist of, beyond those that skops trusts by itself.
#: They hold numbers; none runs what a file says.
TRUSTED = frozenset(
    {
        "fedhpo.learners.boosted.BoostedTrees",
        "sklearn.calibration._CalibratedClassifier",
        "sklearn.calibration._SigmoidCalibration",
        "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
        "sklearn.metrics._dist_metrics.EuclideanDistance",
        "sklearn.metrics._dist_metrics.EuclideanDistance32",
        "sklearn.metrics._dist_metrics.EuclideanDistance64",
        "sklearn.neighbors._ball_tree.BallTree",
        "sklearn.neighbors._kd_tree.KDTree",
        "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
        "sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
        "sklearn.tree._tree.Tree",
        "xgboost.core.Booster",
        "xgboost.sklearn.XGBClassifier",
        "xgboost.sklearn.XGBRegressor",
    }
)


def keep_model(
    directory: Path | None, federation: Federation, model: Any, hyperparameters: Mapping[str, Any]
) -> bool:
    """Write the model into the run's directory; whether there is one and the model has a safe format."""
    if directory is None or model is None:
        return False
    about = federation.about
    facts, data = _written(model, about.zoo)
    if data is None:
        return False
    facts |= {"hyperparameters": dict(hyperparameters), "sha256": sha256(data).hexdigest()}
    if about.encoding is not None and about.preparation is not None:
        facts |= {"encoding": about.encoding.to_dict(), "preparation": about.preparation.to_dict()}
    _write(directory / _FILES[facts["kind"]], data)
    _write(directory / FACTS, json.dumps(facts, indent=1).encode())
    return True


def _written(model: Any, zoo: Mapping[str, Any] | None) -> tuple[dict[str, Any], bytes | None]:
    """What is to be known of the model, and its bytes; None where no safe format takes it."""
    booster: Any = getattr(model, "booster_", None)
    if hasattr(model, "state_dict"):
        from safetensors.torch import save

        tensors = {name: one.detach().cpu().contiguous().clone() for name, one in model.state_dict().items()}
        name = f"{type(model).__module__}:{type(model).__qualname__}"
        return {"kind": "torch", "class": name, "zoo": zoo}, save(tensors)
    if hasattr(booster, "save_raw") and hasattr(model, "adopt"):
        return {"kind": "trees", "classes": len(model.classes_)}, bytes(booster.save_raw("ubj"))
    try:
        from skops.io import dumps

        data: bytes = dumps(model, compression=zipfile.ZIP_DEFLATED)
        _estimator(data, "the model", trust=_untrusted(data))  # what cannot be read is not kept
    except Exception:  # skops says in many ways that it cannot: the winner is fitted again instead
        return {}, None
    return {"kind": "estimator", "class": f"{type(model).__module__}.{type(model).__qualname__}"}, data


def _write(path: Path, data: bytes) -> None:
    if path.is_file() and path.read_bytes() == data:
        return
    part = path.with_name(f"{path.name}.part")
    part.write_bytes(data)
    os.replace(part, path)


def kept_facts(directory: Path) -> dict[str, Any] | None:
    """What `model.json` holds, or the metadata of a run of 0.2.0; None where no model is kept."""
    if (directory / FACTS).is_file() and not (directory / FACTS).is_symlink():
        found: dict[str, Any] = json.loads((directory / FACTS).read_text())
        return found
    path = directory / STATE
    if not path.is_file() or path.is_symlink():
        return None
    from safetensors import safe_open

    with safe_open(path, framework="np") as file:
        before = json.loads((file.metadata() or {}).get(_BEFORE, "{}"))
    return {"kind": "torch", **before}


def load_model(directory: Path, given: Any = None, trust: Sequence[str] = ()) -> tuple[Any, Predictor | None]:
    """The model of a run, and how it predicts; None where the run keeps none, or it cannot be built.

    `given` builds the module, or is the module that takes the weights, where the model is the user's own.
    `trust` names types of an estimator that are trusted besides those of scikit-learn.
    """
    facts = kept_facts(directory)
    if facts is None:
        return None, None
    if facts["kind"] not in _FILES:
        raise InputError(f"{directory / FACTS}: kind = {shown(facts['kind'])} is not a model of fedhpo's")
    if facts["kind"] == "torch":
        model: Any = _module(_checked(directory, facts), facts, given)
    elif "sha256" not in facts:  # 0.2.0 kept trees as an array
        from safetensors.numpy import load_file

        model = _trees(load_file(directory / STATE)["booster"].tobytes(), facts)
    elif facts["kind"] == "trees":
        model = _trees(_checked(directory, facts).read_bytes(), facts)
    else:
        path = _checked(directory, facts)
        model = _estimator(path.read_bytes(), str(path), trust)
    if model is None or "encoding" not in facts:
        return model, None
    prepare = Preparation.from_dict(facts["preparation"])
    return model, Predictor(model, Encoding.from_dict(facts["encoding"]), prepare)


def _checked(directory: Path, facts: Mapping[str, Any]) -> Path:
    """The file of the model, which is the one that `model.json` was written with."""
    path = directory / _FILES[facts["kind"]]
    if not path.is_file() or path.is_symlink():
        raise InputError(f"{path}: no such file, but {FACTS} says that the run keeps its model there")
    if "sha256" in facts and sha256(path.read_bytes()).hexdigest() != facts["sha256"]:
        raise InputError(
            f"{path} is not the file that {FACTS} was written with: it was changed or is damaged"
        )
    return path


def _trees(data: bytes, facts: Mapping[str, Any]) -> Any:
    from fedhpo.learners.boosted import BoostedTrees

    return BoostedTrees().adopt(data, facts["classes"])


def _untrusted(data: bytes) -> list[str]:
    """Types in the file that skops does not trust by itself."""
    from skops.io import get_untrusted_types

    return [str(name) for name in get_untrusted_types(data=data)]


def _estimator(data: bytes, path: str, trust: Sequence[str]) -> Any:
    """The estimator, if it consists of trusted types only: nothing else is imported or built."""
    found = _untrusted(data)
    unknown = [name for name in found if name not in TRUSTED and name not in trust]
    if unknown:
        more = " ".join(f"--trust {name}" for name in unknown)
        raise InputError(
            f"{path} holds types that are not scikit-learn's: {', '.join(unknown)}; if they are yours, "
            f"say so: fedhpo predict ... {more}, or load_run(..., trust={unknown!r})"
        )
    from skops.io import loads

    return loads(data, trusted=found)


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
