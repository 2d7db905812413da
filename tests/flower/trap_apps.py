"""Tiny Flower apps that are written into a directory: a model of two numbers, a target at each client.

Client i wants w = 1 + 0.1 i; its loss is the mean of (w - target)^2. Training is `epochs` steps of
w -= lr * (w - target). So every score can be computed by hand.
"""

from __future__ import annotations

import itertools
import sys
import textwrap
from pathlib import Path

_NUMBER = itertools.count()

TASK = """
import numpy as np


class Step:
    def __init__(self, lr=0.05, momentum=0.0):
        self.lr, self.momentum = lr, momentum


def target(partition):
    return 1 + 0.1 * partition


def fit(w, partition, lr, epochs=1):
    for _ in range(epochs):
        w = w - lr * (w - target(partition))
    return w


def loss(w, partition):
    return float(np.mean((w - target(partition)) ** 2))
"""

CLIENT = """
import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from {package}.task import Step, fit, loss, target

app = ClientApp()


@app.train()
def train(msg, context):
    {before}
    w = msg.content["arrays"]["w"].numpy()
    place = context.node_config["partition-id"]
    {train}
    metrics = {{"train_loss": loss(w, place), "num-examples": 10}}
    content = RecordDict({{"arrays": ArrayRecord({{"w": Array(w)}}), "metrics": MetricRecord(metrics)}})
    {after}
    return Message(content, reply_to=msg)

{evaluate}
"""

EVALUATE = """
@app.evaluate()
def evaluate(msg, context):
    w = msg.content["arrays"]["w"].numpy()
    place = context.node_config["partition-id"]
    metrics = {"eval_loss": loss(w, place), "num-examples": 10}
    return Message(RecordDict({"metrics": MetricRecord(metrics)}), reply_to=msg)
"""

SERVER = """
import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg, FedAvgM

from {package}.task import loss

app = ServerApp()
CALLS = []

{top}

@app.main()
def main(grid, context):
    config = context.run_config
    CALLS.append(1)
    {main}
    w = np.zeros(2)
    strategy = {strategy}
    strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord({{"w": Array(w)}}),
        num_rounds=config["num-server-rounds"],
        {start}
    )
"""

OLDER_CLIENT = """
from flwr.client import ClientApp, NumPyClient

from {package}.task import fit, loss


class Client(NumPyClient):
    def __init__(self, context):
        self.place = context.node_config["partition-id"]
        self.epochs = context.run_config["local-epochs"]

    def fit(self, parameters, config):
        w = fit(parameters[0], self.place, config["lr"], self.epochs)
        return [w], 10 + self.place, {{"train_loss": loss(w, self.place), "note": "text"}}

    {evaluate}


def client_fn(context):
    return Client(context).to_client()


app = ClientApp(client_fn=client_fn)
"""

OLDER_EVALUATE = """
    def evaluate(self, parameters, config):
        return loss(parameters[0], self.place), 10, {"accuracy": 0.5}
"""

OLDER_SERVER = """
import numpy as np
from flwr.common import ndarrays_to_parameters
from flwr.server import Server, ServerApp, ServerAppComponents, ServerConfig
from flwr.server.client_manager import SimpleClientManager
from flwr.server.strategy import FedAdam, FedAvg, FedAvgM

from {package}.task import loss


class OwnServer(Server):
    pass


def on_fit(round):
    return {{"lr": 0.4 if round < 3 else 0.1}}


def central(round, parameters, config):
    return loss(parameters[0], 0), {{"cen_accuracy": 0.25}}


def server_fn(context):
    strategy = {strategy}
    config = ServerConfig(num_rounds=context.run_config["num-server-rounds"])
    {before}
    return ServerAppComponents(strategy=strategy, config=config{more})


app = ServerApp(server_fn=server_fn)
"""

OLDER_STRATEGY = (
    "FedAvg(fraction_fit=0.5, min_available_clients=2, on_fit_config_fn=on_fit, evaluate_fn=central, "
    "initial_parameters=ndarrays_to_parameters([np.zeros(2)]))"
)


def _file(text: str, **parts: str) -> str:
    filled = text.strip("\n").format(**{name: _indented(part) for name, part in parts.items()})
    return "\n".join(line for line in filled.split("\n")) + "\n"


def _indented(part: str) -> str:
    return textwrap.dedent(part).strip("\n").replace("\n", "\n    ") if "\n" in part else part


def write_app(
    directory: Path,
    *,
    config: str = "learning-rate = 0.1\nlocal-epochs = 1\nnum-server-rounds = 3",
    train: str = 'w = fit(w, place, context.run_config["learning-rate"], context.run_config["local-epochs"])',
    before: str = "",
    after: str = "",
    evaluate: str | None = EVALUATE,
    top: str = "",
    main: str = "",
    strategy: str = "FedAvg()",
    start: str = "",
    task: str = TASK,
    older: bool = False,
    more: str = "",
    client: str | None = None,
    server: str | None = None,
) -> Path:
    """An app of its own package; what is given stands in the place of what a plain app has there."""
    package = f"trap{next(_NUMBER)}"
    place = directory / package
    (place / package).mkdir(parents=True)
    files = {"__init__": "", "task": task}
    if older:
        files["client_app"] = OLDER_CLIENT.format(
            package=package, evaluate=(evaluate or "").strip("\n").lstrip()
        )
        files["server_app"] = OLDER_SERVER.format(
            package=package, strategy=strategy, before=before, more=more
        )
    else:
        inner = {"package": package, "before": before or "pass", "train": train, "after": after or "pass"}
        files["client_app"] = client or CLIENT.format(**inner, evaluate=evaluate or "")
        files["server_app"] = server or SERVER.format(
            package=package, top=top, main=main or "pass", strategy=strategy, start=start
        )
    for name, text in files.items():
        (place / package / f"{name}.py").write_text(text.replace("PACKAGE", package), encoding="utf-8")
    (place / "pyproject.toml").write_text(
        f"""
[tool.flwr.app.components]
serverapp = "{package}.server_app:app"
clientapp = "{package}.client_app:app"
[tool.flwr.app.config]
{config}
""",
        encoding="utf-8",
    )
    return place


def module_of(app: Path, name: str):
    """One of an app's modules, imported already."""
    return sys.modules[f"{app.name}.{name}"]


def tables(app: Path, **changes):
    """A small study of an app; by default the learning rate, of its run config."""
    found = {
        "app": {"path": str(app), "clients": 4},
        "space": {"client": {"learning-rate": {"low": 0.01, "high": 1.0, "log": True}}},
        "objective": {"metric": "eval_loss", "direction": "minimize"},
        "method": {"name": "random", "trials": 2},
        "budget": {"rounds": 2, "total": 4, "cohort": 2},
    }
    return found | changes
