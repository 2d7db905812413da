"""What parties answer to FLoRA's local search: read with distrust, and told in the result."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fedhpo.core.errors import InputError
from fedhpo.protocol.federation import Answer, Status
from fedhpo.protocol.objective import local_scoring
from fedhpo.protocol.reasons import Reason, Why
from fedhpo.queries.pairs import PartyPairs
from fedhpo.space import Space


def loss_in_words(metric: str, scoring: str | None) -> str:
    """What the parties' losses are.

    >>> loss_in_words("error", None), loss_in_words("loss", "r2"), loss_in_words("loss", None)
    ('1 - accuracy', '1 - r2', "the model's own loss")
    """
    if metric == "loss":
        return "the model's own loss" if scoring is None else f"1 - {scoring}"
    return f"1 - {local_scoring(metric)}"


#: Rows that a party may say it has.
_MOST_ROWS = 1 << 40


def checked(answer: Answer, space: Space) -> Answer:
    """The answer, or that it cannot be used: parties are not to be trusted with its form."""
    if answer.status != Status.OK:
        return answer
    try:
        pairs = PartyPairs.from_dict(answer.client, answer.content)
        for config in pairs.configs:
            space.validate(config)
        if pairs.size > _MOST_ROWS:
            raise InputError(f"size is {str(pairs.size)[:20]}, expected at most {_MOST_ROWS}")
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        why = f"what it sent cannot be used: {type(error).__name__}: {error}"
        return replace(answer, status=Status.FAILED, content=None, reason=Reason(Why.REJECTED, why))
    return answer


def in_result(answer: Answer, losses_sent: bool) -> dict[str, Any]:
    """What the result holds of a party."""
    losses = answer.content["losses"] if answer.status == Status.OK else []
    return {
        "party": answer.client,
        "status": answer.status.name.lower(),
        "reason": "" if answer.reason is None else answer.reason.text,
        "size": answer.content["size"] if losses else None,
        "pairs": len(losses),
        "best_loss": min(losses, default=None) if losses_sent else None,
    }
