"""One of eight Flower clients reports a training loss of 1e308: the run must end, also when it is resumed."""

import json
import sys
import tempfile
import warnings

import numpy as np
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.clientapp import ClientApp

import fedhpo as fh
from fedhpo.flower import Arrays, FlowerFederation, InProcessGrid, Scored, Trained, client


def train(arrays, task, context):
    after = arrays["w"] + np.float32(task.config["lr"]) * (1 - arrays["w"])
    loss = float(((1 - after) ** 2).sum())
    return Trained({"w": after}, 10, 10, 1.0, loss, 0.5, 0.5)


def evaluate(arrays, task, context):
    return Scored(10, float(((1 - arrays["w"]) ** 2).sum()), 0.5)


class Grid(InProcessGrid):
    """Node 7 forges its loss after training."""

    def answer(self, message):
        reply = super().answer(message)
        node = self.contexts[message.metadata.dst_node_id].node_config["partition-id"]
        if node != 7 or message.metadata.message_type != "train":
            return reply
        content = RecordDict()
        for name, record in reply.content.items():
            if isinstance(record, ConfigRecord):
                facts = json.loads(record["json"])
                facts["replies"] = [{**one, "loss_after": 1e308} for one in facts["replies"]]
                record = ConfigRecord({"json": json.dumps(facts)})
            content[name] = record
        return Message(content, reply_to=message)


def run(folder):
    app = client(ClientApp(), train=train, evaluate=evaluate, sizes=lambda _: {"train": 10, "validation": 10})
    model = Arrays(lambda seed: {"w": np.zeros(2, np.float32)})
    with FlowerFederation(Grid(app, 8, seed=1), model, clients=8, repeatable=True) as federation:
        space = fh.Space(client={"lr": fh.Float(0.01, 1.0, log=True)})
        method = fh.FedEx(schedule="fixed", trials=1)
        return fh.tune(federation, space, method, rounds=6, total=6, cohort=8, objective="loss", run=folder)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    said = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(2):
            try:
                said.append(run(f"{folder}/run").status)
            except Exception as error:
                said.append(f"{type(error).__name__}: {error}")
    print(f"training loss of 1e308 from one of eight clients, begun and resumed: {said}")
    sys.exit(int(said != ["finished", "finished"]))
