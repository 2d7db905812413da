"""The methods by the names that users know them by, a few lines each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedhpo import samplers, schedules
from fedhpo.methods.preset import Preset
from fedhpo.methods.tuner import Tuner
from fedhpo.samplers import Grid, Random
from fedhpo.schedules import FixedLength, Halving


@dataclass(frozen=True)
class RandomSearch(Preset):
    """Random search: `trials` configs drawn at random, each trained to the end, `side_by_side` at a time."""

    trials: int | None = None
    side_by_side: int = 32

    name: ClassVar[str] = "random"

    def tuner(self) -> Tuner:
        """Trials side by side: none learns from another."""
        return Tuner(FixedLength(self.trials, self.side_by_side), Random())


@dataclass(frozen=True)
class GridSearch(Preset):
    """Grid search: `points` values of each continuous hyperparameter, all of each discrete one."""

    points: int | dict[str, int] = 3
    trials: int | None = None
    side_by_side: int = 32

    name: ClassVar[str] = "grid"

    def tuner(self) -> Tuner:
        """Trials side by side: none learns from another."""
        return Tuner(FixedLength(self.trials, self.side_by_side), Grid(self.points))


@dataclass(frozen=True)
class SHA(Preset):
    """Successive halving: `trials` random configs, of which `1/rate` survive each elimination."""

    trials: int = 27
    rate: int = 3
    eliminations: int | None = None

    name: ClassVar[str] = "sha"

    def tuner(self) -> Tuner:
        """Random configs under halving."""
        return Tuner(Halving(self.trials, self.rate, self.eliminations), Random())


@dataclass(frozen=True)
class TPE(Preset):
    """The tree-structured Parzen estimator: each trial trains to the end, and later ones learn from it.

    `trials` as many as the total pays for by default, `side_by_side` at a time (those know nothing of each
    other); `startup` random configs first, one more than there are hyperparameters by default; the share
    `gamma` of trials counts as good; `multivariate` sees all hyperparameters together.
    """

    trials: int | None = None
    side_by_side: int = 1
    startup: int | None = None
    gamma: float = 0.1
    multivariate: bool = False

    name: ClassVar[str] = "tpe"

    def tuner(self) -> Tuner:
        """Trials one after the other, or a few at a time."""
        sampler = samplers.TPE(self.multivariate, self.startup, self.gamma)
        return Tuner(FixedLength(self.trials, self.side_by_side), sampler)


@dataclass(frozen=True)
class GP(Preset):
    """Bayesian optimisation with a Gaussian process, which knows the standard error of each score.

    `trials` as many as the total pays for by default, `side_by_side` at a time; `acquisition` is "ei" or
    "noisy-ei"; `startup` random configs first, one more than there are hyperparameters by default.
    """

    trials: int | None = None
    side_by_side: int = 1
    acquisition: str = "ei"
    startup: int | None = None

    name: ClassVar[str] = "gp"

    def tuner(self) -> Tuner:
        """Trials one after the other, or a few at a time."""
        return Tuner(FixedLength(self.trials, self.side_by_side), samplers.GP(self.acquisition, self.startup))


@dataclass(frozen=True)
class Hyperband(Preset):
    """Hyperband: brackets of successive halving, from many short trials to a few long ones.

    `1/rate` of the trials survive each elimination; the first one comes after `unit` rounds (by default so
    that there are at most five brackets).
    """

    rate: int = 3
    unit: int | None = None

    name: ClassVar[str] = "hyperband"

    def tuner(self) -> Tuner:
        """Random configs under Hyperband."""
        return Tuner(schedules.Hyperband(self.rate, self.unit), Random())


@dataclass(frozen=True)
class BOHB(Preset):
    """BOHB (Falkner et al., 2018): Hyperband whose configs come from TPE, learning from the highest rung.

    `rate` and `unit` as in Hyperband; the share `random_share` of configs is random; `multivariate`
    densities see all hyperparameters together, as in the paper.
    """

    rate: int = 3
    unit: int | None = None
    random_share: float = 1 / 3
    multivariate: bool = True

    name: ClassVar[str] = "bohb"

    def tuner(self) -> Tuner:
        """TPE under Hyperband, with the paper's 15% of good trials and 64 candidates."""
        sampler = samplers.TPE(self.multivariate, None, 0.15, 64, self.random_share)
        return Tuner(schedules.Hyperband(self.rate, self.unit), sampler)
