"""Ranges for those who do not know them: spaces by name, each with the publication that it is taken from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fedhpo.core.errors import InputError, unknown_name
from fedhpo.space._continuous import Float
from fedhpo.space._discrete import Int, Ordinal
from fedhpo.space._form import dotted, write
from fedhpo.space.config import SCOPES

_TREES = {
    "max_iter": Int(10, 200, default=100),
    "learning_rate": Float(1e-3, 1.0, log=True, default=0.1),
    "min_samples_leaf": Int(1, 40, default=20),
    # The baseline has 0, which no logarithm reaches: the least there is stands for it.
    "l2_regularization": Float(1e-4, 1.0, log=True, default=1e-4),
}
_FLORA = "Zhou et al., 2021 (FLoRA), appendix D.2"


@dataclass(frozen=True)
class Suggestion:
    """Hyperparameters by scope, what they are for, and where the ranges come from."""

    about: str
    source: str
    client: Mapping[str, Any] = field(default_factory=dict)
    server: Mapping[str, Any] = field(default_factory=dict)
    model: Mapping[str, Any] = field(default_factory=dict)

    @property
    def scopes(self) -> dict[str, dict[str, Any]]:
        """The hyperparameters of each scope that has some."""
        return {scope: dict(found) for scope in SCOPES if (found := getattr(self, scope, None))}


SUGGESTED: dict[str, Suggestion] = {
    "sgd": Suggestion(
        "local SGD, averaged with a server rate",
        "Khodak et al., 2021 (FedEx), and Chen et al., 2023 (FedPop); momentum up to 0.9",
        client={
            "lr": Float(1e-4, 1.0, log=True, default=0.1),
            "momentum": Float(0.0, 0.9, default=0.0),
            "weight_decay": Float(1e-5, 1e-1, log=True, default=1e-5),
            "batch_size": Ordinal([8, 16, 32, 64, 128], default=32),
            "epochs": Int(1, 5, default=1),
        },
        server={"lr": Float(0.1, 10.0, log=True, default=1.0)},
    ),
    "adamw": Suggestion(
        "local AdamW",
        "Dahl et al., 2023 (AlgoPerf), AdamW's tuning search space",
        client={
            "optimiser": "adamw",
            "lr": Float(1e-4, 1e-2, log=True, default=1e-3),
            "weight_decay": Float(5e-3, 1.0, log=True, default=1e-2),
        },
    ),
    "fedadam": Suggestion(
        "local SGD, FedAdam at the server",
        "Kuo et al., 2023 (noisy evaluation)",
        client={
            "lr": Float(1e-6, 1.0, log=True, default=0.1),
            "momentum": Float(0.0, 0.9, default=0.0),
            "batch_size": Ordinal([32, 64, 128], default=32),
        },
        server={
            "optimiser": "fedadam",
            "lr": Float(1e-6, 1e-1, log=True, default=1e-2),
            "beta1": Float(0.0, 0.9, default=0.9),
            "beta2": Float(0.0, 0.999, default=0.99),
        },
    ),
    "fedprox": Suggestion(
        "FedProx' pull towards the server's model; goes with sgd or adamw",
        "Khodak et al., 2021 (FedEx)",
        client={"prox": Float(1e-5, 1.0, log=True, default=1e-5)},
    ),
    "lora": Suggestion(
        "adapters of `fh.LoRA`, trained with AdamW",
        "holds the settings of Hu et al., 2022, and of five federated ones: see docs/finetuning.md",
        client={"optimiser": "adamw", "lr": Float(1e-6, 3e-2, log=True, default=3e-4)},
        model={"rank": Ordinal([4, 8, 16, 32], default=8), "alpha": "2 * rank"},
    ),
    "hgb": Suggestion("scikit-learn's histogram gradient boosting", _FLORA, client=_TREES),
    "xgboost": Suggestion("XGBoost, under the names of hgb", _FLORA, client=_TREES),
    "svm": Suggestion(
        "support vectors with a radial kernel",
        _FLORA,
        client={
            "C": Float(0.01, 1000.0, log=True, default=1.0),
            "gamma": Float(1e-5, 10.0, log=True, default=0.1),
            "tol": Float(1e-5, 1e-1, log=True, default=1e-3),
        },
    ),
    "mlp_sklearn": Suggestion(
        "scikit-learn's perceptron",
        _FLORA,
        client={
            "hidden_layer_sizes": Int(50, 200, default=100),
            "alpha": Float(1e-5, 1e1, log=True, default=1e-4),
            "learning_rate_init": Float(1e-5, 1e-1, log=True, default=1e-3),
        },
    ),
    "lightgbm": Suggestion(
        "LightGBM",
        "none: FLoRA's ranges of trees under LightGBM's names, around LightGBM's defaults",
        client={
            "n_estimators": Int(10, 200, default=100),
            "learning_rate": Float(1e-3, 1.0, log=True, default=0.1),
            "num_leaves": Int(4, 127, log=True, default=31),
            "min_child_samples": Int(1, 40, default=20),
            "reg_lambda": Float(1e-4, 10.0, log=True, default=1e-4),
        },
    ),
    "catboost": Suggestion(
        "CatBoost",
        "none: FLoRA's ranges of trees under CatBoost's names, around CatBoost's defaults",
        client={
            "iterations": Int(10, 200, default=100),
            "learning_rate": Float(1e-3, 1.0, log=True, default=0.1),
            "depth": Int(2, 8, default=6),
            "l2_leaf_reg": Float(0.1, 30.0, log=True, default=3.0),
        },
    ),
}


def suggested(use: Any, where: str = "use") -> dict[str, dict[str, Any]]:
    """The scopes of one suggestion, or of several, of which a later one takes precedence."""
    names = [use] if isinstance(use, str) else use
    if not isinstance(names, Sequence) or not names or not all(isinstance(name, str) for name in names):
        raise InputError(f"{where} = {use!r}: must be a name or a list of names: {', '.join(SUGGESTED)}")
    found: dict[str, dict[str, Any]] = {}
    for name in names:
        if name not in SUGGESTED:
            raise InputError(f"{where}: {unknown_name('suggestion', name, SUGGESTED)}")
        for scope, values in SUGGESTED[name].scopes.items():
            found[scope] = {**found.get(scope, {}), **values}
    return found


def with_suggested(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """A study's tables with those of `space.use` written out; what the study says itself takes precedence."""
    space = given.get("space")
    if not isinstance(space, Mapping) or space.get("use") is None:
        return given
    rest = {key: value for key, value in space.items() if key != "use"}
    for scope, table in write(suggested(space["use"], "space.use")).items():
        own, beside = rest.get(scope, {}), given.get(scope)
        if isinstance(own, Mapping):
            fixed = beside if isinstance(beside, Mapping) else {}
            kept = {key: value for key, value in table.items() if key not in fixed}
            rest[scope] = {**kept, **dotted(own)}
    return {**given, "space": rest}
