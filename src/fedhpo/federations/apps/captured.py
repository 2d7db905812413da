"""What an app's server would do: its `main` runs until it starts a strategy, and is stopped there."""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
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
from fedhpo.federations.apps.legacy import (
    OlderStrategy,
    components_of,
    first_arrays,
    fit_config,
    is_older,
)
from fedhpo.federations.apps.literals import bound
from fedhpo.federations.apps.loaded import as_imported
from fedhpo.federations.apps.quiet import to_standard_error
from fedhpo.federations.flower.identity import assume_identity
from fedhpo.federations.strategies.named import arguments_of
from fedhpo.federations.strategies.step import (
    SET_ASIDE,
    CohortGrid,
    SendsItself,
    ask_everybody,
    quiet,
    record_of,
)

#: What an app with a loop of its own is told.
OWN_LOOP = (
    "an app that drives its rounds itself cannot be tuned as it is. Two lines make it a study of fedhpo's: "
    "in "
    "client_app.py, `app = fedhpo.flower.client(app, study=study, data=..., train=...)`, and in "
    "server_app.py, "
    "inside main, `fedhpo.flower.tune(grid, context, study)`; see docs/flower.md"
)


#: Rounds in which an app may skip evaluation, one after the other.
_SKIPS = 100


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
    #: The run config that `main` had, which notes what is read of it, later too.
    config: ReadConfig
    evaluate_fn: Callable[[int, Any], Any] | None = None
    #: Whether the app takes a run config that is a plain dict only.
    plain: bool = False
    #: Where the app's server worked.
    directory: str = "."
    #: Keys of the config that clients are sent; of the older API's strategies those of round 1.
    sends: frozenset[str] = frozenset()

    @property
    def read(self) -> frozenset[str] | None:
        """Keys of the run config that the app's server looked up so far; None where it read them all."""
        return None if self.config.everything else frozenset(self.config.seen)

    @property
    def legacy(self) -> bool:
        """Whether it is of Flower's older API."""
        return isinstance(self.strategy, OlderStrategy)

    def build(self) -> Strategy:
        """A strategy that has done nothing yet."""
        return copy.deepcopy(self.strategy)

    @property
    def argument_names(self) -> list[str]:
        """The constructor arguments of the strategy, and of those inside it."""
        found: set[str] = set()
        one: Any = self.strategy.strategy if isinstance(self.strategy, OlderStrategy) else self.strategy
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
    *,
    directory: str | Path | None = None,
    literals: Mapping[str, Any] | None = None,
) -> Captured:
    """Run an app's `main` under a run config up to `strategy.start(...)`.

    `arguments` take the place of what the app gives to the constructor of its strategy. The app works in
    `directory`, where what it writes can be found again; without one that is thrown away.
    """
    with contextlib.ExitStack() as stack:
        place = directory or stack.enter_context(tempfile.TemporaryDirectory(prefix="fedhpo-app-"))
        stack.enter_context(working_in(str(place)))
        stack.enter_context(to_standard_error())
        stack.enter_context(bound(literals or {}))
        stack.enter_context(_stopped_at_start())
        stack.enter_context(_constructed_with(arguments))
        try:
            found = _run(server, run_config, nodes, seed)
        except SendsItself as error:
            raise InputError(f"the app's server talks to clients by itself: {OWN_LOOP}") from error
    found = replace(found, directory=str(place))
    for name in arguments:
        if name in SET_ASIDE:
            raise InputError(
                f"space.server.{name}: has no effect: who takes part in a round is the search's affair; "
                f"write "
                "budget.cohort, and leave it out"
            )
        if name not in found.argument_names:
            inner = found.strategy.strategy if isinstance(found.strategy, OlderStrategy) else found.strategy
            kind = f"argument of {type(inner).__name__}"
            raise InputError(f"space.server: {unknown_name(kind, name, found.argument_names)}")
    return found


def _run(server: ServerApp, run_config: Mapping[str, Any], nodes: int, seed: int | None) -> Captured:
    """What `main` starts; some libraries take no run config that is watched, and get a plain one."""
    failure: Exception | None = None
    for plain in (False, True):
        as_imported(server)
        config = ReadConfig(run_config)
        context = Context(1, 1, {}, RecordDict(), dict(run_config) if plain else config)
        config.everything = plain
        try:
            with seeded(seed):
                if is_older(server):
                    with server._lifespan(context):
                        return replace(_older(server, context, config, nodes), plain=plain)
                server(CohortGrid(range(1, nodes + 1)), context)
        except _Started as started:
            return replace(_captured(started, config), plain=plain)
        except (InputError, SendsItself):
            raise
        except Exception as error:
            failure = failure or error
        else:
            raise InputError(f"the app's server ended without strategy.start(...): {OWN_LOOP}")
    assert failure is not None
    raise InputError(f"the app's server failed before training began: {in_words(failure)}") from failure


def _captured(started: _Started, config: ReadConfig) -> Captured:
    given = started.arguments
    arrays = {name: np.array(array.numpy()) for name, array in given["initial_arrays"].items()}
    sent = dict(given.get("train_config") or {})
    return Captured(
        started.strategy,
        arrays,
        sent,
        dict(given.get("evaluate_config") or {}),
        int(given["num_rounds"]),
        config,
        given.get("evaluate_fn"),
        sends=frozenset(sent),
    )


def _older(server: ServerApp, context: Context, config: ReadConfig, nodes: int) -> Captured:
    """What an app of the older API would start with."""
    strategy, rounds = components_of(server, context)
    arrays = first_arrays(strategy, nodes)
    outer = OlderStrategy(strategy)
    free = copy.deepcopy(outer)
    ask_everybody(free)
    sends = frozenset(fit_config(free.strategy, arrays, 1))
    return Captured(outer, arrays, {}, {}, rounds, config, outer.server_metrics, sends=sends)


def _classes() -> list[type[Any]]:
    from flwr.server.strategy import Strategy as OldStrategy

    found: list[type[Any]] = []
    waiting: list[type[Any]] = [Strategy, OldStrategy]
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
def working_in(directory: str) -> Iterator[None]:
    """While this lasts, the working directory is another."""
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
    if type(captured.strategy).configure_train.__module__.partition(".")[0] in ("flwr", "fedhpo"):
        return record
    strategy, grid = captured.build(), CohortGrid(range(1, clients + 1))
    ask_everybody(strategy)  # it would wait for more nodes than there are
    with quiet():
        for earlier in range(1, round):
            list(strategy.configure_train(earlier, arrays, record, grid))
    return record


def evaluate_config(captured: Captured, round: int, arrays: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    """The config that the strategy's own `configure_evaluate` sends in a round, which counts from 1.

    Where the app skips evaluation in this round by a flag `skip`, that of the next round without it is taken:
    a skipped evaluation would return placeholders.
    """
    assume_identity(1, 1)
    asked = {}
    for one in range(round, round + _SKIPS):
        asked = _evaluate_config(captured, one, arrays)
        if not asked.get("skip"):
            return asked
    raise InputError(
        f"the app's server asks clients to skip evaluation (skip = {asked['skip']!r}) in every round"
    )


def _evaluate_config(captured: Captured, round: int, arrays: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    strategy = captured.build()
    ask_everybody(strategy)
    config = ConfigRecord(dict(captured.evaluate_config))
    with quiet():
        sent = list(strategy.configure_evaluate(round, record_of(arrays), config, CohortGrid([1])))
    if not sent:  # it scores on the server only
        return {**captured.evaluate_config, "server-round": round}
    return dict(next(iter(sent[0].content.config_records.values()), {}))
