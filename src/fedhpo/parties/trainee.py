"""A user-defined trainee: one class for the server's and the clients' side of training.

`[model]` of a study names it as `package.module:Name`. Its fields are its settings, which stand there too.
It runs wherever parties are asked: in this process, in workers, on Ray, over Flower and NVFlare.
`fedhpo.testing.trainee` has the suite that a trainee passes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fedhpo.data import FederatedData
from fedhpo.federations.remote.clients import OWN, Hello
from fedhpo.federations.remote.messages import NamedArrays, Scored, Task, Trained
from fedhpo.parties.context import Context
from fedhpo.parties.rows import NodeRows


@dataclass(frozen=True, eq=False)
class Rows:
    """One client's rows; `client` is its number, `name` what its owner calls it."""

    data: FederatedData
    place: int
    client: int
    name: str | None = None

    def split(self, name: str) -> tuple[NDArray[Any], NDArray[Any]]:
        """Features and labels of "train", "validation" or "test"."""
        rows = getattr(self.data, name).rows(self.place)
        return self.data.x[rows], self.data.y[rows]


class Trainee(Protocol):
    """What is trained; a frozen dataclass whose fields are its settings.

    A model is named arrays. How clients' arrays are put together is up to `[server]`.
    """

    #: The names in `[space.client]` that it takes; None for any.
    hyperparameters: Sequence[str] | None

    def first(self, seed: int, **model: Any) -> Mapping[str, NDArray[Any]]:
        """The model that a trial begins with, at the server; `model` are hyperparameters of its shape."""

    def train(self, arrays: NamedArrays, task: Task, rows: Rows) -> Trained:
        """Train at a client under `task.config`; random numbers follow from `task.seed` and the client."""

    def evaluate(self, arrays: NamedArrays, task: Task, rows: Rows) -> Scored:
        """Score a model at a client on the rows of `task.split`."""


def is_trainee(kind: Any) -> bool:
    """Whether an object is a class of trainees."""
    verbs = ("first", "train", "evaluate")
    return isinstance(kind, type) and is_dataclass(kind) and all(callable(getattr(kind, v, 0)) for v in verbs)


class TraineeParty:
    """Trains and scores a trainee at one node."""

    def __init__(self, trainee: Trainee, rows: NodeRows) -> None:
        self._trainee, self._rows = trainee, rows
        self.tells = rows.tells

    def hello(self, context: Context) -> Hello:
        """What this node is."""
        found, names = self._rows.hello(context, OWN), self._trainee.hyperparameters
        told = None if names is None else tuple(sorted(names))
        return Hello(found.partition, found.name, found.sizes, found.shape, found.classes, OWN, told)

    def train(self, arrays: NamedArrays, task: Task, context: Context) -> Trained:
        """Local training."""
        return self._trainee.train(arrays, task, self._here(context, task))

    def evaluate(self, arrays: NamedArrays, task: Task, context: Context) -> Scored:
        """The scores on this node's rows of a split."""
        return self._trainee.evaluate(arrays, task, self._here(context, task))

    def fine_tune(self, *_: Any) -> Any:
        """Refused."""
        raise NotImplementedError(f"{type(self._trainee).__name__} cannot be fine-tuned: use another method")

    local_search = fine_tune

    def _here(self, context: Context, task: Task) -> Rows:
        name = context.node_config.get("name")
        data, place = self._rows.of(context, task.client), self._rows.place(context, task.client)
        return Rows(data, place, task.client, None if name is None else str(name))


def generator(task: Task, rows: Rows) -> np.random.Generator:
    """Random numbers of one task at one client: the same wherever it is done.

    >>> data = None
    >>> one, two = (generator(Task(0, seed=(7, 1)), Rows(data, 0, 3)) for _ in range(2))
    >>> bool(one.random() == two.random())
    True
    """
    return np.random.default_rng([*map(int, task.seed), rows.client])
