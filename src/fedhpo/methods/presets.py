"""The methods by the names that users know them by, a few lines each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

from fedhpo import samplers, schedules
from fedhpo.core.errors import Concerns, InputError
from fedhpo.methods.preset import Preset
from fedhpo.methods.tuner import Tuner
from fedhpo.protocol.federation import REPEATABLE
from fedhpo.samplers import Grid, Random
from fedhpo.schedules import FixedLength, Halving

if TYPE_CHECKING:
    from fedhpo.search.search import Search
    from fedhpo.search.trial import Trial


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
class NoTuning(Preset):
    """No tuning: your own config is trained once, as the lower bound that a search has to beat.

    In a study file it is `[budget] tuning = "none"`. With `[server] optimiser = "fedexp"` not even the
    server has a learning rate.
    """

    name: ClassVar[str] = "none"
    trains_once: ClassVar[bool] = True

    def tuner(self) -> Tuner:
        """One trial, and the first one is the user's own config."""
        return Tuner(FixedLength(1), Random())


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
    """Successive halving: `trials` random configs, of which `1/rate` survive each elimination.

    Left out, `trials` follows the total: 27 for every five full trainings that it holds. The last `finalists`
    train to the end and are compared there, fewer of them where the total is below five trainings; with
    several objectives more, up to half of the total. With `shared_cohorts` all trials train at the same
    clients in the same round: they differ less by chance.
    """

    trials: int | None = None
    rate: int = 3
    eliminations: int | None = None
    finalists: int = 3
    shared_cohorts: bool = False

    name: ClassVar[str] = "sha"
    number: ClassVar[int] = 2

    def tuner(self) -> Tuner:
        """Random configs under halving."""
        halving = Halving(self.trials, self.rate, self.eliminations, self.finalists)
        return Tuner(halving, Random(), shared_cohorts=self.shared_cohorts)


@dataclass(frozen=True)
class TPE(Preset):
    """The tree-structured Parzen estimator: each trial trains to the end, and later ones learn from it.

    `trials` as many as the total pays for by default, `side_by_side` at a time (those know nothing of each
    other); `startup` random configs first, by default one more than there are hyperparameters, but at most
    half of the trials; the share
    `gamma` of trials counts as good; `multivariate` sees all hyperparameters together, False each on its own
    as in the paper of 2011.
    """

    trials: int | None = None
    side_by_side: int = 1
    startup: int | None = None
    gamma: float = 0.1
    multivariate: bool = True

    name: ClassVar[str] = "tpe"

    def tuner(self) -> Tuner:
        """Trials one after the other, or a few at a time."""
        sampler = samplers.TPE(self.multivariate, self.startup, self.gamma)
        return Tuner(FixedLength(self.trials, self.side_by_side), sampler)

    def run(self, search: Search) -> Trial:
        """Tune; the best trial comes back."""
        return replace(self, startup=_startup(self, search)).tuner().run(search)

    def rounds(self, search: Search) -> int:
        """The rounds it will spend; refuses a start-up that leaves no trial to the model."""
        planned = super().rounds(search)
        _startup(self, search)
        return planned


@dataclass(frozen=True)
class GP(Preset):
    """Bayesian optimisation with a Gaussian process, which knows the standard error of each score.

    `trials` as many as the total pays for by default, `side_by_side` at a time; `acquisition` is "ei" or
    "noisy-ei"; `startup` random configs first, by default one more than there are hyperparameters, but at
    most half of the trials. Where scores are noisy the trial with the best posterior mean is the best one.
    """

    trials: int | None = None
    side_by_side: int = 1
    acquisition: str = "ei"
    startup: int | None = None

    name: ClassVar[str] = "gp"

    def tuner(self) -> Tuner:
        """Trials one after the other, or a few at a time."""
        return Tuner(FixedLength(self.trials, self.side_by_side), samplers.GP(self.acquisition, self.startup))

    def run(self, search: Search) -> Trial:
        """Tune; the best trial comes back."""
        return replace(self, startup=_startup(self, search)).tuner().run(search)

    def rounds(self, search: Search) -> int:
        """The rounds it will spend; refuses a start-up that leaves no trial to the model."""
        planned = super().rounds(search)
        _startup(self, search)
        return planned


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
    """BOHB (Falkner et al., 2018): Hyperband whose configs come from a model of the highest rung's scores.

    `rate` and `unit` as in Hyperband; the share `random_share` of configs is random. `side_by_side` configs
    of a bracket are drawn at once: 1, the published method, by default in simulation; a whole bracket with
    real clients, so that they train its trials side by side. `split` is "paper" (Eq. 3) or "hpbandster".
    """

    rate: int = 3
    unit: int | None = None
    random_share: float = 1 / 3
    side_by_side: int | None = None
    split: Literal["paper", "hpbandster"] = "paper"

    name: ClassVar[str] = "bohb"
    number: ClassVar[int] = 2

    def tuner(self) -> Tuner:
        """The paper's model under Hyperband."""
        sampler = samplers.BOHB(split=self.split, random_share=self.random_share)
        return Tuner(schedules.Hyperband(self.rate, self.unit, self.side_by_side), sampler)

    def run(self, search: Search) -> Trial:
        """Tune; the best trial comes back, and the result says how many configs were drawn at once."""
        alone = self.side_by_side is None and REPEATABLE in search.session.capabilities
        method = replace(self, side_by_side=1) if alone else self
        search.facts["bohb"] = {
            "side_by_side": method.side_by_side,
            "in_words": f"configs of a bracket were drawn {method.side_by_side} at a time"
            if method.side_by_side
            else "all configs of a bracket were drawn at once, from what was known before it, so that "
            "clients train them side by side; side_by_side = 1 is the published method",
        }
        return method.tuner().run(search)


def _startup(method: TPE | GP, search: Search) -> int:
    """Random configs before the model: as given, if any trial is left for it; else at most half of all.

    Where a total was raised, that is half of the trials that the first total paid for.
    """
    tuner = method.tuner()
    assert isinstance(tuner.schedule, FixedLength)
    first = search.less(search.total - search.totals[0]) if search.totals else search
    trials = tuner.schedule.count(first, tuner.sampler)
    if method.startup is None:
        return max(2, min(search.space.dimensions + 1, trials // 2))
    if method.startup >= trials > 1:
        raise InputError(
            f"startup = {method.startup}: must be below the number of trials, {trials}: up to it "
            f"{method.name} is random search",
            concerns=Concerns.METHOD,
        )
    return method.startup
