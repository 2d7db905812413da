"""TPE: what it learns from, and that it is as good as another implementation."""

import math
import time

import numpy as np
import pytest

from fedhpo.core.errors import InputError
from fedhpo.protocol.sampler import Observation, Sampler
from fedhpo.samplers import TPE, OptunaSampler, Random
from fedhpo.samplers._rungs import highest_rung
from fedhpo.space import Choice, Float, Ordinal, Space
from fedhpo.testing.sampler import PLANE, observed, played

CONFIGS = [PLANE.from_unit(np.random.default_rng(n).random(2)) for n in range(40)]


def _seen(values: list[float], round: int = 1) -> list[Observation]:
    return [observed(n, CONFIGS[n], value, round) for n, value in enumerate(values)]


def test_startup_is_random_search() -> None:
    seen = _seen([1.0, 2.0])
    found = [TPE().suggest(PLANE, seen, [], np.random.default_rng(n)) for n in range(5)]
    assert found == [Random().suggest(PLANE, seen, [], np.random.default_rng(n)) for n in range(5)]
    third = _seen([1.0, 2.0, 3.0])  # one more than there are hyperparameters
    assert found != [TPE().suggest(PLANE, third, [], np.random.default_rng(n)) for n in range(5)]


def test_the_random_share_is_random() -> None:
    seen = _seen([float(n) for n in range(20)])
    model = [TPE().suggest(PLANE, seen, [], np.random.default_rng(n)) for n in range(200)]
    mixed = [TPE(random_share=0.25).suggest(PLANE, seen, [], np.random.default_rng(n)) for n in range(200)]
    changed = sum(a != b for a, b in zip(model, mixed, strict=True))
    assert 30 <= changed <= 70


def test_the_highest_rung_with_enough_scores_counts() -> None:
    low, middle = _seen([float(n) for n in range(9)], 5), _seen([float(n) for n in range(3)], 15)
    top = _seen([0.0, 1.0], 45)
    assert highest_rung(low + middle + top, 3) == middle
    assert highest_rung(low + middle + top, 2) == top
    assert highest_rung(low + middle + top, 4) == low
    assert highest_rung(top, 3) == []


def test_a_trial_counts_once_in_a_rung_with_the_mean_of_its_scores() -> None:
    first, again = observed(0, CONFIGS[0], 1.0), observed(0, CONFIGS[0], 2.0)
    other = observed(1, CONFIGS[1], 3.0)
    mean, single = highest_rung([first, other, again], 2)
    assert (mean.trial, mean.score.rank_value, mean.score.clients) == (0, 1.5, 2 * first.score.clients)
    assert single == other
    assert highest_rung([first, again], 2) == []


def test_a_failed_trial_is_bad_in_its_rung_and_above() -> None:
    seen = _seen([1.0, 2.0, 3.0], 15)
    died_early, died_late = observed(7, CONFIGS[7], math.inf, 8), observed(8, CONFIGS[8], math.inf, 20)
    assert highest_rung([*seen, died_early, died_late], 3) == [*seen, died_early]
    assert highest_rung([died_early], 1) == []  # nothing is known of what is good


def test_failed_trials_repel() -> None:
    """With failures in the right half, suggestions stay in the left one, which is otherwise no better."""
    seen = [observed(n, c, math.inf if c.client["a"] > 0.5 else 1.0 + n) for n, c in enumerate(CONFIGS)]
    found = [TPE().suggest(PLANE, seen, [], np.random.default_rng(n)) for n in range(40)]
    assert np.mean([c.client["a"] < 0.5 for c in found if c]) > 0.85


def test_a_conditional_hyperparameter_is_learnt_where_it_is_active() -> None:
    space = Space(
        client={"lr": Float(0, 1, when={"model.kind": "a"}), "decay": Float(0, 1, when={"model.kind": "b"})},
        model={"kind": Choice(["a", "b"])},
    )
    rng = np.random.default_rng(0)
    configs = [space.sample(rng) for _ in range(60)]

    def value(n: int) -> float:  # "a" is better, and there a small lr
        return configs[n].client.get("lr", 2.0)

    seen = [observed(n, config, value(n)) for n, config in enumerate(configs)]
    for multivariate in (False, True):
        found = [
            TPE(multivariate=multivariate).suggest(space, seen, [], np.random.default_rng(n))
            for n in range(30)
        ]
        at_a = [c.client["lr"] for c in found if c is not None and c.model["kind"] == "a"]
        assert len(at_a) > 24
        assert np.median(at_a) < 0.2


def test_multivariate_sees_that_two_hyperparameters_belong_together() -> None:
    """Good configs lie on the diagonal, bad ones all over: single densities cannot tell."""
    rng = np.random.default_rng(3)
    configs = [PLANE.sample(rng) for _ in range(150)]
    seen = [observed(n, c, abs(c.client["a"] - c.client["b"])) for n, c in enumerate(configs)]

    def off(multivariate: bool) -> float:
        sampler = TPE(multivariate=multivariate)
        found = [sampler.suggest(PLANE, seen, [], np.random.default_rng(n)) for n in range(40)]
        return float(np.mean([abs(c.client["a"] - c.client["b"]) for c in found if c]))

    assert off(True) < 0.6 * off(False)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"startup": 0}, "startup must be at least 1, not 0"),
        ({"gamma": 1.0}, r"gamma must be a share in \(0, 1\), not 1.0"),
        ({"candidates": 0}, "candidates must be at least 1, not 0"),
        ({"random_share": 1.5}, r"random_share must be a share in \[0, 1\], not 1.5"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        TPE(**settings)  # type: ignore[arg-type]


def test_a_suggestion_takes_milliseconds() -> None:
    space = Space(client={name: Float(0, 1) for name in "abcdef"})
    rng = np.random.default_rng(0)
    configs = [space.sample(rng) for _ in range(100)]
    seen = [observed(n, c, float(n)) for n, c in enumerate(configs)]
    times = []
    for n in range(10):
        began = time.process_time()
        TPE().suggest(space, seen, configs, np.random.default_rng(n))
        times.append(time.process_time() - began)
    assert min(times) < 0.006  # 2 ms on an idle core


def _regret(sampler: Sampler, seed: int) -> float:
    space = Space(client={"lr": Float(1e-5, 1, log=True), "batch_size": Ordinal([8, 16, 32, 64, 128, 256])})

    def value(config: object) -> float:
        x, y = space.to_unit(config) - [0.7, 0.25]  # type: ignore[arg-type, operator]
        return float(x * x + 0.3 * y * y)

    return min(value(config) for config in played(sampler, space, 30, value, seed))


def test_regret_is_no_worse_than_that_of_optunas_tpe() -> None:
    """See benchmarks/samplers.py for 30 seeds on three standard functions."""
    ours = [_regret(TPE(), seed) for seed in range(12)]
    sampler = OptunaSampler("TPESampler", {"multivariate": False, "constant_liar": False})
    theirs = [_regret(sampler, seed) for seed in range(12)]
    chance = [_regret(Random(), seed) for seed in range(12)]
    assert np.median(ours) <= np.percentile(theirs, 75)
    assert np.median(ours) < np.median(chance)
