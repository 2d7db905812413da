"""Privacy of a local search: noise on every loss before the party's own sampler sees it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from fedhpo.core.errors import InputError, unknown_name
from fedhpo.core.settings import check_settings


@dataclass(frozen=True)
class LocalPrivacy:
    """Differential privacy of all that a party sends of its search, but its size.

    The configs that a sampler tries next follow from the losses that it saw: they leak too. So each loss,
    cut to [0, 1], gets Laplace noise of scale `configs x sensitivity / epsilon` when it is measured, and
    nobody, the party's sampler included, sees it without. All that is sent is computed from those. Over
    its `configs` losses a party spends `epsilon`; parties hold different people's rows, so that the run
    spends `epsilon` too, not their sum.

    - `unit = "party"`: the party's whole data may be other. One loss can then move by 1, its range.
    - `unit = "record"`: one row may be other. By default the sensitivity is 1 here too: a row can change
      every model that is trained on it, and with folds it trains all models but one. Who knows that one row
      moves a loss by less (because training is private or stable by itself) states so by `sensitivity`; the
      claim is the user's, and is written down as such.

    At a real client (`fedhpo.flower.client(..., privacy=...)`) `total` is what it spends over all runs, and
    `ledger` the file that remembers it: see `fedhpo.privacy.spending`. Noise is always exact there.

    `release = "simulated"` draws noise from the run's seeded generator: repeatable, and no protection for
    real people; "exact" draws by OpenDP on a grid, and needs `fedhpo[privacy]`. A party's size, whether it
    answers at all, and the trained model and its scores are not covered.

    >>> LocalPrivacy(epsilon=10.0).scale(configs=100)
    10.0
    """

    epsilon: float
    unit: Literal["record", "party"] = "party"
    sensitivity: float = 1.0
    release: Literal["simulated", "exact"] = "simulated"
    total: float | None = None
    ledger: str | Path | None = None

    def __post_init__(self) -> None:
        check_settings(self)
        if (self.total is None) != (self.ledger is None):
            raise InputError("total and ledger go together: what may be spent over all runs, and its file")
        if not 0 < self.epsilon < math.inf:
            raise InputError(f"epsilon must be a positive number, not {self.epsilon!r}")
        if self.unit not in ("record", "party"):
            raise unknown_name("unit", self.unit, ["record", "party"])
        if not 0 < self.sensitivity <= 1:
            raise InputError(f"sensitivity must lie in (0, 1], not {self.sensitivity!r}")
        if self.unit == "party" and self.sensitivity < 1:
            raise InputError(
                f"sensitivity = {self.sensitivity:g} needs unit = 'record': a party can move its loss by 1"
            )
        if self.total is not None and not self.total >= self.epsilon:
            raise InputError(f"total must be at least epsilon ({self.epsilon:g}), not {self.total!r}")
        if self.release not in ("simulated", "exact"):
            raise unknown_name("release", self.release, ["simulated", "exact"])

    def scale(self, configs: int) -> float:
        """The scale of the noise on each of so many losses."""
        return configs * self.sensitivity / self.epsilon

    def noisy(self, loss: float, configs: int, rng: np.random.Generator) -> float:
        """The loss as everybody gets to see it; `rng` is what a simulated release draws from."""
        from fedhpo.privacy.noise import ExactNoise, SeededNoise

        noise = SeededNoise(rng) if self.release == "simulated" else ExactNoise()
        exact = noise.mean(np.array([min(1.0, max(0.0, loss))]))
        scale = configs * math.ceil(self.sensitivity / noise.unit) / self.epsilon
        if self.release == "simulated":
            scale = self.scale(configs)
        return float(noise.laplace(np.array([exact]), scale)[0] * noise.unit)

    def to_dict(self, configs: int) -> dict[str, Any]:
        """For the record and the result: what is protected, how, and at which noise."""
        claimed = "the score's whole range" if self.sensitivity == 1 else "stated by the user"
        return {
            "epsilon": self.epsilon,
            "unit": self.unit,
            "sensitivity": self.sensitivity,
            "sensitivity_is": claimed,
            "noise": "laplace",
            "scale": self.scale(configs),
            "release": self.release,
            "covers": "the pairs that a party sends; not its size, nor the trained model and its scores",
        }
