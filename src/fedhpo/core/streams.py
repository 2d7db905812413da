"""Random streams: one for each purpose, derived from a seed and what the stream is for.

No stream is shared, so results depend neither on the order in which work is done nor on who does it.
"""

from __future__ import annotations

import contextlib
import hashlib
import random
import sys
import threading
from collections.abc import Iterator

import numpy as np

from fedhpo.core.settings import whole_number

_TORCH_GENERATOR = threading.RLock()


def stream(seed: int, *purpose: int | str) -> np.random.Generator:
    """A generator for one purpose, such as `stream(seed, "cohort", round)`.

    >>> bool(stream(1, "cohort", 2).random() == stream(1, "cohort", 2).random())
    True
    >>> bool(stream(1, "cohort").random() == stream(1, "cohort", 0).random())
    False
    """
    return np.random.default_rng(sequence(seed, *purpose))


def derive(seed: int, *purpose: int | str) -> int:
    """A new seed (63 bits) for one purpose."""
    return first_seed(sequence(seed, *purpose))


def sequence(seed: int, *purpose: int | str) -> np.random.SeedSequence:
    """Seed and purpose as a `SeedSequence`, from which generators are made.

    Each part is written with its kind and its length, so that no two lists of parts read the same: a
    `SeedSequence` of the bare numbers ignores zeros at the end.
    """
    whole_number("seed", seed, least=0)
    digest = hashlib.blake2b(digest_size=16)
    for part in (seed, *purpose):
        text = part if isinstance(part, str) else str(int(part))
        kind = "s" if isinstance(part, str) else "i"
        digest.update(f"{kind}{len(text)}:{text}".encode())
    return np.random.SeedSequence(int.from_bytes(digest.digest(), "little"))


def first_seed(sequence: np.random.SeedSequence) -> int:
    """A seed (63 bits) from a sequence."""
    return int(sequence.generate_state(1, np.uint64)[0] >> np.uint64(1))


@contextlib.contextmanager
def seeded(seed: int | None) -> Iterator[None]:
    """Python's, numpy's and, if it is imported, torch's global generators, seeded and then put back.

    For the code of others, which draws from them. Without a seed nothing is done.

    >>> import random
    >>> with seeded(3):
    ...     first = random.random()
    >>> with seeded(3):
    ...     first == random.random()
    True
    """
    if seed is None:
        yield
        return
    with torch_generator() if "torch" in sys.modules else contextlib.nullcontext(), other_generators():
        if "torch" in sys.modules:
            sys.modules["torch"].manual_seed(seed)
        np.random.seed(seed % 2**32)  # noqa: NPY002
        random.seed(seed)
        yield


@contextlib.contextmanager
def other_generators() -> Iterator[None]:
    """The global generators of numpy and of Python, put back as they were."""
    numpys, pythons = np.random.get_state(), random.getstate()  # noqa: NPY002
    try:
        yield
    finally:
        np.random.set_state(numpys)  # noqa: NPY002
        random.setstate(pythons)


@contextlib.contextmanager
def torch_generator() -> Iterator[None]:
    """Torch's global generator, for one thread at a time, and put back as it was.

    Threads share it: whatever may draw from it (a new model's weights, dropout) does so in here.
    """
    import torch

    with _TORCH_GENERATOR, torch.random.fork_rng(devices=[]):
        yield
