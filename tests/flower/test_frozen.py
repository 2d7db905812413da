"""Frozen weights over Flower: adapters travel, bases must be alike, results are those of a simulation."""

import math

import numpy as np
from adapted_cases import adapter
from flower_cases import small_data
from flwr.clientapp import ClientApp

import fedhpo as fh
from fedhpo.flower import FlowerFederation, InProcessGrid, client
from fedhpo.flower.server_app import federation_of
from fedhpo.protocol.federation import Status, Work
from fedhpo.study import Study


def study(**sections):
    return Study.from_dict(
        {
            "data": {"name": "flower_cases:small_data"},
            "model": {"name": "adapted_cases:Adapted"},
            "server": {"aggregation": "mean", "weight_cap": 100.0},
            "space": {
                "client": {"lr": {"low": 0.01, "high": 1.0, "log": True}},
                "model": {"rank": {"choices": [1, 2, 3]}},
            },
            "objective": {"metric": "loss"},
            "method": {"name": "random", "trials": 3},
            "budget": {"rounds": 2, "total": 6, "cohort": 3},
        }
        | sections
    )


class Wire(InProcessGrid):
    """Keeps the shapes of all arrays that travel."""

    seen: list

    def answer(self, message):
        reply = super().answer(message)
        for one in (message, reply):
            self.seen += [
                {name: array.shape for name, array in record.items()}
                for record in one.content.array_records.values()
            ]
        return reply


def test_results_are_those_of_a_simulation_and_only_adapters_travel():
    Wire.seen = []
    whole = study()
    app = client(ClientApp(), study=whole)
    ours = whole.tune(federation=fh.simulate(study_model(), small_data(), workers=0))
    theirs = whole.tune(federation=federation_of(Wire(app, 8), whole, repeatable=True))
    assert ours.best_config == theirs.best_config
    scores = [[one["score"] for one in result.trials] for result in (ours, theirs)]
    assert np.allclose(*scores, rtol=1e-6)  # rows are scored in other batches
    for name, value in ours.model.state_dict().items():
        assert value.equal(theirs.model.state_dict()[name])
    assert Wire.seen
    shapes = [adapter(rank) for rank in (1, 2, 3)]
    assert all({n: tuple(s) for n, s in one.items()} in shapes for one in Wire.seen)


def study_model():
    from adapted_cases import Adapted

    return Adapted


def test_bytes_are_those_of_the_adapter():
    whole = study()
    with federation_of(InProcessGrid(client(ClientApp(), study=whole), 8), whole) as federation:
        federation.start(0, {"rank": 3}, 0)
        [report] = federation.round([Work(trial=0, cohort=[0, 1], client={"lr": 0.1})])
        size = sum(math.prod(shape) for shape in adapter(3).values())
        assert report.cost.bytes_up == report.cost.bytes_down == 2 * 4 * size


def test_a_client_with_another_base_says_so():
    app = client(ClientApp(), study=study(model={"name": "adapted_cases:OtherBase"}))
    with FlowerFederation(InProcessGrid(app, 8), study_model(), clients=8) as federation:
        federation.start(0, {}, 0)
        [report] = federation.round([Work(trial=0, cohort=[0, 1], client={"lr": 0.1})])
        assert (report.status == Status.FAILED).all()
        assert "frozen weights are not those of the server" in str(report.reasons[0])
        [scores] = federation.evaluate([0], [0])
        assert (scores.status == Status.FAILED).all()
