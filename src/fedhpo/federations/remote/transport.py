"""What brings messages to nodes and replies back: what the mailbox needs of Flower, or of NVFlare."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fedhpo.federations.remote.layout import Layout
from fedhpo.protocol.reasons import Reason

#: What a transport whose clients are simulated is called: they neither lie nor come late.
SIMULATION = "simulation"


class Parcel(Protocol):
    """A model to be sent, made once however many clients get it; compared by identity."""

    @property
    def content(self) -> Mapping[str, Any] | bytes:
        """The model: named arrays (numpy's, or the transport's own), or bytes."""

    @property
    def bytes(self) -> int:
        """What it weighs."""


@dataclass(frozen=True)
class Outgoing:
    """A message to a node: facts in plain values, the models that they name, seconds that it has."""

    node: int
    kind: str
    facts: Mapping[str, Any]
    models: Mapping[str, Parcel]
    seconds: float


@dataclass(frozen=True)
class Trouble:
    """Why there is no reply: whether the client counts as missing, and whether it may go better next time."""

    why: Reason
    missing: bool
    passing: bool


class Incoming(Protocol):
    """A reply. What cannot be read of it is `Rejected`."""

    @property
    def to(self) -> str:
        """The message that it replies to."""

    @property
    def node(self) -> int:
        """Who sent it."""

    @property
    def trouble(self) -> Trouble | None:
        """What went wrong in its place."""

    def facts(self) -> Mapping[str, Any]:
        """What it says in plain values."""

    def arrays(self, name: Any, layout: Layout) -> dict[str, NDArray[np.float32]]:
        """One of its models: named arrays, which must be those of the layout."""

    def bytes(self, name: Any, most: int) -> bytes:
        """One of its models: bytes, so many at most."""


class Transport(Protocol):
    """Brings messages and replies: where clients are, and how they are reached."""

    @property
    def runtime(self) -> str:
        """What studies and results call it."""

    def check(self, wanted: int) -> None:
        """Refuse to wait for so many nodes where they cannot come."""

    def wait(self, seconds: float) -> None:
        """Rest so long, or until a reply comes."""

    def close(self) -> None:
        """Free what it holds, such as processes of its own."""

    def nodes(self) -> Iterable[int]:
        """The nodes that are there now."""

    def push(self, messages: Sequence[Outgoing]) -> list[str | None]:
        """Send messages; returns a name for each, None for one that was not taken."""

    def pull(self, names: Iterable[str]) -> Iterable[Incoming]:
        """Replies to these messages that have come; each is returned once."""
