"""Random streams: one for each purpose, derived from a seed and what the stream is for.

No stream is shared, so results depend neither on the order in which work is done nor on who does it.
"""

from __future__ import annotations

import contextlib
import threading
import zlib
from collections.abc import Iterator

import numpy as np

_TORCH_GENERATOR = threading.RLock()


def stream(seed: int, *purpose: int | str) -> np.random.Generator:
    """A generator for one purpose, such as `stream(seed, "cohort", round)`.

    >>> bool(stream(1, "cohort", 2).random() == stream(1, "cohort", 2).random())
    True
    """
    return np.random.default_rng(np.random.SeedSequence(entropy(seed, *purpose)))


def entropy(seed: int, *purpose: int | str) -> list[int]:
    """Seed and purpose as the numbers that a `SeedSequence` takes."""
    return [seed, *(zlib.crc32(part.encode()) if isinstance(part, str) else part for part in purpose)]


def derive(seed: int, *purpose: int | str) -> int:
    """A new seed (63 bits) for one purpose."""
    state = np.random.SeedSequence(entropy(seed, *purpose)).generate_state(1, np.uint64)
    return int(state[0] >> np.uint64(1))


@contextlib.contextmanager
def torch_generator() -> Iterator[None]:
    """Torch's global generator, for one thread at a time, and put back as it was.

    Threads share it: whatever may draw from it (a new model's weights, dropout) does so in here.
    """
    import torch

    with _TORCH_GENERATOR, torch.random.fork_rng(devices=[]):
        yield
