"""Where the trials of a search stand: which one leads, and why none does."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fedhpo.protocol.failures import Failures
from fedhpo.protocol.objective import Objective
from fedhpo.search.channel import best_first
from fedhpo.search.evaluator import Evaluator
from fedhpo.search.trial import FINISHED, Trial


def leader_of(
    trials: Sequence[Trial], incumbent: Trial | None, evaluator: Evaluator, objective: Objective
) -> Trial | None:
    """Among the trials trained longest the best; `incumbent` is the best of those trained to the end."""
    scored = [t for t in trials if t.round and t.scores and math.isfinite(t.rank_value)]
    longest = max((trial.scores[-1].round for trial in scored), default=0)
    # Of those that are finished all but one have lost already: see `Search.finish`.
    beaten = {t for t in scored if t.status == FINISHED and t is not incumbent}
    if incumbent is None or incumbent not in scored or incumbent.scores[-1].round < longest:
        beaten = set()
    rivals = [t for t in scored if t.scores[-1].round == longest and t not in beaten]
    return best_first(rivals, evaluator, objective)[0] if rivals else None


def why_none(trials: Sequence[Trial], failures: Failures) -> str:
    """Why there is no best trial, with the first thing that went wrong at a client."""
    first = failures.first
    quoted = "" if first is None else f"; {first}"
    reasons = [t.reason for t in trials if t.reason]
    if any(trial.trained for trial in trials) or not reasons:
        return f"no trial has a finite score{quoted or (f'; the first: {reasons[0]}' if reasons else '')}"
    return f"no trial could be trained; the first: {reasons[0]}"
