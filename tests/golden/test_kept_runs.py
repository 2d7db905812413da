"""Runs of 0.2.0 are read and resumed: a sample of `benchmarks/golden.py --runs`, which takes them all."""

import pytest
from golden_digests import probe
from golden_runs import FINISHED, HERE, STOPPED, expected, page_of, read_back, resumed, unpacked

from fedhpo.methods.registry import METHODS
from fedhpo.run import list_runs

#: Whose report.html is written and whose page is asked for: each says something of its own.
SHOWN = ("fedex", "private", "trouble")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """All finished runs, and one that was stopped."""
    folder = tmp_path_factory.mktemp("kept")
    for name in FINISHED:
        unpacked(f"finished-{name}", folder)
    unpacked("stopped-simulated", folder)
    return folder


def test_every_method_has_a_run_and_every_federation_a_stopped_one():
    assert METHODS.keys() | {"proxy", "private"} <= FINISHED.keys()
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
