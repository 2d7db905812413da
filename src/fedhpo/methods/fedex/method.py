"""FedEx by name: the client policy under random search, successive halving or Hyperband."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from fedhpo import schedules
from fedhpo.core.claims import setting
from fedhpo.core.errors import InputError, unknown_name
from fedhpo.methods.fedex import policy as policies
from fedhpo.methods.fedex.settings import FedExSettings, as_dict
from fedhpo.methods.preset import Preset
from fedhpo.methods.tuner import Tuner
from fedhpo.protocol.schedule import Schedule
from fedhpo.schedules import FixedLength, Halving

if TYPE_CHECKING:
    from fedhpo.methods.fedex.commit import FedExAuto
    from fedhpo.search.search import Search

SCHEDULES = ("fixed", "halving", "hyperband")


@dataclass(frozen=True)
class FedEx(FedExSettings, Preset):
    """FedEx: client hyperparameters are tuned while the model trains, over `arms` near each trial's config.

    `schedule` is "halving" (`trials` of them, 27 by default, of which `1/rate` survive each elimination),
    "hyperband" or "fixed" (`trials` of full length, as many as the total pays for by default); one trial of
    full length is FedEx alone. The other settings are those of the client policy: `arms` and `eps` (how
    many, how far from the config), `steps`, `gamma` and `baseline` (how it learns), `metric`, `difference`,
    `clip` and `shrink` (from what), `cutoff` and `until` (when exploration ends), `explore`, `entropy`,
    `eliminate`, `landmarks` and `landmark_rounds` (remedies), `start` (a saved policy), `grid` (values of
    each hyperparameter in place of arms).

    >>> FedEx(schedule="fixed", trials=1).tuner().policy.arms
    27
    """

    schedule: Literal["fixed", "halving", "hyperband"] = "halving"
    trials: int | None = None
    rate: int = setting(3, schedule=("halving", "hyperband"))

    name: ClassVar[str] = "fedex"
    better: ClassVar[str] = (
        "fedex is the paper's algorithm; fedex-auto did better in our comparisons, by 2.7 points [1.7, 3.6] "
        "over 20 seeds of four federations (docs/methods/fedex.md)"
    )

    @staticmethod
    def auto(**settings: Any) -> FedExAuto:
        """FedEx without knobs, which commits to what forks have shown: see `fedhpo.methods.fedex.commit`.

        >>> FedEx.auto(arms=9).name
        'fedex-auto'
        """
        from fedhpo.methods.fedex.commit import FedExAuto

        return FedExAuto(**settings)

    @property
    def policy(self) -> policies.FedExPolicy:
        """The client policy."""
        return policies.FedExPolicy(**{f.name: getattr(self, f.name) for f in fields(FedExSettings)})

    def tuner(self) -> Tuner:
        """Random configs under the schedule, with FedEx at the clients."""
        return Tuner(self._schedule(), policy=self.policy)

    def _schedule(self) -> Schedule:
        if self.schedule == "halving":
            return Halving(27 if self.trials is None else self.trials, self.rate)
        if self.schedule == "fixed":
            return FixedLength(self.trials)
        if self.schedule != "hyperband":
            raise unknown_name("schedule", self.schedule, SCHEDULES)
        if self.trials is not None:
            raise InputError(f"trials is up to hyperband, which finds it from the budget, not {self.trials}")
        return schedules.Hyperband(self.rate)

    def rounds(self, search: Search) -> int:
        """The rounds it will spend; settings in the space's scope `policy` are checked too."""
        self.policy.tuned(search.space.default())
        return super().rounds(search)

    def to_dict(self) -> dict[str, Any]:
        """Its name and settings, JSON-able."""
        own = {"schedule": self.schedule, "trials": self.trials, "rate": self.rate}
        return {"name": self.name, **own, **as_dict(self)}
