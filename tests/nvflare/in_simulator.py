"""What is tested over the sites of a job; collected inside the job only (`suite_job.py`)."""

import time
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace

import numpy as np
import nvflare_cases
import psutil
import pytest
from flwr.clientapp import ClientApp
from nvflare_cases import DIGITS, STUDIES, small_federation
from suite import NVFlareSuite

import fedhpo as fh
from fedhpo.flower import InProcessGrid
from fedhpo.flower import client as flower_client
from fedhpo.flower.server_app import federation_of as over_flower
from fedhpo.methods.fedtune import Cells, ReferenceTable
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
    "sha": {"trials": 4},
    "fedex": {"trials": 3},
    "fedpop": {"population": 3},
    "flora": {"configs": 2, "local_rounds": 1, "surface": "sgm", "diagnose": False},
    "fedtune": {"table": "table.json"},
}


class OtherSite:
    """A site's client of one of `STUDIES`."""

    def __init__(self, proxy, study):
        self.name, self._proxy, self._study = proxy.name, proxy, study

    def __call__(self, *, timeout):
        return SimpleNamespace(answer=partial(self._proxy(timeout=timeout).other, self._study))


def tuned(study, name, clients):
    """The result over so many sites of a study of `STUDIES`."""
    sites = [OtherSite(site, name) for site in nvflare_cases.SITES if int(site.name[5:]) <= clients]
    with federation_of(sites, study, repeatable=True) as federation:
        return study.tune(federation=federation)


def facts(result):
    """All but its time, and what is said of the place: of sections set aside, and of trust in clients."""
    beside = ("times", "said", "trust")
    return {key: value for key, value in result.facts.items() if key not in beside}


@pytest.fixture
def _table(tmp_path, monkeypatch):
    """A reference table in this directory, a config for each of four kinds of clients."""
    monkeypatch.chdir(tmp_path)
    space = Study.from_dict({**DIGITS, "method": {"name": "random"}}).space
    pairs = ((0.1, 1), (0.2, 2), (0.3, 1), (0.05, 2))
    configs = [{"lr": lr, "batch_size": 8, "epochs": epochs} for lr, epochs in pairs]
    ReferenceTable(Cells((0.2, 0.8), (50, 200)), configs, space).save("table.json")


@pytest.mark.usefixtures("_table")
@pytest.mark.parametrize("name", METHODS)
def test_a_study_gives_the_same_bits_as_a_simulation(name):
    # By default real clients' extremes are left out of a choice, those of a simulation are not.
    study = {**DIGITS, "method": {"name": name, **METHODS[name]}}
    if name != "fedtune":  # it trains one trial
        study["evaluation"] = {"choice": "mean"}
    if name == "fedtune":  # it trains once
        study["budget"] = {key: value for key, value in DIGITS["budget"].items() if key != "total"}
    study = Study.from_dict(study)
    ours = study.tune(federation=fh.simulate("mlp", study.load_data(), workers=0, stacking=False))
    theirs = tuned(study, "digits", 8)
    told = [facts(ours), facts(theirs)]
    for one in told if name == "fedtune" else ():
        one["evaluation"] = {**one["evaluation"], "choice": None}
    assert told[0] == told[1]
    for here, there in zip(ours.model.parameters(), theirs.model.parameters(), strict=True):
        assert here.detach().numpy().tobytes() == there.detach().numpy().tobytes()


@pytest.mark.parametrize("name", ["bagging", "cyclic"])
def test_boosted_trees_are_those_of_a_simulation(name):
    study = Study.from_dict(STUDIES[name])
    ours, theirs = study.tune(workers=0), tuned(study, name, 3)
    assert facts(ours) == facts(theirs)
    assert theirs.facts["flora"]["training"].startswith(name)
    rows = study.load_data().x
    np.testing.assert_array_equal(ours.model.predict_proba(rows), theirs.model.predict_proba(rows))


@pytest.mark.parametrize(("name", "training"), [("bayes", "none"), ("mlp", "averaging")])
def test_estimators_are_searched_as_in_a_simulation_and_end_as_over_flower(name, training):
    """A simulation trains on all rows in one place; over messages weights are averaged, or none."""
    study = Study.from_dict(STUDIES[name])
    result, simulated = tuned(study, name, 3), study.tune(workers=0)
    for fact in ("parties", "config", "surface"):
        assert result.facts["flora"][fact] == simulated.facts["flora"][fact]
    assert result.facts["flora"]["training"].startswith(training)
    grid = InProcessGrid(flower_client(ClientApp(), study=study), 3)
    with over_flower(grid, study, repeatable=True) as federation:
        flower = study.tune(federation=federation)
    assert facts(result) == facts(flower)
    assert result.facts["best"]["validation"]["value"] > 0.6
    if training == "none":
        assert result.model is None
    else:
        rows = study.load_data().x
        np.testing.assert_array_equal(result.model.predict_proba(rows), flower.model.predict_proba(rows))


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
    assert answers[0].reason.text.startswith("RuntimeError: no power (suite_job.py:")


def test_a_client_that_exits_has_failed_and_works_on():
    with small_federation(nvflare_cases.SITES, deadline=60.0) as federation:
        begun = time.monotonic()
        [answer] = federation.query(Trouble("leave"), [2])
        assert answer.status == Status.FAILED
        assert "SystemExit" in answer.reason.text
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
    assert slow[0].reason.text == "no reply within 3 s"
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
