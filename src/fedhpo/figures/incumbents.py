"""The trial to name at each moment of a run, and why its score can be worse than that of the one before."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

#: So many falls are told one by one.
_TOLD = 4


@dataclass(frozen=True)
class Incumbent:
    """After `spent` rounds of the search: the trial to name, its round then, its score, and why it fell."""

    spent: float
    trial: int
    round: int
    value: float
    fell: str = ""


def incumbents_of(points: Sequence[tuple[float, int, int, float]], maximise: bool) -> list[Incumbent]:
    """From evaluations in order, each as rounds spent, trial, its round and its score.

    The incumbent is, of the trials that were trained longest, the one with the best latest score.

    >>> found = incumbents_of([(6, 0, 2, 0.4), (6, 1, 2, 0.5), (8, 0, 4, 0.45)], maximise=True)
    >>> [(one.spent, one.trial, one.value) for one in found]
    [(6, 1, 0.5), (8, 0, 0.45)]
    >>> found[1].fell
    'trial 0 has 4 rounds behind it now, trial 1 had 2: of those trained longest the best one leads'
    """
    sign = -1 if maximise else 1
    latest: dict[int, int] = {}  # the place of each trial's last evaluation
    ranked: list[tuple[int, float, int, int]] = []
    found: list[Incumbent] = []
    for place, (spent, trial, number, value) in enumerate(points):
        latest[trial] = place
        heapq.heappush(ranked, (-number, sign * value, trial, place))
        while latest[ranked[0][2]] != ranked[0][3]:  # an evaluation that a later one replaced
            heapq.heappop(ranked)
        rounds, score, best, _ = ranked[0]
        if found and found[-1].spent == spent:
            found.pop()
        found.append(Incumbent(spent, best, -rounds, sign * score))
    told = found[:1]
    for before, after in pairwise(found):
        worse = sign * after.value > sign * before.value
        told.append(replace(after, fell=_why(before, after)) if worse else after)
    return told


def _why(before: Incumbent, after: Incumbent) -> str:
    if after.trial == before.trial:
        if after.round == before.round:
            return f"trial {after.trial} was scored again at round {after.round}"
        return f"trial {after.trial} scored worse at round {after.round} than at round {before.round}"
    if after.round > before.round:
        return (
            f"trial {after.trial} has {after.round} rounds behind it now, trial {before.trial} had "
            f"{before.round}: of those trained longest the best one leads"
        )
    return f"trial {before.trial} was scored again, and is now behind trial {after.trial}"


def in_words(found: Sequence[Incumbent]) -> str:
    """What the line shows, and every fall of it.

    >>> in_words([Incumbent(6, 1, 2, 0.5), Incumbent(8, 1, 4, 0.4, "trial 1 scored worse")]).splitlines()[-1]
    'It gets worse where marked. After 8 rounds: trial 1 scored worse.'
    """
    words = "The leading trial is the best of those trained longest."
    falls = [one for one in found if one.fell]
    if not falls:
        return words
    told = " ".join(f"After {one.spent} rounds: {one.fell}." for one in falls[:_TOLD])
    more = f" And {len(falls) - _TOLD} more times." if len(falls) > _TOLD else ""
    return f"{words}\nIt gets worse where marked. {told}{more}"
