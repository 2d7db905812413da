"""What more search may bring: the race as it stands, and the budget that is left.

If configs go on coming as they came, each is as likely as any other to be the best: the chance that the best
of all is among those still to come is their share. How much better it would be follows from the upper tail
of the scores so far. Where scores decay exponentially beyond the best quarter, the best of n + m exceeds the
best of n by theta * ln((n + m) / n) in the mean, where theta is the mean excess in that quarter (Renyi,
1953); where they are bounded, as an accuracy is, by less. Where no trial was begun for long, the rest of the
budget goes to those that still train: then the question is how many of them are as good as the leader.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedhpo.core.errors import NothingToDrawError
from fedhpo.figures.importance import sample_of
from fedhpo.figures.reading import difference, objective_of
from fedhpo.figures.view import RunView
from fedhpo.pages.phrasing import rounds_of

#: A trial that began before this share of the rounds spent does not show that others follow.
_LATELY = 0.3
#: Fewer scores have no tail.
_LEAST = 8
#: A difference of so many standard errors tells two trials apart.
_APART = 2.0


@dataclass(frozen=True)
class Outlook:
    """The budget left as a share, the chance of a better config in it, what it would add, and open rivals.

    `chance` and `gain` are None where they cannot be told; `rivals` still train and are as good.
    """

    left: float
    chance: float | None
    gain: float | None
    rivals: int


def outlook(view: RunView, more: float | None = None) -> Outlook:
    """What the rest of the budget may bring; or `more` times what was spent, of a run that is over."""
    cost = view.result["cost"]
    spent, total = rounds_of(cost)[0], float(cost["budget"]["rounds"])
    left = max(0.0, total - spent) if more is None else more * spent
    if not spent:
        return Outlook(1.0, None, None, 0)
    share = left / (left + spent)
    begins = more is not None or _begins(view)
    return Outlook(
        share, share if begins else None, _added(view, share) if begins else None, len(rivals(view))
    )


def _begins(view: RunView) -> bool:
    """Whether trials were begun lately, so that more will be."""
    firsts: dict[int, float] = {}
    for trial, begin, _, _ in view.trained:
        firsts.setdefault(trial, begin)
    if not firsts:
        return True
    newest = max(firsts.values())
    since = sum(rounds for _, begin, _, rounds in view.trained if begin >= newest)
    return since <= _LATELY * sum(rounds for *_, rounds in view.trained)


def _added(view: RunView, share: float) -> float | None:
    """What the best of all would be above the best so far, in the mean; None where that cannot be told."""
    try:
        sample = sample_of(view)
    except NothingToDrawError:
        return None
    best = view.result["best"]
    if len(sample.trials) < _LEAST or best is None or sample.round < best["validation"]["round"]:
        return None
    return tail_gain(sample.scores if view.maximise else -sample.scores, share)


def tail_gain(scores: Any, share: float) -> float:
    """The expected gain of a search that goes on until its trials so far are 1 - share of all.

    >>> exponential = -np.log(1 - (np.arange(1000) + 0.5) / 1000)
    >>> round(tail_gain(exponential, 0.5), 2)  # twice the draws: ln 2
    0.69
    """
    low = float(np.quantile(scores, 0.75))
    excess = float(np.mean([score - low for score in scores if score >= low]))
    return excess * -math.log1p(-share) if share < 1 else math.inf


def rivals(view: RunView) -> list[int]:
    """Trials that still train and that the last scores cannot tell from the leader."""
    lead = view.winner
    if lead is None or lead not in view.latest or view.result.get("privacy"):
        return []
    at, ours = view.latest[lead]
    objective = objective_of(view.result["objective"])
    found = []
    for trial in view.trials:
        number = int(trial["trial"])
        if trial["status"] != "training" or number == lead or number not in view.latest:
            continue
        round, theirs = view.latest[number]
        gap = difference(objective, ours, theirs) if round == at else None
        if gap and gap["standard_error"] and gap["value"] < _APART * gap["standard_error"]:
            found.append(number)
    return found
