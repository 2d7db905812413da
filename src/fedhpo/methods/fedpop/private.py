"""FedPop's exchange with privacy: one release per exchange, of fresh evaluations.

Losses after local training are never read. Before an exchange the trials that are due are scored through the
private channel: Laplace values, each trial at clients of its own where fewer than all are asked. Who is
worst, who is best and who copies whom follows from these values alone, and costs nothing more. A trial fails
by its transport or by weights that are not finite; one that too few clients replied about has no score, and
stays.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fedhpo.core.errors import InputError
from fedhpo.search.channel import rank_values

if TYPE_CHECKING:
    from fedhpo.privacy.privacy import Privacy
    from fedhpo.search.search import Search
    from fedhpo.search.trial import Trial


def check_private(privacy: Privacy) -> None:
    """Refuse a mechanism that releases no values."""
    if not privacy.releases_values:
        raise InputError(
            f"privacy: fedpop's exchange needs the worst and the best trials, and mechanism = "
            f"{privacy.mechanism!r} releases no values to tell both by: use mechanism = 'laplace'"
        )


def affordable(due: Sequence[Trial], every: int) -> list[Trial]:
    """Those trials of which a score was planned: one for every interval that was trained for them.

    A trial that copies a slower one comes to the same round twice; it is not scored twice for that.
    """
    return [trial for trial in due if trial.judged < trial.trained // every]


def private_scores(search: Search, population: Sequence[Trial], due: Sequence[Trial]) -> dict[Trial, float]:
    """Released values of the trials that are due, and the latest ones of the others; less is better."""
    for trial in due:
        trial.judged += 1
    search.evaluate(due)
    scored = [trial for trial in population if trial.scores]
    found = dict(zip(scored, rank_values(scored, search.evaluator), strict=True))
    known = {trial: value for trial, value in found.items() if math.isfinite(value)}
    return {t: math.inf if t.failed else known.get(t, math.nan) for t in population}
