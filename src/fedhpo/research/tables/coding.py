"""Curves made small: from one scored round to the next they change little, so differences are kept.

A difference d is stored as a whole number that is not negative: 2 d, or -2 d - 1 if d is below 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedhpo.protocol.federation import Ints

#: Bits of a float16's mantissa.
_MANTISSA = 10


def differences(values: NDArray[Any], axis: int = 2) -> Ints:
    """Whole numbers as differences along an axis, the first one as it is.

    >>> differences(np.array([5, 3, 4]), axis=0).tolist()
    [10, 3, 2]
    """
    steps = np.diff(values.astype(np.int64), axis=axis, prepend=0)
    found: Ints = np.where(steps < 0, -2 * steps - 1, 2 * steps)
    return found


def from_differences(stored: NDArray[Any], axis: int = 2) -> Ints:
    """The values again.

    >>> from_differences(np.array([10, 3, 2]), axis=0).tolist()
    [5, 3, 4]
    """
    steps = stored.astype(np.int64)
    found: Ints = np.where(steps % 2, -(steps + 1) // 2, steps // 2).cumsum(axis=axis)
    return found


def coded_losses(losses: NDArray[np.float16], bits: int) -> NDArray[np.uint8]:
    """Losses whose mantissa has so many bits: differences of their codes, upper bytes before lower ones.

    Losses are not negative, so that their codes, as whole numbers, are in their order.
    """
    codes = np.ascontiguousarray(losses, "<f2").view("<u2") >> (_MANTISSA - bits)
    found = differences(codes)
    return np.stack([found >> 8, found & 255]).astype(np.uint8)


def decoded_losses(planes: NDArray[np.uint8], bits: int) -> NDArray[np.float16]:
    """The losses again."""
    stored = (planes[0].astype(np.int64) << 8) | planes[1]
    codes = from_differences(stored) << (_MANTISSA - bits)
    found: NDArray[np.float16] = codes.astype("<u2").view("<f2").astype(np.float16)
    return found
