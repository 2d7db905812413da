"""The trace of a search: which trial was to be named when, by its true score."""

from __future__ import annotations

from collections.abc import Sequence

#: Rounds spent and the incumbent's true score, in ascending order.
Incumbents = Sequence[tuple[int, float]]


def note(incumbents: list[tuple[int, float]], spent: int, truth: float) -> None:
    """Write down the incumbent after so many rounds; the last one at that time counts.

    >>> found = [(9, 0.5)]
    >>> note(found, 18, 0.4)
    >>> note(found, 18, 0.3)
    >>> found
    [(9, 0.5), (18, 0.3)]
    """
    while incumbents and incumbents[-1][0] >= spent:
        incumbents.pop()
    incumbents.append((spent, truth))


def value_at(incumbents: Incumbents, spent: float) -> float:
    """The incumbent's true score when so many rounds were spent; NaN before there is one.

    >>> value_at([(10, 0.5), (30, 0.4)], 20)
    0.5
    """
    value = float("nan")
    for rounds, found in incumbents:
        if rounds > spent:
            break
        value = found
    return value
