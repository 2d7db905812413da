"""The simulator on a Ray cluster: two nodes on this machine, one of them killed."""

import os
import time

import numpy as np
import pytest
from torch import nn

import fedhpo as fh
from fedhpo.core.errors import InputError
from fedhpo.data import from_clients
from fedhpo.federations.simulate import simulate
from fedhpo.testing.federation import FederationSuite

ray = pytest.importorskip("ray")
cluster_utils = pytest.importorskip("ray.cluster_utils")

NODE = {"num_cpus": 1, "object_store_memory": 80_000_000}


@pytest.fixture(scope="module")
def cluster(ray_cluster):
    return ray_cluster


def small_data():
    """Eight clients of 5 to 12 rows; the seventh only validates, the eighth holds no validation data."""
    rng = np.random.default_rng(0)

    def rows(count):
        return rng.normal(size=(count, 6)).astype(np.float32), rng.integers(0, 3, count)

    clients = [{"train": rows(5 + i), "validation": rows(3 + i % 2), "test": rows(2)} for i in range(6)]
    return from_clients([*clients, {"validation": rows(4)}, {"train": rows(12)}], classes=3)


@pytest.mark.usefixtures("cluster")
class TestRay(FederationSuite):
    """The suite; what must equal another federation's results is compared with the plain simulator's."""

    client = {"lr": 0.3, "momentum": 0.5, "batch_size": 4, "lr_decay": 0.9}  # noqa: RUF012
    server = {"lr": 0.5, "lr_decay": 0.8}  # noqa: RUF012
    other_model = {"hidden": 5}  # noqa: RUF012

    @pytest.fixture(scope="class")
    @classmethod
    def shared(cls):
        with simulate("mlp", small_data(), server="fedadam", ray="auto") as federation:
            yield federation

    @pytest.fixture
    def federation(self, shared):
        yield shared
        for trial in list(shared.trials):
            shared.stop(trial)

    def make(self):
        return simulate("mlp", small_data(), server="fedadam", workers=0)

    def make_silent(self):
        return simulate("mlp", small_data(), missing=1.0, ray="auto")


def train(federation, while_training=lambda number: None):
    """Two trials side by side; their weights."""
    for trial in (0, 1):
        federation.start(trial, {}, seed=trial)
    for number in range(4):
        for trial in (0, 1):
            federation.submit(fh.Work(trial, range(6), {"lr": 0.3, "epochs": 3, "dropout": 0.2}))
        while_training(number)
        for trial in (0, 1):
            assert federation.next_done(trial).ok.all()
    return np.stack([federation.state(trial).arrays["weights"] for trial in (0, 1)])


@pytest.mark.parametrize("large", [10**9, 1], ids=["added up here", "added up by workers"])
def test_a_node_killed_in_the_middle_of_a_round_changes_nothing(cluster, large, monkeypatch):
    monkeypatch.setattr("fedhpo.federations.simulated.LARGE", large)
    with simulate("mlp", small_data(), workers=0, stacking=False) as here:
        expected = train(here)
    while sum(node["Alive"] for node in ray.nodes()) > 1:  # until the node killed before is known to be dead
        time.sleep(0.1)
    second = cluster.add_node(**NODE)
    with simulate("mlp", small_data(), ray="auto", stacking=False) as there:

        def kill(number):
            members = there._pool._members
            if number == 0:
                ray.get([member.starting for member in members if member.starting is not None])
            if number == 2:
                there._pool._dispatch()  # as somebody who asks for results does
                assert all(member.sent for member in members)  # both are at work
                cluster.remove_node(second, allow_graceful=False)

        assert np.array_equal(train(there, kill), expected)
        facts = there.describe()
    assert (facts["runtime"], facts["worker_kind"], facts["workers"]) == ("ray", "ray", 2)


class Deadly(nn.Linear):
    """A model that ends the worker that trains it."""

    def __init__(self):
        super().__init__(6, 3)

    def forward(self, x):
        if self.training:
            os._exit(1)
        return super().forward(x)


@pytest.mark.usefixtures("cluster")
def test_a_task_that_loses_its_worker_twice_has_failed():
    with simulate(Deadly, small_data(), ray="auto", stacking=False) as federation:
        federation.start(0, {}, seed=0)
        [report] = federation.round([fh.Work(0, [0], {"lr": 0.1})])
    assert not report.applied
    assert "lost twice" in report.reasons[0].text


@pytest.mark.usefixtures("cluster")
def test_a_study_gives_the_same_result_on_a_cluster(tmp_path):
    study = fh.Study.from_dict(
        {
            "data": {"name": "digits", "clients": 12},
            "model": {"name": "mlp"},
            "space": {"client": {"lr": {"low": 0.01, "high": 1.0, "log": True}}},
            "method": {"name": "random", "trials": 2},
            "budget": {"rounds": 2, "total": 4, "cohort": 3},
        }
    )
    here, there = study.tune(workers=0), study.tune(ray="auto")
    assert there.best_config == here.best_config
    assert [{**row, "seconds": 0} for row in there.history] == [{**row, "seconds": 0} for row in here.history]


@pytest.mark.parametrize(("wrong", "words"), [({"workers": 0}, "workers"), ({"device": "cuda"}, "device")])
def test_what_a_cluster_cannot_do_is_refused(wrong, words):
    with pytest.raises(InputError, match=words):
        simulate("mlp", small_data(), ray="auto", **wrong)


@pytest.mark.usefixtures("cluster")
def test_metrics_are_the_same_as_in_the_simulation():
    rng = np.random.default_rng(0)
    clients = []
    for _ in range(6):
        y = (rng.random(100) < 0.12).astype(np.int64)  # an imbalanced federation: 12% positives
        x = rng.normal(size=(100, 2)).astype(np.float32)
        x[:, 0] += 1.5 * y
        clients.append((x, y))
    data = from_clients(clients, validation=0.3, test=0.2)
    space = fh.Space(client={"lr": fh.Float(1e-3, 1.0, log=True)})
    found = []
    for where in ({"workers": 0}, {"ray": "auto"}):
        with simulate("linear", data, **where) as federation:
            result = fh.tune(
                federation, space, "random", rounds=3, total=9, cohort=3, objective="auroc", metrics=["f1"]
            )
        found.append(result)
    here, there = found
    assert here.best_score > 0.6
    assert here.facts["best"] == there.facts["best"]
    assert [dict(row) for row in here.trials] == [dict(row) for row in there.trials]
