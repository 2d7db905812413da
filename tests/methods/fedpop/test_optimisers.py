"""FedPop with server optimisers that have a memory: a copy goes on with that of its source."""

import numpy as np
import pytest

import fedhpo as fh
from fedhpo.federations.simulated import SimulatedFederation

SPACES = {
    "fedavgm": {"lr": fh.Float(0.1, 1.0, log=True), "momentum": fh.Choice([0.0, 0.9])},
    "fedadam": {"lr": fh.Float(1e-3, 0.1, log=True), "beta1": fh.Float(0.0, 0.9)},
    "fedyogi": {"lr": fh.Float(1e-3, 0.1, log=True), "beta1": fh.Float(0.0, 0.9)},
}


@pytest.mark.parametrize("optimiser", SPACES)
def test_copies_take_the_optimisers_memory_along(optimiser, monkeypatch):
    copied = []
    fork = SimulatedFederation.fork

    def watched(self, source, target):
        fork(self, source, target)
        ours, theirs = self.state(target).arrays, self.state(source).arrays
        memory = [name for name in theirs if name.startswith("server.")]
        assert memory
        assert ours.keys() == theirs.keys()
        for name in theirs:
            np.testing.assert_array_equal(ours[name], theirs[name])
        copied.append(sum(float(np.abs(theirs[name]).sum()) for name in memory))

    monkeypatch.setattr(SimulatedFederation, "fork", watched)
    space = fh.Space(client={"lr": fh.Float(0.01, 1.0, log=True)}, server=SPACES[optimiser])
    data = fh.load("digits", clients=12)
    with fh.simulate("linear", data, server=optimiser, workers=0) as federation:
        method = fh.FedPop(population=4, interval=2)
        result = fh.tune(federation, space, method, rounds=6, total=24, cohort=4)
    assert len(copied) == len(result.lineage) >= 4
    assert min(copied) > 0
    assert result.test["accuracy"] > 0.5
