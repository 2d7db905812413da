"""A surrogate of a table: what its clients would say of any config of the space.

The level of a config is its mean error over all clients, a curve over rounds. It is predicted from the
hyperparameters: the table's curves are taken apart into principal components, and a Gaussian process is
fitted to the scores of each. How clients differ is taken from the table's config with the nearest curve, the
donor: its clients are stretched until their mean is the predicted level. So a client stays as hard, and
clients as unlike, as they were recorded; means over many clients would be far too smooth.

Nothing is drawn at random after the fit: a config always gets the same answer. Configs of the table are
answered as they were recorded.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from fedhpo.core.errors import InputError
from fedhpo.core.streams import stream
from fedhpo.protocol.federation import Floats, Ints
from fedhpo.research.tables.curve_table import CurveTable
from fedhpo.space.config import Config
from fedhpo.surrogates.cube import Cube
from fedhpo.surrogates.process import UNKNOWN, Process, fit, one_thread

#: Principal components of the curves, and the fewest configs that a surrogate is fitted to.
COMPONENTS, FEWEST = 3, 16
_TINY = 1e-9


@dataclass(frozen=True, eq=False)
class Answer:
    """What all clients say of one config: by heterogeneity, round and client, as in the table."""

    error: Floats
    loss: Floats
    #: Rounds that it can be trained for.
    trained: int
    #: Numbers in its model.
    parameters: int


@dataclass(frozen=True)
class SurrogateGap:
    """How far answers are from what was recorded, for configs that the surrogate had not seen.

    Root mean squares at the end of training: of the error over all clients (`level`), the same of the
    better half of the configs, and of what one client says (`client`). `rank` is Spearman's correlation of
    predicted and recorded levels; `spread` is the deviation of the levels, the error of predicting their
    mean.
    """

    level: float
    better_half: float
    client: float
    rank: float
    spread: float

    def to_dict(self) -> dict[str, float]:
        """All of it, JSON-able."""
        return asdict(self)


class Surrogate:
    """Answers any config of a table's space.

    >>> from fedhpo.testing.table import toy_table
    >>> table = toy_table(configs=32, rounds=9, clients=5)
    >>> surrogate = Surrogate(table)
    >>> new = table.space.sample(np.random.default_rng(0))
    >>> surrogate.answer(new).error.shape == table.wrong[:, 0].shape
    True
    >>> bool((surrogate.answer(table.configs[3]).error[0] == table.errors()[3]).all())
    True
    """

    def __init__(self, table: CurveTable) -> None:
        able = np.flatnonzero(table.trained >= table.rounds[-1])
        if len(able) < FEWEST:
            raise InputError(
                f"surrogate: table {table.name} has {len(able)} configs that were trained to the end; at "
                f"least {FEWEST} are needed"
            )
        self.table = table
        self._able = able
        self._cube = Cube(table.space)
        self._places = {_key(config): place for place, config in enumerate(table.configs)}
        self._features, owners = self._cube.features(self._cube.points(table.configs))
        shares = table.counted[0] / table.counted[0].sum()
        self._levels: Floats = table.errors() @ shares
        self._log_losses: Floats = np.log(np.maximum(table.losses() @ shares, _TINY))
        seen = self._features[able]
        with one_thread():
            self._error = _Curves(seen, owners, self._levels[able])
            self._loss = _Curves(seen, owners, self._log_losses[able])

    def answer(self, config: Config) -> Answer:
        """What all clients say of a config; outside the space it is refused."""
        place = self._places.get(_key(config))
        return self._recorded(place) if place is not None else self.predict(config)

    def _recorded(self, place: int) -> Answer:
        table = self.table
        error = table.wrong[:, place] / table.counted[:, None]
        loss = table.loss[:, place].astype(np.float64)
        return Answer(error, loss, int(table.trained[place]), int(table.parameters[place]))

    def predict(self, config: Config) -> Answer:
        """The same as though the config were not in the table."""
        table = self.table
        features, _ = self._cube.features(self._cube.points([config]))
        with one_thread():
            level = np.clip(self._error.at(features)[0], 0.0, 1.0)
            log_loss = self._loss.at(features)[0]
        donor = self._able[int(((self._levels[self._able] - level) ** 2).sum(axis=1).argmin())]
        recorded = self._recorded(donor)
        lost = np.exp(log_loss - self._log_losses[donor])
        nearest = self._error.nearest(features[0], self._features)
        return Answer(
            stretch(recorded.error, self._levels[donor][:, None], level[:, None]),
            recorded.loss * lost[:, None],
            int(table.trained[nearest]),
            int(table.parameters[nearest]),
        )


def stretch(errors: Floats, mean: Floats, wanted: Floats) -> Floats:
    """Errors of this mean moved to another one: towards 0, or towards 1, in proportion.

    >>> stretch(np.array([0.2, 0.6]), np.array(0.4), np.array(0.2)).round(6).tolist()
    [0.1, 0.3]
    >>> stretch(np.array([0.2, 0.6]), np.array(0.4), np.array(0.7)).round(6).tolist()
    [0.6, 0.8]
    """
    down = wanted / np.maximum(mean, _TINY)
    up = (1 - wanted) / np.maximum(1 - mean, _TINY)
    found: Floats = np.where(
        wanted <= mean, errors * np.minimum(down, 1), 1 - (1 - errors) * np.minimum(up, 1)
    )
    return found


class _Curves:
    """Curves over rounds from features: a Gaussian process for each of a few principal components."""

    def __init__(self, features: Floats, owners: Ints, curves: Floats) -> None:
        self._mean = curves.mean(axis=0)
        scores, sizes, self._shapes = np.linalg.svd(curves - self._mean, full_matrices=False)
        self._owners = owners
        self._parts: list[tuple[float, Process]] = []
        for number in range(min(COMPONENTS, len(sizes))):
            # In units of their deviation, as the process wants them; no deviation, nothing to predict.
            unit = sizes[number] / np.sqrt(len(curves))
            if unit < _TINY:
                break
            values = scores[:, number] * np.sqrt(len(curves))
            known = np.zeros(len(curves))
            rng = stream(0, "surrogate", number)
            kernel = fit(features, owners, values, known, rng, noise_prior=UNKNOWN)
            self._parts.append((float(unit), Process(kernel, features, owners, values, known)))

    def at(self, features: Floats) -> Floats:
        """The curves at these features, one a row."""
        found = np.tile(self._mean, (len(features), 1))
        for number, (unit, process) in enumerate(self._parts):
            found += np.outer(unit * process.marginals(features)[0], self._shapes[number])
        return found

    def nearest(self, one: Floats, others: Floats) -> int:
        """The nearest of other features, in length scales of the first component."""
        scales = self._parts[0][1].kernel.scales[self._owners] if self._parts else 1.0
        return int((((others - one) / scales) ** 2).sum(axis=1).argmin())


def cross_validate(table: CurveTable, folds: int = 8, seed: int = 0) -> SurrogateGap:
    """Each fold of the configs is predicted by a surrogate of the others."""
    from scipy.stats import spearmanr

    count, everybody = len(table.configs), np.arange(len(table.validation_clients))
    shares = table.counted[0] / table.counted[0].sum()
    recorded = table.errors()[:, -1]
    predicted = np.empty_like(recorded)
    for fold in np.array_split(stream(seed, "folds").permutation(count), folds):
        rest = np.setdiff1d(np.arange(count), fold)
        surrogate = Surrogate(table.kept(rest, everybody))
        for place in fold:
            predicted[place] = surrogate.predict(table.configs[int(place)]).error[0, -1]
    able = table.trained >= table.rounds[-1]
    predicted, recorded = predicted[able], recorded[able]
    levels, truth = predicted @ shares, recorded @ shares
    better = truth <= np.median(truth)
    return SurrogateGap(
        level=_rms(levels - truth),
        better_half=_rms(levels[better] - truth[better]),
        client=_rms(predicted - recorded),
        rank=float(spearmanr(levels, truth).statistic),
        spread=float(truth.std()),
    )


def _rms(values: Floats) -> float:
    return float(np.sqrt((values**2).mean()))


def _key(config: Config) -> Any:
    return config.model, config.client, config.server
