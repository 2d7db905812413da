"""What becomes of messages: errors, retries, deadlines, quorum, and answers to queries."""

import json
from dataclasses import dataclass

import numpy as np
import pytest
from flower_cases import Clock
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, RecordDict
from flwr.clientapp import ClientApp

from fedhpo.aggregation.aggregation import Aggregation
from fedhpo.core.errors import InputError
from fedhpo.flower import Arrays, FlowerFederation, InProcessGrid, Scored, Trained, client
from fedhpo.protocol.federation import Status, Work
from fedhpo.protocol.reasons import Reason, Why

MODEL = Arrays(lambda seed, width=2: {"w": np.zeros(width)})


def train(arrays, task, context):
    """Client k moves by k + 1 times lr; one of size 0.25 fails."""
    if task.config["lr"] == 0.25:
        raise RuntimeError("no power")
    return Trained({"w": arrays["w"] + np.float32(task.config["lr"] * (task.client + 1))}, train_size=2)


def evaluate(arrays, task, context):
    return Scored(size=3, loss=float(arrays["w"].sum()), accuracy=0.5)


def app(**options):
    return client(ClientApp(), train=train, evaluate=evaluate, **options)


class FaultyGrid(InProcessGrid):
    """Answers the first messages of training to some nodes with an error of Flower's."""

    def __init__(self, errors, **options):
        super().__init__(app(), 4, **options)
        self.errors, self.sent = {place: list(codes) for place, codes in errors.items()}, 0

    def answer(self, message):
        place = self.contexts[message.metadata.dst_node_id].node_config["partition-id"]
        if message.metadata.message_type == "train":
            self.sent += 1
            if self.errors.get(place):
                return Message(Error(self.errors[place].pop(0), "as it were"), reply_to=message)
        return super().answer(message)


def one_round(grid, cohort=(0, 1, 2, 3), **options):
    with FlowerFederation(grid, MODEL, clients=4, aggregation=Aggregation(), **options) as federation:
        federation.start(0, {}, 0)
        [report] = federation.round([Work(0, cohort, {"lr": 1.0})])
        return report, federation.model(0)["w"]


@pytest.mark.parametrize(
    ("code", "status", "reason"),
    [
        (0, Status.FAILED, "unknown error"),
        (1, Status.FAILED, "could not be loaded"),
        (2, Status.FAILED, "raised an exception"),
        (3, Status.MISSING, "the message expired"),
        (4, Status.MISSING, "its reply expired"),
        (5, Status.MISSING, "its node has gone"),
        (8, Status.FAILED, "process died"),
        (77, Status.FAILED, "error 77 of Flower"),
    ],
)
def test_flowers_errors_are_failed_or_missing_with_the_reason(code, status, reason):
    report, weights = one_round(FaultyGrid({2: [code]}), retries=0)
    assert report.status.tolist() == [0, 0, status, 0]
    assert list(report.reasons) == [2]
    assert report.reasons[2].text.endswith(f"{reason}: as it were")
    assert weights == pytest.approx((1 + 2 + 4) / 3)  # clients of equal size, without the third


def test_what_may_pass_is_tried_again():
    report, weights = one_round(FaultyGrid({1: [5, 8]}), retries=2)
    assert report.ok.all()
    assert weights.tolist() == [2.5, 2.5]
    grid = FaultyGrid({1: [2]})
    report, _ = one_round(grid, retries=2)
    assert report.status.tolist() == [0, Status.FAILED, 0, 0]  # an exception would come again
    assert grid.sent == 4


def test_without_a_quorum_a_round_does_not_count():
    report, weights = one_round(FaultyGrid({1: [2], 3: [2]}), quorum=3)
    assert not report.applied
    assert report.round == 0
    assert weights.tolist() == [0.0, 0.0]
    report, _ = one_round(FaultyGrid({1: [2], 3: [2]}), quorum=2)
    assert report.applied
    # Of a cohort smaller than the quorum, all must reply.
    report, _ = one_round(FaultyGrid({}), cohort=(0, 1), quorum=3)
    assert report.applied


def test_a_function_that_raises_is_a_failed_client():
    with FlowerFederation(InProcessGrid(app(), 4), MODEL, clients=4) as federation:
        federation.start(0, {}, 0)
        [report] = federation.round([Work(0, [0, 1], [{"lr": 0.25}, {"lr": 1.0}])])
    assert report.status.tolist() == [Status.FAILED, Status.OK]
    assert report.reasons == {0: Reason(Why.RAISED, "RuntimeError: no power (test_mailbox.py:24, in train)")}


def test_a_deadline_is_for_each_task_of_a_message():
    """Two trials at one silent client wait twice as long as one."""
    from flower_cases import SilentGrid

    waited = []
    for trials in (1, 2):
        clock = Clock()
        federation = FlowerFederation(
            SilentGrid(app(), 4), MODEL, clients=4, deadline=100, clock=clock, sleep=clock.sleep
        )
        for trial in range(trials):
            federation.start(trial, {}, 0)
        reports = federation.round([Work(trial, [2], {"lr": 1.0}) for trial in range(trials)])
        assert [r.reasons[0].text for r in reports] == [f"no reply within {100 * trials} s"] * trials
        waited.append(clock())
    assert waited == pytest.approx([100, 200], abs=2)


def test_named_arrays_of_another_model_travel_as_they_are():
    grid, mean = InProcessGrid(app(), 4), Aggregation()
    with FlowerFederation(grid, MODEL, clients=4, server="fedavgm", aggregation=mean) as federation:
        federation.start(0, {"width": 5}, 0)
        federation.round([Work(0, [0, 1], {"lr": 1.0}, {"lr": 2.0, "momentum": 0.5})])
        assert federation.model(0)["w"].tolist() == [3.0] * 5  # twice the mean of 1 and 2
        [scores] = federation.evaluate([0], [3, 1])
        assert scores.loss.tolist() == [15.0, 15.0]
        assert scores.size.tolist() == [1, 1]  # no more than they announced


@dataclass(frozen=True)
class Count:
    """A query of a user's own."""

    upto: int
    name = "count"

    def to_dict(self):
        return {"upto": self.upto}


def test_a_query_of_ones_own():
    def count(asked, arrays, task, context):
        return {"numbers": list(range(asked["upto"])), "of": task.client}, {"evaluations": 4}

    grid = InProcessGrid(app(queries={"count": count}), 4)
    with FlowerFederation(grid, MODEL, clients=4) as federation:
        answers = federation.query(Count(3), [2, 0])
    assert [answer.content for answer in answers] == [{"numbers": [0, 1, 2], "of": k} for k in (2, 0)]
    assert answers[0].cost.evaluations == 4
    assert answers[0].cost.bytes_down == len('{"upto":3}')
    assert answers[0].cost.bytes_up == len('{"numbers":[0,1,2],"of":2}')


def test_a_query_that_clients_do_not_know_fails_at_each_of_them():
    with FlowerFederation(InProcessGrid(app(), 4), MODEL, clients=4) as federation:
        [answer] = federation.query(Count(3), [1])
    assert answer.status == Status.FAILED
    assert "count" in answer.reason.text


def test_a_client_app_of_ones_own_speaks_the_contracts():
    """The three kinds of message, answered without any of fedhpo's code."""
    own = ClientApp()

    def reply(message, replies, records=None):
        text = json.dumps({"format": 1, "replies": replies})
        content = RecordDict({"fedhpo": ConfigRecord({"json": text}), **(records or {})})
        return Message(content, reply_to=message)

    @own.query("hello")
    def hello(message, context):
        sizes = {"train": 4, "validation": 2, "test": 0}
        return reply(message, [{"answer": {"name": context.node_config["name"], "sizes": sizes}}])

    @own.train()
    def train(message, context):
        [task] = json.loads(message.content["fedhpo"]["json"])["tasks"]
        [before] = message.content[task["arrays"]].to_numpy_ndarrays()
        after = ArrayRecord({"w": Array(before - np.float32(task["config"]["lr"]))})
        answer = {"trial": task["trial"], "arrays": "after", "train_size": 4, "loss_after": 0.5}
        return reply(message, [answer], {"after": after})

    @own.evaluate()
    def evaluate(message, context):
        [task] = json.loads(message.content["fedhpo"]["json"])["tasks"]
        [arrays] = message.content[task["arrays"]].to_numpy_ndarrays()
        return reply(message, [{"trial": task["trial"], "size": 2, "loss": float(arrays.sum())}])

    grid = InProcessGrid(own, [{"name": "west"}, {"name": "east"}])
    with FlowerFederation(grid, MODEL, clients=2) as federation:
        federation.start(7, {}, 0)
        [report] = federation.round([Work(7, [1, 0], {"lr": 0.5})])
        [scores] = federation.evaluate([7], [0, 1])
    assert report.loss_after.tolist() == [0.5, 0.5]
    assert report.train_size.tolist() == [4, 4]
    assert scores.loss.tolist() == [-1.0, -1.0]
    assert np.isnan(scores.accuracy).all()


def test_a_client_is_given_a_study_or_functions():
    with pytest.raises(InputError, match="study"):
        client(ClientApp())
    with pytest.raises(InputError, match="evaluate is missing"):
        client(ClientApp(), train=train)
