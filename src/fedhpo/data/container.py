"""What a federation holds: one array of samples, and which client holds which rows.

All clients share one `x` and one `y`; who holds what is a `Split`: row numbers in compressed
sparse rows. So a federation of 100,000 clients is eight arrays, and no client's data is copied.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from fedhpo.data.encoding import Encoding

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Array = npt.NDArray[Any]

IGNORE = -100
"""Label of a position that is not scored (padding), as in `torch.nn.functional.cross_entropy`."""


@dataclass(frozen=True, eq=False)
class Split:
    """Rows by client: client `c` holds `indices[offsets[c]:offsets[c + 1]]`.

    >>> split = Split.from_lists([[4, 1], [], [0]])
    >>> split.rows(0), split.sizes
    (array([4, 1]), array([2, 0, 1]))
    """

    indices: Integers
    offsets: Integers

    @classmethod
    def from_lists(cls, lists: Iterable[Any]) -> Split:
        """One list or array of row numbers for each client."""
        rows = [np.asarray(rows, dtype=np.int64) for rows in lists]
        sizes = np.fromiter((len(r) for r in rows), dtype=np.int64, count=len(rows))
        return cls.from_sizes(np.concatenate([np.empty(0, np.int64), *rows]), sizes)

    @classmethod
    def from_sizes(cls, indices: Integers, sizes: Integers) -> Split:
        """Rows already in the order of clients, and how many of them each client takes."""
        return cls(np.asarray(indices, dtype=np.int64), np.concatenate([[0], np.cumsum(sizes)]))

    @classmethod
    def from_owners(cls, owners: Integers, clients: int, rows: Integers | None = None) -> Split:
        """`rows[i]` (or row `i`) goes to client `owners[i]`; a negative owner means nobody.

        >>> Split.from_owners(np.array([1, 0, -1, 1]), clients=2).rows(1)
        array([0, 3])
        """
        order = np.argsort(owners, kind="stable")
        order = order[np.searchsorted(owners[order], 0) :]
        sizes = np.bincount(owners[order], minlength=clients)
        return cls.from_sizes(order if rows is None else rows[order], sizes)

    @property
    def clients(self) -> int:
        """How many clients, those without rows included."""
        return len(self.offsets) - 1

    @property
    def sizes(self) -> Integers:
        """How many rows each client holds."""
        return np.diff(self.offsets)

    @property
    def owners(self) -> Integers:
        """The client of each entry of `indices`."""
        return np.repeat(np.arange(self.clients), self.sizes)

    @property
    def places(self) -> Integers:
        """The place of each entry of `indices` within its client: 0, 1, ..."""
        return np.arange(len(self.indices)) - np.repeat(self.offsets[:-1], self.sizes)

    def rows(self, client: int) -> Integers:
        """The rows of one client."""
        if not 0 <= client < self.clients:
            raise IndexError(f"client {client} of {self.clients}")
        return self.indices[self.offsets[client] : self.offsets[client + 1]]

    def where(self, mask: npt.NDArray[np.bool_]) -> Split:
        """The same clients with only the entries of `indices` where `mask` is true."""
        sizes = np.bincount(self.owners[mask], minlength=self.clients)
        return Split.from_sizes(self.indices[mask], sizes)

    def shuffled(self, rng: np.random.Generator) -> Split:
        """The same rows, in random order within each client."""
        order = np.lexsort((rng.random(len(self.indices)), self.owners))
        return Split(self.indices[order], self.offsets)

    def __repr__(self) -> str:
        return f"Split({self.clients} clients, {len(self.indices)} rows)"


@dataclass(frozen=True, eq=False)
class FederatedData:
    """Samples, labels, and the rows that each client trains, validates and tests on.

    Models see `(x - mean) / std`, in float32, or `x` itself where these are None. Made by
    `load`, `from_clients` and `from_arrays`, which all call `validate`.
    """

    x: Array
    y: Array
    train: Split
    validation: Split
    test: Split
    task: str
    classes: int | None = None
    mean: Array | None = None
    std: Array | None = None
    name: str = "custom"
    client_names: tuple[str, ...] | None = None
    encoding: Encoding | None = None
    """How columns became features, where the data came as columns (`from_csv`)."""
    fill: Array | None = None
    """What stands in for a missing value (NaN) of each feature; None where none may be missing."""

    @property
    def clients(self) -> int:
        """How many clients, in all three splits."""
        return self.train.clients

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one sample."""
        return tuple(int(n) for n in self.x.shape[1:])

    @property
    def is_tokens(self) -> bool:
        """Whether a sample is a sequence of tokens, for an embedding, rather than numbers.

        As in torch, features are floats: integers along one axis are tokens, unless a mean or
        a standard deviation says that they are to be computed with.
        """
        scaled = self.mean is not None or self.std is not None
        return self.x.dtype.kind in "iu" and self.x.ndim == 2 and not scaled

    @property
    def train_clients(self) -> Integers:
        """The clients that have training rows."""
        return np.flatnonzero(self.train.sizes)

    @property
    def validation_clients(self) -> Integers:
        """The clients that have validation rows."""
        return np.flatnonzero(self.validation.sizes)

    @property
    def test_clients(self) -> Integers:
        """The clients that have test rows."""
        return np.flatnonzero(self.test.sizes)

    @property
    def is_lazy(self) -> bool:
        """Whether clients' rows are loaded when they are needed (`from_loader`)."""
        return not isinstance(self.x, np.ndarray)

    @property
    def looked_at(self) -> Integers:
        """The rows that checks look at: all that clients hold, or those of three lazily loaded clients."""
        splits = self.train, self.validation, self.test
        if not self.is_lazy:
            return np.concatenate([split.indices for split in splits])
        some = sorted({0, self.clients // 2, self.clients - 1})
        return np.concatenate([split.rows(client) for client in some for split in splits])

    def client_name(self, client: int) -> str:
        """How messages call a client: its own name if it has one, else its number."""
        return repr(self.client_names[client]) if self.client_names else str(client)

    def validate(self) -> FederatedData:
        """Raise `InputError`, naming the client, if anything here cannot be trained on."""
        from fedhpo.data.validate import validate

        validate(self)
        return self

    def __repr__(self) -> str:
        parts = [
            f"{split} {len(rows.indices)} rows of {np.count_nonzero(rows.sizes)}"
            for split, rows in (("train", self.train), ("validation", self.validation), ("test", self.test))
        ]
        kind = f"{self.task}, {self.classes} classes" if self.classes is not None else self.task
        return (
            f"<{self.name}: {self.clients} clients, {', '.join(parts)}; "
            f"x {self.shape} {self.x.dtype}; {kind}>"
        )
