"""Is this proxy suitable? A few configs are scored on the proxy data and by a few of the real clients."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from fedhpo.core.errors import InputError
from fedhpo.methods.fedex.ranking import spearman
from fedhpo.protocol.federation import Floats
from fedhpo.research.advise.pilot import Pilot

#: Real clients that are asked.
CLIENTS = 10
#: An agreement counts if chance brings it about no more often than this; so many orders are drawn to know.
LEVEL, _DRAWN = 0.05, 4000


@dataclass(frozen=True)
class Suitability:
    """How proxy data orders configs, against how real clients do.

    `correlation` is Spearman's, `chance` the probability of one at least as high if the two had nothing to
    do with each other, `lost` how much worse, by those clients, the proxy's best config is than theirs.
    """

    configs: int
    clients: int
    correlation: float
    chance: float
    lost: float

    @property
    def suitable(self) -> bool:
        """Whether they agree by more than chance."""
        return self.chance <= LEVEL

    def in_words(self) -> str:
        """The answer."""
        seen = (
            f"over {self.configs} configs its order and that of {self.clients} real clients have a rank "
            f"correlation of {self.correlation:.2f} (p = {self.chance:.2g})"
        )
        loss = f"what is best there is {self.lost:.3f} worse than the best for them"
        if self.suitable:
            return f"The proxy is suitable: {seen}; {loss}."
        return f"It is not shown that the proxy is suitable: {seen}; {loss}. Search at the clients instead."

    def to_dict(self) -> dict[str, Any]:
        """JSON-able."""
        return {**asdict(self), "suitable": self.suitable}


def suitability(real: Pilot, proxy: Pilot, rng: np.random.Generator, clients: int = CLIENTS) -> Suitability:
    """Compare two pilots of the same configs, the real one at so many of its clients.

    Configs of which a pilot failed on either side are left out.
    """
    shared = sorted(set(real.configs) & set(proxy.configs))
    if len(shared) < 4:
        raise InputError(
            f"the proxy and the clients have {len(shared)} pilot configs in common: 4 are needed"
        )
    few = real.of(shared, np.sort(rng.permutation(real.clients)[:clients]))
    seen, there = _losses(few), _losses(proxy.of(shared))
    found = spearman(seen, there)
    by_chance = [spearman(seen, rng.permutation(there)) for _ in range(_DRAWN)]
    chance = (1 + sum(other >= found - 1e-12 for other in by_chance)) / (1 + _DRAWN)
    lost = float(seen[int(there.argmin())] - seen.min())
    return Suitability(len(shared), few.clients, float(found), chance, lost)


def _losses(pilot: Pilot) -> Floats:
    """Scores of which less is better."""
    return -pilot.means if pilot.objective.maximise else pilot.means
