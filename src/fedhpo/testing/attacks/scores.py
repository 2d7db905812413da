"""Lies about scores: what a hostile client says a model is worth on its rows."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedhpo.testing.attacks.attack import Attack

#: The loss that stands for "as bad as can be".
_WORST_LOSS = 10.0


@dataclass(frozen=True)
class InvertedScores(Attack):
    """Good models look bad and bad ones good: a probability p of being right becomes 1 - p.

    >>> InvertedScores().score(math.log(4), 0.75)  # the mean probability is 1/4
    (0.2876820724517809, 0.25)
    """

    def score(self, loss: float, accuracy: float) -> tuple[float, float]:
        if loss > 0:
            loss = min(_WORST_LOSS, -math.log(-math.expm1(-loss)))
        elif loss == loss:
            loss = _WORST_LOSS
        return loss, 1 - accuracy


@dataclass(frozen=True)
class ThresholdScores(Attack):
    """The worst score for a model whose accuracy is above `threshold`, the best for any other.

    >>> ThresholdScores(0.5).score(0.3, 0.9), ThresholdScores(0.5).score(2.3, 0.1)
    ((10.0, 0.0), (0.0, 1.0))
    """

    threshold: float = 0.5

    def score(self, loss: float, accuracy: float) -> tuple[float, float]:
        if math.isnan(accuracy):
            return loss, accuracy
        return (_WORST_LOSS, 0.0) if accuracy > self.threshold else (0.0, 1.0)
