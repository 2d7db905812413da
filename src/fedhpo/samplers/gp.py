"""Bayesian optimisation with a Gaussian process (Jones et al., 1998; Snoek et al., 2012).

The process knows how uncertain each score is: its noise variance is the square of the score's standard
error, plus what the fit adds: hardly anything where all errors are known, up to all of the variance where
they are not. Under noise the best trial is that with the lowest posterior mean, not the luckiest score.
A hyperparameter that is not active sits in the middle of its range; whole numbers, lists and choices are
rounded before the kernel sees them (Garrido-Merchan and Hernandez-Lobato, 2020).

Two objectives have a process each; what is suggested has the largest expected improvement of the hypervolume.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fedhpo.core.errors import InputError, unknown_name
from fedhpo.core.pareto import pareto_order
from fedhpo.core.settings import check_settings
from fedhpo.protocol.objective import Score
from fedhpo.protocol.sampler import Observation, known
from fedhpo.samplers._rungs import highest_rung
from fedhpo.samplers.random import Random
from fedhpo.samplers.untried import finite_size, untried
from fedhpo.space import Space
from fedhpo.space.config import Config
from fedhpo.surrogates.acquisition import Acquisition, expected_improvement, noisy_expected_improvement
from fedhpo.surrogates.cube import Cube, Floats, sobol
from fedhpo.surrogates.hypervolume import hypervolume_improvement
from fedhpo.surrogates.process import KNOWN, UNKNOWN, Process, fit, one_thread
from fedhpo.surrogates.refine import refined

ACQUISITIONS = ("ei", "noisy-ei")

#: Quasi-random candidates; then so many of the best are refined, each by these many moves of each width.
_CANDIDATES, _REFINED, _MOVES, _WIDTHS = 512, 5, 20, (0.1, 0.03, 0.01, 0.003, 0.001)
#: A process of more observations than these forgets some: it costs the cube of their number.
_MOST = 2000


@dataclass(frozen=True)
class GP:
    """Suggests the config with the largest expected improvement under a Gaussian process.

    Parameters
    ----------
    acquisition
        "ei", or "noisy-ei" for scores with much noise: it averages over what the best one may truly be.
    startup
        Configs are random until a rung has so many finite scores; by default one more than there are
        hyperparameters. Keep it well below the number of trials.
    """

    acquisition: str = "ei"
    startup: int | None = None

    #: The most objectives that it models; more are combined into one number.
    objectives: ClassVar[int] = 2

    def __post_init__(self) -> None:
        check_settings(self)
        if self.acquisition not in ACQUISITIONS:
            raise unknown_name("acquisition", self.acquisition, ACQUISITIONS)
        if self.startup is not None and self.startup < 2:
            raise InputError(f"startup must be at least 2, not {self.startup}")

    def suggest(
        self,
        space: Space,
        observations: Sequence[Observation],
        asked: Sequence[Config],
        rng: np.random.Generator,
        pool: Sequence[Config] | None = None,
    ) -> Config | None:
        """The config with the largest acquisition among all that were not tried."""
        rung = highest_rung(observations, self._least(space))
        if not rung or not space.dimensions:
            return Random().suggest(space, observations, asked, rng, pool)
        with one_thread():
            return self._best(space, observations, rung, asked, rng, pool)

    def _best(
        self,
        space: Space,
        observations: Sequence[Observation],
        rung: Sequence[Observation],
        asked: Sequence[Config],
        rng: np.random.Generator,
        pool: Sequence[Config] | None,
    ) -> Config | None:
        cube = Cube(space)
        observed = {seen.config for seen in observations}
        pending = cube.points(config for config in dict.fromkeys(asked) if config not in observed)
        acquisition = self._acquisition(cube, rung, pending, rng)
        size = finite_size(space)
        if pool is None and (size is None or size > _CANDIDATES):
            config = space.from_unit(_maximum(cube, rung, acquisition, rng))
            if config not in known(asked):
                return config
        left = untried(space, asked, rng, pool)
        return left[int(np.argmax(acquisition(cube.points(left))))] if left else None

    def _acquisition(
        self, cube: Cube, rung: Sequence[Observation], pending: Floats, rng: np.random.Generator
    ) -> Acquisition:
        """The acquisition as a function of points of the cube."""
        process = fitted(cube, rung, rng)
        waiting, _ = cube.features(pending)
        if any(seen.score.others for seen in rung):
            second = [_second(seen) for seen in rung]
            found = hypervolume_improvement([process, fitted(cube, second, rng)], waiting)
        elif self.acquisition == "ei":
            found = expected_improvement(process, waiting)
        else:
            found = noisy_expected_improvement(process, waiting, rng)
        return lambda points: found(cube.features(points)[0])

    def recommend(
        self,
        space: Space,
        observations: Sequence[Observation],
        candidates: Sequence[int],
        rng: np.random.Generator,
    ) -> int | None:
        """The trial, of these, whose posterior mean is lowest: a score that was lucky does not win by luck.

        None where scores are exact, or too few for a model: then the best score decides.
        """
        rung = highest_rung(observations, self._least(space))
        members = [seen for seen in rung if seen.trial in candidates and math.isfinite(seen.score.rank_value)]
        if not members or not space.dimensions or all(seen.score.standard_error == 0 for seen in rung):
            return None
        with one_thread():
            cube = Cube(space)
            process = fitted(cube, rung, rng)
            features, _ = cube.features(cube.points(seen.config for seen in members))
            means, _ = process.marginals(features)
        return members[int(np.argmin(means))].trial

    def _least(self, space: Space) -> int:
        """How many scores a model needs."""
        return max(2, space.dimensions + 1) if self.startup is None else self.startup

    def limit(self, space: Space) -> int | None:
        """The number of configs in a finite space."""
        return finite_size(space)


def _second(seen: Observation) -> Observation:
    """The same observation in the second objective; a trial that failed is bad in both."""
    return replace(seen, score=seen.score.others[0]) if seen.score.others else seen


def fitted(cube: Cube, rung: Sequence[Observation], rng: np.random.Generator) -> Process:
    """The process of a rung's scores. Where an error is not known it may find more noise than they tell."""
    features, owners = cube.features(cube.points(seen.config for seen in rung))
    values, noise = standardised(
        np.array([seen.score.rank_value for seen in rung]),
        np.array([standard_error(seen.score) for seen in rung]),
    )
    told = [seen.score.standard_error for seen in rung if math.isfinite(seen.score.rank_value)]
    prior = UNKNOWN if any(map(math.isnan, told)) else KNOWN
    kernel = fit(features, owners, values, noise, rng, noise_prior=prior)
    kept = _kept(values)
    return Process(kernel, features[kept], owners, values[kept], noise[kept])


def _kept(values: Floats) -> NDArray[np.int64]:
    """The observations that condition a process: beyond `_MOST`, the best ones and as many of the rest.

    >>> _kept(np.array([0.2, 0.1])).tolist()
    [0, 1]
    """
    count = len(values)
    if count <= _MOST:
        return np.arange(count)
    order = np.argsort(values, kind="stable")
    rest = order[_MOST // 2 :]
    spread = rest[np.linspace(0, len(rest) - 1, _MOST - _MOST // 2).astype(np.int64)]
    return np.sort(np.concatenate([order[: _MOST // 2], spread]))


def standard_error(score: Score) -> float:
    """The score's standard error; of one client, which cannot tell it, the largest that it can be in [0, 1].

    Scores in [0, 1] with mean m have a variance of at most m (1 - m). Other scores stay unknown.

    >>> standard_error(Score(0.2, math.nan, 1, 9, 0.2)), standard_error(Score(0.2, 0.1, 4, 9, 0.2))
    (0.4, 0.1)
    """
    if math.isnan(score.standard_error) and 0 <= score.value <= 1 and score.clients:
        return math.sqrt(score.value * (1 - score.value) / score.clients)
    return score.standard_error


def standardised(values: Floats, errors: Floats) -> tuple[Floats, Floats]:
    """Values of mean 0 and variance 1, and their noise variances in the same units.

    A failed trial counts as bad as the worst. Values much worse than the median are cut off, since a loss
    that exploded would otherwise be all that the process sees. An error that is not known counts as 0.

    >>> standardised(np.array([0.0, 2.0, np.inf]), np.array([0.0, 0.5, np.nan]))[0].round(3).tolist()
    [-1.414, 0.707, 0.707]
    """
    finite = np.isfinite(values)
    values = np.where(finite, values, values[finite].max())
    median = float(np.median(values))
    below = median - float(values.min())
    if below > 0:
        values = np.minimum(values, median + 3 * below)
    spread = float(values.std()) or 1.0
    noise = np.where(np.isfinite(errors) & finite, errors, 0.0) / spread
    return (values - values.mean()) / spread, noise**2


def _maximum(
    cube: Cube, rung: Sequence[Observation], acquisition: Acquisition, rng: np.random.Generator
) -> Floats:
    """The best of many points, after the best few, and the best configs so far, were moved about."""
    wide = sobol(len(cube.axes), _CANDIDATES, rng)
    leaders = cube.points(rung[place].config for place in _best_first(rung)[:_REFINED])
    points = cube.snap(np.vstack([wide, leaders]))
    worth = acquisition(points)
    order = np.argsort(-worth, kind="stable")[:_REFINED]
    # The leaders themselves have nothing to gain; the points around them may.
    centres = np.vstack([points[order], leaders])
    worths = np.concatenate([worth[order], worth[_CANDIDATES:]])
    centres, worths = refined(cube, centres, worths, acquisition, _WIDTHS, _MOVES, rng)
    point: Floats = centres[int(np.argmax(worths))]
    return point


def _best_first(rung: Sequence[Observation]) -> list[int]:
    """Places of observations, the best first: those that failed last."""
    able = [place for place, seen in enumerate(rung) if math.isfinite(seen.score.rank_value)]
    order = [able[place] for place in pareto_order(np.array([rung[place].score.point for place in able]))]
    finite = set(able)
    return order + [place for place in range(len(rung)) if place not in finite]
