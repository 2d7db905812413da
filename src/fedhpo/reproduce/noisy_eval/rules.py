"""By which rules observations are judged: paired differences of errors, in points of percent.

A difference is taken search by search: searches of one number have the same configs, replays of one seed the
same seed. It is above a threshold, or is not, if two standard errors over the searches say so; what must
be "no worse" may be worse by `MARGIN`; "hardly better than random" is a gain over a choice at random of less
than a `TENTH` of what search without noise gains. Searches are drawn from one table of configs: a verdict is
about these tables, not about other data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fedhpo.protocol.federation import Floats
from fedhpo.reproduce.noisy_eval.figures import Curves, Dots
from fedhpo.reproduce.shared.tables import Mean
from fedhpo.reproduce.shared.verdicts import Verdict, above, all_of

#: Points of percent: as good as, and so bad that it is a catastrophe.
MARGIN, CATASTROPHE = 1.0, 5.0
TENTH = 0.1

Figures = Mapping[str, Curves | Dots]
Combine = Callable[[list[str]], str]


def curves(figures: Figures, number: str) -> Curves:
    """A figure with curves."""
    figure = figures[number]
    assert isinstance(figure, Curves)
    return figure


def points(worse: Floats, better: Floats) -> Mean:
    """The mean of a paired difference, in points.

    >>> import numpy as np
    >>> print(points(np.array([0.25, 0.5]), np.array([0.125, 0.375])))
    12.500 ± 0.000
    """
    return Mean.of(100 * (worse - better))


def over(
    claim: str,
    paper: str,
    found: Mapping[str, Mean],
    threshold: float = 0.0,
    combine: Combine = all_of,
) -> Verdict:
    """A claim that a difference is above a threshold, on every table (or on one of them)."""
    here = "; ".join(f"{name}: {_points(mean)}" for name, mean in found.items())
    return Verdict(claim, paper, here, combine([above(mean, threshold) for mean in found.values()]))


def _points(mean: Mean) -> str:
    return f"{mean.value:+.1f} ± {mean.error:.1f}"


def no_matter(claim: str, paper: str, found: Mapping[str, Mean]) -> Verdict:
    """Within the margin on both sides."""
    plain = over(claim, paper, found, -MARGIN)
    turned = {name: Mean(-mean.value, mean.error, mean.count) for name, mean in found.items()}
    both = all_of([plain.verdict, over(claim, paper, turned, -MARGIN).verdict])
    return Verdict(claim, paper, plain.here, both)
