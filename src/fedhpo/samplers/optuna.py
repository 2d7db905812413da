"""Any sampler of Optuna (Akiba et al., 2019), through ask and tell.

The study is built anew from the observations for every suggestion, so nothing needs to be kept for a
resumed run; the sampler is seeded from the generator.
"""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedhpo.core.errors import InputError, MissingExtraError, unknown_name
from fedhpo.core.settings import check_settings
from fedhpo.protocol.sampler import Observation, known
from fedhpo.samplers._rungs import highest_rung
from fedhpo.samplers.untried import finite_size, untried
from fedhpo.space import Choice, Float, Hyperparameter, Int, Space
from fedhpo.space.config import Config

#: How often the sampler is asked again after a suggestion that was tried before.
_TRIES = 3


@dataclass(frozen=True)
class OptunaSampler:
    """An Optuna sampler, by its name in `optuna.samplers` or as a class, with the options it takes.

    A suggestion that was tried before, or is not in the pool, gives way to the nearest config that
    may be tried (see `Space.distance`).

    >>> from fedhpo.space import Float
    >>> space = Space(client={"lr": Float(1e-3, 1.0, log=True)})
    >>> sampler = OptunaSampler("TPESampler", {"n_startup_trials": 5})
    >>> space.contains(sampler.suggest(space, [], [], np.random.default_rng(0)))
    True
    """

    sampler: str | Callable[..., Any] = "TPESampler"
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_settings(self)
        if not isinstance(self.sampler, str) and not callable(self.sampler):
            raise InputError(f"sampler must be a name or a class of Optuna's samplers, not {self.sampler!r}")
        if self.options or not isinstance(self.sampler, str) or self.sampler != "TPESampler":
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what Optuna warns of is said when it is used
                self._made(_optuna(), 0)  # refuses names and options that it does not know
        # In one order, because a run is known by its settings as text.
        object.__setattr__(self, "options", dict(sorted(self.options.items())))

    def suggest(
        self,
        space: Space,
        observations: Sequence[Observation],
        asked: Sequence[Config],
        rng: np.random.Generator,
        pool: Sequence[Config] | None = None,
    ) -> Config | None:
        """The sampler's suggestion from the highest rung; configs not observed yet count as running."""
        optuna = _optuna()
        tried, free = known(asked), None if pool is None else set(pool)
        with _quiet(optuna):
            study = optuna.create_study(sampler=self._made(optuna, int(rng.integers(2**32))))
            study.add_trials(_told(optuna, space, observations, asked))
            for _ in range(_TRIES):
                config = _build(space, study.ask())
                if config not in tried and (free is None or config in free):
                    return config
        wanted = config
        left = untried(space, asked, rng, pool)
        return min(left, key=lambda other: space.distance(wanted, other), default=None)

    def _made(self, optuna: Any, seed: int) -> Any:
        kind = self.sampler
        if isinstance(kind, str):
            if not hasattr(optuna.samplers, kind):
                names = [name for name in optuna.samplers.__all__ if name.endswith("Sampler")]
                raise unknown_name("Optuna sampler", kind, names)
            kind = getattr(optuna.samplers, kind)
        if not callable(kind):
            raise InputError(f"sampler must be a name or a class of Optuna's samplers, not {kind!r}")
        try:
            takes = inspect.signature(kind).parameters
        except (TypeError, ValueError):
            raise InputError(
                f"sampler must be a name or a class of Optuna's samplers, not {kind!r}"
            ) from None
        seeded = {"seed": seed} if "seed" in takes else {}
        try:
            made = kind(**seeded, **self.options)
        except (TypeError, ValueError) as error:
            raise InputError(f"options of {self.sampler}: {error}; it takes {', '.join(takes)}") from None
        if not isinstance(made, optuna.samplers.BaseSampler):
            raise InputError(f"sampler must be a name or a class of Optuna's samplers, not {kind!r}")
        return made

    def limit(self, space: Space) -> int | None:
        """The number of configs in a finite space."""
        return finite_size(space)


def _optuna() -> Any:
    try:
        import optuna
    except ImportError:
        raise MissingExtraError("optuna", "optuna") from None
    return optuna


@contextmanager
def _quiet(optuna: Any) -> Iterator[None]:
    """Every new study would be announced."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(max(before, optuna.logging.WARNING))
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)


def _told(
    optuna: Any, space: Space, observations: Sequence[Observation], asked: Sequence[Config]
) -> list[Any]:
    """Optuna's trials: what the highest rung has seen, then what is pending."""
    rung = highest_rung(observations, 1)
    finite = [seen.score.rank_value for seen in rung if math.isfinite(seen.score.rank_value)]
    observed = {seen.config for seen in observations}
    complete, running = optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.RUNNING
    # Not every sampler can take an infinite value: a failed trial is as bad as the worst.
    told = [
        _trial(optuna, space, seen.config, complete, min(seen.score.rank_value, max(finite))) for seen in rung
    ]
    pending = [config for config in asked if config not in observed]
    return told + [_trial(optuna, space, config, running, None) for config in pending]


def _trial(optuna: Any, space: Space, config: Config, state: Any, value: float | None) -> Any:
    values = config.flat()
    axes = {name: axis for name, axis in space.hyperparameters.items() if name in values}
    return optuna.trial.create_trial(
        state=state,
        value=value,
        params={name: _inward(axis, values[name]) for name, axis in axes.items()},
        distributions={name: _distribution(optuna, axis) for name, axis in axes.items()},
    )


def _distribution(optuna: Any, axis: Hyperparameter) -> Any:
    """Lists go by index, since Optuna's values must be plain."""
    if isinstance(axis, Float):
        low, high = _bounds(axis)
        return optuna.distributions.FloatDistribution(low, high, log=axis.log)
    if isinstance(axis, Int):
        return optuna.distributions.IntDistribution(axis.low, axis.high, log=axis.log)
    if isinstance(axis, Choice):
        return optuna.distributions.CategoricalDistribution(range(int(axis.count)))
    return optuna.distributions.IntDistribution(0, int(axis.count) - 1)


def _bounds(axis: Float) -> tuple[float, float]:
    """The range as Optuna sees it, which knows no logarithm of 1 - value."""
    return (1 - axis.high, 1 - axis.low) if axis.complement else (axis.low, axis.high)


def _inward(axis: Hyperparameter, value: Any) -> Any:
    """Our value as Optuna's."""
    if isinstance(axis, Float) and axis.complement:
        low, high = _bounds(axis)
        return min(high, max(low, 1 - value))
    return value if isinstance(axis, Float | Int) else int(axis.to_unit(value) * axis.count)


def _build(space: Space, trial: Any) -> Config:
    return space.build(lambda dimension: _asked(trial, dimension.name, dimension.hyperparameter))


def _asked(trial: Any, name: str, axis: Hyperparameter) -> Any:
    """Optuna's value for a hyperparameter, as ours."""
    if isinstance(axis, Float):
        value = trial.suggest_float(name, *_bounds(axis), log=axis.log)
        value = min(axis.high, max(axis.low, 1 - value)) if axis.complement else value
        return axis.from_unit(axis.to_unit(value))  # rounded, as all values that a space makes
    if isinstance(axis, Int):
        return trial.suggest_int(name, axis.low, axis.high, log=axis.log)
    count = int(axis.count)
    if isinstance(axis, Choice):
        index = trial.suggest_categorical(name, range(count))
    else:
        index = trial.suggest_int(name, 0, count - 1)
    return axis.from_unit((index + 0.5) / count)
