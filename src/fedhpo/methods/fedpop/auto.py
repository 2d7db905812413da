"""FedPop without knobs: the choices of `FedPop.auto()`.

They come from runs on federations and seeds of their own; docs/reproductions/fedpop.md has the figures of the
test on others. FedPop's exchange harms under halving: shortly before an elimination a copy survives by the
weights that it was given, so finalists are of one lineage, and a copy that draws from the prior or moves far
is mostly worse than its parent. So here nobody is copied before three finalists are left, and among these
only a trial that is clearly behind becomes a copy, near its parent, which goes on as it is. What halving
picks after a few rounds are fast configs near instability, whose last model may be any: so trials are judged
by the means of their last models, which are candidates, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedhpo.methods.fedpop.finale import Finale
from fedhpo.methods.preset import Preset
from fedhpo.methods.tuner import Tuner
from fedhpo.protocol.federation import FORK, MIX


@dataclass(frozen=True)
class FedPopAuto(Preset):
    """FedPop without knobs: halving to three finalists, and a careful exchange among these.

    `trials` random configs (27 by default), of which `1/rate` survive each elimination, until three are
    left, of three lineages. See `fedhpo.methods.fedpop.finale` for what happens among them.

    >>> FedPopAuto().tuner().schedule.finalists
    3
    """

    trials: int | None = 27
    rate: int = 3

    name: ClassVar[str] = "fedpop-auto"
    number: ClassVar[int] = 2

    def tuner(self) -> Tuner:
        """Random configs."""
        return Tuner(Finale(self.trials, self.rate))

    @property
    def needs(self) -> frozenset[str]:
        """Copies and means of trials besides."""
        return super().needs | {FORK, MIX}
