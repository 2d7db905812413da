"""The client's side: how it answers tasks, and the kinds of function that it is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fedhpo.federations.remote.clients import Hello
from fedhpo.federations.remote.messages import NamedArrays, Scored, Task, Trained
from fedhpo.parties.context import Context

TrainFunction = Callable[[dict[str, NDArray[np.float32]], Task, Context], Trained]
EvaluateFunction = Callable[[dict[str, NDArray[np.float32]], Task, Context], Scored]
#: Training labels, and how many classes there are: what a `ClientSide` rule looks at.
LabelsFunction = Callable[[Context], tuple[NDArray[Any], int | None]]
#: Answers a query: what was asked, the model if one came with it, the task. Returns JSON, or a pair of that
#: and what it cost (`evaluations`, `samples`).
QueryFunction = Callable[[Mapping[str, Any], NamedArrays, Task, Context], Any]


class Party(Protocol):
    """A client that answers tasks; a model is named arrays, or the bytes of boosted trees."""

    @property
    def tells(self) -> bool:
        """Whether the server may know how many rows it has."""

    def hello(self, context: Context) -> Hello:
        """Who it is."""

    def train(self, model: Any, task: Task, context: Context, /) -> Trained:
        """Train a model."""

    def evaluate(self, model: Any, task: Task, context: Context, /) -> Scored:
        """Score a model."""


class AskedParty(Party, Protocol):
    """A client that also fine-tunes a model, and searches on its own rows."""

    def fine_tune(self, *asked: Any, **more: Any) -> Any:
        """Answer a `FineTune`."""

    def local_search(self, *asked: Any, **more: Any) -> Any:
        """Answer a `LocalSearch`."""
