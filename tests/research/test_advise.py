"""Advice: the predicted noise of scores, and of selection, against what is measured."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from fedhpo.cli import main
from fedhpo.core.errors import InputError
from fedhpo.methods.auto import Case, choose
from fedhpo.privacy.privacy import Privacy
from fedhpo.protocol.objective import Objective
from fedhpo.research.advise import (
    Noise,
    Pilot,
    advise,
    check_advice,
    measure,
    pilot_of_table,
    predict,
    standard_error,
)
from fedhpo.research.advise.advice import advice_of, enough_clients
from fedhpo.research.advise.quality import biased_regret
from fedhpo.research.advise.suitability import suitability
from fedhpo.search.evaluator import Evaluator
from fedhpo.study import Study
from fedhpo.testing.table import toy_table

TABLE = toy_table(configs=60, rounds=27, clients=60)


def pilot(values, sizes=None, weighting="uniform", metric="error"):
    values = np.array(values, float)
    sizes = np.full(values.shape[1], 10) if sizes is None else np.array(sizes)
    return Pilot(values, sizes, Objective(metric, weighting=weighting), 1, "a test")


def rng():
    return np.random.default_rng(0)


def test_the_standard_error_of_drawing_is_cochran_s():
    """Two of four clients with errors 0, 0, 1, 1: variance 1/3, times (1/2 - 1/4)."""
    two = pilot([[0, 0, 1, 1], [0, 0, 1, 1]])
    assert standard_error(two, Noise(2, 4)) == pytest.approx(math.sqrt(1 / 12))
    assert standard_error(two, Noise(4, 4)) == 0


def test_privacy_adds_the_laplace_noise_of_the_paper():
    two = pilot([[0, 0, 1, 1], [0, 0, 1, 1]])
    noise = Noise(4, 4, epsilon=1.0, evaluations=16)
    assert noise.scale == 4  # M / (epsilon |S|)
    assert standard_error(two, noise) == pytest.approx(math.sqrt(2) * 4)


@pytest.mark.parametrize("weighting", ["uniform", "size"])
def test_the_standard_error_is_that_of_scores_that_are_drawn(weighting):
    generator = rng()
    sizes = generator.integers(5, 50, 80)
    one = pilot(generator.beta(2, 4, (2, 80)), sizes, weighting)
    weights = np.ones(80) if weighting == "uniform" else sizes
    drawn = [generator.permutation(80)[:15] for _ in range(4000)]
    means = [np.average(one.values[0][d], weights=weights[d]) for d in drawn]
    predicted = math.sqrt(one.covariance[0, 0] * Noise(15, 80).drawn)
    assert np.std(means) == pytest.approx(predicted, rel=0.1)


def test_two_configs_and_the_normal_distribution():
    """Best of two with independent errors: Phi(difference / (sqrt 2 x standard error))."""
    generator = rng()
    noise = generator.normal(0, 0.1, (2, 400))
    noise -= noise.mean(axis=1, keepdims=True)
    two = pilot(np.array([[0.4], [0.42]]) + noise)
    seen = predict(two, Noise(20, 400, paired=False), 2, rng())
    error = 0.1 * math.sqrt(1 / 20 - 1 / 400)
    expected = 0.5 * (1 + math.erf(0.02 / (math.sqrt(2) * error) / math.sqrt(2)))
    assert seen.best_first == pytest.approx(expected, abs=0.04)
    assert seen.regret == pytest.approx(0.02 * (1 - seen.best_first), abs=1e-6)


def test_pairing_helps_where_clients_agree():
    generator = rng()
    client = generator.normal(0, 0.2, 100)
    values = np.linspace(0.3, 0.5, 10)[:, None] + client + generator.normal(0, 0.02, (10, 100))
    alike = pilot(values)
    paired = predict(alike, Noise(5, 100), 10, rng())
    apart = predict(alike, Noise(5, 100, paired=False), 10, rng())
    assert paired.best_first > apart.best_first + 0.3


@pytest.mark.parametrize(("epsilon", "paired"), [(None, True), (None, False), (20.0, True)])
def test_predictions_hold_on_a_table(epsilon, paired):
    for row in check_advice(TABLE, [2, 10, 30, 60], configs=16, epsilon=epsilon, paired=paired):
        predicted, measured = row["predicted"], row["measured"]
        assert predicted["best_first"] == pytest.approx(measured["best_first"], abs=0.06)
        assert predicted["near"] == pytest.approx(measured["near"], abs=0.06)
        assert predicted["regret"] == pytest.approx(measured["regret"], abs=0.01)


def test_predictions_hold_on_real_curves(table):
    """Twelve clients of digits: far from normal, and still of use."""
    for row in check_advice(table, [2, 4, 8, 12], configs=16):
        assert row["predicted"]["near"] == pytest.approx(row["measured"]["near"], abs=0.15)
    assert row["predicted"]["best_first"] == row["measured"]["best_first"] == 1


def test_a_small_pilot_tells_nearly_as_much():
    few = pilot_of_table(TABLE, configs=8, round=9)
    for row in check_advice(TABLE, [3, 15], configs=16, pilot=few):
        assert row["predicted"]["near"] == pytest.approx(row["measured"]["near"], abs=0.25)


def test_enough_is_enough_and_hardly_more():
    whole = pilot_of_table(TABLE)
    enough, available = enough_clients(whole, Noise(1, 60), 16, seed=0)
    assert available
    assert measure(whole, Noise(enough, 60), 16, rng()).near > 0.85
    assert measure(whole, Noise(max(1, enough // 3), 60), 16, rng()).near < 0.9
    wanted, available = enough_clients(whole, Noise(1, 60, epsilon=0.5, evaluations=16), 16, seed=0)
    assert not available
    assert wanted > 60


def test_bias_can_mislead_for_ever():
    """The first config is right for one kind of clients only; these then reply more often."""
    one_sided = pilot([[0.0] * 4 + [1.0] * 6, [0.4] * 10])
    assert biased_regret(one_sided, 0.0) == 0
    assert biased_regret(one_sided, 3.0) == pytest.approx(0.2)


def test_accuracy_is_error_upside_down():
    error = pilot_of_table(TABLE, Objective("error"))
    accuracy = pilot_of_table(TABLE, Objective("accuracy"))
    assert accuracy.means == pytest.approx(1 - error.means)
    first, second = (predict(p, Noise(5, 60), 16, rng()) for p in (error, accuracy))
    assert first.regret == pytest.approx(second.regret, rel=0.15)


def test_clear_scores_and_noisy_ones_get_other_advice():
    whole = pilot_of_table(TABLE)
    clear = advice_of(whole, Evaluator(), 16)
    assert (clear.noisy, clear.method, clear.standard_error) == (False, "robust", 0.0)
    assert "Any method will do" in clear.practices[0]
    hard = advice_of(whole, Evaluator(clients=1), 16)
    assert (hard.noisy, hard.method, hard.mechanism) == (True, "robust", None)
    assert "Do not choose by one score" in hard.practices[0]
    assert f"Ask at least {hard.enough} validation clients; 1 are not enough" in hard.practices[1]
    hopeless = advice_of(whole, Evaluator(privacy=Privacy(epsilon=0.01)), 16, has_proxy=True)
    assert hopeless.method == "proxy"
    assert hopeless.epsilon == 0.01
    assert not hopeless.enough_available
    assert (hopeless.mechanism, hopeless.accounting) == ("permute-and-flip", "rotation")


def test_what_is_recommended_is_what_auto_takes():
    whole = pilot_of_table(TABLE)
    for evaluator in (Evaluator(), Evaluator(clients=1), Evaluator(privacy=Privacy(epsilon=50.0))):
        advice = advice_of(whole, evaluator, 16, rounds=27)
        epsilon = None if evaluator.privacy is None else evaluator.privacy.epsilon
        case = Case(27, 16 * 27, 60, evaluator.count(60), epsilon, epsilon is not None, whole.config_spread)
        assert (advice.method, advice.why) == (choose(case).method.name, choose(case).why)


def _two(agree, configs=8):
    """A pilot at 30 clients, and one elsewhere that orders configs alike, or in no way."""
    generator = rng()
    level = np.linspace(0.2, 0.6, configs)
    there = level if agree else level[[3, 6, 1, 4, 7, 0, 5, 2]]
    values = level[:, None] + generator.normal(0, 0.1, (configs, 30))
    names = tuple(range(configs))
    return replace(pilot(values), configs=names), replace(pilot(there[:, None] + [[0.0, 0.0]]), configs=names)


def test_a_proxy_that_orders_configs_as_the_clients_do_is_suitable():
    real, proxy = _two(agree=True)
    found = suitability(real, proxy, rng())
    assert found.suitable
    assert (found.configs, found.clients) == (8, 10)
    assert found.correlation > 0.9
    assert found.lost < 0.1
    assert "The proxy is suitable" in found.in_words()


def test_a_proxy_that_orders_configs_otherwise_is_not():
    real, proxy = _two(agree=False)
    found = suitability(real, proxy, rng())
    assert not found.suitable
    assert found.chance > 0.2
    assert "not shown" in found.in_words()
    with pytest.raises(InputError, match="0 pilot configs in common"):
        suitability(real, replace(proxy, configs=tuple(range(50, 58))), rng())


def test_a_study_with_a_proxy_is_told_whether_it_is_suitable():
    data = {"name": "digits", "clients": 12}
    study = Study.from_dict(
        {
            "data": data,
            "model": {"name": "linear"},
            "space": {"client": {"lr": {"low": 0.0001, "high": 1.0, "log": True}}},
            "evaluation": {"clients": 3},
            "budget": {"rounds": 40, "cohort": 4},
            "proxy": {"data": {**data, "clients": 6}},
        }
    )
    advice = advise(study, workers=0)
    assert advice.proxy is not None
    assert advice.proxy.suitable  # the same data, dealt otherwise
    assert advice.practices[3] == advice.proxy.in_words()
    assert advice.to_dict()["proxy"]["suitable"] is True


def test_heterogeneity_is_what_sizes_do_not_explain():
    generator = rng()
    alike = pilot(generator.binomial(50, 0.3, (6, 400)) / 50, np.full(400, 50))
    assert alike.heterogeneity < 0.15
    apart = pilot(np.tile([0.0, 1.0], (6, 200)), np.full(400, 50))
    assert apart.heterogeneity == 1


def test_a_live_pilot_asks_every_validation_client():
    study = Study.from_dict(
        {
            "data": {"name": "digits", "clients": 12},
            "model": {"name": "linear"},
            "space": {"client": {"lr": {"low": 0.001, "high": 1.0, "log": True}}},
            "evaluation": {"clients": 3},
            "budget": {"rounds": 40, "cohort": 4},
        }
    )
    advice = advise(study, workers=0)
    assert advice.source == "a pilot of 8 configs, 2 rounds each"
    assert (advice.asked_clients, advice.validation_clients, advice.configs) == (3, 12, 10)
    assert 0 < advice.standard_error < 0.5


def test_a_pilot_would_read_what_privacy_keeps_back():
    study = Study.from_dict(
        {
            "data": {"name": "digits", "clients": 12},
            "model": {"name": "linear"},
            "space": {"client": {"lr": {"low": 0.001, "high": 1.0, "log": True}}},
            "evaluation": {"clients": 3, "privacy": {"epsilon": 5.0}},
            "budget": {"rounds": 40, "cohort": 4},
        }
    )
    with pytest.raises(InputError, match="a pilot reads scores of clients that no epsilon pays for"):
        advise(study, workers=0)


def test_rotation_has_the_noise_of_one_clients_scores():
    """16 scores at 5 of 40 clients: 2 of one client; paired they are all of the same ones."""
    private = Noise(5, 40, 10.0, 16, paired=False, rotates=True)
    assert private.scale == pytest.approx(2 / (10 * 5))
    assert Noise(5, 40, 10.0, 16, rotates=True).scale == Noise(5, 40, 10.0, 16).scale == 16 / (10 * 5)


def test_the_command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    TABLE.save("toy.table")
    assert main(["advise", "--table", "toy.table", "--clients", "2", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["asked_clients"], told["method"], len(told["practices"])) == (2, "robust", 4)
    assert main(["advise", "--table", "toy.table", "--epsilon", "5"]) == 0
    printed = capsys.readouterr().out
    assert "from 60 of 60 clients, epsilon 5 over 16" in printed
    assert "best of 16 first" in printed
    assert main(["advise"]) == 2


def test_more_configs_than_were_scored_cannot_be_measured():
    with pytest.raises(InputError, match="at most 60"):
        measure(pilot_of_table(TABLE), Noise(5, 60), 61, rng())
