"""What becomes of calls: replies that lie, calls that fail, take too long, or end the job."""

import re
import threading
import time

import numpy as np
import pytest
from nvflare.collab import CollabCallError
from nvflare.collab.api.exceptions import RunAborted
from nvflare_cases import SMALL, LocalSite, local_sites

from fedhpo.aggregation.aggregation import Aggregation
from fedhpo.core.errors import InputError
from fedhpo.federations.nvflare.federation import NVFlareFederation
from fedhpo.federations.nvflare.transport import CollabTransport, trouble_of
from fedhpo.nvflare import Arrays, Client, Scored, Trained, tune
from fedhpo.protocol.federation import Status, Work
from fedhpo.protocol.reasons import Reason, Why
from fedhpo.queries.local_search import LocalSearch
from fedhpo.samplers import Random
from fedhpo.space import Float, Space
from fedhpo.study import Study

MODEL = Arrays(lambda seed: {"w": np.zeros(2)})


class Mover(Client):
    """Client k moves by k + 1 times lr."""

    def train(self, arrays, task, site):
        return Trained({"w": arrays["w"] + np.float32(task.config["lr"] * (task.client + 1))}, train_size=2)

    def evaluate(self, arrays, task, site):
        return Scored(size=3, loss=float(arrays["w"].sum()), accuracy=0.5)


class Changed(LocalSite):
    """A site whose answers to `train` are changed on the way."""

    change = None

    def answer(self, kind, text, models):
        found = super().answer(kind, text, models)
        return self.change(found) if self.change is not None and kind == "train" else found


def one_round(change=None, **options):
    """A round of three sites, the second of which is changed; report, weights, what was dropped."""
    sites = [Changed(f"site-{i + 1}", Mover()) for i in range(3)]
    sites[1].change = change
    options = {"clients": 3, "aggregation": Aggregation()} | options
    with NVFlareFederation(sites, MODEL, **options) as federation:
        federation.start(0, {}, 0)
        [report] = federation.round([Work(0, [0, 1, 2], {"lr": 1.0})])
        return report, federation.model(0)["w"], federation.dropped


def test_an_honest_round():
    report, weights, dropped = one_round()
    assert report.ok.all()
    assert weights.tolist() == [2.0, 2.0]
    assert dropped == {}


def model(found, array, name="w"):
    return {**found, "models": {"model-0": {name: array}}}


def text(found, old, new):
    assert old in found["text"]
    return {**found, "text": found["text"].replace(old, new)}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda found: model(found, np.zeros(2)), "array 'w' is float64, expected float32"),
        (lambda found: model(found, np.zeros(3, np.float32)), r"shape \(3,\), expected \(2,\)"),
        (lambda found: model(found, [1.0, 2.0]), "array 'w' is list, expected float32"),
        (lambda found: model(found, np.full(2, np.nan, np.float32)), "NaN or infinite"),
        (
            lambda found: {**found, "models": {"model-0": {"v": np.zeros(2, np.float32)}}},
            "the arrays are 'v'",
        ),
        (lambda found: {**found, "models": {}}, "there is no model 'model-0'"),
        (lambda found: {**found, "models": {"model-0": b"x"}}, "the arrays are bytes, expected 'w'"),
        (lambda found: {**found, "text": "{"}, "its JSON cannot be read"),
        (lambda found: text(found, '"trial": 0', '"trial": 1'), "asked was trial 0"),
        (lambda found: text(found, '"train_size": 2', '"train_size": -2'), "is -2"),
        (lambda found: {"models": {}}, "the reply has no text"),
        (lambda found: None, "the reply has no text"),
    ],
)
def test_a_lie_is_rejected_and_told(change, why):
    report, weights, dropped = one_round(change)
    assert report.status.tolist() == [Status.OK, Status.FAILED, Status.OK]
    assert re.search(why, report.reasons[1].text), report.reasons[1]
    assert weights.tolist() == [2.0, 2.0]  # the mean of 1 and 3
    assert dropped == {"rejected replies": 1}


def failure(cause, kind=None, traceback=None):
    """What NVFlare raises when a call fails."""
    return CollabCallError("site-2", "answer", cause, kind, traceback)


def raising(error):
    def change(found):
        raise error

    return change


@pytest.mark.parametrize(
    ("error", "status", "why"),
    [
        (
            failure("KeyError: 'x'", "KeyError", "..."),
            Status.FAILED,
            "raised KeyError",
        ),
        (
            failure("no connection"),
            Status.MISSING,
            "cannot be reached: no connection",
        ),
        (RuntimeError("internal"), Status.FAILED, "the call failed: RuntimeError: internal"),
    ],
)
def test_calls_that_fail_are_failed_or_missing_with_the_reason(error, status, why):
    report, weights, _ = one_round(raising(error), retries=0)
    assert report.status.tolist() == [Status.OK, status, Status.OK]
    assert why in report.reasons[1].text
    assert weights.tolist() == [2.0, 2.0]


def test_a_client_that_cannot_be_reached_is_asked_once_more():
    calls = []

    def first_time(found):
        calls.append(1)
        if len(calls) == 1:
            raise failure("no connection")
        return found

    report, _, _ = one_round(first_time, retries=1)
    assert report.ok.all()
    assert len(calls) == 2


def test_a_timeout_of_the_call_is_none_of_the_clients():
    assert trouble_of(failure(TimeoutError("after 20 seconds"))) is None
    raised = failure("TimeoutError: mine", "TimeoutError", "Traceback ...")
    assert trouble_of(raised).why.text == "the client raised TimeoutError: TimeoutError: mine"


class Slow(LocalSite):
    """A site whose calls time out, as NVFlare's do, until it is released."""

    def __init__(self, name, client):
        super().__init__(name, client)
        self.stuck, self.calls = threading.Event(), 0

    def answer(self, kind, text, models):
        self.calls += 1
        if self.stuck.is_set():
            time.sleep(min(self.timeout, 0.5))
            raise failure(TimeoutError("too long"))
        return super().answer(kind, text, models)


def test_a_slow_client_is_missing_then_left_out_and_back_when_it_replies():
    sites = [Slow(f"site-{i + 1}", Mover()) for i in range(3)]
    options = {"clients": 3, "deadline": 20.0, "retries": 0, "aggregation": Aggregation()}
    with NVFlareFederation(sites, MODEL, **options) as federation:
        federation.start(0, {}, 0)
        work = Work(0, [0, 1, 2], {"lr": 1.0})
        sites[1].stuck.set()
        [report] = federation.round([work])
        assert report.status.tolist() == [Status.OK, Status.MISSING, Status.OK]
        assert report.reasons == {1: Reason(Why.LATE, "no reply within 20 s")}
        begun = time.monotonic()
        [report] = federation.round([work])
        assert report.reasons == {
            1: Reason(Why.GONE, "its node is not there")
        }  # at once: it costs no second deadline
        assert time.monotonic() - begun < 10
        sites[1].stuck.clear()
        end = time.monotonic() + 30
        while not report.ok.all() and time.monotonic() < end:
            time.sleep(0.2)
            [report] = federation.round([work])
        assert report.ok.all()
        assert federation.dropped == {}


def test_a_reply_after_the_deadline_is_dropped_and_noted():
    released = threading.Event()

    def slow(found):
        released.wait(20)
        return found

    sites = [Changed(f"site-{i + 1}", Mover()) for i in range(3)]
    sites[1].change = slow
    options = {"clients": 3, "deadline": 1.0, "retries": 0, "aggregation": Aggregation()}
    with NVFlareFederation(sites, MODEL, **options) as federation:
        federation.start(0, {}, 0)
        work = Work(0, [0, 1, 2], {"lr": 1.0})
        [report] = federation.round([work])
        assert report.status.tolist() == [Status.OK, Status.MISSING, Status.OK]
        assert report.reasons == {1: Reason(Why.LATE, "no reply within 1 s")}
        sites[1].change = None
        released.set()
        [report] = federation.round([work])
        assert report.ok.all()
        assert federation.dropped == {"replies after the deadline": 1}


def test_a_job_that_is_aborted_ends():
    with pytest.raises(RunAborted):
        one_round(raising(RunAborted("by the administrator")))


def test_calls_run_side_by_side_in_the_order_of_names():
    names = [f"site-{i}" for i in (3, 1, 2)]
    transport = CollabTransport(LocalSite(name, None) for name in names)
    assert [transport._sites[node].name for node in transport.nodes()] == ["site-1", "site-2", "site-3"]


def test_a_job_with_too_few_sites_is_refused_at_once():
    with pytest.raises(InputError, match=r"nvflare.clients = 8: the job has 3.*min_clients = 8"):
        NVFlareFederation(local_sites(3), "mlp", clients=8)


def test_a_site_without_a_number_has_no_part_of_the_data():
    sites = [LocalSite("hospital", Client(SMALL))]
    with (
        pytest.warns(UserWarning, match="'hospital'"),
        pytest.raises(InputError, match=r"none of 1 clients can take part.*'hospital'"),
    ):
        NVFlareFederation(sites, "mlp", clients=1, patience=300.0)


class Searcher(Mover):
    """Likes the learning rate that is a tenth of its number."""

    def search(self, config, site):
        return abs(config["lr"] - int(site.name[5:]) / 10)


def test_a_client_with_training_of_its_own_answers_local_searches():
    query = LocalSearch(Space(client={"lr": Float(0.0, 1.0)}), configs=4, sampler=Random())
    sites = [LocalSite(f"site-{i + 1}", Searcher()) for i in range(3)]
    with NVFlareFederation(sites, MODEL, clients=3, aggregation=Aggregation()) as federation:
        answers = federation.query(query, [2, 0])
    for answer in answers:
        pairs = zip(answer.content["configs"], answer.content["losses"], strict=True)
        assert len(answer.content["losses"]) == 4
        assert all(loss == abs(one["client"]["lr"] - (answer.client + 1) / 10) for one, loss in pairs)


STUDY = Study.from_dict(
    {
        **SMALL,
        "method": {"name": "fedpop", "population": 2},
        "budget": {"rounds": 4, "total": 8, "cohort": 3},
    }
)


class Dying(LocalSite):
    """A site behind a server that dies when it has called so often."""

    calls = 1 << 30

    def answer(self, kind, text, models):
        if kind == "train":
            Dying.calls -= 1
        if Dying.calls < 0:
            raise RunAborted("killed")
        return super().answer(kind, text, models)


def outcome(result):
    facts = {key: value for key, value in result.facts.items() if key != "times"}
    return facts, [p.detach().numpy().tobytes() for p in result.model.parameters()]


def test_a_job_that_was_killed_and_is_submitted_again_goes_on_to_the_same_result(tmp_path, monkeypatch):
    whole = outcome(tune(local_sites(), STUDY, tmp_path / "whole"))
    sites = [Dying(f"site-{i + 1}", Client(SMALL)) for i in range(8)]
    monkeypatch.setattr(Dying, "calls", 9)
    with pytest.raises(RunAborted):
        tune(sites, STUDY, tmp_path / "run")
    # The job has other processes then, and one of them is late: it goes on with the clients that are there.
    assert outcome(tune(local_sites(), STUDY, tmp_path / "run")) == whole
