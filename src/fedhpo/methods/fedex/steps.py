"""How far FedEx moves its log weights along a gradient (Khodak et al., 2021, section 4)."""

from __future__ import annotations

import math
from typing import Literal, get_args

import numpy as np

from fedhpo.protocol.federation import Floats

StepRule = Literal["constant", "adaptive", "aggressive", "auto"]
STEP_RULES: tuple[str, ...] = get_args(StepRule)
#: Below this a quotient would overflow.
_TINY = float(np.finfo(np.float64).tiny)


class Steps:
    """The step size of each update; all rules share the factor sqrt(2 ln k) for k arms.

    `constant`: the factor itself. `adaptive`: divided by the root of the sum of the squared largest
    entries of all gradients so far. `aggressive`: divided by the largest entry of this gradient. `auto`:
    divided by the root of the number of updates. A divisor of 0 counts as 1: then there is nothing to
    move anyway.

    >>> steps = Steps("aggressive", arms=2)
    >>> bool(steps.size(np.array([4.0, -2.0])) == math.sqrt(2 * math.log(2)) / 4)
    True
    """

    def __init__(self, rule: StepRule, arms: int) -> None:
        self._rule = rule
        self._factor = math.sqrt(2 * math.log(arms))
        self._squares = 0.0
        self._updates = 0

    def size(self, gradient: Floats) -> float:
        """The step size for this gradient, which counts from now on."""
        largest = float(np.abs(gradient).max())
        self._squares += largest**2
        self._updates += 1
        divisors = {
            "constant": 1.0,
            "adaptive": math.sqrt(self._squares),
            "aggressive": largest,
            "auto": math.sqrt(self._updates),
        }
        divisor = divisors[self._rule]
        return self._factor / (divisor if divisor >= _TINY else 1.0)
