"""What a client's process knows about itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class Context(Protocol):
    """Flower's `Context`, or a `Site` of NVFlare's."""

    @property
    def node_id(self) -> int:
        """The node in this process; several may share one."""

    @property
    def node_config(self) -> Mapping[str, Any]:
        """Its owner's settings: `partition-id`, `name` and the like."""


class Memory(Protocol):
    """What a client keeps from one message of a run to the next."""

    def recall(self, key: str) -> str | None:
        """What was kept; None if nothing was."""

    def keep(self, key: str, text: str) -> None:
        """Keep it."""


def named(context: Context) -> tuple[int | None, str | None]:
    """The partition id and the name in a node's config."""
    partition, name = context.node_config.get("partition-id"), context.node_config.get("name")
    return None if partition is None else int(partition), None if name is None else str(name)
