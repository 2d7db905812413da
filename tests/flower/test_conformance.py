"""The Flower federation, in process, passes the suite that all federations pass."""

import pytest
from flower_cases import Clock, SilentGrid, own_rows, small_app, small_federation

from fedhpo.run import Run
from fedhpo.run.recorded import RecordedSession
from fedhpo.testing.federation import FederationSuite


class FlowerSuite(FederationSuite):
    client = {"lr": 0.3, "momentum": 0.5, "batch_size": 4, "lr_decay": 0.9}  # noqa: RUF012
    server = {"lr": 0.5, "lr_decay": 0.8}  # noqa: RUF012
    other_model = {"hidden": 5}  # noqa: RUF012

    def make(self):
        return small_federation(server="fedadam")

    def make_silent(self):
        clock = Clock()
        return small_federation(grid=SilentGrid, clock=clock, sleep=clock.sleep)


class TestInProcess(FlowerSuite):
    """Nodes that deal the study's data; repeatable, as they run one after the other in this process."""


class TestOwnRows(FlowerSuite):
    """Nodes that hold nothing but their own rows; every model travels in a message of its own."""

    def make(self):
        return small_federation(small_app(data=own_rows), server="fedadam", message_bytes=1)


class TestRecorded(FlowerSuite):
    """As a run has it: clients that do not repeat, every call recorded."""

    @pytest.fixture(autouse=True)
    def directory(self, tmp_path):
        self.path, self.runs = tmp_path, []
        yield
        for run in self.runs:
            run.close()

    def make(self):
        run = Run.create_or_open(self.path / f"run-{len(self.runs)}", {}, "suite", 1)
        self.runs.append(run)
        return RecordedSession(small_federation(repeatable=False), run.record, run.ledger)
