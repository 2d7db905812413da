"""The arguments of `fedhpo.tune`, checked before anything is begun: a mistake says what to write."""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedhpo.core.errors import InputError
from fedhpo.core.settings import plain_number, shown, whole_number
from fedhpo.protocol.federation import Federation
from fedhpo.protocol.objective import Objective
from fedhpo.search.evaluator import Evaluator
from fedhpo.space import Space
from fedhpo.space.config import Config


def check_world(federation: Any, space: Any) -> None:
    """A federation and a space."""
    if not isinstance(federation, Federation):
        raise InputError(
            f"federation must be a federation, such as fedhpo.simulate(model, data), not {shown(federation)}"
        )
    if not isinstance(space, Space):
        raise InputError(
            f"space must be a fedhpo.Space, such as fedhpo.Space(client={{'lr': fedhpo.Float(0.001, 1.0, "
            f"log=True)}}), not {shown(space)}"
        )


def searched_space(space: Space, federation: Federation) -> Space:
    """The space; where it names nothing to tune, the learner's own, with what the space fixes."""
    own = federation.usual_space
    if space.names or own is None:
        return space
    fixed = {scope: dict(table) for scope, table in space.to_dict().items() if table}
    named = {key for table in fixed.values() for key in table}
    usual = {
        scope: {key: value for key, value in table.items() if key not in named}
        for scope, table in own.to_dict().items()
    }
    return Space.from_dict({scope: usual.get(scope, {}) | fixed.get(scope, {}) for scope in {*usual, *fixed}})


def checked_objective(objective: Any) -> Objective:
    """An objective, or the metric that it optimises."""
    if objective is None:
        return Objective()
    if isinstance(objective, str):
        return Objective(objective)
    if not isinstance(objective, Objective):
        raise InputError(
            f"objective must be 'accuracy', 'error', 'loss' or a fedhpo.Objective, not {shown(objective)}"
        )
    return objective


def checked_evaluator(evaluation: Any) -> Evaluator:
    """An evaluator; all clients by default."""
    if evaluation is None:
        return Evaluator()
    if not isinstance(evaluation, Evaluator):
        raise InputError(
            "evaluation must be a fedhpo.Evaluator, such as fedhpo.Evaluator(clients=0.1), not "
            f"{shown(evaluation)}"
        )
    return evaluation


def checked_seed(seed: Any) -> int:
    """A whole number of at least 0, as NumPy and the record take it."""
    return whole_number("seed", seed, least=0)


def checked_run(run: Any) -> Path | None:
    """Where the run is kept."""
    if run is None:
        return None
    if not isinstance(run, str | os.PathLike) or not os.fspath(run) or "\0" in str(run):
        raise InputError(f"run must be the path of a directory, not {shown(run)}")
    return Path(run)


def checked_interrupt(on_interrupt: Any) -> str:
    """What Ctrl-C does."""
    if not isinstance(on_interrupt, str) or on_interrupt not in ("raise", "return"):
        raise InputError(
            "on_interrupt must be 'raise', for KeyboardInterrupt, or 'return', for the result so far, not "
            f"{shown(on_interrupt)}"
        )
    return on_interrupt


def checked_enqueue(enqueue: Any, space: Space, pool: Sequence[Config] | None = None) -> list[Config]:
    """Configs of the space, completed; of a table, `pool` is all that could be tried."""
    if isinstance(enqueue, str | bytes | Mapping) or not isinstance(enqueue, Iterable):
        raise InputError(
            f"enqueue must be a list of configs, such as [{{'client': {{'lr': 0.1}}}}], not {shown(enqueue)}"
        )
    found = []
    for place, config in enumerate(enqueue):
        try:
            found.append(space.complete(config))
        except InputError as error:
            raise InputError(f"enqueue[{place}]: {error}") from None
        if pool is not None and found[-1] not in pool:
            raise InputError(
                f"enqueue[{place}]: the table holds no training of {found[-1].to_dict()}; name one of its "
                f"{len(pool)} configs, such as {pool[0].to_dict()}"
            )
    return found


def check_flag(name: str, value: Any) -> None:
    """True or False."""
    if not isinstance(plain_number(value), bool):
        raise InputError(f"{name} must be True or False, not {shown(value)}")


def checked_timeout(timeout: Any) -> float | None:
    """Seconds."""
    value = plain_number(timeout)
    if value is None:
        return None
    known = isinstance(value, int | float) and not isinstance(value, bool)
    if not known or not value > 0 or math.isnan(value):
        raise InputError(f"timeout must be a positive number of seconds, not {shown(timeout)}")
    return float(min(value, 1e15))


def checked_callbacks(callbacks: Any) -> list[Callable[..., Any]]:
    """Functions of one argument; one whose signature cannot be known is taken as it is.

    >>> checked_callbacks([lambda: None])
    Traceback (most recent call last):
    ...
    fedhpo.InputError: callbacks[0], <lambda>(), must take one argument, the event: ...
    """
    if isinstance(callbacks, str | bytes | Mapping) or not isinstance(callbacks, Iterable):
        hint = ": put it into a list" if callable(callbacks) else ""
        raise InputError(f"callbacks must be a list of functions, not {shown(callbacks)}{hint}")
    found = list(callbacks)
    for place, callback in enumerate(found):
        if not callable(callback):
            raise InputError(
                f"callbacks[{place}] must be a function of one argument, the event, not {shown(callback)}"
            )
        try:
            signature = inspect.signature(callback)
        except (TypeError, ValueError):
            continue
        try:
            signature.bind(None)
        except TypeError:
            name = getattr(callback, "__qualname__", None) or type(callback).__name__
            raise InputError(
                f"callbacks[{place}], {name.rpartition('.')[2]}{signature}, must take one argument, the "
                "event: write, say, def stop(event): ..."
            ) from None
    return found
