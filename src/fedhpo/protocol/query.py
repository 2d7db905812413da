"""Queries of a user's own: work at the clients that is not a round, by a function that comes with the query.

The same `answer` runs in a simulation and at real clients. Over Flower a client answers only the queries
that its owner lists (`fedhpo.flower.client(..., queries=[MyQuery])`): nothing that a server names is
imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from fedhpo.core.errors import InputError
from fedhpo.core.settings import shown, whole_number


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of a client: copies, which may be changed."""

    x: NDArray[Any]
    y: NDArray[Any]

    def __len__(self) -> int:
        return len(self.y)


@dataclass(eq=False)
class Party:
    """What a query's `answer` is given at a client.

    `train` and `validation` are the client's rows; test rows are for the report only. `weights` are the named
    arrays of the trial that the query names by its `trial`; None where it names none, or where the model is
    not made of arrays. `rng` is the one source of random numbers: the same query to the same client, about
    the same model, gets the same.
    """

    client: int
    train: Rows
    validation: Rows
    classes: int | None
    weights: Mapping[str, NDArray[np.float32]] | None
    rng: np.random.Generator
    counted: dict[str, int] = field(default_factory=lambda: {"samples": 0, "evaluations": 0})

    def count(self, *, samples: int = 0, evaluations: int = 0) -> None:
        """State what the answer took: rows that were trained on, configs or models that were scored."""
        self.counted["samples"] += whole_number("samples", samples, least=0)
        self.counted["evaluations"] += whole_number("evaluations", evaluations, least=0)


@runtime_checkable
class OwnQuery(Protocol):
    """A query that brings its own answer.

    It is a dataclass whose fields are JSON-able, or it has a class method `from_dict` that makes it from
    what `to_dict` wrote. With a field `trial` it is sent with that trial's model; a field `seed` makes its
    random numbers others.
    """

    @property
    def name(self) -> str:
        """What clients know this kind of work by: letters, digits and `_`."""

    def to_dict(self) -> dict[str, Any]:
        """What is sent to the clients, JSON-able."""

    def answer(self, party: Party) -> Any:
        """The answer of one client, JSON-able. What it raises is told as the reason of a failure."""


def query_of(kind: type[Any], given: Mapping[str, Any]) -> OwnQuery:
    """The query that `to_dict` wrote, of a class that the client's owner listed."""
    make = getattr(kind, "from_dict", None)
    try:
        found = kind(**given) if make is None else make(given)
    except TypeError as error:
        raise InputError(f"query {kind.__name__}: {error}: is it of one version on all machines?") from None
    if not isinstance(found, OwnQuery):
        raise InputError(f"query {kind.__name__}: has no `answer`, found {shown(found)}")
    return found


def check_query_class(kind: Any) -> str:
    """The name of a class of queries; an `InputError` for what is none."""
    name = getattr(kind, "name", None)
    if not isinstance(kind, type) or not callable(getattr(kind, "answer", None)) or not isinstance(name, str):
        raise InputError(
            f"queries must list classes with a `name` and an `answer`, such as [MyQuery], not {shown(kind)}"
        )
    if not name.isidentifier():
        raise InputError(f"the name of query {kind.__name__} must be letters, digits and _, not {name!r}")
    return name
