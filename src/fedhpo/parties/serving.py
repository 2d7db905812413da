"""Parties in one process, each answering for itself: the handler of a worker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fedhpo.federations.remote.layout import Rejected
from fedhpo.federations.remote.messages import from_text, to_text
from fedhpo.federations.remote.plain import MODELS, TEXT
from fedhpo.federations.remote.pool import KEPT, Ask
from fedhpo.parties.answers import Answers
from fedhpo.parties.context import Context


@dataclass
class Here:
    """What the process knows about a party: its number, and its memory between messages."""

    node_id: int
    node_config: Mapping[str, Any] = field(default_factory=dict)
    kept: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name in its config; that of NVFlare's sites where it has none."""
        return str(self.node_config.get("name", f"site-{self.node_id + 1}"))

    def recall(self, key: str) -> str | None:
        """What was kept from an earlier message."""
        return self.kept.get(key)

    def keep(self, key: str, text: str) -> None:
        """Keep it."""
        self.kept[key] = text


@dataclass(frozen=True)
class Parties:
    """The parties in this process, who share data and code: each is known by its partition id."""

    answers: Answers

    def __call__(self, ask: Ask) -> dict[str, Any]:
        """A party's reply."""
        here = Here(ask.party, {"partition-id": ask.party}, dict(ask.kept))
        return {**replied(self.answers, ask.kind, ask.text, ask.models, here), KEPT: here.kept}


def replied(
    answers: Answers, kind: str, text: str, models: Mapping[str, Any], context: Context
) -> dict[str, Any]:
    """The reply to a message of plain values."""

    def model_of(name: Any) -> Any:
        found = models.get(name) if isinstance(name, str) else None
        if not isinstance(found, dict | bytes):
            raise Rejected(f"there is no model {str(name)[:60]!r}")
        return found

    replies, after = answers(kind, from_text(text), model_of, context)
    return {TEXT: to_text({"replies": replies}), MODELS: after}
