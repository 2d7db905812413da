"""A small real table, built once for all tests that want one: digits at 30 clients, a linear model."""

import gc
import os
import signal
from pathlib import Path

import pytest

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


def pytest_configure() -> None:
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
