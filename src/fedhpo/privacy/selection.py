"""Private selection: which of several candidates are best, with their values kept back.

A candidate's value is a mean over clients. Neighbouring inputs are the values with all scores of one
client as they are and with any others: every value may then move by `sensitivity` at most, in any
direction. Each function returns the places of `count` candidates in ascending order, and is
`epsilon`-differentially private whatever the number of candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import scipy

from fedhpo.core.errors import InputError
from fedhpo.privacy.noise import Noise
from fedhpo.privacy.privacy import Privacy
from fedhpo.protocol.federation import Floats

Selection = Callable[[Floats, int, float, float, Noise], list[int]]

#: Repeated selection draws so many times per candidate on average: hardly any is then never drawn.
_DRAWS = 30


def one_shot(values: Floats, count: int, epsilon: float, sensitivity: float, noise: Noise) -> list[int]:
    """The largest after Laplace noise of scale `2 count sensitivity / epsilon` on each value.

    Privacy: epsilon for the set of places (Qiao, Su and Zhang, 2021, one-shot Laplace mechanism).
    """
    noisy = noise.laplace(values, one_shot_scale(count, epsilon, sensitivity))
    return sorted(int(place) for place in np.argsort(-noisy, kind="stable")[:count])


def one_shot_scale(count: int, epsilon: float, sensitivity: float) -> float:
    """The scale of the noise on each value.

    >>> one_shot_scale(9, 1 / 3, 1 / 100)  # the first of the 3 rungs of 27 -> 9 -> 3 -> 1
    0.54
    """
    return 2 * count * sensitivity / epsilon


def permute_and_flip(
    values: Floats, count: int, epsilon: float, sensitivity: float, noise: Noise
) -> list[int]:
    """Candidates in random order; each flips a coin and is taken if it says yes.

    The coin of a candidate that is d below the best says yes with probability
    `exp(-epsilon d / (2 sensitivity))` (McKenna and Sheldon, 2020, Algorithm 1). Never worse, and up to
    twice as good, as the exponential mechanism. It is report-noisy-max with exponential noise of scale
    `2 sensitivity / epsilon`, which has half the variance of Laplace noise.

    Privacy: epsilon for one candidate; `count` of them are taken one after the other, each with
    `epsilon / count`, so that basic composition gives epsilon.
    """
    scale = permute_and_flip_scale(count, epsilon, sensitivity)
    return _one_after_the_other(values, count, lambda left: noise.permute_and_flip(left, scale))


def permute_and_flip_scale(count: int, epsilon: float, sensitivity: float) -> float:
    """The scale of the exponential noise that it amounts to, in each of the `count` choices.

    >>> permute_and_flip_scale(9, 1 / 3, 1 / 100)
    0.54
    """
    return 2 * sensitivity / (epsilon / count)


def repeated(
    values: Floats, count: int, epsilon: float, sensitivity: float, noise: Noise, eta: float = 1.0
) -> list[int]:
    """The best of a random number of noisy looks, each at a candidate drawn at random with replacement.

    One look adds Laplace noise of scale `sensitivity / e`, so that it is e-differentially private by
    itself. Their number is drawn from the truncated negative binomial distribution with `eta`, and is
    never told, nor is any look but the best.

    Privacy: (2 + eta) e for one candidate, however many looks there were (Papernot and Steinke, 2022,
    Theorem 2; eta = 1, the geometric distribution, is Liu and Talwar, 2019, Theorem 3.2: 3 e). Here
    `e = epsilon / (2 + eta)`; `count` candidates are taken one after the other, each with
    `epsilon / count`.
    """
    scale = repeated_scale(count, epsilon, sensitivity, eta)

    def best(left: Floats) -> int:
        looks = truncated_negative_binomial(eta, _DRAWS * len(left), noise.rng)
        drawn = noise.rng.integers(len(left), size=looks)
        noisy = noise.laplace(left[drawn], scale)
        # Equal values are told apart by place: the proof wants looks to be ordered among themselves.
        return int(drawn[noisy == noisy.max()].min())

    return _one_after_the_other(values, count, best)


def repeated_scale(count: int, epsilon: float, sensitivity: float, eta: float = 1.0) -> float:
    """The scale of the Laplace noise on each look.

    >>> repeated_scale(9, 1 / 3, 1 / 100)
    0.81
    """
    return sensitivity * (2 + eta) / (epsilon / count)


def truncated_negative_binomial(eta: float, mean: float, rng: np.random.Generator) -> int:
    """A number of at least 1: geometric for eta = 1, logarithmic for eta = 0, with this mean.

    For other `eta` above 0, whose mean has no simple inverse, the mean is at least this. `mean` is above 1.
    (Papernot and Steinke, 2022, Definition 1.)
    """
    if eta == 1:
        return int(rng.geometric(1 / mean))
    if eta == 0:
        return int(rng.logseries(1 - _logarithmic(mean)))
    gamma = eta / (eta + mean)  # the mean of all numbers; that of those above 0 is larger
    while not (drawn := int(rng.negative_binomial(eta, gamma))):
        pass
    return drawn


def _logarithmic(mean: float) -> float:
    """The gamma with which a logarithmic number has this mean, (1/gamma - 1) / log(1/gamma)."""
    found = scipy.optimize.brentq(lambda log: np.expm1(log) - mean * log, 1e-9, 700.0)
    return float(np.exp(-found))


def _one_after_the_other(values: Floats, count: int, best: Callable[[Floats], int]) -> list[int]:
    left = list(range(len(values)))
    return sorted(left.pop(best(values[left])) for _ in range(count))


#: By the names of `Privacy.mechanism`.
SELECTIONS: Mapping[str, Selection] = {
    "topk": one_shot,
    "permute-and-flip": permute_and_flip,
    "repeated": repeated,
}


def selection_of(privacy: Privacy) -> Selection:
    """How a rung's best are chosen; what a mechanism of the user's own gives is checked."""
    own = privacy.own_selection()
    if own is None:
        assert isinstance(privacy.mechanism, str)
        return SELECTIONS[privacy.mechanism]

    def choose(values: Floats, count: int, epsilon: float, sensitivity: float, noise: Noise) -> list[int]:
        where = f"mechanism = {privacy.mechanism!r}"
        try:
            found = sorted(int(place) for place in own(values.copy(), count, epsilon, sensitivity, noise))
        except Exception as error:  # its message may quote scores
            raise InputError(f"{where}: it raised {type(error).__name__}") from None
        if len(set(found)) != count or not 0 <= found[0] <= found[-1] < len(values):
            raise InputError(f"{where}: must give {count} places from 0 to {len(values) - 1}, each once")
        return found

    return choose
