"""How a budget of epsilon is split over the planned releases."""

from __future__ import annotations

from typing import Any

from fedhpo.core.errors import MissingExtraError
from fedhpo.privacy.privacy import Privacy

#: Steps of the search for the largest epsilon of one release that still composes to the budget.
_STEPS = 30


def epsilon_each(privacy: Privacy, releases: int) -> float:
    """The epsilon that each of so many releases of one client's scores may have by itself.

    By basic composition the budget's even part. With "pld" more: composed, they are still within
    (epsilon, delta), which dp-accounting shows with pessimistic rounding. A Laplace release has a tighter
    privacy loss than the worst one that is as private, which selections are taken for.

    >>> epsilon_each(Privacy(epsilon=1.0), 16)
    0.0625
    """
    even = privacy.epsilon / releases
    if privacy.accounting != "pld" or releases == 1:
        return even
    low, high = even, privacy.epsilon
    for _ in range(_STEPS):
        middle = (low + high) / 2
        fits = composed(privacy, middle, releases) <= privacy.epsilon
        low, high = (middle, high) if fits else (low, middle)
    return low


def composed(privacy: Privacy, each: float, releases: int) -> float:
    """The epsilon, at the budget's delta, of so many releases of `each`."""
    try:
        from dp_accounting.pld import common, privacy_loss_distribution
    except ImportError:
        raise MissingExtraError("dp-accounting", "privacy") from None
    # Finer than any one loss: rounding up, release by release, must not eat what is to be gained.
    interval = min(1e-4, each / 50)
    one: Any
    if privacy.releases_values:
        one = privacy_loss_distribution.from_laplace_mechanism(
            1 / each, value_discretization_interval=interval
        )
    else:
        one = privacy_loss_distribution.from_privacy_parameters(
            common.DifferentialPrivacyParameters(each, 0.0), value_discretization_interval=interval
        )
    return float(one.self_compose(releases).get_epsilon_for_delta(privacy.delta))
