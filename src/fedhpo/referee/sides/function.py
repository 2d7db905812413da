"""A function of the user's own that trains: `package.module:function`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fedhpo.core.canonical import canonical
from fedhpo.core.digests import digest
from fedhpo.core.errors import InputError
from fedhpo.core.fingerprint import code_of
from fedhpo.core.settings import is_number
from fedhpo.core.streams import seeded
from fedhpo.referee.sides.side import Terms, Training

RETURNS = (
    "it must return a mapping with 'score', a number, or 'scores', one for each client, and with 'rounds' "
    "and 'cohort'; 'bytes' and 'samples' may be there too"
)


class FunctionSide:
    """Called as `function(seed=...)` for each training; it draws its own cohorts from the seed.

    What it returns is said in `RETURNS`. Scores by client are weighted alike.
    """

    def __init__(
        self, function: Callable[..., Any], name: str, metric: str | None = None, maximise: bool | None = None
    ) -> None:
        self._function, self._maximise = function, maximise is not False
        try:
            inspect.signature(function).bind(seed=0)
        except TypeError as error:
            raise InputError(f"{name}: must take one argument, seed: {error}") from None
        except ValueError:
            pass
        code = digest(canonical(code_of(function))).hex()
        self.terms = Terms(name, "function", None, None, metric, maximise, code, pairs_cohorts=False)

    def train(
        self, seed: int, clients: Sequence[int] | None, config: Mapping[str, Any] | None = None
    ) -> Training:
        """One call; global random numbers follow the seed too."""
        if config is not None:
            raise InputError(f"control: {self.terms.name} is a function, whose hyperparameters are not known")
        try:
            with seeded(seed):
                found = self._function(seed=seed)
        except Exception as error:
            return Training(None, failed=f"{type(error).__name__}: {error}"[:200])
        return self._read(found)

    def _read(self, found: Any) -> Training:
        name = self.terms.name
        if not isinstance(found, Mapping):
            raise InputError(f"{name}: {RETURNS}, not {type(found).__name__}")
        scores = found.get("scores")
        if isinstance(scores, Mapping):
            scores = list(scores.values())
        values = np.asarray([found.get("score")] if scores is None else scores, dtype=object)
        if not len(values) or not all(is_number(one) for one in values):
            raise InputError(f"{name}: {RETURNS}")
        counted: dict[str, Any] = {
            key: _whole(found.get(key), f"{name}: {key}") for key in ("rounds", "cohort", "bytes", "samples")
        }
        told = Training.of_clients(values.astype(np.float64).tolist(), self._maximise, **counted)
        return told if scores is not None else replace(told, tail=None, clients=0)

    def tune(self, rounds: int, seed: int, clients: Sequence[int] | None) -> dict[str, Any]:
        """A function has no space."""
        raise InputError(f"control: {self.terms.name} is a function, whose hyperparameters are not known")

    def close(self) -> None:
        """Nothing to free."""


def _whole(value: Any, what: str) -> int | None:
    if value is None:
        return None
    if not is_number(value) or value < 0 or value != int(value):
        raise InputError(f"{what} must be a whole number, not {value!r}")
    return int(value)
