"""A ServerApp that is killed and started again goes on, with whatever nodes are there."""

import contextlib
import signal
import sqlite3
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from flower_cases import SMALL, small_app
from flwr.app import Context, RecordDict

from fedhpo.core.errors import InputError
from fedhpo.flower import InProcessGrid, tune
from fedhpo.study import Study

STUDY = Study.from_dict(
    {
        **SMALL.given,
        "method": {"name": "fedpop", "population": 2},
        "budget": {"rounds": 4, "total": 8, "cohort": 3},
        "flower": {"clients": 8},
    }
)


class Killed(BaseException):
    """What happens to a ServerApp that is killed: no handler runs."""


class DyingGrid(InProcessGrid):
    """A grid whose server dies at one of its looks for replies."""

    def __init__(self, app, nodes, looks):
        super().__init__(app, nodes)
        self.looks = looks

    def pull_messages(self, message_ids):
        self.looks -= 1
        if self.looks < 0:
            raise Killed
        return super().pull_messages(message_ids)


def context(directory):
    return Context(1, 1, {}, RecordDict(), {"run-dir": str(directory)})


def outcome(result):
    facts = dict(result.facts)
    del facts["times"]
    return facts, [p.detach().numpy().tobytes() for p in result.model.parameters()]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The run that nobody killed."""
    path = tmp_path_factory.mktemp("whole") / "run"
    return outcome(tune(InProcessGrid(small_app(STUDY), 8), context(path), STUDY))


@pytest.mark.parametrize("looks", [2, 4])
def test_a_killed_server_goes_on_to_the_same_result(looks, whole, tmp_path):
    with pytest.raises(Killed):
        tune(DyingGrid(small_app(STUDY), 8, looks), context(tmp_path / "run"), STUDY)
    # The nodes have other ids now.
    again = tune(InProcessGrid(small_app(STUDY), 8), context(tmp_path / "run"), STUDY)
    assert outcome(again) == whole


KILLED = """
import os, signal, sys
sys.path.append({here!r})
import test_durable

class Grid(test_durable.DyingGrid):
    def pull_messages(self, message_ids):
        if self.looks == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().pull_messages(message_ids)

study = test_durable.STUDY
test_durable.tune(Grid(test_durable.small_app(study), 8, 4), test_durable.context({run!r}), study)
"""


def test_a_process_that_is_killed_outright_loses_nothing(whole, tmp_path):
    program = KILLED.format(here=str(Path(__file__).parent), run=str(tmp_path / "run"))
    killed = subprocess.run([sys.executable, "-c", program], timeout=1800)
    assert killed.returncode == -signal.SIGKILL
    assert rounds(tmp_path / "run") > 0
    again = tune(InProcessGrid(small_app(STUDY), 8), context(tmp_path / "run"), STUDY)
    assert outcome(again) == whole


def rounds(path):
    """How many rounds a run's record holds."""
    with contextlib.closing(sqlite3.connect(path / "record.sqlite")) as record:
        return record.execute("select count(*) from events where kind in ('round', 'done')").fetchone()[0]


def test_it_goes_on_with_the_nodes_that_are_there(tmp_path):
    with pytest.raises(Killed):
        tune(DyingGrid(small_app(STUDY), 8, 6), context(tmp_path / "run"), STUDY)
    nodes = [{"partition-id": i} for i in (5, 0, 3, 2)]
    result = tune(InProcessGrid(small_app(STUDY), nodes), context(tmp_path / "run"), STUDY)
    assert result.facts["status"] == "finished"
    assert result.facts["cost"]["rounds"] >= 8


def test_names_keep_their_numbers_when_nodes_come_back_in_another_order(tmp_path):
    def data(context):
        from flower_cases import only, small_data

        return only(small_data(), int(context.node_config["name"][-1]))

    app = small_app(STUDY, data=data)
    names = [{"name": f"site {i}"} for i in range(8)]
    with pytest.raises(Killed):
        tune(DyingGrid(app, names[::-1], 6), context(tmp_path / "run"), STUDY)
    again = tune(InProcessGrid(app, names[2:]), context(tmp_path / "run"), STUDY)
    assert again.facts["status"] == "finished"


def test_without_partition_ids_and_names_there_is_a_warning(tmp_path):
    from flower_cases import only, small_data

    app = small_app(STUDY, data=lambda context: only(small_data(), 1))
    with pytest.warns(UserWarning, match="runs do not repeat"):
        tune(InProcessGrid(app, [{} for _ in range(8)]), context(tmp_path / "run"), STUDY)


def test_no_warning_with_names(tmp_path):
    from flower_cases import only, small_data

    app = small_app(STUDY, data=lambda context: only(small_data(), 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        result = tune(
            InProcessGrid(app, [{"name": f"n{i}"} for i in range(8)]), context(tmp_path / "run"), STUDY
        )
    assert result.facts["status"] == "finished"


def test_clients_that_train_something_else_are_refused(tmp_path):
    given = {**SMALL.given, "model": {"name": "svm"}, "space": {}, "method": {"name": "flora"}, "server": {}}
    study = Study.from_dict({**given, "budget": {"rounds": 1, "total": 1, "cohort": 3}})
    with pytest.raises(InputError, match="client 0 fits no estimator: is the study the same"):
        tune(InProcessGrid(small_app(), 8), context(tmp_path / "run"), study)


@pytest.mark.parametrize("given", [{}, {"run-dir": "runs/here"}, {"run-dir": 3}])
def test_the_run_directory_is_an_absolute_path(given):
    with pytest.raises(InputError, match=r"run-dir.*absolute"):
        tune(InProcessGrid(small_app(), 8), Context(1, 1, {}, RecordDict(), given), STUDY)
