"""What every sampler must do, as tests to inherit from.

A sampler of your own passes if this class, in a file that pytest collects, passes:

    class TestMine(SamplerSuite):
        def sampler(self) -> Sampler:
            return Mine()
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fedhpo.protocol.objective import Score
from fedhpo.protocol.sampler import Observation, Sampler, limit_of
from fedhpo.space import Choice, Float, Int, Ordinal, Space
from fedhpo.space.config import Config

#: All kinds of hyperparameters, one of them conditional.
MIXED = Space(
    client={
        "lr": Float(1e-4, 1.0, log=True),
        "epochs": Int(1, 20, log=True),
        "batch_size": Ordinal([8, 16, 32, 64]),
        "momentum": Float(0.0, 0.9, when={"server.optimiser": ["sgd"]}),
        "steps": 3,
    },
    server={"optimiser": Choice(["sgd", "adam", ("a", "tuple")])},
    policy={"rate": Int(1, 5)},
)
SMALL = Space(client={"epochs": Int(1, 3)}, server={"optimiser": Choice(["sgd", "adam"])})
PLANE = Space(client={"a": Float(0.0, 1.0), "b": Float(0.0, 1.0)})


def observed(trial: int, config: Config, rank_value: float, round: int = 1) -> Observation:
    """An observation with little noise.

    >>> observed(3, Config(client={"lr": 0.1}), 0.5).score.rank_value
    0.5
    """
    return Observation(trial, config, Score(rank_value, 0.01, 10, round, rank_value))


def played(
    sampler: Sampler,
    space: Space,
    trials: int,
    value: Callable[[Config], float],
    seed: int = 0,
    pool: Sequence[Config] | None = None,
) -> list[Config]:
    """The configs of a run in which `value` is told after each suggestion, until none is left."""
    asked: list[Config] = []
    seen: list[Observation] = []
    for trial in range(trials):
        config = sampler.suggest(space, seen, asked, np.random.default_rng([seed, trial]), pool)
        if config is None:
            break
        asked.append(config)
        seen.append(observed(trial, config, value(config)))
    return asked


def _away(space: Space) -> Callable[[Config], float]:
    """A value that is best in a corner of the unit cube."""
    return lambda config: float(((space.to_unit(config) - 0.1) ** 2).sum())


class SamplerSuite:
    """Inherit, and say which sampler; `learns` is False for one that does not look at scores."""

    learns = True

    def sampler(self) -> Sampler:
        """The sampler under test."""
        raise NotImplementedError

    def test_configs_lie_in_the_space_and_keep_its_conditions(self) -> None:
        for seed in range(3):
            for config in played(self.sampler(), MIXED, 12, _away(MIXED), seed):
                MIXED.validate(config)

    def test_a_replayed_run_asks_the_same(self) -> None:
        sampler = self.sampler()
        first = played(sampler, MIXED, 12, _away(MIXED))
        played(sampler, PLANE, 6, _away(PLANE))  # whatever else it was asked leaves no trace
        assert played(sampler, MIXED, 12, _away(MIXED)) == first
        assert played(self.sampler(), MIXED, 12, _away(MIXED)) == first

    def test_a_small_space_is_tried_out_without_duplicates(self) -> None:
        configs = played(self.sampler(), SMALL, 10, _away(SMALL))
        assert len(configs) == len(set(configs)) == SMALL.size

    def test_a_space_without_hyperparameters_has_one_config(self) -> None:
        space = Space(client={"lr": 0.1})
        assert played(self.sampler(), space, 3, lambda config: 1.0) == [space.default()]

    def test_pending_configs_do_not_come_again(self) -> None:
        start = played(self.sampler(), MIXED, 8, _away(MIXED))
        seen = [observed(trial, config, _away(MIXED)(config)) for trial, config in enumerate(start)]
        asked = list(start)
        for number in range(6):
            config = self.sampler().suggest(MIXED, seen, asked, np.random.default_rng(number))
            assert config is not None
            assert config not in asked
            asked.append(config)

    def test_only_the_pool_is_suggested_each_member_once(self) -> None:
        rng = np.random.default_rng(7)
        pool = [MIXED.sample(rng) for _ in range(15)]
        configs = played(self.sampler(), MIXED, 20, _away(MIXED), pool=pool)
        assert len(configs) == len(pool)
        assert set(configs) == set(pool)

    def test_failed_trials_are_tolerated(self) -> None:
        def failing(config: Config) -> float:
            return np.inf if config.client["a"] > 0.5 else config.client["b"]

        for value in (failing, lambda config: np.inf):
            configs = played(self.sampler(), PLANE, 9, value)
            assert len(set(configs)) == 9
            assert all(PLANE.contains(config) for config in configs)

    def test_scores_at_several_rungs_are_tolerated(self) -> None:
        rng = np.random.default_rng(5)
        configs = [MIXED.sample(rng) for _ in range(20)]
        seen = [
            observed(n, c, rng.random(), round) for round in (1, 3) for n, c in enumerate(configs[::round])
        ]
        config = self.sampler().suggest(MIXED, seen, configs, rng)
        assert config is not None
        MIXED.validate(config)

    def test_the_limit_is_not_below_what_it_suggests(self) -> None:
        limit = limit_of(self.sampler(), SMALL)
        assert limit is None or limit >= SMALL.size

    def test_told_values_are_used(self) -> None:
        """Told that small values are best it asks for small ones; told the opposite, for large ones."""
        if not self.learns:
            return
        rng = np.random.default_rng(11)
        configs = [PLANE.sample(rng) for _ in range(30)]
        for pool in (None, [PLANE.sample(rng) for _ in range(200)]):
            means = []
            for best in (0.1, 0.9):
                seen = [
                    observed(n, c, float(np.sum((PLANE.to_unit(c) - best) ** 2)))
                    for n, c in enumerate(configs)
                ]
                asked = [
                    self.sampler().suggest(PLANE, seen, configs, np.random.default_rng(seed), pool)
                    for seed in range(12)
                ]
                means.append(np.median([PLANE.to_unit(c) for c in asked if c is not None]))
            assert means[0] < 0.35
            assert means[1] > 0.65
