"""How well the best config is chosen from noisy scores: predicted, and measured."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fedhpo.core.errors import InputError
from fedhpo.privacy.means import mean_scale
from fedhpo.privacy.rotation import most_asked
from fedhpo.protocol.federation import Floats, Ints
from fedhpo.research.advise.pilot import Pilot

#: A config counts as good as the best within this difference.
TOLERANCE = 0.01
#: Searches that are simulated to predict or to measure one number.
_SIMULATED = 2000
#: So many numbers are held at a time.
_NUMBERS = 4_000_000
#: The paper's strongest bias of participation.
_BIAS = 3.0


@dataclass(frozen=True)
class Noise:
    """How scores are observed: clients drawn, releases planned under epsilon (None: not private).

    `rotates`: a client is charged for the releases that asked it, rather than for all.
    """

    clients: int
    population: int
    epsilon: float | None = None
    evaluations: int = 1
    paired: bool = True
    rotates: bool = False

    @property
    def drawn(self) -> float:
        """Variance of a score, for clients of variance 1; 0 where all are asked."""
        return max(0.0, 1 / self.clients - 1 / self.population)

    @property
    def scale(self) -> float:
        """Scale of the Laplace noise, m / (epsilon |S|), for m releases that one client is charged for."""
        if self.epsilon is None:
            return 0.0
        rotates = self.rotates and not self.paired
        charged = most_asked(self.evaluations, self.clients, self.population) if rotates else self.evaluations
        return mean_scale(charged, self.epsilon, self.clients)


@dataclass(frozen=True)
class Quality:
    """How well the best of K configs is chosen.

    `best_first` is the probability that the best is ranked first, `near` that what is ranked first is as
    good within the tolerance, `regret` how much worse it is on average.
    """

    best_first: float
    near: float
    regret: float


def standard_error(pilot: Pilot, noise: Noise) -> float:
    """The standard error of one score of a typical config: from drawing clients, and from privacy."""
    return math.sqrt(pilot.spread**2 * noise.drawn + 2 * noise.scale**2)


def predict(
    pilot: Pilot, noise: Noise, configs: int, rng: np.random.Generator, tolerance: float = TOLERANCE
) -> Quality:
    """Selection of the best of `configs` configs, with normal errors of the pilot's own covariance.

    Each simulated search draws its configs from the pilot: different ones while there are enough. Beyond that
    a config is drawn again as another one like it: moved towards a neighbour in score, with errors that
    are correlated as those of two configs are on average.
    """
    count, root = len(pilot.means), _root(pilot.covariance)
    scale = np.sqrt(np.diag(pilot.covariance))
    again = configs > count
    shared = _mean_correlation(pilot.covariance) if again else 1.0
    shared = shared if noise.paired else 0.0

    def searches(number: int) -> tuple[Floats, Floats]:
        if again:
            members = rng.integers(count, size=(number, configs))
            truth = _smoothed(pilot.means, members, rng)
        else:
            members = _subsets(count, configs, number, rng)
            truth = pilot.means[members]
        together = np.take_along_axis(rng.standard_normal((number, len(root))) @ root.T, members, axis=1)
        alone = scale[members] * rng.standard_normal((number, configs))
        error = math.sqrt(shared) * together + math.sqrt(1 - shared) * alone
        return truth, truth + math.sqrt(noise.drawn) * error

    return _quality(pilot, noise, searches, count + configs, rng, tolerance)


def measure(
    pilot: Pilot, noise: Noise, configs: int, rng: np.random.Generator, tolerance: float = TOLERANCE
) -> Quality:
    """The same by doing it: clients are drawn, what they said is averaged, noise added, the best taken."""
    count = len(pilot.means)
    if configs > count:
        raise InputError(f"configs must be at most {count}, the configs that were scored, not {configs}")

    def searches(number: int) -> tuple[Floats, Floats]:
        members = _subsets(count, configs, number, rng)
        drawn = _subsets(pilot.clients, noise.clients, number * (1 if noise.paired else configs), rng)
        drawn = drawn.reshape(number, -1, noise.clients)
        weights = pilot.weights[drawn]
        values = pilot.values[members[:, :, None], drawn]
        return pilot.means[members], (values * weights).sum(axis=2) / weights.sum(axis=2)

    return _quality(pilot, noise, searches, configs * pilot.clients, rng, tolerance)


def _quality(
    pilot: Pilot,
    noise: Noise,
    searches: Callable[[int], tuple[Floats, Floats]],
    numbers: int,
    rng: np.random.Generator,
    tolerance: float,
) -> Quality:
    """Many searches, of so many `numbers` each: true scores, and as drawn; privacy noise is added here."""
    sign = -1 if pilot.objective.maximise else 1
    together = max(1, min(_SIMULATED, _NUMBERS // numbers))
    regrets = []
    for begin in range(0, _SIMULATED, together):
        truth, seen = (sign * scores for scores in searches(min(together, _SIMULATED - begin)))
        if noise.scale:
            seen = seen + rng.laplace(scale=noise.scale, size=seen.shape)
        first = seen.argmin(axis=1)
        regrets.append(truth[np.arange(len(truth)), first] - truth.min(axis=1))
    regret = np.concatenate(regrets)
    near = regret <= tolerance + 1e-12
    return Quality(float((regret == 0).mean()), float(near.mean()), float(regret.mean()))


def _subsets(count: int, size: int, number: int, rng: np.random.Generator) -> Ints:
    """Random subsets of `size` out of `count`, one a row, in random order."""
    found: Ints = np.argsort(rng.random((number, count)), axis=1)[:, :size]
    return found


def _root(covariance: Floats) -> Floats:
    """A square root of a covariance that may be singular, as there may be fewer clients than configs."""
    values, vectors = np.linalg.eigh(covariance)
    root: Floats = vectors * np.sqrt(np.maximum(values, 0))
    return root


def _mean_correlation(covariance: Floats) -> float:
    scale = np.sqrt(np.diag(covariance))
    known = scale > 0
    if known.sum() < 2:
        return 0.0
    correlations = covariance[np.ix_(known, known)] / np.outer(scale[known], scale[known])
    count = len(correlations)
    return float(np.clip((correlations.sum() - count) / (count * (count - 1)), 0, 1))


def _smoothed(means: Floats, members: Ints, rng: np.random.Generator) -> Floats:
    """The members' means, each moved at random up to half the way to the next better or worse one."""
    ordered, own = np.sort(means), means[members]
    places = np.searchsorted(ordered, own)
    toward = np.clip(places + rng.choice([-1, 1], members.shape), 0, len(means) - 1)
    moved: Floats = own + 0.5 * rng.random(members.shape) * (ordered[toward] - own)
    return moved


def biased_regret(pilot: Pilot, bias: float = _BIAS) -> float:
    """How much worse the choice is if clients reply with probability (accuracy + 0.0001)^bias.

    Everything else is taken as perfect: any number of clients, no privacy noise.
    """
    accuracy = pilot.values if pilot.objective.maximise else 1 - pilot.values
    weights = pilot.weights * (accuracy + 1e-4) ** bias
    seen = (pilot.values * weights).sum(axis=1) / weights.sum(axis=1)
    sign = -1 if pilot.objective.maximise else 1
    truth = sign * pilot.means
    return float(truth[np.argmin(sign * seen)] - truth.min())
