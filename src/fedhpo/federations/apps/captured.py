"""What an app's server would do: its `main` runs until it starts a strategy, and is stopped there."""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, Context, RecordDict
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import Strategy
from numpy.typing import NDArray

from fedhpo.core.errors import InputError, unknown_name
from fedhpo.core.reads import ReadConfig
from fedhpo.core.streams import seeded
from fedhpo.core.user_code import in_words
from fedhpo.federations.flower.identity import assume_identity
from fedhpo.federations.strategies.named import arguments_of
from fedhpo.federations.strategies.step import CohortGrid, ask_everybody, quiet, record_of


class _Started(BaseException):
    """Ends an app's `main` where it would begin to train; no handler of the app's own catches it."""

    def __init__(self, strategy: Strategy, arguments: Mapping[str, Any]) -> None:
        super().__init__("started")
        self.strategy, self.arguments = strategy, arguments


@dataclass(frozen=True)
class Captured:
    """A strategy that was about to start, and what it was started with."""

    strategy: Strategy
    arrays: Mapping[str, NDArray[Any]]
    train_config: Mapping[str, Any]
    evaluate_config: Mapping[str, Any]
    rounds: int
    #: Keys of the run config that `main` read; None where it read them all.
    read: frozenset[str] | None

    def build(self) -> Strategy:
        """A strategy that has done nothing yet."""
        return copy.deepcopy(self.strategy)

    @property
    def argument_names(self) -> list[str]:
        """The constructor arguments of the strategy, and of those inside it."""
        found: set[str] = set()
        one: Any = self.strategy
        while one is not None:
            found |= arguments_of(type(one))
            one = getattr(one, "strategy", None)
        return sorted(found)


def capture(
    server: ServerApp,
    run_config: Mapping[str, Any],
    arguments: Mapping[str, Any],
    nodes: int,
    seed: int | None = None,
) -> Captured:
    """Run an app's `main` under a run config up to `strategy.start(...)`.

    `arguments` take the place of what the app gives to the constructor of its strategy.
    """
    config = ReadConfig(run_config)
    context = Context(1, 1, {}, RecordDict(), config)
    with tempfile.TemporaryDirectory(prefix="fedhpo-app-") as scratch:
        try:
            # What `main` writes before training, such as a directory for its results, is nobody's.
            with _working_in(scratch), seeded(seed), _stopped_at_start(), _constructed_with(arguments):
                server(CohortGrid(range(1, nodes + 1)), context)
        except _Started as started:
            found = _captured(started, config)
            for name in arguments:
                if name not in found.argument_names:
                    kind = f"argument of {type(found.strategy).__name__}"
                    raise InputError(
                        f"space.server: {unknown_name(kind, name, found.argument_names)}"
                    ) from None
            return found
        except Exception as error:
            raise InputError(f"the app's server failed before training began: {in_words(error)}") from error
    raise InputError(
        "the app's server ended without strategy.start(...): apps that drive their rounds by themselves "
        "cannot be tuned as they are; see docs/flower.md for the two lines of fedhpo.flower"
    )


def _captured(started: _Started, config: ReadConfig) -> Captured:
    given = started.arguments
    arrays = {name: np.array(array.numpy()) for name, array in given["initial_arrays"].items()}
    return Captured(
        started.strategy,
        arrays,
        dict(given.get("train_config") or {}),
        dict(given.get("evaluate_config") or {}),
        int(given["num_rounds"]),
        None if config.everything else frozenset(config.seen),
    )


def _classes() -> list[type[Strategy]]:
    found: list[type[Strategy]] = []
    waiting: list[type[Strategy]] = [Strategy]  # type: ignore[type-abstract]
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.append(one)
            waiting.extend(one.__subclasses__())
    return found


@contextlib.contextmanager
def _replaced(name: str, make: Callable[[Any], Any]) -> Iterator[None]:
    """A method of every strategy class that defines it, replaced for a while."""
    originals = [(kind, vars(kind)[name]) for kind in _classes() if name in vars(kind)]
    try:
        for kind, original in originals:
            setattr(kind, name, make(original))
        yield
    finally:
        for kind, original in originals:
            setattr(kind, name, original)


@contextlib.contextmanager
def _stopped_at_start() -> Iterator[None]:
    def make(original: Any) -> Any:
        @functools.wraps(original)
        def start(self: Strategy, *args: Any, **kwargs: Any) -> Any:
            bound = inspect.signature(original).bind(self, *args, **kwargs)
            bound.apply_defaults()
            raise _Started(self, bound.arguments)

        return start

    with _replaced("start", make):
        yield


@contextlib.contextmanager
def _constructed_with(arguments: Mapping[str, Any]) -> Iterator[None]:
    """Strategies that are built in here get these arguments, those that they take."""
    building: list[int] = []

    def make(original: Any) -> Any:
        @functools.wraps(original)
        def init(self: Any, *args: Any, **kwargs: Any) -> None:
            if id(self) in building:  # the constructor of a class above calls this one
                original(self, *args, **kwargs)
                return
            taken = arguments_of(type(self))
            ours = {name: value for name, value in arguments.items() if name in taken}
            names = list(inspect.signature(original).parameters)[1:]
            given = {**dict(zip(names, args, strict=False)), **kwargs, **ours}
            building.append(id(self))
            try:
                original(self, **given)
            finally:
                building.remove(id(self))

        return init

    if not arguments:
        yield
        return
    with _replaced("__init__", make):
        yield


@contextlib.contextmanager
def _working_in(directory: str) -> Iterator[None]:
    before = os.getcwd()
    os.chdir(directory)
    try:
        yield
    finally:
        os.chdir(before)


def replayed_config(
    captured: Captured, round: int, arrays: Any, config: Mapping[str, Any], clients: int
) -> ConfigRecord:
    """The config as the strategy's own `configure_train` has left it before this round.

    A strategy of the app's may change it on the way, such as a learning rate that is halved in round 5:
    then the rounds before are gone through again, on a copy. Flower's own leave nothing behind.
    """
    record = ConfigRecord(dict(config))
    if type(captured.strategy).configure_train.__module__.partition(".")[0] == "flwr":
        return record
    strategy, grid = captured.build(), CohortGrid(range(1, clients + 1))
    ask_everybody(strategy)  # it would wait for more nodes than there are
    with quiet():
        for earlier in range(1, round):
            list(strategy.configure_train(earlier, arrays, record, grid))
    return record


def evaluate_config(captured: Captured, round: int, arrays: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    """The config that the strategy's own `configure_evaluate` sends in a round, which counts from 1."""
    assume_identity(1, 1)
    strategy = captured.build()
    ask_everybody(strategy)
    config = ConfigRecord(dict(captured.evaluate_config))
    with quiet():
        sent = list(strategy.configure_evaluate(round, record_of(arrays), config, CohortGrid([1])))
    if not sent:  # it scores on the server only
        return {**captured.evaluate_config, "server-round": round}
    return dict(next(iter(sent[0].content.config_records.values()), {}))
