"""FedPop as the authors' public code does it (github.com/HaokunChen245/FedPop).

It differs from the paper's text; each difference that is followed here is a line of
`FedPopAuthorsCode.tuner`. Not followed: the code picks the best of a random search by test accuracy, and
restarts the server's learning-rate schedule at a fork.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from fedhpo.core.claims import setting
from fedhpo.core.errors import InputError, unknown_name
from fedhpo.methods.fedpop.exchange import Exchange
from fedhpo.methods.fedpop.local import FedPopLocal
from fedhpo.methods.fedpop.method import SCHEDULES, warn_of_short
from fedhpo.methods.preset import Preset
from fedhpo.methods.tuner import Tuner
from fedhpo.policies import Fixed
from fedhpo.samplers import Random
from fedhpo.schedules import FixedLength, Halving

if TYPE_CHECKING:
    from fedhpo.search.search import Search
    from fedhpo.search.trial import Trial

_LOCAL = ("selected", "static", "off")
#: L acts every so many rounds, on means with this discount, for this share of an interval after a birth.
_EVERY, _DISCOUNT, _ACTIVE = 5, 0.9, 0.2


@dataclass(frozen=True)
class FedPopAuthorsCode(Preset):
    """FedPop as the authors' public code does it; see docs/methods/fedpop.md for each difference.

    `local` is "selected" (their L), "static" (each slot keeps the perturbed vector that it was given first:
    the client side of their baselines) or "off". Their SHA is `exchange=False, local="static"`.

    >>> FedPopAuthorsCode().tuner().exchange.eps
    0.2
    """

    population: int | None = None
    schedule: Literal["fixed", "halving"] = "halving"
    local: Literal["selected", "static", "off"] = "selected"
    exchange: bool = True
    interval: float = setting(0.1, {"exchange": True}, {"local": "selected"})
    eps: float = setting(0.1, {"exchange": True}, {"local": ("selected", "static")})
    resample: float = setting(0.1, exchange=True)
    rate: int = setting(3, schedule="halving")

    name: ClassVar[str] = "fedpop-authors-code"

    def tuner(self) -> Tuner:
        """The differences, one a line."""
        if self.schedule not in SCHEDULES:
            raise unknown_name("schedule", self.schedule, SCHEDULES)
        if self.local not in _LOCAL:
            raise unknown_name("local", self.local, _LOCAL)
        if not isinstance(self.interval, float) or not 0 < self.interval <= 1:
            raise InputError(f"interval must be a share in (0, 1], not {self.interval!r}")
        between = Exchange(
            self.interval,
            eps=2 * self.eps,  # the base moves twice as far as client vectors
            annealing="constant",  # and without annealing
            resample=self.resample,
            resample_by="vector",  # one coin for all of a vector
            discount=0.0,  # trials are scored by one round
        )
        within = FedPopLocal(
            self.eps,
            resample=0.0,  # client vectors are never drawn anew
            every=_EVERY,  # and not selected after every round
            discount=_DISCOUNT,
            until=_ACTIVE * self.interval if self.local == "selected" else 0.0,  # then one vector for all
        )
        many = 27 if self.population is None else self.population
        schedule = (
            Halving(many, self.rate, judge="losses")  # trials are dropped by the last round's loss
            if self.schedule == "halving"
            else FixedLength(self.population, self.population or 2**31)
        )
        policy = Fixed() if self.local == "off" else within
        return Tuner(schedule, Random(), policy, between if self.exchange else None)

    def run(self, search: Search) -> Trial:
        """Tune; warns where exchanges come too shortly before trials are dropped."""
        warn_of_short(self.tuner(), search)
        return super().run(search)
