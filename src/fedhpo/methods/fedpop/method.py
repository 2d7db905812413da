"""FedPop by name: an exchange between trials, and one between the client vectors inside each."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from fedhpo.core.claims import refuse, setting
from fedhpo.core.errors import InputError, unknown_name
from fedhpo.methods.fedpop.evolution import ResampleBy
from fedhpo.methods.fedpop.exchange import Exchange
from fedhpo.methods.fedpop.local import FedPopLocal
from fedhpo.methods.preset import Preset
from fedhpo.methods.tuner import Tuner
from fedhpo.policies import Fixed
from fedhpo.protocol.policy import ClientPolicy
from fedhpo.protocol.schedule import Schedule
from fedhpo.samplers import Random
from fedhpo.schedules import FixedLength, Halving
from fedhpo.schedules.annealing import Annealing

if TYPE_CHECKING:
    from fedhpo.methods.fedpop.authors_code import FedPopAuthorsCode
    from fedhpo.methods.fedpop.auto import FedPopAuto
    from fedhpo.search.search import Search
    from fedhpo.search.trial import Trial

SCHEDULES = ("fixed", "halving")


#: Both FedPop-L and FedPop-G perturb configs.
_EITHER = ({"local": True}, {"exchange": True})


@dataclass(frozen=True)
class FedPop(Preset):
    """FedPop (Chen et al., 2025): hyperparameters of clients and server are tuned while the models train.

    A `population` of random configs trains side by side, under the `schedule` "fixed" (as many as the
    total pays for by default) or "halving" (27 by default, of which `1/rate` survive each of the
    `eliminations`). With `exchange` (FedPop-G) the worst `1/quantile` of them are replaced by perturbed
    copies of the best after every `interval` (rounds, or a share of a full training), by their losses with
    the `discount` of older rounds, or, with the `judge` "evaluation", by a fresh score of each model;
    `asynchronous` or all at the same round. With `local` (FedPop-L) each slot of a cohort has client
    hyperparameters of its own, no further than `radius` (`eps` by default, `norm` "box" or "euclidean") from
    the config's, and the worst `1/quantile` are replaced in every round. Perturbed values move by at most
    `eps` of their range, or are drawn anew with probability `resample`, each by itself or, with `resample_by`
    "vector", all of a scope at once; `annealing` ("cosine", "constant", "step") shrinks both. With
    `shared_cohorts` all trials train at the same clients in the same round, so that losses differ less by
    chance.

    >>> FedPop(population=5).tuner().schedule
    FixedLength(trials=5, side_by_side=5)
    """

    population: int | None = None
    schedule: Literal["fixed", "halving"] = "fixed"
    local: bool = True
    exchange: bool = True
    interval: int | float = setting(0.1, exchange=True)
    quantile: int = setting(3, *_EITHER)
    eps: float = setting(0.1, *_EITHER)
    resample: float = setting(0.1, *_EITHER)
    annealing: Annealing = setting("cosine", *_EITHER)  # noqa: RUF009
    radius: float | None = setting(None, local=True)
    norm: Literal["box", "euclidean"] = setting("box", local=True)
    discount: float = setting(0.9, exchange=True, judge="losses")
    asynchronous: bool = setting(False, exchange=True)
    judge: Literal["losses", "evaluation"] = setting("losses", exchange=True)
    rate: int = setting(3, schedule="halving")
    eliminations: int | None = setting(None, schedule="halving")
    resample_by: ResampleBy = setting("coordinate", *_EITHER)  # noqa: RUF009
    shared_cohorts: bool = False

    name: ClassVar[str] = "fedpop"
    number: ClassVar[int] = 2
    better: ClassVar[str] = (
        "fedpop is the paper's algorithm; fedpop-auto did better in our comparisons, by 2.7 points "
        "[1.7, 3.7] over 80 pairs (docs/methods/fedpop.md)"
    )

    @staticmethod
    def authors_code(**settings: Any) -> FedPopAuthorsCode:
        """FedPop as the authors' public code does it, which is not what their paper says: see
        `fedhpo.methods.fedpop.authors_code`.

        >>> FedPop.authors_code(population=9).name
        'fedpop-authors-code'
        """
        from fedhpo.methods.fedpop.authors_code import FedPopAuthorsCode

        return FedPopAuthorsCode(**settings)

    @staticmethod
    def auto(**settings: Any) -> FedPopAuto:
        """FedPop without knobs: see `fedhpo.methods.fedpop.auto` for its choices.

        >>> FedPop.auto().name
        'fedpop-auto'
        """
        from fedhpo.methods.fedpop.auto import FedPopAuto

        return FedPopAuto(**settings)

    def tuner(self) -> Tuner:
        """Random configs under the schedule, with FedPop-L at the clients and FedPop-G between trials."""
        if self.exchange and self.interval == 1 and self.discount != FedPop.discount:
            found = f"discount = {self.discount:g}: has no effect with interval = 1, which goes by one round"
            refuse([f"{found}: leave it out, or raise interval"])
        between = Exchange(
            self.interval,
            self.quantile,
            self.eps,
            self.resample,
            self.annealing,
            self.discount,
            self.asynchronous,
            self.judge,
            self.resample_by,
        )
        exchange = between if self.exchange else None
        return Tuner(self._schedule(), Random(), self._policy(), exchange, self.shared_cohorts)

    def _policy(self) -> ClientPolicy:
        own = FedPopLocal(
            self.eps,
            self.resample,
            self.annealing,
            self.radius,
            self.norm,
            self.quantile,
            resample_by=self.resample_by,
        )
        return own if self.local else Fixed()

    def _schedule(self) -> Schedule:
        if self.schedule not in SCHEDULES:
            raise unknown_name("schedule", self.schedule, SCHEDULES)
        if self.population is not None and self.population < 1:
            raise InputError(f"population must be at least 1, not {self.population}")
        if self.schedule == "halving":
            return Halving(27 if self.population is None else self.population, self.rate, self.eliminations)
        if self.population is None:
            return FixedLength(None, _ALL)
        return FixedLength(self.population, self.population)

    def run(self, search: Search) -> Trial:
        """Tune; warns where exchanges come too shortly before trials are dropped."""
        warn_of_short(self.tuner(), search)
        return super().run(search)

    def rounds(self, search: Search) -> int:
        """The rounds it will spend; settings in the space's scope `policy` are checked too."""
        if self.local:
            FedPopLocal().tuned(search.space.default())
        return super().rounds(search)


def warn_of_short(tuner: Tuner, search: Search) -> None:
    """Warn where an exchange has fewer rounds than its interval before trials are dropped."""
    schedule, exchange = tuner.schedule, tuner.exchange
    if exchange is None or not isinstance(schedule, Halving):
        return
    _, ends = schedule.planned(search, tuner.sampler)
    if short := exchange.short(search.rounds, ends[:-1]):
        places = ", ".join(f"after round {round} ({left} left)" for round, left in short)
        warnings.warn(
            f"fedpop: exchanges {places} come less than an interval ({exchange.every(search.rounds)} rounds) "
            "before trials are dropped, so copies are kept for the weights they were given, whatever their "
            "configs: use a longer training, a shorter interval, or fewer eliminations",
            stacklevel=2,
        )


#: More trials than any total pays for: a population trains side by side.
_ALL = 2**31
