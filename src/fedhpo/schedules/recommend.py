"""Which trial is best, in the words of a sampler whose model knows the noise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from fedhpo.core.streams import stream
from fedhpo.protocol.sampler import Recommender, Sampler

if TYPE_CHECKING:
    from fedhpo.search.search import Search
    from fedhpo.search.trial import Trial


def recommended_by(search: Search, sampler: Sampler) -> Callable[[Sequence[Trial]], Trial | None] | None:
    """How the sampler chooses among trials; None if it does not, or if scores are not released.

    None too where some clients may lie: trials are then compared client by client, which a model of their
    scores cannot do.
    """
    privacy = search.evaluator.privacy
    if not isinstance(sampler, Recommender) or (privacy is not None and not privacy.releases_values):
        return None
    if search.objective.robust or search.evaluator.trims(search.objective):
        return None
    if search.criteria:  # a model of one weighing of the objectives does not know the best of the first
        return None

    def prefer(rivals: Sequence[Trial]) -> Trial | None:
        if len(rivals) < 2:
            return None
        numbers = [trial.number for trial in rivals]
        rng = stream(search.seed, "recommend", len(search.trials))
        key = {"trials": numbers, "of": len(search.trials)}
        found = search.session.decide(
            "recommend", key, lambda: sampler.recommend(search.space, search.observations, numbers, rng)
        )
        return next((trial for trial in rivals if trial.number == found), None)

    return prefer
