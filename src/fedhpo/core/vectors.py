"""A model's state as one flat vector."""

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

#: A model's state, or a change of it, as one flat vector.
Vector = NDArray[np.float32]


def named_parts(shapes: Mapping[str, tuple[int, ...]], vector: Vector) -> dict[str, Vector]:
    """The vector as named arrays of these shapes, which share its memory.

    >>> named_parts({"weight": (2, 2), "bias": (2,)}, np.arange(6, dtype=np.float32))["weight"].tolist()
    [[0.0, 1.0], [2.0, 3.0]]
    """
    parts, offset = {}, 0
    for name, shape in shapes.items():
        size = math.prod(shape)
        parts[name] = vector[offset : offset + size].reshape(shape)
        offset += size
    return parts
