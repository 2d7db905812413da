# %% [markdown]
# # Real clients with Flower
# Clients that train in a way of their own, with their own library, and one that breaks. Here they run in
# this process; the same two apps run unchanged in Flower's simulation and in a deployment with TLS.

# %%
from pathlib import Path

import numpy as np
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from sklearn.datasets import load_breast_cancer

import fedhpo as fh
import fedhpo.flower
from fedhpo.flower import Scored, Trained

# %% [markdown]
# ## The client
# A client has its own rows, and two functions. `train` gets the model as named arrays and the
# hyperparameters of this trial; `evaluate` scores a model. Here it is logistic regression in plain numpy.

# %%
NODES = 8


def rows(context, part):
    """A node's own rows: three quarters train, the others validate."""
    x, y = load_breast_cancer(return_X_y=True)
    mine = slice(context.node_config["partition-id"], None, NODES)
    x, y = ((x - x.mean(0)) / x.std(0))[mine], y[mine]
    cut = 3 * len(x) // 4
    return (x[:cut], y[:cut]) if part == "train" else (x[cut:], y[cut:])


def scored(arrays, x, y):
    """Loss and accuracy of a model."""
    chance = np.clip(1 / (1 + np.exp(-(x @ arrays["weights"] + arrays["bias"]))), 1e-6, 1 - 1e-6)
    return -np.mean(np.log(np.where(y == 1, chance, 1 - chance))), np.mean((chance > 0.5) == y)


def train(arrays, task, context):
    if context.node_config["partition-id"] == 3:
        raise RuntimeError("the disk is full")  # this one never works
    x, y = rows(context, "train")
    held_x, held_y = rows(context, "validation")
    before = scored(arrays, held_x, held_y)[0]
    weights, bias = arrays["weights"].copy(), arrays["bias"].copy()
    for _ in range(int(task.config["steps"])):
        off = 1 / (1 + np.exp(-(x @ weights + bias))) - y
        weights -= task.config["lr"] * (x.T @ off / len(x) + task.config["penalty"] * weights)
        bias -= task.config["lr"] * off.mean()
    new = {"weights": weights.astype(np.float32), "bias": bias.astype(np.float32)}
    after = scored(new, held_x, held_y)[0]
    return Trained(new, len(x), len(held_x), loss_before=before, loss_after=after)


def evaluate(arrays, task, context):
    x, y = rows(context, "validation")
    loss, accuracy = scored(arrays, x, y)
    return Scored(size=len(x), loss=loss, accuracy=accuracy)


names = ["lr", "penalty", "steps"]
client_app = fedhpo.flower.client(ClientApp(), train=train, evaluate=evaluate, hyperparameters=names)

# %% [markdown]
# ## The server
# It knows the first model and the space, and nothing of the clients' rows.

# %%
study = fh.Study.from_dict(
    {
        "data": {"name": "digits", "clients": NODES},  # not read: clients have rows of their own
        "model": {"name": "mlp"},  # nor is this: `model` below is
        "client": {"open": True},  # the names below are our training's own
        "space": {
            "client": {
                "lr": {"low": 0.01, "high": 10.0, "log": True},
                "penalty": {"low": 1e-4, "high": 1.0, "log": True},
                "steps": {"low": 1, "high": 20},
            }
        },
        "method": {"name": "random"},
        "budget": {"rounds": 6, "total": 48, "cohort": 5},
    }
)


def first(seed):
    return {"weights": np.zeros(30, np.float32), "bias": np.zeros(1, np.float32)}


server_app, found = ServerApp(), {}


@server_app.main()
def main(grid, context):
    found["result"] = fedhpo.flower.tune(grid, context, study, model=fedhpo.flower.Arrays(first))


run = {"run-dir": str(Path("runs/clients").absolute())}
fedhpo.flower.run_in_process(server_app, client_app, nodes=NODES, run_config=run)
result = found["result"]
result

# %% [markdown]
# ## The client that breaks
# Its rounds went on without it. The result and the report say who failed, how often, and why.

# %%
for failure in result.failures:
    print(failure["count"], "times:", failure["reason"])

# %% [markdown]
# ## In a deployment
# `fedhpo new flower my-app` writes these two apps as a project; `flwr run my-app` starts it. How to set up
# TLS, node authentication, deadlines and what a lost connection does: [real clients, through
# Flower](../../docs/flower.md). An app that exists already needs no change: [Flower apps as they
# are](../../docs/flower-apps.md).
