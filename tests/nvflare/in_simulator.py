"""What is tested over the sites of a job; collected inside the job only (`suite_job.py`)."""

import time
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import nvflare_cases
import psutil
import pytest
from nvflare_cases import DIGITS, small_federation
from suite import NVFlareSuite

import fedhpo as fh
from fedhpo.nvflare.server import federation_of
from fedhpo.protocol.federation import Status, Work
from fedhpo.study import Study


def test_nothing_listens_beyond_this_machine():
    tree = [psutil.Process(), *psutil.Process().parents(), *psutil.Process().children(recursive=True)]
    open_ports = [
        connection.laddr
        for process in tree
        if "nvflare" in " ".join(process.cmdline()) or process.pid == psutil.Process().pid
        for connection in process.net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    ]
    assert open_ports
    assert {address.ip for address in open_ports} <= {"127.0.0.1", "::1"}


class TestInSimulator(NVFlareSuite):
    """Eight processes behind NVFlare's own transport."""

    def sites(self):
        return nvflare_cases.SITES


METHODS = {
    "sha": {"name": "sha", "trials": 4},
    "fedex": {"name": "fedex", "trials": 3},
    "flora": {"name": "flora", "configs": 2, "local_rounds": 1, "surface": "sgm", "diagnose": False},
}


class DigitsSite:
    """A site's client of the study of digits."""

    def __init__(self, proxy):
        self.name, self._proxy = proxy.name, proxy

    def __call__(self, *, timeout):
        return SimpleNamespace(answer=self._proxy(timeout=timeout).digits)


@pytest.mark.parametrize("name", METHODS)
def test_a_study_gives_the_same_bits_as_a_simulation(name):
    study = Study.from_dict({**DIGITS, "method": METHODS[name]})
    ours = study.tune(federation=fh.simulate("mlp", study.load_data(), workers=0, stacking=False))
    sites = [DigitsSite(site) for site in nvflare_cases.SITES]
    theirs = study.tune(federation=federation_of(sites, study, repeatable=True))
    first, second = dict(ours.facts), dict(theirs.facts)
    del first["times"], second["times"]
    assert first == second
    for here, there in zip(ours.model.parameters(), theirs.model.parameters(), strict=True):
        assert here.detach().numpy().tobytes() == there.detach().numpy().tobytes()


@dataclass(frozen=True)
class Trouble:
    """A query that makes a client misbehave: see `suite_job.SuiteClient`."""

    name: str
    seconds: float = 0.0

    def to_dict(self):
        return {"seconds": self.seconds}


def test_a_client_that_raises_has_failed_with_the_reason():
    with small_federation(nvflare_cases.SITES) as federation:
        answers = federation.query(Trouble("fail"), [0, 3])
    assert [answer.status for answer in answers] == [Status.FAILED] * 2
    assert answers[0].reason.startswith("RuntimeError: no power (suite_job.py:")


def test_a_client_that_exits_has_failed_and_works_on():
    with small_federation(nvflare_cases.SITES, deadline=60.0) as federation:
        begun = time.monotonic()
        [answer] = federation.query(Trouble("leave"), [2])
        assert answer.status == Status.FAILED
        assert "SystemExit" in answer.reason
        assert time.monotonic() - begun < 30
        federation.start(0, {}, 0)
        [report] = federation.round([Work(0, [2], {"lr": 0.1})])
    assert report.ok.all()


def test_a_slow_client_is_missing_after_the_deadline_and_replies_again_later():
    with small_federation(nvflare_cases.SITES, deadline=3.0, retries=0) as federation:
        begun = time.monotonic()
        slow, quick = federation.query(Trouble("nap", 6.0), [1]), federation.query(Trouble("nap"), [4])
        assert 3.0 <= time.monotonic() - begun < 6.0
    assert slow[0].status == Status.MISSING
    assert slow[0].reason == "no reply within 3 s"
    assert quick[0].status == Status.OK
    with small_federation(nvflare_cases.SITES) as federation:  # its nap first, then what was asked meanwhile
        federation.start(0, {}, 0)
        [report] = federation.round([Work(0, [1, 4], {"lr": 0.1})])
    assert report.ok.all()


def test_a_client_that_dies_is_missing_and_the_others_go_on():
    """The last test: NVFlare's simulator does not start a client again."""
    with small_federation(nvflare_cases.SITES, deadline=5.0, retries=0) as federation:
        federation.start(0, {}, 0)
        federation.query(Trouble("die"), [5])
        [report] = federation.round([Work(0, [0, 5, 1], {"lr": 0.1})])
        assert report.status.tolist() == [Status.OK, Status.MISSING, Status.OK]
        assert report.applied
        assert np.isfinite(federation.state(0).arrays["weights"]).all()
