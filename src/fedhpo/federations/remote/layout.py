"""The named arrays of a model, and a reply that must not be used."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedhpo.core.vectors import Vector, named_parts
from fedhpo.protocol.errors import Rejected as Rejected


@dataclass(frozen=True)
class Layout:
    """The named arrays that a model's flat vector is made of; its first `trainable` numbers are trained."""

    shapes: Mapping[str, tuple[int, ...]]
    trainable: int

    @property
    def size(self) -> int:
        """Numbers in all."""
        return sum(math.prod(shape) for shape in self.shapes.values())

    def split(self, vector: Vector) -> dict[str, Vector]:
        """The vector as named arrays, which share its memory.

        >>> layout = Layout({"weight": (2, 2), "bias": (2,)}, 6)
        >>> layout.split(np.arange(6, dtype=np.float32))["weight"].tolist()
        [[0.0, 1.0], [2.0, 3.0]]
        """
        return named_parts(self.shapes, vector)

    def join(self, arrays: Mapping[str, NDArray[Any]]) -> Vector:
        """Named arrays as one vector; `Rejected` where they are not the model's."""
        if arrays.keys() != self.shapes.keys():
            raise Rejected(f"the arrays are {few(arrays)}, expected {few(self.shapes)}")
        for name, shape in self.shapes.items():
            if arrays[name].shape != shape:
                raise Rejected(f"array {name!r} has shape {arrays[name].shape}, expected {shape}")
        parts = [np.asarray(arrays[name], np.float32).reshape(-1) for name in self.shapes]
        return np.concatenate([np.empty(0, np.float32), *parts])


def few(names: Mapping[str, Any] | Sequence[str]) -> str:
    """The first few names, for a message."""
    shown = [repr(str(name)[:60]) for name in names][:4]
    return ", ".join(shown) + (", ..." if len(names) > 4 else "") if shown else "none"
