"""A surrogate answers configs that a table does not hold: against functions that are known."""

from __future__ import annotations

import numpy as np
import pytest

import fedhpo as fh
from fedhpo import InputError
from fedhpo.protocol.objective import Objective
from fedhpo.research.tables import Surrogate, SurrogateFederation, cross_validate
from fedhpo.research.tables.replay import replay
from fedhpo.research.tables.surrogate import stretch
from fedhpo.testing.table import toy_table


@pytest.fixture(scope="module")
def table():
    return toy_table(configs=64, rounds=27, clients=20, size=200, failed={5: 3})


@pytest.fixture(scope="module")
def surrogate(table):
    return Surrogate(table)


def known_level(config) -> float:
    """The toy table's function: a valley in the plane of the two learning rates."""
    off = np.log10([config.client["lr"], config.server["lr"]]) - [-1.5, -2.5]
    return float(np.clip(0.2 + 0.08 * np.hypot(*off) ** 1.5, 0.2, 0.9))


def test_levels_of_new_configs_are_those_of_the_function(table, surrogate):
    rng = np.random.default_rng(7)
    configs = [table.space.sample(rng) for _ in range(40)]
    found = np.array([surrogate.answer(config).error[0, -1].mean() for config in configs])
    truth = np.array([known_level(config) for config in configs])
    assert np.sqrt(((found - truth) ** 2).mean()) < 0.2 * truth.std()
    assert np.corrcoef(found, truth)[0, 1] > 0.97


def test_clients_stay_as_unlike_as_they_were_recorded(table, surrogate):
    rng = np.random.default_rng(8)
    answers = [surrogate.answer(table.space.sample(rng)) for _ in range(40)]
    middle = [answer.error for answer in answers if 0.3 < answer.error[0, -1].mean() < 0.6]
    recorded = table.errors()[:, -1]
    like = recorded[(recorded.mean(axis=1) > 0.3) & (recorded.mean(axis=1) < 0.6)]
    spread = np.mean([error[0, -1].std() for error in middle])
    assert spread == pytest.approx(like.std(axis=1).mean(), rel=0.2)
    alike = np.mean([error[2, -1].std() for error in middle])  # heterogeneity 1: all agree
    assert alike < 0.02


def test_curves_fall_and_stay_shares(table, surrogate):
    answer = surrogate.answer(table.space.sample(np.random.default_rng(9)))
    means = answer.error[0].mean(axis=1)
    assert means[0] > means[-1]
    assert answer.error.min() >= 0
    assert answer.error.max() <= 1
    assert (answer.loss >= 0).all()


def test_stretching_keeps_the_mean_that_is_asked_for():
    errors = np.random.default_rng(0).random((5, 7))
    mean = errors.mean(axis=1, keepdims=True)
    for wanted in (0.0, 0.1, 0.5, 0.93, 1.0):
        found = stretch(errors, mean, np.full((5, 1), wanted))
        np.testing.assert_allclose(found.mean(axis=1), wanted, atol=1e-12)
        assert ((found >= 0) & (found <= 1)).all()


def test_the_table_s_own_configs_are_answered_as_recorded(table, surrogate):
    federation = SurrogateFederation(table, 0.5, surrogate)
    for place in (0, 5, 63):
        answer = surrogate.answer(table.configs[place])
        assert (answer.error[1] == table.errors(0.5)[place]).all()
        assert federation.truth(table.configs[place], 27, Objective("error")) == table.truth(place, 27)
    assert federation.trained(table.configs[5]) == 3


def test_a_config_beside_one_that_failed_fails_too(table, surrogate):
    own = table.configs[5]
    near = own.replace(client={**own.client, "momentum": own.client["momentum"] * 0.999})
    assert surrogate.answer(near).trained == 3


def test_answers_do_not_depend_on_what_was_asked_before(table, surrogate):
    rng = np.random.default_rng(3)
    configs = [table.space.sample(rng) for _ in range(6)]
    again = Surrogate(table)
    for config in reversed(configs):
        assert (again.answer(config).error == surrogate.answer(config).error).all()
        assert (again.answer(config).loss == surrogate.answer(config).loss).all()


def test_model_based_search_leaves_the_pool_and_beats_it(table, surrogate):
    free = [replay(table, "gp", total=27 * 20, seed=seed, surrogate=surrogate) for seed in range(3)]
    assert all(found.best not in table.configs for found in free)
    # The judge is the function behind the table, not the surrogate.
    best_of_pool = min(known_level(config) for config in table.configs)
    assert np.mean([known_level(found.best) for found in free]) < best_of_pool + 0.02
    again = replay(table, "gp", total=27 * 20, seed=0, surrogate=True)
    assert again.best == free[0].best
    assert again.truth == free[0].truth


def test_tune_and_replay_come_to_the_same(table, surrogate, tmp_path):
    replayed = replay(table, "sha", total=135, seed=4, surrogate=surrogate)
    federation = SurrogateFederation(table, surrogate=surrogate)
    result = fh.tune(
        federation,
        table.space,
        "sha",
        rounds=27,
        total=135,
        cohort=10,
        seed=4,
        objective=table.study.objective,
        run=tmp_path / "run",
    )
    assert result.best_config == replayed.best
    assert result.best_config not in table.configs


def test_state_goes_to_another_federation_with_its_config(table, surrogate):
    config = table.space.sample(np.random.default_rng(5))
    first = SurrogateFederation(table, surrogate=surrogate)
    first.start(0, config.model, 0)
    first.seek(0, config, 9)
    second = SurrogateFederation(table, surrogate=surrogate)
    second.start(1, config.model, 0)
    second.seek(1, table.space.sample(np.random.default_rng(6)), 3)  # takes the first place behind the pool
    second.start(0, config.model, 0)
    second.restore(0, first.state(0))
    [a], [b] = (federation.evaluate([0], table.validation_clients) for federation in (first, second))
    assert (a.accuracy == b.accuracy).all()


def test_its_error_is_that_of_configs_it_has_not_seen(table):
    found = cross_validate(table)
    assert found.level < 0.35 * found.spread
    assert found.rank > 0.9
    assert found.client > found.level
    noise = table.kept(np.arange(64), np.arange(20))
    shuffled = np.random.default_rng(0).permutation(64)
    object.__setattr__(noise, "wrong", noise.wrong[:, shuffled])  # curves of other configs: nothing to learn
    assert cross_validate(noise).rank < 0.4


def test_what_cannot_be_answered_is_refused(table, surrogate):
    with pytest.raises(InputError, match="at least 16 are needed"):
        Surrogate(toy_table(configs=15, rounds=9, clients=5))
    own = table.configs[0]
    with pytest.raises(InputError, match=r"client\.lr"):
        surrogate.answer(own.replace(client={**own.client, "lr": 50.0}))
