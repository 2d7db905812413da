"""How each example is tuned: its stand-ins, its space, its objective; or why it is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

LOSS = {"metric": "eval_loss", "direction": "minimize"}
PLAIN_LOSS = {"metric": "loss", "direction": "minimize"}
ACCURACY = {"metric": "accuracy", "direction": "maximize"}
TRAINING = {"metric": "train_loss", "direction": "minimize", "from": "training"}


def rate(low: float, high: float) -> dict[str, Any]:
    """A range of a learning rate."""
    return {"low": low, "high": high, "log": True}


@dataclass(frozen=True)
class Case:
    """An example, and what is expected of it."""

    setup: str = "data:install"
    space: Mapping[str, Any] = field(default_factory=dict)
    objective: Mapping[str, Any] = field(default_factory=lambda: LOSS)
    #: Words of the refusal; empty where it is tuned.
    refused: str = ""
    group: str = ""
    path: str | None = None
    app: Mapping[str, Any] = field(default_factory=dict)
    rounds: int = 2


def client(**values: Any) -> dict[str, Any]:
    """A space of client hyperparameters."""
    return {"client": values}


def named(name: str, low: float, high: float) -> dict[str, Any]:
    """A space of one value in the app's code."""
    return {"client": {name: rate(low, high)}}


RATE = {"learning-rate": rate(1e-3, 0.5)}
LLM = {
    "client": {
        "train.learning-rate-max": rate(1e-4, 1e-1),
        "train.training-arguments.per-device-train-batch-size": {"value": 4},
    }
}
OWN_LOOP = "fedhpo.flower.tune(grid, context, study)"
FINE, CODE = "fine-tuning", "literals"

EXAMPLES: dict[str, Case] = {
    "advanced-pytorch": Case("weights:advanced", client(lr=rate(1e-3, 0.5))),
    "custom-mods": Case("weights:advanced", client(**RATE)),
    "embedded-devices": Case(
        "weights:from_disk", client(**RATE), app={"node_config": {"dataset-path": "mnist-{}"}}
    ),
    "federated-analytics": Case(refused=OWN_LOOP),
    "federated-kaplan-meier-fitter": Case(refused="failed before training began|" + OWN_LOOP),
    "federated-vae": Case(space=client(**RATE), objective=PLAIN_LOSS),
    "fedrag": Case("weights:fedrag", refused=OWN_LOOP),
    "fl-dp-sa": Case(refused="SecAgg+"),
    "fl-tabular": Case(space=named("task:optim.Adam.lr", 1e-4, 0.1), objective=PLAIN_LOSS, group=CODE),
    "flower-secure-aggregation": Case(refused="SecAgg+"),
    "flower-simulation-step-by-step-pytorch": Case(
        "weights:advanced", client(lr=rate(1e-3, 0.5)), PLAIN_LOSS, path="my-awesome-app"
    ),
    "flowertune-llm": Case("weights:llm", LLM, TRAINING, group=FINE),
    "flowertune-llm-code": Case("weights:llm", LLM, TRAINING, group=FINE),
    "flowertune-llm-finance": Case("weights:llm", LLM, TRAINING, group=FINE),
    "flowertune-llm-general-nlp": Case("weights:llm", LLM, TRAINING, group=FINE),
    "flowertune-llm-medical": Case("weights:llm", LLM, TRAINING, group=FINE),
    "flowertune-vit": Case(
        "weights:vit",
        client(**{"learning-rate": rate(1e-4, 0.1)}),
        {"metric": "accuracy", "direction": "maximize", "from": "server"},
        group=FINE,
    ),
    "opacus": Case(space=named("client_app:torch.optim.SGD.lr", 1e-3, 0.5), objective=PLAIN_LOSS, group=CODE),
    "quickstart-catboost": Case(refused=OWN_LOOP),
    "quickstart-fastai": Case(
        "weights:fastai", named("client_app:Learner.lr", 1e-4, 1e-1), group=CODE, rounds=1
    ),
    "quickstart-huggingface": Case(
        "weights:huggingface", named("task:AdamW.lr", 1e-5, 1e-1), PLAIN_LOSS, group=CODE
    ),
    "quickstart-jax": Case("weights:jax", space=client(**RATE), objective=LOSS),
    "quickstart-lerobot": Case(
        "weights:lerobot", client(**{"local-epochs": {"low": 2, "high": 6}}), objective=PLAIN_LOSS
    ),
    "quickstart-mlx": Case(space=client(**RATE), objective=ACCURACY),
    "quickstart-monai": Case(
        "weights:monai", named("task:torch.optim.Adam.lr", 1e-5, 1e-1), objective=LOSS, group=CODE
    ),
    "quickstart-numpy": Case(
        space=client(**{"num-server-rounds": {"low": 2, "high": 4}}),
        objective={"metric": "random_metric[0]", "direction": "minimize"},
    ),
    "quickstart-pandas": Case(refused=OWN_LOOP),
    "quickstart-pennylane": Case(space=client(**RATE)),
    "quickstart-pytorch": Case(space=client(**RATE)),
    "quickstart-pytorch-lightning": Case(
        space=named("task:torch.optim.Adam.lr", 1e-4, 1e-1), objective=LOSS, group=CODE
    ),
    "quickstart-sklearn": Case(space=client(penalty={"choices": ["l2", "l1"]}), objective=ACCURACY),
    "quickstart-tensorflow": Case("weights:tensorflow", client(**{"batch-size": {"choices": [16, 32]}})),
    "quickstart-xgboost": Case(
        space={"client": {"params.eta": rate(0.01, 1.0)}},
        objective={"metric": "auc", "direction": "maximize"},
    ),
    "supernode-authentication": Case(
        "weights:from_disk", client(**RATE), app={"node_config": {"dataset-path": "cifar-{}"}}
    ),
    "vertical-fl": Case(refused=OWN_LOOP, app={"clients": 3}),
    "whisper-federated-finetuning": Case(
        "weights:whisper",
        {"client": {"client_app:torch.optim.Adam.lr": rate(1e-4, 1e-1), "batch-size": {"value": 4}}},
        TRAINING,
        group=FINE,
    ),
    "xgboost-comprehensive": Case(
        "weights:higgs",
        space={"client": {"params.eta": rate(0.01, 1.0)}},
        objective={"metric": "auc", "direction": "maximize"},
    ),
}

BASELINES: dict[str, Case] = {
    "fedbn": Case(refused="a subclass of flwr.server.Server"),
    "fedprox": Case(refused="a subclass of flwr.server.Server"),
    "fedrep": Case("weights:fedrep", space=client(**RATE), objective=PLAIN_LOSS),
    "floco": Case(
        "weights:floco", space=client(**{"local-epochs": {"low": 1, "high": 2}}), objective=PLAIN_LOSS
    ),
    "statavg": Case(refused="a subclass of flwr.server.Server"),
}
