"""Boosted trees over Flower in several trips: the model of the simulation, whoever fails on the way."""

import numpy as np
import pytest
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.clientapp import ClientApp

import fedhpo as fh
from fedhpo.flower import FlowerLearnerFederation, InProcessGrid, client
from fedhpo.flower.server_app import federation_of
from fedhpo.protocol.federation import Status
from fedhpo.protocol.reasons import Reason, Why
from fedhpo.study import Study

PARTIES = 4
CLIENT = {"max_iter": 6, "min_samples_leaf": 2}


def study(**model):
    return Study.from_dict(
        {
            "data": {"name": "flower_cases:four_parties"},
            "model": {"name": "xgboost", **model},
            "space": {},
            "method": {"name": "flora", "configs": 3, "folds": 2, "diagnose": False},
            "budget": {"rounds": 1, "cohort": PARTIES},
        }
    )


class OneLies(InProcessGrid):
    """The last client sends no trees."""

    def answer(self, message):
        reply = super().answer(message)
        liar = list(self.contexts)[PARTIES - 1]
        if message.metadata.dst_node_id != liar or message.metadata.message_type != "train":
            return reply
        nothing = ConfigRecord({"bytes": b'{"trees": []}'})
        return Message(RecordDict({**reply.content, "model-0": nothing}), reply_to=message)


def trained(federation, work=None):
    federation.start(0, model={}, seed=3)
    [report] = federation.round([work or fh.Work(0, range(PARTIES), CLIENT, scores=())])
    return report, federation.model(0)


@pytest.mark.parametrize(("training", "trips"), [("bagging", 1), ("bagging", 3), ("cyclic", 5)])
def test_over_flower_it_is_the_model_of_the_simulation(training, trips):
    data = study().load_data()
    with fh.LearnerFederation(data, "xgboost", training=training, trips=trips, workers=0) as simulated:
        here, model = trained(simulated)
    app = client(ClientApp(), study=study())
    grid = InProcessGrid(app, PARTIES)
    with FlowerLearnerFederation(
        grid, clients=PARTIES, repeatable=True, training=training, trips=trips
    ) as federation:
        there, same = trained(federation)
        assert federation.describe()["trips"] == trips
    rows = data.x[:50]
    np.testing.assert_allclose(model.predict_proba(rows), same.predict_proba(rows), atol=1e-6)
    assert here.applied
    assert there.applied
    visits = trips if training == "cyclic" else trips * PARTIES
    assert here.cost.client_rounds == there.cost.client_rounds == visits
    assert here.cost == there.cost
    assert here.cost.bytes_up > 0
    assert (here.cost.bytes_down > 0) == (trips > 1)  # the first trees begin with no model
    assert there.status.tolist() == [Status.OK] * PARTIES


@pytest.mark.parametrize("training", ["bagging", "cyclic"])
def test_the_others_go_on_without_who_fails(training):
    """The model is that of the others alone, whatever the trip in which one failed."""
    models = []
    for cohort, grid in (([0, 1], InProcessGrid), ([0, 3, 1], OneLies)):
        app = client(ClientApp(), study=study())
        with FlowerLearnerFederation(
            grid(app, PARTIES), clients=PARTIES, repeatable=True, training=training, trips=3
        ) as federation:
            report, model = trained(federation, fh.Work(0, cohort, CLIENT, scores=()))
            models.append(model.predict_proba(study().load_data().x[:50]))
    assert report.applied
    assert report.status.tolist() == [Status.OK, Status.FAILED, Status.OK]
    assert report.reasons == {1: Reason(Why.REJECTED, "it sent 0 trees, expected 2")}
    assert report.cost.client_rounds == (9 if training == "bagging" else 4)
    np.testing.assert_array_equal(*models)


def test_the_study_says_how():
    grid = InProcessGrid(client(ClientApp(), study=study()), PARTIES)
    found = federation_of(grid, study(training="cyclic", trips=4))
    assert found.describe()["training"].startswith("cyclic")
    assert found.describe()["trips"] == 4
    result = study(training="bagging", trips=2).tune(workers=0)
    assert result.status == "finished"
    assert result.cost["client_rounds"] % PARTIES == 0


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"training": "bagging", "trips": 0}, "trips must be a whole number of at least 1, not 0"),
        ({"training": "bagging", "trips": "two"}, "trips must be a whole number of at least 1, not 'two'"),
        (
            {"training": "pooled", "trips": 3},
            "model.trips = 3: .*training = 'pooled'.*'bagging' and 'cyclic'",
        ),
        ({"name": "svm", "training": "cyclic"}, "training = 'cyclic' is for boosted trees"),
    ],
)
def test_mistakes_are_named(model, message):
    with pytest.raises(fh.InputError, match=message):
        study(**model).federation(workers=0)
