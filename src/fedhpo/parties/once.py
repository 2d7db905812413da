"""A private query is answered once per run: asked again, it gives the same answer, so noise stays.

Over several runs what a client tells adds up: each costs its epsilon again.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from fedhpo.core.errors import InputError
from fedhpo.parties.context import Memory


def answered_once(query: Any, memory: Memory, answer: Callable[[Any], Any]) -> Any:
    """What the client told when it was first asked in this run, or else the answer, which is kept.

    A query of the same kind that asks for something else, such as other cells, is refused.
    """
    key = f"fedhpo-once-{query.name}"
    # A server may choose any seed: that makes no other question.
    asked = {name: value for name, value in query.to_dict().items() if name != "seed"}
    kept = memory.recall(key)
    if kept is not None:
        known = json.loads(kept)
        if known["asked"] != json.loads(json.dumps(asked)):
            raise InputError(f"query {query.name!r} was answered in this run, for another question")
        return _as_replied(known["reply"])
    found = answer(query)
    memory.keep(key, json.dumps({"asked": asked, "reply": found}))
    return _as_replied(json.loads(json.dumps(found)))


def _as_replied(found: Any) -> Any:
    """A pair of answer and cost is a list in JSON."""
    return tuple(found) if isinstance(found, list) else found
