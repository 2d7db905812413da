"""Hostile clients: whatever they send is rejected and reported, and the run is as if they had failed."""

import io
import json

import numpy as np
import pytest
from flower_cases import SMALL, Clock, small_app
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict

from fedhpo.flower import InProcessGrid
from fedhpo.flower.server_app import federation_of
from fedhpo.protocol.federation import Status, Work
from fedhpo.study import Study

HOSTILE = (1, 4)
STUDY = Study.from_dict(
    {
        **SMALL.given,
        "method": {"name": "fedex", "trials": 3},
        "budget": {"rounds": 3, "total": 9, "cohort": 4},
        "flower": {"clients": 8, "most_rows": 500, "deadline": 60.0},
    }
)


def forged(message, reply, change=lambda facts: facts, arrays=lambda name, record: record):
    """The honest reply with its facts or arrays changed."""
    content = RecordDict()
    for name, record in reply.content.items():
        if isinstance(record, ArrayRecord):
            content[name] = arrays(name, record)
        else:
            facts = json.loads(record["json"])
            facts["replies"] = [change(dict(one)) for one in facts["replies"]]
            content[name] = ConfigRecord({"json": json.dumps(facts)})
    return Message(content, reply_to=message)


def with_arrays(make):
    """A lie that puts other arrays in place of the model's."""

    def lie(message, reply):
        def arrays(_, record):
            return ArrayRecord({key: make(value.numpy()) for key, value in record.items()})

        return [forged(message, reply, arrays=arrays)]

    return lie


def with_facts(**values):
    """A lie about these facts."""
    return lambda message, reply: [forged(message, reply, lambda facts: facts | values)]


def ten_gigabytes(array):
    """A header that announces 10 GB, and a few bytes."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f4", "fortran_order": False, "shape": (2_684_354_560,)}
    )
    return Array("float32", array.shape, "numpy.ndarray", header.getvalue() + b"\0" * 64)


def objects(array):
    """An array that would have to be unpickled."""
    file = io.BytesIO()
    np.save(file, np.array([{"not": "floats"}], dtype=object), allow_pickle=True)
    return Array("object", (1,), "numpy.ndarray", file.getvalue())


def by_another_node(message, reply):
    reply.metadata.__dict__["_src_node_id"] = 12345
    return [reply]


def not_asked_for(message, reply):
    reply.metadata.__dict__["_reply_to_message_id"] = "made up"
    return [reply]


#: Name, lie, what the reason must say, and what is counted.
LIES = {
    "nan": (with_arrays(lambda a: Array(a * np.float32(np.nan))), "NaN", "rejected replies"),
    "infinite": (with_arrays(lambda a: Array(a + np.float32(np.inf))), "NaN or inf", "rejected replies"),
    "shape": (with_arrays(lambda a: Array(np.zeros((3, 3), np.float32))), "shape", "rejected replies"),
    "dtype": (with_arrays(lambda a: Array(a.astype(np.float64))), "float64", "rejected replies"),
    "10 GB": (with_arrays(ten_gigabytes), "2684354560", "rejected replies"),
    "pickle": (with_arrays(objects), "object", "rejected replies"),
    "no rows": (with_facts(train_size=0), "train_size is 0", "rejected replies"),
    "negative rows": (with_facts(train_size=-5), "train_size is -5", "rejected replies"),
    "rows above the cap": (with_facts(train_size=501), "1..500", "rejected replies"),
    "rows as text": (with_facts(train_size="9"), "whole number", "rejected replies"),
    "negative validation": (with_facts(validation_size=-1), "validation_size", "rejected replies"),
    "loss as text": (with_facts(loss_after="low"), "loss_after", "rejected replies"),
    "loss of 400 digits": (with_facts(loss_after=10**400), "loss_after", "rejected replies"),
    "accuracy": (with_facts(accuracy_after=1.5), "accuracy_after", "rejected replies"),
    "another trial": (with_facts(trial=77), "trial 77", "rejected replies"),
    "no arrays": (with_facts(arrays="model-9"), "model-9", "rejected replies"),
    "not json": (
        lambda m, r: [Message(RecordDict({"fedhpo": ConfigRecord({"json": "{"})}), reply_to=m)],
        "JSON",
        "rejected replies",
    ),
    "nothing": (lambda m, r: [Message(RecordDict(), reply_to=m)], "no text", "rejected replies"),
    "duplicate": (lambda m, r: [r, r], "more than once", "duplicate replies"),
    "another node": (by_another_node, "another node", "replies by another node"),
    "not asked for": (not_asked_for, "no reply within", "replies that were not asked for"),
}


class Grid(InProcessGrid):
    """A grid some of whose clients lie when they train; without a lie these fail."""

    def __init__(self, lie=None):
        super().__init__(small_app(STUDY), 8)
        self.lie = lie

    def pull_messages(self, message_ids):
        asked = set(message_ids)
        found = []
        for key in [key for key in self._waiting if key in asked]:
            found += self.replies(self._waiting.pop(key))
        return found

    def replies(self, message):
        reply = self.answer(message)
        node = self.contexts[message.metadata.dst_node_id].node_config["partition-id"]
        if node not in HOSTILE or message.metadata.message_type != "train":
            return [reply]
        if self.lie is None:
            return [forged(message, reply, lambda facts: {"trial": facts["trial"], "failure": "on purpose"})]
        return self.lie(message, reply)


class LateGrid(Grid):
    """A grid whose hostile clients reply after the deadline."""

    def __init__(self, clock):
        super().__init__()
        self.clock, self.held = clock, []

    def pull_messages(self, message_ids):
        due = [reply for when, reply in self.held if self.clock() > when]
        self.held = [(when, reply) for when, reply in self.held if self.clock() <= when]
        return [*super().pull_messages(message_ids), *due]

    def replies(self, message):
        reply = self.answer(message)
        node = self.contexts[message.metadata.dst_node_id].node_config["partition-id"]
        if node not in HOSTILE or message.metadata.message_type != "train":
            return [reply]
        self.held.append((self.clock() + message.metadata.ttl + 5, reply))
        return []


def outcome(grid, clock):
    """The result of the study, what was dropped, and the last model."""
    with federation_of(grid, STUDY, clock=clock, sleep=clock.sleep) as federation:
        result = STUDY.tune(federation=federation)
        facts = dict(result.facts)
        del facts["times"]
        facts["failures"] = sum(one["count"] for one in facts["failures"])  # the reasons differ
        weights = [p.detach().numpy().tobytes() for p in result.model.parameters()]
        return facts, weights, federation.dropped


@pytest.fixture(scope="module")
def failed():
    """The run in which the hostile clients fail."""
    facts, weights, dropped = outcome(Grid(), Clock())
    assert dropped == {}
    return facts, weights


@pytest.mark.parametrize("name", LIES)
def test_a_lie_is_rejected_and_the_run_is_as_if_the_client_had_failed(name, failed):
    lie, _, counted = LIES[name]
    facts, weights, dropped = outcome(Grid(lie), Clock())
    assert (facts, weights) == failed
    assert dropped[counted] > 0


def test_a_reply_after_the_deadline_is_dropped(failed):
    clock = Clock()
    facts, weights, dropped = outcome(LateGrid(clock), clock)
    assert (facts, weights) == failed
    assert dropped["replies after the deadline"] > 0


@pytest.mark.parametrize("name", LIES)
def test_the_report_says_why(name):
    lie, reason, _ = LIES[name]
    clock = Clock()
    with federation_of(Grid(lie), STUDY, clock=clock, sleep=clock.sleep) as federation:
        federation.start(0, {}, 0)
        [report] = federation.round([Work(0, [0, 1, 2], {"lr": 0.1})])
    expected = Status.MISSING if name == "not asked for" else Status.FAILED
    assert report.status.tolist() == [Status.OK, expected, Status.OK]
    assert reason in report.reasons[1].text
    assert report.train_size[1] == 0
    assert np.isnan(report.loss_after[1])
