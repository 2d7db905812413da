"""The private choice by ranks: its probabilities, by hand and by counting."""

import math

import numpy as np
import pytest

import fedhpo as fh
from fedhpo.privacy.choice import best_by_rank, favoured
from fedhpo.queries.local_search import LocalSearch, PartySearch
from fedhpo.queries.smoothing import smoothed


def seeded(seed):
    rng = np.random.default_rng(seed)
    return lambda n: int(rng.integers(n))


def test_the_best_is_taken_as_often_as_epsilon_allows():
    """One of four is favoured at ln 9: weights 9, 1, 1, 1, so that the best has 9/12."""
    losses, epsilon = np.array([0.4, 0.1, 0.3, 0.2]), math.log(9)
    assert favoured(4, epsilon) == 1
    drawn = seeded(0)
    counts = np.bincount([best_by_rank(losses, 1, epsilon, drawn)[0] for _ in range(12000)], minlength=4)
    np.testing.assert_allclose(counts / 12000, [1 / 12, 9 / 12, 1 / 12, 1 / 12], atol=0.015)


def shares(configs, epsilon):
    """The exact chance of the best and of the worst rank, from which first draws favour the best."""
    losses, drawn = np.arange(configs) / configs, []

    def taken(first):
        answers = iter([first, 0])

        def below(total):
            drawn.append(total)
            return next(answers)

        return best_by_rank(losses, 1, epsilon, below)[0]

    taken(0)
    total, low, high = drawn[0], 0, drawn[0]
    best = favoured(configs, epsilon)
    while low < high:  # the number of first draws that lead to the favoured, by bisection
        middle = (low + high) // 2
        low, high = (middle + 1, high) if taken(middle) < best else (low, middle)
    return low / best, (total - low) / (configs - best)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0, 10.0, 24.0])
@pytest.mark.parametrize("configs", [2, 7, 100])
def test_no_outcome_is_more_than_exp_epsilon_times_as_likely(configs, epsilon):
    """Whatever the losses become, ranks change places: the ratio is bounded, and hardly anything wasted."""
    best, worst = shares(configs, epsilon)
    assert best / worst <= math.exp(epsilon)
    assert best / worst == pytest.approx(math.exp(epsilon), rel=1e-4)


def test_several_are_different_and_share_epsilon():
    assert best_by_rank(np.arange(20) / 20, 3, 75.0, seeded(1)) == [0, 1, 2]
    assert len(set(best_by_rank(np.zeros(5), 5, 0.1, seeded(2)))) == 5


@pytest.mark.parametrize("release", ["simulated", "exact"])
def test_a_party_sends_its_best_and_no_exact_loss(release):
    if release == "exact":
        pytest.importorskip("opendp")
    space = fh.Space(client={"lr": fh.Float(0, 1)})
    privacy = fh.LocalPrivacy(epsilon=60.0, release=release)
    query = LocalSearch(space, configs=16, best=2, listed=True, privacy=privacy)
    tried, losses = [], []
    search = PartySearch(query, 0, 30)
    while (config := search.ask()) is not None:
        tried.append(config.to_dict())
        losses.append(abs(config.client["lr"] - 0.3))
        search.tell(losses[-1] if len(tried) > 1 else math.nan)  # no number: the worst, not the best
    losses[0] = 1.0
    content = search.answer().content
    assert sorted(content) == ["configs", "losses", "size"]
    order = sorted(range(16), key=losses.__getitem__)
    assert content["configs"] == [tried[order[0]], tried[order[1]]]
    assert not set(content["losses"]) & set(losses)
    # Laplace of scale 2 / 15: beyond 1.5 once in 75,000 draws.
    np.testing.assert_allclose(content["losses"], [losses[i] for i in order[:2]], atol=1.5)


def test_of_one_config_no_loss_is_sent():
    """Whatever the losses are, the number beside the config is the same."""
    space = fh.Space(client={"lr": fh.Float(0, 1)})
    query = LocalSearch(space, configs=16, listed=True, privacy=fh.LocalPrivacy(epsilon=10.0))
    for level in (0.1, 0.9):
        search = PartySearch(query, 0, 30)
        while (config := search.ask()) is not None:
            search.tell(level * config.client["lr"])
        assert search.answer().content["losses"] == [0.0]
    assert query.privacy.to_dict(16, 1)["epsilon_of"] == {"choice": 10.0, "losses": 0.0}


def test_a_party_goes_by_a_smooth_surface_of_its_losses():
    """A valley at 0.8 under noise: the surface's minimum is nearer to it than the lowest loss is."""
    space = fh.Space(client={"lr": fh.Float(0, 1, default=0.0)})
    configs = [fh.Config(client={"lr": place / 40}) for place in range(41)]
    valley, apart = np.array([0.3 + 0.5 * abs(config.client["lr"] - 0.8) for config in configs]), []
    for seed in range(10):
        losses = valley + np.random.default_rng(seed).normal(0, 0.1, 41)
        places = np.argmin(losses), np.argmin(smoothed(space, configs, losses.tolist()))
        apart.append([abs(place / 40 - 0.8) for place in places])
    raw, smooth = np.mean(apart, axis=0)
    assert smooth < 0.6 * raw


def test_the_default_is_kept_unless_another_promises_more():
    space = fh.Space(client={"lr": fh.Choice([0.1, 0.2, 0.3], default=0.2)})
    configs = [fh.Config(client={"lr": lr}) for lr in (0.1, 0.2, 0.3)]
    assert smoothed(space, configs, [0.4, 0.4, 0.4]) == pytest.approx([0.4, 0.38, 0.4])


def test_what_is_tried_does_not_depend_on_losses():
    space = fh.Space(client={"lr": fh.Float(0, 1), "momentum": fh.Choice([0.0, 0.9])})
    query = LocalSearch(space, configs=12, listed=True, privacy=fh.LocalPrivacy(epsilon=10.0), seed=3)

    def tried(party, loss):
        search, found = PartySearch(query, party, 10), []
        while (config := search.ask()) is not None:
            found.append(config)
            search.tell(loss(config))
        return found

    first = tried(0, lambda config: config.client["lr"])
    assert len(set(first)) == 12
    assert first == tried(1, lambda config: 1 - config.client["lr"])
