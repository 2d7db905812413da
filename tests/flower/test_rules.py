"""A `ClientSide` rule is resolved at the client: nothing that tells what it found comes back."""

import json

import numpy as np
from flower_cases import small_app, small_data
from flwr.clientapp import ClientApp

from fedhpo.aggregation.aggregation import Aggregation
from fedhpo.flower import Arrays, FlowerFederation, InProcessGrid, Scored, Trained, client
from fedhpo.methods.fedtune import Cells, ReferenceTable
from fedhpo.protocol.federation import Work
from fedhpo.space import Float, Int, Space

SPACE = Space(client={"lr": Float(0.01, 1.0, log=True), "epochs": Int(1, 5)})
TABLE = ReferenceTable(Cells((0.0, 1.0), (7,)), ({"lr": 0.1, "epochs": 5}, {"lr": 0.3, "epochs": 2}), SPACE)


class ListeningGrid(InProcessGrid):
    """Keeps the JSON of what comes back of training."""

    heard = ()

    def answer(self, message):
        reply = super().answer(message)
        if message.metadata.message_type == "train":
            self.heard = (*self.heard, json.loads(reply.content["fedhpo"]["json"]))
        return reply


def test_neither_config_nor_epochs_come_back():
    grid = ListeningGrid(small_app(), 8)
    with FlowerFederation(grid, "mlp", clients=8, aggregation=Aggregation()) as federation:
        federation.start(0, {}, 0)
        [report] = federation.round([Work(0, [0, 1], TABLE)])
    # `task` names what the server sent, as the server computes it too; the rule, not what became of it.
    expected = {"trial", "task", "arrays", "train_size", "validation_size"}
    expected |= {f"{metric}_{when}" for metric in ("loss", "accuracy") for when in ("before", "after")}
    assert [set(reply) for heard in grid.heard for reply in heard["replies"]] == [expected] * 2
    assert report.cost.samples == report.train_size.sum()


def test_clients_that_do_not_tell_sizes_say_only_whether_they_have_rows():
    grid = ListeningGrid(small_app(tell_sizes=False), 8)
    with FlowerFederation(grid, "mlp", clients=8, aggregation=Aggregation("uniform")) as federation:
        federation.start(0, {}, 0)
        [report] = federation.round([Work(0, [0, 1, 7], TABLE)])
        [scores] = federation.evaluate([0], [0, 7])
        assert federation.train_clients.tolist() == [0, 1, 2, 3, 4, 5, 7]
    # Client 7 has no validation rows, and so no loss.
    assert [set(one["replies"][0]) for one in grid.heard] == [
        {"trial", "task", "arrays", "loss_before", "loss_after"}
    ] * 3
    assert report.train_size.tolist() == [0, 0, 0]
    assert scores.size.tolist() == [1, 0]


def test_a_client_with_functions_of_its_own_resolves_rules_by_its_labels():
    seen = []

    def train(arrays, task, context):
        seen.append((task.client, dict(task.config), task.rule))
        return Trained(arrays, train_size=7, samples=999)

    def labels(context):
        data = small_data()
        return data.y[data.train.rows(context.node_config["partition-id"])], data.classes

    options = {"train": train, "evaluate": lambda arrays, task, context: Scored(1, 0.0)}
    model = Arrays(lambda seed: {"w": np.zeros(3)})
    with FlowerFederation(
        InProcessGrid(client(ClientApp(), labels=labels, **options), 3),
        model,
        clients=3,
        aggregation=Aggregation(),
    ) as federation:
        federation.start(0, {}, 0)
        [report] = federation.round([Work(0, [2, 0], TABLE)])
    assert report.ok.all()
    assert report.cost.samples == 2  # without `sizes` a client counts as one row
    data = small_data()
    for number, config, rule in seen:
        assert config == TABLE.resolve(data.y[data.train.rows(number)], data.classes)
        assert rule is None
    with FlowerFederation(InProcessGrid(client(ClientApp(), **options), 3), model, clients=3) as federation:
        federation.start(0, {}, 0)
        [report] = federation.round([Work(0, [0], TABLE)])
    assert "labels" in report.reasons[0].text
