"""Annealing: how a number shrinks over the rounds of a training."""

from __future__ import annotations

import math
from typing import Literal, get_args

from fedhpo.core.errors import unknown_name

Annealing = Literal["cosine", "constant", "step"]
ANNEALINGS: tuple[str, ...] = get_args(Annealing)

#: "step" halves the number after each of so many equal parts of the training.
_PARTS = 4


def annealed(start: float, round: int, rounds: int, how: Annealing = "cosine") -> float:
    """The number after `round` of `rounds` rounds, `start` at first.

    "cosine" is FedPop's Eq. 4, down to 0 in the end; "constant" stays; "step" halves it after every
    quarter of the training.

    >>> [round(annealed(0.1, r, 100), 4) for r in (0, 25, 50, 100)]
    [0.1, 0.0854, 0.05, 0.0]
    >>> [annealed(0.1, r, 100, "step") for r in (0, 24, 25, 99)]
    [0.1, 0.1, 0.05, 0.0125]
    """
    done = min(max(round, 0), rounds)
    if how == "cosine":
        return start * (1 + math.cos(math.pi * done / rounds)) / 2
    if how == "step":
        return start * 0.5 ** min(done * _PARTS // rounds, _PARTS - 1)
    check_annealing(how)
    return start


def check_annealing(how: str) -> None:
    """Refuse an annealing that is not known."""
    if how not in ANNEALINGS:
        raise unknown_name("annealing", how, ANNEALINGS)
