"""Lies about how many rows a client has."""

from __future__ import annotations

from dataclasses import dataclass

from fedhpo.testing.attacks.attack import Attack


@dataclass(frozen=True)
class SizeLie(Attack):
    """Says that it has `rows` rows, from the beginning on; a client without rows keeps to that.

    >>> SizeLie().size(12), SizeLie().size(0)
    (100000, 0)
    """

    rows: int = 100_000

    def size(self, rows: int) -> int:
        return self.rows if rows else 0
