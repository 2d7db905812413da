"""Every federation of ours passes the suite that users' own can take."""

import numpy as np
import pytest

from fedhpo.data import from_clients
from fedhpo.federations.simulate import simulate
from fedhpo.models import build
from fedhpo.run import Run
from fedhpo.run.recorded import RecordedSession
from fedhpo.testing import ToyFederation
from fedhpo.testing.federation import FederationSuite


def small_data():
    """Eight clients of 5 to 12 rows; the seventh only validates, the eighth holds no validation data."""
    rng = np.random.default_rng(0)

    def rows(count):
        return rng.normal(size=(count, 6)).astype(np.float32), rng.integers(0, 3, count)

    clients = [{"train": rows(5 + i), "validation": rows(3 + i % 2), "test": rows(2)} for i in range(6)]
    return from_clients([*clients, {"validation": rows(4)}, {"train": rows(12)}], classes=3)


class SimulatedSuite(FederationSuite):
    client = {"lr": 0.3, "momentum": 0.5, "batch_size": 4, "lr_decay": 0.9}  # noqa: RUF012
    server = {"lr": 0.5, "lr_decay": 0.8}  # noqa: RUF012
    other_model = {"hidden": 5}  # noqa: RUF012
    options = {"workers": 0}  # noqa: RUF012

    def make(self):
        return simulate("mlp", small_data(), server="fedadam", **self.options)

    def make_silent(self):
        return simulate("mlp", small_data(), missing=1.0, workers=0)


class TestInline(SimulatedSuite):
    """In this process, tiny models stacked."""


class TestInlineUnstacked(SimulatedSuite):
    options = {"workers": 0, "stacking": False}  # noqa: RUF012


class TestMomentum(SimulatedSuite):
    """Another server optimiser, robust aggregation."""

    def make(self):
        return simulate("linear", small_data(), server="fedavgm", aggregation="trimmed_mean", workers=0)

    other_model = None


class Shared(SimulatedSuite):
    """One federation for all tests, as its workers are slow to start."""

    @pytest.fixture(scope="class")
    @classmethod
    def pool(cls):
        with simulate("mlp", small_data(), server="fedadam", **cls.options) as federation:
            yield federation

    def make(self):  # the same results, whoever does the work
        return simulate("mlp", small_data(), server="fedadam", **{**self.options, "workers": 0})

    @pytest.fixture
    def federation(self, pool):
        yield pool
        for trial in list(pool.trials):
            pool.stop(trial)


class TestTwoProcesses(Shared):
    options = {"workers": 2}  # noqa: RUF012


class TestTwoProcessesUnstacked(Shared):
    options = {"workers": 2, "stacking": False}  # noqa: RUF012


class TestTwoThreads(Shared):
    options = {"workers": 2, "stacking": False}  # noqa: RUF012

    @pytest.fixture(scope="class")
    @classmethod
    def pool(cls):
        def mlp(**shape):  # a worker process could not import that
            return build("mlp", (6,), 3, **shape)

        with simulate(mlp, small_data(), server="fedadam", **cls.options) as federation:
            federation.start(0, {}, 0)
            with pytest.warns(UserWarning, match="threads"):
                federation.evaluate([0], [0])
            federation.stop(0)
            assert federation.describe()["worker_kind"] == "threads"
            yield federation


class TestToy(FederationSuite):
    other_model = {"hidden": 5}  # noqa: RUF012

    def make(self):
        return ToyFederation(clients=8, noise=0.0)

    def make_silent(self):
        return ToyFederation(clients=8, noise=0.0, missing=1.0)

    # Every toy starts at zero, takes any hyperparameter, and answers any query with a client's number.
    test_the_seed_alone_decides_the_first_weights = None
    test_an_unknown_hyperparameter_is_named_with_the_known = None
    test_fine_tuning_is_answered_per_client_and_changes_nothing = None
    test_a_query_about_a_trial_or_client_that_is_not_there_is_an_error = None


class TestUnrepeatableToy(TestToy):
    def make(self):
        return ToyFederation(clients=8, noise=0.0, repeatable=False)


class TestRecorded(SimulatedSuite):
    @pytest.fixture(autouse=True)
    def directory(self, tmp_path):
        self.path, self.runs = tmp_path, []
        yield
        for run in self.runs:
            run.close()

    def record(self, inner):
        run = Run.create_or_open(self.path / f"run-{len(self.runs)}", {}, "suite", 1)
        self.runs.append(run)
        return RecordedSession(inner, run.record, run.ledger)

    def make(self):
        return self.record(super().make())

    def make_silent(self):
        return self.record(super().make_silent())
