"""The same study gives the same result, bit for bit, on Flower in process as in the simulation, unstacked."""

import numpy as np
import pytest
from flower_cases import SMALL, small_data, small_federation
from flwr.clientapp import ClientApp

import fedhpo as fh
from fedhpo.aggregation.aggregation import Aggregation
from fedhpo.core.canonical import canonical
from fedhpo.engine import fold
from fedhpo.federations import simulated as simulated_federation
from fedhpo.flower import FlowerFederation, InProcessGrid, client
from fedhpo.flower.server_app import federation_of
from fedhpo.methods.fedtune import Cells, ReferenceTable
from fedhpo.protocol.federation import Cost, Status
from fedhpo.protocol.fine_tune import FineTune
from fedhpo.queries.local_search import LocalSearch
from fedhpo.samplers import Random
from fedhpo.study import Study


def digits(method, **sections):
    return Study.from_dict(
        {
            "seed": 1,
            "data": {
                "name": "digits",
                "clients": 6,
                "partition": {"kind": "dirichlet", "alpha": 0.5},
            },
            "model": {"name": "mlp"},
            "space": {
                "client": {
                    "lr": {"low": 1e-3, "high": 1.0, "log": True},
                    "momentum": {"low": 0.0, "high": 0.9},
                    "batch_size": {"choices": [8, 16, 32]},
                    "epochs": {"choices": [1, 2]},
                    "dropout": {"low": 0.0, "high": 0.5},
                },
                "server": {"lr": {"low": 0.5, "high": 2.0, "log": True}},
            },
            "method": method,
            "objective": {"metric": "loss"},
            # As in a simulation: over Flower a robust rule and a cap on weights are the default.
            "server": {"aggregation": "mean", "weight_cap": 100.0},
            "budget": {"rounds": 6, "total": 18, "cohort": 3},
        }
        | sections
    )


#: Of methods that train once: a total would have no effect.
ONCE = {"rounds": 6, "cohort": 3}


def simulated(study):
    return fh.simulate("mlp", study.load_data(), workers=0, stacking=False)


def flower(study, **options):
    app = client(ClientApp(), study=study)
    return federation_of(InProcessGrid(app, 6), study, repeatable=True, **options)


METHODS = {
    "fedex": {"trials": 3},
    "fedpop": {"population": 3},
    "flora": {"configs": 2, "local_rounds": 1, "surface": "sgm", "diagnose": False},
    "fedtune": {"table": "table.json"},
    "reference table": {
        "schedule": {"name": "fixed"},
        "policy": {"name": "reference_table", "file": "table.json"},
    },
}


@pytest.fixture
def table(tmp_path, monkeypatch):
    """A reference table in this directory."""
    monkeypatch.chdir(tmp_path)
    space = digits({"name": "random"}).space
    configs = [
        {"lr": lr, "momentum": 0.1, "batch_size": 8, "epochs": epochs, "dropout": 0.0}
        for lr, epochs in ((0.1, 1), (0.2, 2), (0.3, 1), (0.05, 2))
    ]
    ReferenceTable(Cells((0.2, 0.8), (50, 200)), configs, space).save("table.json")


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.usefixtures("table")
def test_a_study_gives_the_same_result(name):
    method = METHODS[name] if "schedule" in METHODS[name] else {"name": name, **METHODS[name]}
    study = digits(method, **({"budget": ONCE} if name == "fedtune" else {}))
    ours, theirs = (study.tune(federation=make(study)) for make in (simulated, flower))
    first, second = dict(ours.facts), dict(theirs.facts)
    del first["times"], second["times"]
    assert second.pop("trust").startswith("Clients are real: ")  # a simulation has nobody to trust
    assert first == second
    for here, there in zip(ours.model.parameters(), theirs.model.parameters(), strict=True):
        assert here.detach().numpy().tobytes() == there.detach().numpy().tobytes()


def test_a_table_that_was_filled_in_the_mixture_gives_the_same_result(tmp_path, monkeypatch):
    """Filled offline by the command, used in a simulation and over Flower."""
    monkeypatch.chdir(tmp_path)
    space = {"client": {"lr": {"low": 0.01, "high": 1.0, "log": True}, "epochs": {"low": 1, "high": 2}}}
    fills = {
        "name": "fedtune",
        "scored_on": "mixture",
        "indices": [0.2, 0.8],
        "quantities": [30, 90],
        "clients": 6,
        "cohort": 3,
        "length": 3,
        "steps": 6,
    }
    proxy = {"data": {"name": "digits", "part": [0.6, 1.0]}}
    digits(fills, space=space, proxy=proxy, budget=ONCE).fill_table(workers=0).save("table.json")
    study = digits(METHODS["reference table"], space={**space, "server": {"lr": 1.0}})
    ours, theirs = (study.tune(federation=make(study)) for make in (simulated, flower))
    assert ours.best_score == theirs.best_score
    assert [trial["score"] for trial in ours.trials] == [trial["score"] for trial in theirs.trials]
    for here, there in zip(ours.model.parameters(), theirs.model.parameters(), strict=True):
        assert here.detach().numpy().tobytes() == there.detach().numpy().tobytes()


def test_fine_tuning_gives_the_same_answers():
    study = digits({"name": "fedex", "trials": 3})
    answers = []
    for make in (simulated, flower):
        with make(study) as federation:
            federation.start(0, {}, seed=5)
            federation.round([fh.Work(0, [2, 5, 4], {"lr": 0.2})])
            answers.append(federation.query(FineTune(0, {"lr": 0.1, "epochs": 2}), [3, 0, 1]))
    assert answers[0] == answers[1]


def test_a_search_that_fails_costs_the_same():
    """Client 6 has no rows to train on, client 7 none to score on; they were asked all the same."""
    query = LocalSearch(SMALL.space, configs=2, sampler=Random(), seed=3)
    with fh.simulate("mlp", small_data(), workers=0) as simulation:
        ours = simulation.query(query, [6, 0, 7])
    with small_federation() as over_flower:
        theirs = over_flower.query(query, [6, 0, 7])
    assert [one.status for one in ours] == [Status.FAILED, Status.OK, Status.FAILED]
    assert ours == theirs
    assert {one.cost.bytes_down for one in ours} == {len(canonical(query.to_dict()))}


def test_fine_tuning_that_fails_costs_the_same():
    """Client 6 has no rows to train on: the model was sent, and nothing came back."""
    answers = []
    for federation in (fh.simulate("mlp", small_data(), workers=0), small_federation()):
        with federation:
            federation.start(0, {}, seed=5)
            answers.append(federation.query(FineTune(0, {"lr": 0.1}), [6, 0]))
    ours, theirs = answers
    assert [one.status for one in ours] == [one.status for one in theirs] == [Status.FAILED, Status.OK]
    assert [one.cost for one in ours] == [one.cost for one in theirs]
    assert ours[0].cost == Cost(bytes_down=ours[1].cost.bytes_down)


def test_several_trials_share_messages():
    """Three trials at two clients: two messages, or, where a message holds one model, six."""
    study = digits({"name": "fedex", "trials": 3})
    states = []
    for options in ({}, {"message_bytes": 1}):
        with flower(study, **options) as federation:
            for trial in range(3):
                federation.start(trial, {}, seed=trial)
            sent = count_messages(federation)
            federation.round([fh.Work(trial, [1, 2], {"lr": 0.1 + trial}) for trial in range(3)])
            states.append([federation.state(trial).arrays["weights"] for trial in range(3)])
        assert sent == ([1, 1] if not options else [1, 1, 1, 1, 1, 1])
    assert np.array_equal(*states)


def count_messages(federation):
    """Messages as they are sent, one entry each."""
    sent, push = [], federation._post.transport.grid.push_messages

    def counting(messages):
        messages = list(messages)
        sent.extend(1 for _ in messages)
        return push(messages)

    federation._post.transport.grid.push_messages = counting
    return sent


@pytest.mark.parametrize("cohort", [8, 24, 40])
@pytest.mark.parametrize("large", [fold.LARGE, 1], ids=["small", "large"])
@pytest.mark.parametrize("clip", [None, 0.05])
def test_sums_follow_the_work_and_not_the_place(cohort, large, clip, monkeypatch):
    """From 32 members on, and for large models, workers add up in groups, and so does a server."""
    monkeypatch.setattr(fold, "LARGE", large)
    monkeypatch.setattr(simulated_federation, "LARGE", large)
    how = Aggregation(clip_norm=clip, weight_cap=100.0)
    data = fh.load("digits", clients=40, partition={"kind": "iid"})
    app = client(
        ClientApp(),
        study=digits(
            {"name": "random"}, data={"name": "digits", "clients": 40, "partition": {"kind": "iid"}}
        ),
    )
    grid = InProcessGrid(app, 40)
    settings = {"clip_norm": clip, "weight_cap": 100.0}
    with (
        fh.simulate("mlp", data, workers=0, stacking=False, **settings) as here,
        FlowerFederation(grid, "mlp", clients=40, repeatable=True, aggregation=how) as there,
    ):
        found = []
        for federation in (here, there):
            federation.start(0, {}, seed=3)
            for _ in range(2):
                federation.round([fh.Work(0, range(cohort), {"lr": 0.3, "batch_size": 8})])
            found.append(federation.state(0).arrays["weights"])
    assert found[0].tobytes() == found[1].tobytes()
