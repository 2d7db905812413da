"""One round of a strategy: replies that were checked go in, the next model and what it remembers come out."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy
from numpy.typing import NDArray

from fedhpo.core.streams import seeded
from fedhpo.federations.flower.identity import assume_identity
from fedhpo.federations.strategies.state import StrategyState, set_state, state_of
from fedhpo.protocol.errors import StrategyFailed as StrategyFailed

NamedArrays = Mapping[str, NDArray[Any]]
#: Under this name clients tell how many rows they trained on.
EXAMPLES = "num-examples"
#: By these a strategy says how many nodes it asks.
_FRACTIONS = ("fraction_train", "fraction_fit", "fraction_evaluate")
_LEAST = (
    "min_train_nodes",
    "min_evaluate_nodes",
    "min_available_nodes",
    "min_fit_clients",
    "min_evaluate_clients",
    "min_available_clients",
)
#: Arguments of strategies that have no effect here: the search draws the clients of a round.
SET_ASIDE = (*_FRACTIONS, *_LEAST)


class SendsItself(NotImplementedError):
    """A strategy, or an app's server, wants to send messages by itself."""


@dataclass(frozen=True)
class Reply:
    """A client's reply, checked: its model after training, and its metrics."""

    client: int
    arrays: NamedArrays
    metrics: Mapping[str, Any]
    #: Its records of metrics and configs by their own names; without them one record of all metrics.
    records: Mapping[str, Any] | None = None
    #: The name of its record of arrays.
    name: str = "arrays"


class CohortGrid(Grid):
    """The nodes of one round, as a strategy asks for them; nothing can be sent."""

    def __init__(self, nodes: Sequence[int]) -> None:
        self._nodes = list(nodes)

    def get_node_ids(self) -> Iterable[int]:
        """The cohort."""
        return list(self._nodes)

    def set_run(self, run: Any) -> None:
        """There is no run."""

    @property
    def run(self) -> Any:
        """There is no run."""
        raise SendsItself("a strategy's cohort knows nothing of runs")

    def create_message(self, *arguments: Any, **options: Any) -> Message:
        """Deprecated by Flower."""
        raise SendsItself("a strategy may not send messages by itself")

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Not from within a strategy: who is asked is the search's affair."""
        raise SendsItself("a strategy may not send messages by itself")

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Not from within a strategy."""
        raise SendsItself("a strategy may not send messages by itself")

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """Not from within a strategy."""
        raise SendsItself("a strategy may not send messages by itself")


def configured(
    strategy: Strategy, round: int, arrays: NamedArrays, config: Mapping[str, Any], clients: Sequence[int]
) -> dict[int, Message]:
    """What the strategy sends to each of these clients in a round; rounds count from 1."""
    assume_identity(1, 1)
    ask_everybody(strategy)
    grid = CohortGrid([client + 1 for client in clients])  # 0 is no node of Flower's
    with quiet():
        sent = strategy.configure_train(round, record_of(arrays), ConfigRecord(dict(config)), grid)
        return {message.metadata.dst_node_id - 1: message for message in sent}


def aggregated(
    build: Callable[[], Strategy],
    state: StrategyState,
    round: int,
    arrays: NamedArrays,
    replies: Sequence[Reply],
    *,
    config: Mapping[str, Any] | None = None,
    seed: int | None = None,
) -> tuple[dict[str, NDArray[Any]], StrategyState]:
    """The model after a round, and what the strategy then remembers.

    `build` makes a strategy that has done nothing; `round` counts from 1. `seed` makes what it draws
    repeatable; without it noise comes from the process' own generators.
    """
    strategy, fresh = build(), build()
    set_state(strategy, state)
    asked = [reply.client for reply in replies]
    ask_everybody(fresh)
    with seeded(seed), quiet():
        try:
            sent = configured(strategy, round, arrays, config or {}, asked)
            messages = [
                Message(_content(reply), reply_to=sent[reply.client])
                for reply in replies
                if reply.client in sent
            ]
            made, _ = strategy.aggregate_train(round, messages)
        except Exception as error:  # a strategy that fails is a round that does not count
            raise StrategyFailed(f"{type(strategy).__name__}: {type(error).__name__}: {error}") from error
    if made is None:
        raise StrategyFailed(f"{type(strategy).__name__} made no model of {len(messages)} replies")
    return _checked(made, arrays, type(strategy).__name__), state_of(strategy, fresh)


def _content(reply: Reply) -> RecordDict:
    records = reply.records
    if records is None:
        records = {"metrics": MetricRecord(dict(reply.metrics))}
    return RecordDict({reply.name: record_of(reply.arrays), **records})


def ask_everybody(strategy: Strategy) -> None:
    """Let it take the cohort as it is: who takes part was chosen before."""
    one: Any = strategy
    while one is not None:
        for name in _FRACTIONS:
            if hasattr(one, name):
                setattr(one, name, 1.0)
        for name in _LEAST:
            if hasattr(one, name):
                setattr(one, name, 1)
        one = getattr(one, "strategy", None)


def record_of(arrays: NamedArrays) -> ArrayRecord:
    """Named arrays as Flower's record."""
    return ArrayRecord({name: Array(np.asarray(array, order="C")) for name, array in arrays.items()})


def shared_part(arrays: NamedArrays, sent: Mapping[str, Any]) -> NamedArrays:
    """Of a model whose arrays are named by place, as in Flower's older API, those that came, if fewer.

    So clients may keep a head of their own: what the server begins with has it, what they send has not.

    >>> list(shared_part({"0": np.zeros(2), "1": np.zeros(1)}, {"0": np.ones(2)}))
    ['0']
    """
    names = list(arrays)
    places = [str(place) for place in range(len(names))]
    fewer = names == places and 0 < len(sent) < len(names) and list(sent) == places[: len(sent)]
    return {name: arrays[name] for name in sent} if fewer else arrays


def _checked(made: ArrayRecord, before: NamedArrays, name: str) -> dict[str, NDArray[Any]]:
    """The new arrays under the names, shapes and types of the old; bytes may change their length."""
    before = shared_part(before, made)
    if set(made) != set(before):
        raise StrategyFailed(f"{name} made the arrays {sorted(made)}, expected {sorted(before)}")
    found = {}
    for key, old in before.items():
        new = made[key].numpy()
        if new.shape != old.shape and not (old.dtype == np.uint8 and new.ndim == old.ndim == 1):
            raise StrategyFailed(f"{name} made {key!r} of shape {new.shape}, expected {old.shape}")
        found[key] = new.astype(old.dtype, copy=True)  # FedAdam returns float64
    return found


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without Flower's lines for every round and trial."""
    logger = logging.getLogger("flwr")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
