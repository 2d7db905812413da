"""How a query of a user's own is answered on a client's rows, in a simulation and at a real client."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedhpo.core.canonical import canonical
from fedhpo.core.errors import FedhpoError, InputError
from fedhpo.core.streams import derive, stream
from fedhpo.protocol.federation import Answer, Cost, Query, Status
from fedhpo.protocol.query import OwnQuery, Party, Rows
from fedhpo.protocol.reasons import Reason, Why, raised

if TYPE_CHECKING:
    from fedhpo.data import FederatedData

Weights = Mapping[str, NDArray[np.float32]]


def party_at(
    data: FederatedData, place: int, client: int, query: Query, weights: Weights | None, seed: Sequence[int]
) -> Party:
    """What `answer` is given at client number `client`, which is client `place` of the data.

    `seed` is that of the trial that the query names: a number derived from it, and how often it was called.
    """
    base = seed or (derive(getattr(query, "seed", 0), "own query", query.name),)

    def rows(split: Any) -> Rows:
        mine = split.rows(place)
        return Rows(data.x[mine], data.y[mine])

    rng = stream(base[0], "query", *base[1:], client)
    # Copies: what an answer does to rows and weights must reach neither the trial nor another client.
    own = None if weights is None else {name: np.array(array) for name, array in weights.items()}
    return Party(client, rows(data.train), rows(data.validation), data.classes, own, rng)


def query_seed(query: Query, seed: int, *others: int) -> tuple[int, ...]:
    """A trial's seed as a query about it has it: no query has the random numbers of another one."""
    return (derive(seed, query.name.replace("_", "-")), *others)


def answered(query: OwnQuery, party: Party) -> Any:
    """What `answer` returns, as JSON would bring it back."""
    try:
        return json.loads(canonical(query.answer(party)))
    except InputError as error:
        raise InputError(f"query {query.name!r}: {error}") from None


def ask_each(
    query: OwnQuery, clients: Sequence[int], party: Callable[[int], Party], bytes_down: int
) -> list[Answer]:
    """Ask clients one after the other, in this process."""
    found = []
    for client in clients:
        here, reason = party(client), None
        try:
            content = answered(query, here)
        except FedhpoError as error:
            reason, status, content = Reason(Why.RAISED, str(error)), Status.FAILED, None
        except Exception as error:
            reason, status, content = raised(error), Status.FAILED, None
        else:
            status = Status.OK
        spent = Cost(bytes_down=bytes_down)
        if status == Status.OK:
            spent += Cost(bytes_up=len(canonical(content)), **here.counted)
        found.append(Answer(client, status, content, reason, spent))
    return found
