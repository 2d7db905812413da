"""By which rules observations are judged: differences of errors, in points of percent.

A difference is above a threshold, or is not, if two standard errors say so; what must be "no worse" may be
worse by `MARGIN`; "hardly better than random" is a gain over a choice at random of less than a `TENTH` of
what search without noise gains. Standard errors are those of the jackknife over configs and clients: a
verdict is about configs and clients like those of these tables, not about other data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fedhpo.protocol.federation import Floats
from fedhpo_papers.jackknife import Jackknife
from fedhpo_papers.noisy_eval.figures import Curves, Dots
from fedhpo_papers.shared.tables import Mean
from fedhpo_papers.shared.verdicts import Verdict, above, all_of

#: Points of percent: as good as, and so bad that it is a catastrophe.
MARGIN, CATASTROPHE = 1.0, 5.0
TENTH = 0.1

Figures = Mapping[str, Curves | Dots]
Combine = Callable[[list[str]], str]


@dataclass(frozen=True)
class Claim:
    """That a difference is above a threshold, on every table (or on one of them)."""

    text: str
    paper: str
    #: By table, or pair of tables.
    found: Mapping[str, Mean]
    threshold: float = 0.0
    combine: Combine = all_of
    #: Below minus the threshold too: no difference that matters.
    both_sides: bool = False
    #: What to say beside a name, or in place of the points.
    names: Mapping[str, str] = field(default_factory=dict)
    shown: Mapping[str, str] = field(default_factory=dict)

    @property
    def verdict(self) -> Verdict:
        """What two standard errors say."""
        here = "; ".join(self._said(name, mean) for name, mean in self.found.items())
        return Verdict(self.text, self.paper, here, self.combine(self._judged()))

    def _judged(self) -> list[str]:
        found = [above(mean, self.threshold) for mean in self.found.values()]
        if self.both_sides:
            turned = [Mean(-mean.value, mean.error, mean.count) for mean in self.found.values()]
            found += [above(mean, self.threshold) for mean in turned]
        return found

    def _said(self, name: str, mean: Mean) -> str:
        words = self.shown.get(name, f"{mean.value:+.1f} ± {_digits(mean.error)}")
        return f"{self.names.get(name, name)}: {words}"


def _digits(error: float) -> str:
    return f"{error:.1f}" if not error < 0.05 else f"{error:.2f}"


def curves(figures: Figures, number: str) -> Curves:
    """A figure with curves."""
    figure = figures[number]
    assert isinstance(figure, Curves)
    return figure


def points(worse: Floats, better: Floats) -> Mean:
    """The mean of a difference, in points: search by search, or of searches apart if these are not as many.

    >>> import numpy as np
    >>> print(points(np.array([0.25, 0.5]), np.array([0.125, 0.375])))
    12.500 ± 0.000
    >>> print(points(np.array([0.3, 0.5, 0.4]), np.array([0.1, 0.1])))
    30.000 ± 5.774
    """
    if len(worse) == len(better):
        return Mean.of(100 * (worse - better))
    return weighed({1.0: [worse], -1.0: [better]})


def weighed(parts: Mapping[float, Sequence[Floats]]) -> Mean:
    """A sum of means of independent searches, each times its weight, in points."""
    means = [(weight, Mean.of(100 * errors)) for weight, group in parts.items() for errors in group]
    value = sum(weight * mean.value for weight, mean in means)
    error = float(np.sqrt(sum((weight * mean.error) ** 2 for weight, mean in means)))
    return Mean(value, error, min(mean.count for _, mean in means))


def no_matter(text: str, paper: str, found: Mapping[str, Mean]) -> Claim:
    """Within the margin on both sides."""
    return Claim(text, paper, found, -MARGIN, both_sides=True)


def with_jackknife(
    claims: Sequence[Claim], parts: Sequence[Sequence[Claim]], knives: Mapping[str, Jackknife]
) -> list[Claim]:
    """The claims with standard errors from those of the parts; the chance of the searches is taken off.

    Claims of parts come in the same order and under the same names.
    """
    # Figures of several tables go by the largest factor: it errs on the safe side.
    knife = max(knives.values(), key=lambda one: one.factor)
    judged = []
    for place, claim in enumerate(claims):
        own = [part[place] for part in parts]
        assert all(one.text == claim.text for one in own)
        found = {}
        for name, mean in claim.found.items():
            values = [one.found[name] for one in own]
            error = knife.errors(
                [value.value for value in values],
                within=[_squared(value.error) for value in values],
                own=_squared(mean.error),
            )
            # What some part could not say is not known.
            found[name] = Mean(mean.value, float(error), mean.count if np.isfinite(error) else 0)
        judged.append(replace(claim, found=found))
    return judged


def _squared(error: float) -> float:
    return 0.0 if np.isnan(error) else error**2
