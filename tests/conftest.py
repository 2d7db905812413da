"""A small real table, built once for all tests that want one: digits at 30 clients, a linear model."""

import functools
import gc
import os
import signal
import tempfile
from pathlib import Path

import pytest
from filelock import FileLock

from fedhpo.research.tables import build_table
from fedhpo.study import Study

STUDY = {
    "seed": 3,
    "data": {
        "name": "digits",
        "clients": 30,
        "partition": {"kind": "dirichlet", "alpha": 0.3},
        "split": {"kind": "pools", "validation": 12, "test": 0},
    },
    "model": {"name": "linear"},
    "space": {
        "client": {
            "lr": {"low": 1e-4, "high": 1.0, "log": True},
            "batch_size": {"choices": [8, 16]},
        },
        "server": {"lr": {"low": 0.1, "high": 3.0, "log": True}},
    },
    "objective": {"metric": "error"},
    "budget": {"rounds": 9, "total": 72, "cohort": 4},
}


def pytest_configure(config: pytest.Config) -> None:
    # Witnesses of privacy ledgers: not among those of whoever runs the tests.
    state = tempfile.TemporaryDirectory(prefix="fedhpo-state-")
    os.environ["FEDHPO_STATE"] = state.name
    config.add_cleanup(state.cleanup)
    # Who is started in the background of a shell ignores interrupts, and so do the processes it starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("data") and not Path(os.environ.get("FEDHPO_DATA") or "/nowhere").is_dir():
        pytest.skip("FEDHPO_DATA does not name the directory of the real data sets")


@pytest.fixture(scope="module", autouse=True)
def _what_is_old_is_not_collected_again() -> None:
    # By then there are millions of objects, and some code under test (Flower's strategies) collects a lot.
    gc.collect()
    gc.freeze()


@functools.cache
def _looks_at_reports(file: str) -> bool:
    text = Path(file).read_text()
    return any(word in text for word in ("report.html", "write_report", "fedhpo.report", '"report"'))


@pytest.fixture(autouse=True)
def _no_report_that_nobody_looks_at(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    # To write the page of a small run takes longer than the run. Files that speak of reports get theirs, and
    # so do those of no room.
    inside = request.path.parent != Path(__file__).parent
    if inside and isinstance(request.node, pytest.Function) and not _looks_at_reports(str(request.path)):
        for module in ("fedhpo.report", "fedhpo.report.tuned"):
            monkeypatch.setattr(f"{module}.write_report", lambda paths, page: page)


@pytest.fixture(scope="module")
def ray_cluster():
    """A cluster with a head of one core; one at a time on this machine, which has few."""
    ray = pytest.importorskip("ray")
    utils = pytest.importorskip("ray.cluster_utils")
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    head = {"num_cpus": 1, "object_store_memory": 80_000_000, "include_dashboard": False}
    with FileLock(Path(tempfile.gettempdir(), "fedhpo-tests-ray.lock")):
        found = utils.Cluster(initialize_head=True, head_node_args=head)
        ray.init(found.address, log_to_driver=False)
        yield found
        ray.shutdown()
        found.shutdown()


@pytest.fixture(scope="session")
def study():
    return Study.from_dict(STUDY, path="small.toml")


@pytest.fixture(scope="session")
def built(study, tmp_path_factory):
    """The table as it was built, before it was written."""
    return build_table(study, 40, run=tmp_path_factory.mktemp("build") / "run", workers=0)


@pytest.fixture(scope="session")
def table_file(built, tmp_path_factory):
    path = tmp_path_factory.mktemp("tables") / "small.table"
    built.save(path)
    return path


@pytest.fixture(scope="session")
def table(table_file):
    from fedhpo.research.tables import load_table

    return load_table(table_file)
