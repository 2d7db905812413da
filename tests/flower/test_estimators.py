"""Every learner over Flower, in process: searches as in the simulation, then averaging, or the config alone.

MLPs train for few epochs, as an epoch is a call.
"""

import numpy as np
import pytest
from flower_cases import four_parties
from flwr.clientapp import ClientApp
from sklearn.metrics import balanced_accuracy_score
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import fedhpo as fh
from fedhpo.aggregation.aggregation import Aggregation
from fedhpo.core.errors import InputError
from fedhpo.core.streams import derive
from fedhpo.federations.flower.federation import FlowerEstimatorFederation
from fedhpo.flower import InProcessGrid, client
from fedhpo.flower.server_app import federation_of
from fedhpo.learners import LEARNERS, Learner
from fedhpo.learners.averaging import first_arrays, trained_arrays, with_arrays
from fedhpo.protocol.federation import Status
from fedhpo.queries.local_search import LocalSearch
from fedhpo.samplers import Random
from fedhpo.space.config import Config
from fedhpo.study import Study
from fedhpo.study.kinds.learners import learner_in
from fedhpo.testing.learners import LearnerSuite
from fedhpo.testing.parties import party_rows

PARTIES = 4
#: A pipeline of the user's own, as a study names it.
PIPELINE = make_pipeline(StandardScaler(), SVC())
BAYES = {"name": "estimator", "path": "sklearn.naive_bayes:GaussianNB"}


def study(model, space=None, **others):
    return Study.from_dict(
        {
            "data": {"name": "flower_cases:four_parties"},
            "model": {"name": model} if isinstance(model, str) else model,
            "space": {"client": space} if space else {},
            "method": {"name": "flora", "configs": 3, "folds": 2, "diagnose": False},
            "budget": {"rounds": 1, "cohort": PARTIES},
            **others,
        }
    )


def federation(asked, **options):
    grid = InProcessGrid(client(ClientApp(), study=asked), PARTIES)
    return federation_of(grid, asked, repeatable=True, **options)


class TestConfigAlone(LearnerSuite):
    """Clients that keep their models."""

    client = {"C": 2.0, "gamma": 0.5}  # noqa: RUF012
    space = fh.Space(client={"C": fh.Float(0.1, 10.0, log=True)})
    names = ("c", "C")

    def make(self):
        return federation(study("svm"))


class TestAveraging(LearnerSuite):
    """Clients whose weights are averaged."""

    client = {"hidden_layer_sizes": 5, "learning_rate_init": 0.01, "max_iter": 10}  # noqa: RUF012
    space = fh.Space(client={"hidden_layer_sizes": fh.Int(2, 6)}, model={"max_iter": 10})
    names = ("hidden", "hidden_layer_sizes")

    def make(self):
        return federation(study("mlp_sklearn"))


SPACES = {
    "svm": None,
    "mlp_sklearn": None,
    "cash": None,
    "GaussianNB": {"var_smoothing": {"low": 1e-9, "high": 1.0, "log": True}},
    "PIPELINE": {"svc__C": {"low": 0.1, "high": 10.0, "log": True}},
}
PATHS = {"GaussianNB": "sklearn.naive_bayes:GaussianNB", "PIPELINE": "test_estimators:PIPELINE"}


@pytest.mark.parametrize("name", SPACES)
def test_local_searches_are_those_of_the_simulation(name):
    model = {"name": "estimator", "path": PATHS[name]} if name in PATHS else name
    asked = study(model, SPACES[name])
    query = LocalSearch(asked.space, configs=2, folds=2, sampler=Random(), seed=3)
    with federation(asked) as flower:
        ours = flower.query(query, [2, 0])
    with fh.LearnerFederation(four_parties(), learner_in(asked.file.model), workers=0) as simulated:
        theirs = simulated.query(query, [2, 0])
    assert [one.status for one in ours] == [Status.OK] * 2
    assert [one.content for one in ours] == [one.content for one in theirs]


def test_a_party_that_cannot_search_costs_the_same():
    """A party of one class: the query was sent to it all the same."""
    asked = study(BAYES, SPACES["GaussianNB"], data={"name": "test_estimators:one_of_one_class"})
    query = LocalSearch(asked.space, configs=2, folds=2, sampler=Random(), seed=3)
    with federation(asked) as flower:
        ours = flower.query(query, [3, 0])
    with fh.LearnerFederation(one_of_one_class(), learner_in(asked.file.model), workers=0) as simulated:
        theirs = simulated.query(query, [3, 0])
    assert [one.status for one in ours] == [Status.FAILED, Status.OK]
    assert ours == theirs
    assert ours[0].cost.bytes_down == ours[1].cost.bytes_down > 0


def one_of_one_class():
    """Three parties of two classes, and one whose rows are all of the first."""
    x, y = party_rows(60, seed=9)
    return fh.from_clients([*(party_rows(60, seed) for seed in range(3)), (x, y * 0)], classes=2)


@pytest.mark.parametrize(("name", "training"), [("svm", "none"), ("mlp_sklearn", "averaging")])
def test_flora_ends_in_a_model_or_in_the_config_alone(name, training, tmp_path):
    asked = study({"name": name, "max_iter": 100})
    with federation(asked) as flower:
        result = asked.tune(tmp_path / "run", federation=flower)
    assert result.facts["flora"]["training"].startswith(training)
    assert result.cost["rounds"] == 1
    assert result.facts["best"]["validation"]["value"] > 0.6
    if training == "none":
        assert result.model is None
    else:
        x, y = party_rows(200, seed=99)
        assert (result.model.predict(x) == y).mean() > 0.7


def test_the_score_of_a_config_is_that_of_the_clients_own_models():
    """By hand: each client fits on its own rows, and scores on its own."""
    asked = study(
        BAYES, {"var_smoothing": {"low": 1e-9, "high": 1.0, "log": True}}, server={"weight_cap": 9.0}
    )
    data = four_parties()
    with federation(asked) as flower:
        flower.start(0, {}, seed=1)
        flower.round([fh.Work(0, [0, 1], {"var_smoothing": 0.3})])
        [scores] = flower.evaluate([0], range(PARTIES))
        assert flower.model(0) is None
    for party in range(PARTIES):
        rows, held = data.train.rows(party), data.validation.rows(party)
        own = GaussianNB(var_smoothing=0.3).fit(data.x[rows], data.y[rows])
        expected = balanced_accuracy_score(data.y[held], own.predict(data.x[held]))
        assert scores.loss[party] == pytest.approx(1 - expected)
        assert scores.size[party] == len(held)


def test_averaging_is_the_mean_of_what_clients_send_by_hand():
    """Ten exchanges between two clients, their weights by rows, computed here without a federation."""
    asked = study("mlp_sklearn", server={"aggregation": "mean", "weight_cap": 99.0})
    config = {"hidden_layer_sizes": 3, "learning_rate_init": 0.02, "max_iter": 20}
    learner, data = LEARNERS["mlp_sklearn"], four_parties()
    with federation(asked, weight_cap=99.0) as flower:
        flower.start(0, {}, seed=1)
        [report] = flower.round([fh.Work(0, [0, 2], config)])
        found = flower.state(0).arrays
    whole = Config(client=config)
    rows = {party: data.train.rows(party) for party in (0, 2)}
    lows, highs = ([of(data.x[at], axis=0) for at in rows.values()] for of in (np.min, np.max))
    low, high = np.mean(lows, axis=0, dtype=np.float32), np.mean(highs, axis=0, dtype=np.float32)
    arrays = first_arrays(learner, whole, 2, 2, derive(1, "fit") % 2**32)
    for exchange in range(1, 11):
        sent = {
            party: trained_arrays(
                learner,
                whole,
                arrays,
                (data.x[at] - low) / (high - low),
                data.y[at],
                2,
                derive(1, "fit", exchange, party) % 2**32,
            )
            for party, at in rows.items()
        }
        total = sum(len(at) for at in rows.values())
        arrays = {
            name: sum(len(rows[party]) / total * one[name] for party, one in sent.items()) for name in arrays
        }
    np.testing.assert_allclose(found["low"], low, rtol=1e-6)
    # Two features, three hidden units, one output: 13 weights go to both eleven times, in the first exchange
    # without the range of the two features, which comes back then, in the others the weights.
    assert report.cost.bytes_down == 2 * 4 * (13 + 10 * (13 + 4))
    assert report.cost.bytes_up == 2 * 4 * (4 + 10 * 13)
    for name, array in arrays.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-3, atol=1e-4)


def test_weights_come_back_as_they_were():
    config = Config(client={"hidden_layer_sizes": 4})
    arrays = first_arrays(LEARNERS["mlp_sklearn"], config, 3, 2, seed=5)
    x = np.random.default_rng(0).normal(size=(7, 3))
    made = with_arrays(LEARNERS["mlp_sklearn"], config, arrays, 2)
    hidden = np.maximum(x @ arrays["coef-0"] + arrays["intercept-0"], 0)
    expected = 1 / (1 + np.exp(-(hidden @ arrays["coef-1"] + arrays["intercept-1"])))
    np.testing.assert_allclose(made.predict_proba(x)[:, 1], expected[:, 0], rtol=1e-6)


def test_a_client_that_lacks_a_class_is_averaged_with_the_others():
    x, y = party_rows(60, seed=3)
    arrays = first_arrays(LEARNERS["mlp_sklearn"], Config(), x.shape[1], 2, seed=5)
    only = y == y[0]
    sent = trained_arrays(LEARNERS["mlp_sklearn"], Config(), arrays, x[only], y[only], 2, seed=1)
    assert {name: array.shape for name, array in sent.items()} == {
        name: array.shape for name, array in arrays.items()
    }
    assert not np.array_equal(sent["coef-0"], arrays["coef-0"])


def test_what_cannot_be_is_refused():
    with pytest.raises(InputError, match=r"scaling = 'minmax': over Flower nobody knows"):
        federation(study({"name": "svm", "scaling": "minmax"}))
    with pytest.raises(InputError, match=r"training = 'pooled'.*leave it out"):
        federation(study({"name": "svm", "training": "pooled"}))
    lbfgs = Learner("lbfgs", MLPClassifier, fixed={"solver": "lbfgs"})
    grid = InProcessGrid(client(ClientApp(), study=study("mlp_sklearn")), PARTIES)
    with FlowerEstimatorFederation(grid, lbfgs, clients=PARTIES, aggregation=Aggregation()) as flower:
        flower.start(0, {}, seed=1)
        with pytest.raises(InputError, match="'lbfgs' cannot be averaged"):
            flower.round([fh.Work(0, [0, 1], {})])
