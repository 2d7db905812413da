"""Runs of 0.2.0 are read and resumed: a sample of `benchmarks/golden.py --runs`, which takes them all."""

import pytest
from golden_digests import probe
from golden_runs import (
    FINISHED,
    HERE,
    STOPPED,
    expected,
    go_on,
    kept_runs,
    page_of,
    read_back,
    resumed,
    unpacked,
)

import fedhpo as fh
from fedhpo.core import version
from fedhpo.methods.registry import METHODS
from fedhpo.run import OtherVersionError, list_runs, record
from fedhpo.tuning import tune
from fedhpo.tuning.setup import _total

#: Whose report.html is written and whose page is asked for: each says something of its own.
SHOWN = ("fedex", "private", "trouble")
#: Their evaluations are of one batch, and their stacks are not cut: they come to the same bits all the same.
AS_BEGUN = {**version.NUMBERS, "cuts": 1}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """All finished runs, and one that was stopped."""
    folder = tmp_path_factory.mktemp("kept")
    for name in FINISHED:
        unpacked(f"finished-{name}", folder)
    unpacked("stopped-simulated", folder)
    return folder


def test_every_method_has_a_run_and_every_federation_a_stopped_one():
    later = {"none", "fedex-auto", "fedtune-auto"}  # what 0.2.0 did not have
    assert (METHODS.keys() - later) | {"proxy", "private"} <= FINISHED.keys()
    federations = {"simulated", "own-function", "learners-pooled", "trees-bagging", "table"}
    assert federations | {"flower", "flower-app", "nvflare"} <= STOPPED.keys()


def test_all_are_listed(folder):
    found = {facts["name"]: facts["status"] for facts in list_runs(folder)}
    assert found == {f"finished-{name}": "finished" for name in FINISHED} | {"stopped-simulated": "stopped"}


@pytest.mark.parametrize("name", FINISHED)
def test_load_run_and_export_read_it(name, folder, tmp_path):
    read_back(f"finished-{name}", folder, tmp_path, report=name in SHOWN)


def test_the_page_shows_it(folder):
    pytest.importorskip("starlette", reason="the extra ui is not installed")
    pytest.importorskip("httpx", reason="httpx is not installed")
    for name in SHOWN:
        page_of(f"finished-{name}", folder)


@pytest.mark.parametrize("name", ["own-function", "table", "trouble", "private", "flower"])
def test_a_stopped_run_goes_on_to_its_stored_result(name, tmp_path, monkeypatch):
    monkeypatch.chdir(HERE)
    assert resumed(f"stopped-{name}", tmp_path, same_bits=probe() == expected()["probe"]) in (
        "same",
        "refused",
    )


@pytest.mark.parametrize("name", ["fedtune", "proxy"])
def test_a_total_without_effect_that_a_run_was_begun_with_stands_in_no_ones_way(name, tmp_path, monkeypatch):
    monkeypatch.chdir(HERE)
    monkeypatch.setattr(tune, "NUMBERS", AS_BEGUN)
    same_bits = probe() == expected()["probe"]
    assert resumed(f"finished-{name}", tmp_path, same_bits=same_bits) == "same"


@pytest.mark.parametrize("total", [None, 4, 40])
def test_a_method_that_trains_once_goes_on_with_the_total_that_0_2_0_kept(total):
    """Begun from Python without a total, it kept ten times the rounds."""
    begun = {"budget": {"rounds": 4, "total": 40}}
    assert _total(fh.FedTune(), 4, total, begun) == 40
    with pytest.raises(fh.InputError, match="total = 12: has no effect with fedtune"):
        _total(fh.FedTune(), 4, 12, begun)


RAISED = {"stopped-own-function": "engine", "stopped-private": "privacy", "stopped-flower": "remote"}


@pytest.mark.parametrize("name", RAISED)
def test_a_raised_number_refuses_the_run_with_the_commit_to_use_and_reads_it(name, tmp_path, monkeypatch):
    what = RAISED[name]
    monkeypatch.chdir(HERE)
    monkeypatch.setattr(tune, "NUMBERS", {**AS_BEGUN, what: 2})
    monkeypatch.setattr(version, "RAISED", (version.Raised(what, 1, "6a36d7f"),))
    run = unpacked(name, tmp_path)
    message = rf"number of {what} 1, now 2\): to resume it, in a clone of fedhpo: git checkout 6a36d7f && pip"
    with pytest.raises(OtherVersionError, match=message):
        go_on(kept_runs()[name], run)
    assert [facts["status"] for facts in list_runs(tmp_path)] == ["stopped"]
    read_back("finished-sha", unpacked("finished-sha", tmp_path).parent, tmp_path, report=False)


def test_a_number_concerns_only_the_runs_that_depend_on_it(tmp_path, monkeypatch):
    monkeypatch.setattr(tune, "NUMBERS", {**AS_BEGUN, "privacy": 2, "remote": 2})
    assert go_on(kept_runs()["finished-sha"], unpacked("finished-sha", tmp_path)).status == "finished"


def test_an_older_format_is_read_and_not_written(tmp_path, monkeypatch):
    """A version that writes format 3 goes on reading format 2."""
    monkeypatch.setattr(record, "FORMAT", 3)
    monkeypatch.setattr(version, "RAISED", (version.Raised("record", 2, "6a36d7f"),))
    run = unpacked("finished-sha", tmp_path)
    assert fh.load_run(run).facts["method"]["name"] == "sha"
    with pytest.raises(OtherVersionError, match=r"which this version reads but does not continue.*6a36d7f"):
        go_on(kept_runs()["finished-sha"], run)
