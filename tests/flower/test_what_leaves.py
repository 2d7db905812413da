"""What a server that listens learns of clients that look themselves up: what the docs say, on the wire."""

import json
from dataclasses import replace

import numpy as np
import pytest
from flower_cases import SMALL, small_app
from flwr.clientapp import ClientApp

import fedhpo.parties.answers
from fedhpo.aggregation.aggregation import Aggregation
from fedhpo.core.errors import InputError
from fedhpo.data import Split, from_clients
from fedhpo.federations.flower.arrays import decode
from fedhpo.federations.flower.messages import arrays_of, facts
from fedhpo.flower import Arrays, FlowerFederation, InProcessGrid, Scored, Trained, client
from fedhpo.methods.fedtune import Cells, ProfileQuery, ReferenceTable
from fedhpo.parties.hold import Held
from fedhpo.protocol.federation import Work
from fedhpo.space import Float, Int, Space
from fedhpo.study import Study

SPACE = Space(client={"lr": Float(0.001, 1.0, log=True), "epochs": Int(1, 50)})


def table(few, many):
    """Index 0 and index 1: rate and epochs of each."""
    configs = [{"lr": lr, "epochs": epochs} for lr, epochs in (few, many)]
    return ReferenceTable(Cells((0.0, 1.0), (10,)), configs, SPACE)


class Wire(InProcessGrid):
    """Hears what every reply says, its arrays, and when it came."""

    def __init__(self, app, nodes, clock=lambda: 0.0):
        super().__init__(app, nodes)
        self.heard, self.clock = [], clock

    def answer(self, message):
        begin = self.clock()
        reply = super().answer(message)
        said = json.loads(reply.content["fedhpo"]["json"])
        self.heard.append((message.metadata.message_type, said, (message, reply), self.clock() - begin))
        return reply

    def of(self, kind):
        return [one for one in self.heard if one[0] == kind]


def test_an_accuracy_tells_the_size_that_a_round_leaves_out():
    """ "Its size stays" held for rounds only: a few evaluations give it away, as the docs now say."""
    rng = np.random.default_rng(0)
    held = [11, 17, 23]

    def rows(count):
        return rng.normal(size=(count, 6)).astype(np.float32), rng.integers(0, 3, count)

    data = from_clients([{"train": rows(12), "validation": rows(n)} for n in held], classes=3)
    method = {"name": "fedtune", "table": "t.json"}
    budget = {"rounds": 3, "cohort": 3}
    tables = {**SMALL.given, "server": {"weighting": "uniform"}, "method": method, "budget": budget}
    app = client(
        ClientApp(), study=Study.from_dict(tables), data=lambda c: one_of(data, c.node_config["partition-id"])
    )
    grid = Wire(app, 3)
    with FlowerFederation(grid, "mlp", clients=3, aggregation=Aggregation("uniform")) as federation:
        for trial in range(12):
            federation.start(trial, {}, trial)
        federation.round([Work(0, [0, 1, 2], table((0.1, 1), (0.1, 2)))])
        for trial in range(12):
            federation.evaluate([trial], [0, 1, 2])
    said = [reply for _, one, *_ in grid.of("train") for reply in one["replies"]]
    assert all(set(reply) == {"trial", "task", "arrays", "loss_before", "loss_after"} for reply in said)
    sizes = [one["replies"][0]["answer"]["sizes"] for _, one, *_ in grid.of("query.hello")]
    assert all(set(one.values()) <= {0, 1} for one in sizes)
    heard = [reply for _, one, *_ in grid.of("evaluate") for reply in one["replies"]]
    assert {reply["size"] for reply in heard} == {1}
    shares = np.array([reply["accuracy"] for reply in heard]).reshape(12, 3)
    assert [rows_behind(shares[:, place]) for place in range(3)] == held


def one_of(data, place):
    def own(split):
        return Split.from_lists([split.rows(place)])

    return replace(data, train=own(data.train), validation=own(data.validation), test=own(data.test))


def rows_behind(shares):
    """The smallest number that has all of these for whole multiples of its inverse."""
    return next(n for n in range(1, 100) if np.allclose(shares * n, np.round(shares * n), atol=1e-6))


def test_an_update_tells_which_cell_was_looked_up():
    """No message states the profile; the length of the update does, where the cells' rates are far apart."""
    data = [np.arange(12) % 3, np.zeros(12, np.int64)]
    rng = np.random.default_rng(1)
    clients = from_clients(
        [{"train": (rng.normal(size=(12, 6)).astype(np.float32), data[i % 2])} for i in range(8)], classes=3
    )
    grid = Wire(small_app(data=lambda c: one_of(clients, c.node_config["partition-id"])), 8)
    with FlowerFederation(grid, "mlp", clients=8, aggregation=Aggregation()) as federation:
        federation.start(0, {}, 0)
        federation.round([Work(0, list(range(8)), table((0.3, 5), (0.003, 1)), scores=())])
    words = json.dumps([one for _, one, *_ in grid.of("train")])
    assert not any(word in words for word in ("lr", "epochs", "index", "0.003"))
    lengths = [length(*pair) for _, _, pair, _ in grid.of("train")]
    even, skewed = lengths[0::2], lengths[1::2]
    assert min(even) > 10 * max(skewed)


def length(message, reply):
    """Of the update: the model that came back minus the one that was sent."""
    [task], [said] = facts(message)["tasks"], json.loads(reply.content["fedhpo"]["json"])["replies"]
    sent, back = decode(arrays_of(message, task["arrays"])), decode(arrays_of(reply, said["arrays"]))
    return sum(float(((back[name] - sent[name]) ** 2).sum()) for name in sent)


class Clock:
    now = 0.0

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


@pytest.mark.parametrize("hold", [0.0, 60.0])
def test_the_time_of_a_reply_tells_epochs_unless_it_is_held_back(hold, monkeypatch):
    """FedTune adds that to what plain averaging tells, and `hold_replies` takes it away."""
    clock = Clock()
    monkeypatch.setattr(fedhpo.parties.answers, "Held", lambda seconds: Held(seconds, clock, clock.sleep))

    def train(arrays, task, context):
        clock.sleep(task.config["epochs"])
        return Trained(arrays, train_size=7)

    app = client(
        ClientApp(),
        train=train,
        evaluate=lambda arrays, task, context: Scored(1, 0.0),
        labels=lambda context: (np.arange(9) % (1 + 2 * (context.node_config["partition-id"] % 2)), 3),
        hold_replies=hold,
    )
    grid = Wire(app, 4, clock)
    model = Arrays(lambda seed: {"w": np.zeros(3)})
    with FlowerFederation(grid, model, clients=4, aggregation=Aggregation()) as federation:
        federation.start(0, {}, 0)
        federation.round([Work(0, [0, 1, 2, 3], table((0.1, 3), (0.1, 50)))])
    times = [time for *_, time in grid.of("train")]
    assert times == ([50.0, 3.0, 50.0, 3.0] if not hold else [60.0] * 4)


def test_who_takes_longer_is_warned():
    clock = Clock()
    with pytest.warns(UserWarning, match=r"took 2\.0 s longer than hold_replies = 3"):
        Held(3.0, clock, clock.sleep)(lambda: clock.sleep(5.0))
    with pytest.raises(InputError, match="hold_replies must be"):
        Held(-1.0)
    with pytest.raises(InputError, match=r"flower\.hold_replies = 600: must be less than flower\.deadline"):
        Study.from_dict({**SMALL.given, "flower": {"hold_replies": 600.0}})


def test_the_study_says_how_long_replies_are_held(monkeypatch):
    seconds = []
    monkeypatch.setattr(fedhpo.parties.answers, "Held", lambda s: seconds.append(s) or Held(0.0))
    grid = Wire(small_app(Study.from_dict({**SMALL.given, "flower": {"hold_replies": 2.5}})), 8)
    with FlowerFederation(grid, "mlp", clients=8, aggregation=Aggregation()) as federation:
        federation.start(0, {}, 0)
        federation.round([Work(0, [0, 1], table((0.1, 1), (0.1, 2)))])
    assert seconds == [2.5, 2.5]


def asked_of_all(asked, **options):
    """A federation of eight clients, and what seven of them tell."""
    grid = InProcessGrid(small_app(**options), 8)
    federation = FlowerFederation(grid, "mlp", clients=8, aggregation=Aggregation())
    return federation, federation.query(asked, [0, 1, 2, 3, 4, 5, 7])


def test_a_client_tells_its_cell_once_with_noise_of_its_own_and_only_if_it_lists_the_query():
    """The server asks for noise that it could undo, with the same seed: runs differ all the same."""
    asked = ProfileQuery((0.0, 0.5, 1.0), (5, 10, 20), epsilon=0.01, seed=3)
    federation, answers = asked_of_all(asked, queries=[ProfileQuery])
    told = [answer.content for answer in answers]
    assert set(told) <= set(range(9))
    # Asked again, with whatever seed, it says the same; it does not answer for other cells.
    again = federation.query(replace(asked, seed=99), [0, 1, 2, 3, 4, 5, 7])
    assert [answer.content for answer in again] == told
    [refused] = federation.query(replace(asked, quantities=(5, 20)), [0])
    assert "was answered in this run, for another question" in refused.reason.text
    federation.close()
    federation, answers = asked_of_all(asked, queries=[ProfileQuery])
    federation.close()
    assert [answer.content for answer in answers] != told  # alike by chance: once in five million
    federation, answers = asked_of_all(asked)
    federation.close()
    assert {answer.content for answer in answers} == {None}
