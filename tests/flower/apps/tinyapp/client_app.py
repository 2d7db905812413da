"""A client that pulls a vector towards its own point; it knows nothing of fedhpo."""

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


def target(context: Context, size: int):
    return np.full(size, 1.0 + 0.1 * int(context.node_config["partition-id"]))


@app.train()
def train(msg: Message, context: Context):
    w = msg.content["arrays"]["w"].numpy().copy()
    steps = msg.content["arrays"]["steps"].numpy()
    for _ in range(context.run_config["local-epochs"]):
        w -= msg.content["config"]["lr"] * (w - target(context, w.size))
        w *= 1 - context.run_config["params.decay"]
    w += 1e-3 * msg.content["config"]["lr"] * np.random.normal(size=w.size)  # noqa: NPY002
    count = int(context.state["count"]["calls"]) + 1 if "count" in context.state else 1
    context.state["count"] = ConfigRecord({"calls": count})
    metrics = {"num-examples": 10 + context.node_config["partition-id"], "train_loss": float(abs(w).sum())}
    arrays = ArrayRecord({"w": Array(w), "steps": Array(steps + np.int64(1))})
    return Message(RecordDict({"arrays": arrays, "metrics": MetricRecord(metrics)}), reply_to=msg)


@app.evaluate()
def evaluate(msg: Message, context: Context):
    assert msg.content["config"]["server-round"] >= 1  # as Flower's own servers say
    w = msg.content["arrays"]["w"].numpy()
    loss = float(((w - target(context, w.size)) ** 2).mean())
    said = {"eval_loss": loss, "eval_score": 1 / (1 + loss), "train_loss": float(abs(w).sum())}
    metrics = {**said, "num-examples": 5}
    return Message(RecordDict({"metrics": MetricRecord(metrics)}), reply_to=msg)
