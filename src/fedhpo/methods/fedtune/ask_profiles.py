"""Ask clients once which cell they are in; each answers by randomised response (Warner, 1965).

With k cells a client tells the true one with probability e^epsilon / (e^epsilon + k - 1), else one of the
others, each alike: whatever it holds, no answer is more than e^epsilon times as likely as under another
profile. The noise is drawn at the client. The server corrects the histogram for it, and draws it toward equal
shares by as much as it is noise (James and Stein, 1961).
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from fedhpo.core.errors import InputError
from fedhpo.core.settings import check_settings
from fedhpo.core.streams import derive
from fedhpo.data.container import Floats, Integers
from fedhpo.methods.fedtune.cells import Cells
from fedhpo.methods.fedtune.look_up import nearest
from fedhpo.methods.fedtune.measures import check_measure, profiled
from fedhpo.methods.fedtune.profiles import Profiles
from fedhpo.protocol.federation import Status
from fedhpo.protocol.query import Party

if TYPE_CHECKING:
    from fedhpo.search.search import Search


@dataclass(frozen=True)
class ProfileQuery:
    """Which cell a client is in, by randomised response.

    `release` "simulated" draws from the run's seeded generator: repeatable, and no protection, as whoever
    knows the seed can undo it. A real client draws from its system's own source, whatever the query says.
    """

    indices: Sequence[float]
    quantities: Sequence[int]
    epsilon: float
    measure: str = "heterogeneity_index"
    edges: Sequence[float] | None = None
    release: Literal["simulated", "exact"] = "simulated"
    seed: int = 0

    name: ClassVar[str] = "profile"

    def __post_init__(self) -> None:
        check_settings(self)
        check_measure(self.measure)
        if not 0 < self.epsilon < math.inf:
            raise InputError(f"epsilon must be a positive number, not {self.epsilon!r}")
        _ = self.cells

    @property
    def cells(self) -> Cells:
        """The cells to choose from."""
        return Cells(tuple(self.indices), tuple(self.quantities))

    def at_client(self) -> ProfileQuery:
        """As a real client answers it."""
        return replace(self, release="exact")

    def answer(self, party: Party) -> int:
        """The number of the client's cell, or of another."""
        if not len(party.train):
            raise InputError("the client has no training rows, and so no profile")
        index, quantity = profiled(self.measure, party.train.y, party.classes, self.edges)
        below: Callable[[int], int] = secrets.randbelow
        if self.release == "simulated":
            below = lambda most: int(party.rng.integers(most))  # noqa: E731
        true, others = nearest(self.cells, index, quantity), len(self.cells) - 1
        if not others or below(2**53) / 2**53 < truthful(self.epsilon, len(self.cells)):
            return true
        other = below(others)
        return other + (other >= true)

    def to_dict(self) -> dict[str, Any]:
        """What is sent."""
        given = asdict(self)
        return given | {"indices": list(self.indices), "quantities": list(self.quantities)}

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> ProfileQuery:
        """The inverse of `to_dict`."""
        return cls(**given)


def truthful(epsilon: float, cells: int) -> float:
    """How likely a client tells its own cell.

    >>> truthful(math.log(3), 4)
    0.5
    """
    return 1 / (1 + (cells - 1) * math.exp(-epsilon))


def corrected(told: Integers, epsilon: float) -> Floats:
    """Shares of the cells from how many clients told each.

    >>> corrected(np.array([60, 20, 20, 20]), math.log(3)).round(2).tolist()
    [0.95, 0.02, 0.02, 0.02]
    >>> corrected(np.array([3, 2, 2, 1]), math.log(3)).round(2).tolist()
    [0.25, 0.25, 0.25, 0.25]
    """
    cells, clients = len(told), int(told.sum())
    if cells < 2 or not clients:
        return np.full(cells, 1 / cells)
    keep = truthful(epsilon, cells)
    stray = (1 - keep) / (cells - 1)
    found = (told / clients - stray) / (keep - stray)
    variance = float((told / clients * (1 - told / clients)).sum()) / clients / (keep - stray) ** 2
    apart = float(((found - 1 / cells) ** 2).sum())
    share = 0.0 if apart <= 0 else max(0.0, 1 - variance / apart)
    drawn = np.maximum(1 / cells + share * (found - 1 / cells), 0.0)
    shares: Floats = drawn / drawn.sum()
    return shares


def ask_profiles(
    search: Search, cells: Cells, measure: str, edges: Sequence[float] | None, epsilon: float
) -> Profiles:
    """Ask every training client, and charge epsilon for it."""
    session = search.session
    told = {"mechanism": "randomised response at the client", "cells": len(cells), "epsilon": epsilon}
    if session.decide("profiles", told, lambda: told, epsilon=epsilon, planned=None) is None:
        return Profiles.uniform(cells)  # nobody is asked while a method is planned
    query = ProfileQuery(
        cells.indices, cells.quantities, epsilon, measure, edges, seed=derive(search.seed, "profiles")
    )
    answers = session.query(query, session.train_clients)
    known = [a.content for a in answers if a.status == Status.OK and _is_cell(a.content, len(cells))]
    if not known:
        why = next((f": client {a.client}: {a.reason}" for a in answers if a.status != Status.OK), "")
        raise InputError(f"profiles = 'asked': no client told its cell{why}; give shares, or leave it out")
    counts = np.bincount(known, minlength=len(cells))
    search.facts["profiles"] = {**told, "clients": len(known), "counts": counts.tolist()}
    return Profiles(cells, tuple(corrected(counts, epsilon).tolist()), "asked")


def _is_cell(content: Any, cells: int) -> bool:
    return isinstance(content, int) and not isinstance(content, bool) and 0 <= content < cells
