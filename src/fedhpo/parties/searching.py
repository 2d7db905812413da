"""FLoRA's local search at a client that scores configs in its own way."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from fedhpo.core.user_code import in_words
from fedhpo.federations.remote.messages import NamedArrays, Task
from fedhpo.federations.remote.replies import TaskMissing
from fedhpo.parties.context import Context
from fedhpo.parties.party import QueryFunction
from fedhpo.parties.queries import local_search_of, searched
from fedhpo.protocol.reasons import Reason, Why
from fedhpo.queries.local_search import PartySearch

#: `search(config, context)`: the loss of a config on the client's own rows, less is better.
SearchFunction = Callable[[Mapping[str, Any], Context], float]


def searching(search: SearchFunction, rows: Callable[[Context], int], tells: bool = True) -> QueryFunction:
    """Answers a local search with the client's own function; an exception marks the config as failed."""

    def answer(asked: Mapping[str, Any], _: NamedArrays, task: Task, context: Context) -> Any:
        query, begun = local_search_of(asked), time.monotonic()
        size = rows(context)
        own = PartySearch(query, task.client, size)
        while (config := own.ask()) is not None:
            if query.deadline is not None and time.monotonic() - begun > query.deadline:
                raise TaskMissing(own.late(query.deadline).reason or Reason(Why.LATE))
            own.samples += size
            try:
                own.tell(float(search({**config.client, **config.model}, context)))
            except Exception as error:
                own.tell(None, in_words(error))
        return searched(own.answer(), tells)

    return answer
