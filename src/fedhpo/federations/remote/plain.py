"""Messages of plain values: JSON, and models that are named arrays or bytes. NVFlare and pools carry them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedhpo.federations.remote.layout import Layout, Rejected, few
from fedhpo.federations.remote.messages import from_text
from fedhpo.federations.remote.transport import Trouble

#: What a message and a reply consist of.
TEXT, MODELS = "text", "models"


def plain(content: Mapping[str, Any] | bytes) -> Any:
    """A model as it travels."""
    return content if isinstance(content, bytes) else dict(content)


@dataclass(frozen=True)
class PlainReply:
    """A reply, or why there is none."""

    to: str
    node: int
    content: Mapping[str, Any] = field(default_factory=dict)
    trouble: Trouble | None = None

    def facts(self) -> Mapping[str, Any]:
        """What it says in plain values."""
        text = self.content.get(TEXT) if isinstance(self.content, dict) else None
        if not isinstance(text, str):
            raise Rejected(f"the reply has no text {TEXT!r}")
        return from_text(text)

    def _model(self, name: Any) -> Any:
        models = self.content.get(MODELS)
        found = models.get(name) if isinstance(models, dict) and isinstance(name, str) else None
        if found is None:
            raise Rejected(f"there is no model {str(name)[:60]!r}")
        return found

    def arrays(self, name: Any, layout: Layout) -> dict[str, NDArray[np.float32]]:
        """One of its models: named arrays, which must be those of the layout."""
        found = self._model(name)
        if not isinstance(found, dict) or found.keys() != layout.shapes.keys():
            told = few([str(one) for one in found]) if isinstance(found, dict) else type(found).__name__
            raise Rejected(f"the arrays are {told}, expected {few(layout.shapes)}")
        for one, shape in layout.shapes.items():
            array = found[one]
            if not isinstance(array, np.ndarray) or array.dtype != np.float32:
                kind = array.dtype if isinstance(array, np.ndarray) else type(array).__name__
                raise Rejected(f"array {one!r} is {kind}, expected float32")
            if array.shape != shape:
                raise Rejected(f"array {one!r} has shape {array.shape}, expected {shape}")
        return found

    def bytes(self, name: Any, most: int) -> bytes:
        """One of its models: bytes."""
        found = self._model(name)
        if not isinstance(found, bytes):
            raise Rejected(f"its model is {type(found).__name__}, expected bytes")
        if len(found) > most:
            raise Rejected(f"its model has {len(found)} bytes, at most {most} are read (message_bytes)")
        return found
