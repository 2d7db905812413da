"""A private query is answered once in a run: whoever asks again hears the same, and averages out no noise.

Over several runs what a client tells adds up: each costs its epsilon again.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from flwr.app import ConfigRecord, Context

from fedhpo.core.errors import InputError


def answered_once(query: Any, context: Context, answer: Callable[[Any], Any]) -> Any:
    """What the client told when it was first asked in this run, or else the answer, which is kept.

    A query of the same kind that asks for something else, such as other cells, is refused.
    """
    key = f"fedhpo-once-{query.name}"
    # A server may choose any seed: that makes no other question.
    asked = {name: value for name, value in query.to_dict().items() if name != "seed"}
    about = json.dumps(asked, sort_keys=True)
    kept = context.state.get(key)
    if isinstance(kept, ConfigRecord):
        if kept["asked"] != about:
            raise InputError(f"query {query.name!r} was answered in this run, for another question")
        return _as_replied(json.loads(str(kept["reply"])))
    found = answer(query)
    context.state[key] = ConfigRecord({"asked": about, "reply": json.dumps(found)})
    return _as_replied(json.loads(json.dumps(found)))


def _as_replied(found: Any) -> Any:
    """A pair of answer and cost is a list in JSON."""
    return tuple(found) if isinstance(found, list) else found
