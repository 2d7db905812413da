"""FedPop by name: an exchange between trials, and one between the client vectors inside each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from fedhpo.core.errors import InputError, unknown_name
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
    from fedhpo.search.search import Search

SCHEDULES = ("fixed", "halving")


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
    `eps` of their range, or are drawn anew with probability `resample`;
    `annealing` ("cosine", "constant", "step") shrinks both.

    >>> FedPop(population=5).tuner().schedule
    FixedLength(trials=5, side_by_side=5)
    """

    population: int | None = None
    schedule: Literal["fixed", "halving"] = "fixed"
    local: bool = True
    exchange: bool = True
    interval: int | float = 0.1
    quantile: int = 3
    eps: float = 0.1
    resample: float = 0.1
    annealing: Annealing = "cosine"
    radius: float | None = None
    norm: Literal["box", "euclidean"] = "box"
    discount: float = 0.9
    asynchronous: bool = False
    judge: Literal["losses", "evaluation"] = "losses"
    rate: int = 3
    eliminations: int | None = None

    name: ClassVar[str] = "fedpop"

    def tuner(self) -> Tuner:
        """Random configs under the schedule, with FedPop-L at the clients and FedPop-G between trials."""
        between = Exchange(
            self.interval,
            self.quantile,
            self.eps,
            self.resample,
            self.annealing,
            self.discount,
            self.asynchronous,
            self.judge,
        )
        return Tuner(self._schedule(), Random(), self._policy(), between if self.exchange else None)

    def _policy(self) -> ClientPolicy:
        own = FedPopLocal(self.eps, self.resample, self.annealing, self.radius, self.norm, self.quantile)
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

    def rounds(self, search: Search) -> int:
        """The rounds it will spend; settings in the space's scope `policy` are checked too."""
        if self.local:
            FedPopLocal().tuned(search.space.default())
        return super().rounds(search)


#: More trials than any total pays for: a population trains side by side.
_ALL = 2**31
