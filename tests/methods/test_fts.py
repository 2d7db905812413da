"""Federated Thompson sampling: what clients send, whom the server goes by, what comes of it."""

import math

import numpy as np
import pytest

import fedhpo as fh
from fedhpo.core.canonical import canonical
from fedhpo.methods.fts import Thompson
from fedhpo.protocol.federation import Answer, Status
from fedhpo.protocol.objective import Score
from fedhpo.protocol.sampler import Observation
from fedhpo.queries.local_search import LocalSearch, PartySearch
from fedhpo.surrogates.cube import Cube
from fedhpo.surrogates.features import RandomFeatures
from fedhpo.testing import ToyFederation

SPACE = fh.Space(
    client={"lr": fh.Float(0.0, 1.0), "batch_size": fh.Choice([8, 16, 32])}, server={"lr": fh.Float(0.1, 2.0)}
)
LOCAL = SPACE.subspace(("client", "model"))


def searched(best, features=200, configs=40):
    """What a party sends whose loss is lowest at `best`."""
    search = PartySearch(LocalSearch(LOCAL, configs=configs, features=features), party=0, size=30)
    while (config := search.ask()) is not None:
        search.tell(abs(config.client["lr"] - best))
    return search.answer()


def test_a_client_sends_one_vector_and_no_config():
    answer = searched(0.3)
    assert sorted(answer.content) == ["size", "weights"]
    assert len(answer.content["weights"]) == 200
    assert answer.cost.bytes_up == len(canonical(answer.content))


def test_its_weights_are_lowest_where_its_loss_is():
    weights = np.array(searched(0.3).content["weights"])
    rates = np.linspace(0, 1, 51)
    points = Cube(LOCAL).points([LOCAL.complete({"client.lr": float(lr)}) for lr in rates])
    assert abs(rates[np.argmin(RandomFeatures(LOCAL, 200, 0)(points) @ weights)] - 0.3) < 0.15


def test_the_posterior_is_that_of_linear_regression_by_hand():
    features = RandomFeatures(LOCAL, 3, seed=1, noise=0.5)
    points = Cube(LOCAL).points([LOCAL.complete({"client.lr": lr}) for lr in (0.1, 0.6, 0.9)])
    values = np.array([1.0, 2.0, 4.0])
    drawn = [features.sampled(points, values, np.random.default_rng(seed)) for seed in range(4000)]
    mapped, targets = features(points), (values - values.mean()) / values.std()
    precision = mapped.T @ mapped + 0.25 * np.eye(3)
    mean = np.linalg.solve(precision, mapped.T @ targets)
    np.testing.assert_allclose(np.mean(drawn, axis=0), mean, atol=0.05)
    np.testing.assert_allclose(np.cov(np.array(drawn).T), 0.25 * np.linalg.inv(precision), atol=0.08)


def observed(*pairs):
    return [
        Observation(place, SPACE.complete({"client.lr": float(lr), "server.lr": 0.5}), Score(v, 0.1, 5, 3, v))
        for place, (lr, v) in enumerate(pairs)
    ]


def test_at_first_it_goes_by_clients_and_keeps_the_servers_part_of_the_best_trial():
    weights = tuple(searched(0.3).content["weights"])
    sampler = Thompson((weights,), 200, decay=1e-9, seed=0)  # p_t = 0
    seen = observed((0.9, 0.8), (0.7, 0.6))
    config = sampler.suggest(SPACE, seen, [s.config for s in seen], np.random.default_rng(0))
    assert abs(config.client["lr"] - 0.3) < 0.15
    assert config.server["lr"] == 0.5


def test_later_it_goes_by_its_own_scores():
    weights = tuple(searched(0.1).content["weights"])
    sampler = Thompson((weights,), 200, decay=50.0, seed=0)  # p_t = 1
    seen = observed(*((lr, abs(lr - 0.8)) for lr in np.linspace(0, 1, 25)))
    found = [
        sampler.suggest(SPACE, seen, [s.config for s in seen], np.random.default_rng(seed)).client["lr"]
        for seed in range(9)
    ]
    assert abs(np.median(found) - 0.8) < 0.15


@pytest.mark.parametrize(
    "sent", [None, [], {"weights": [1.0] * 9}, {"weights": [math.nan] * 20}, {"weights": "x"}]
)
def test_what_a_client_sends_is_checked(sent):
    method = fh.FTS(features=20)
    assert method._weights(Answer(0, Status.OK, sent)) is None
    assert method._weights(Answer(0, Status.OK, {"weights": [1] * 20})) == (1.0,) * 20


def test_a_whole_run_asks_all_clients():
    data = fh.load("digits", clients=4, seed=0)
    space = fh.Space(client={"lr": fh.Float(1e-3, 1.0, log=True)}, server={"lr": fh.Float(0.3, 1.5)})
    with fh.simulate("linear", data, workers=0) as federation:
        method = fh.FTS(configs=4, local_rounds=1, features=30)
        result = fh.tune(federation, space, method, rounds=2, total=8, cohort=3)
    assert result.facts["fts"] == {"answered": 4, "asked": 4}
    assert len(result.trials) == 4


def test_what_cannot_be_is_refused():
    with pytest.raises(fh.InputError, match="decay must be positive"):
        fh.FTS(decay=0.0)
    space = fh.Space(server={"lr": fh.Float(0.1, 1.0)})
    with pytest.raises(fh.InputError, match="nothing that clients can search"):
        fh.tune(ToyFederation(), space, fh.FTS(), rounds=2, cohort=2)
