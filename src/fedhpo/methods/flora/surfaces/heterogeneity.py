"""How much the parties differ, by the best that each found."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fedhpo.queries.pairs import PartyPairs


def best_scores(parties: Sequence[PartyPairs]) -> list[float]:
    """The best score of each party's own search, 1 - its lowest loss; the least is PMin, the largest PMax."""
    return [1 - min(party.losses) for party in parties]


def gamma(parties: Sequence[PartyPairs]) -> float:
    """The paper's gamma_p = PMax / PMin: 1 where the parties' best are alike, more where they are not.

    NaN where a score is not above 0, as may be with a loss that is not 1 - accuracy.

    >>> from fedhpo.space.config import Config
    >>> two = [PartyPairs(i, 9, (Config(),), (loss,)) for i, loss in enumerate((0.1, 0.25))]
    >>> gamma(two)
    1.2
    """
    scores = best_scores(parties)
    return max(scores) / min(scores) if min(scores) > 0 else math.nan
