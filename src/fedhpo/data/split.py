"""Which of a client's rows are for training, for validation and for test.

`InsideClients` splits each client's rows; `ClientPools` makes whole clients validation or test clients,
as in cross-device federations, where a client is met once (noisy evaluation). `GivenParts` takes the parts
that a data set comes in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from fedhpo.core.errors import InputError
from fedhpo.core.settings import check_settings, is_number
from fedhpo.data.container import Array, Integers, Split
from fedhpo.data.partition import from_dict


class SplitRule(Protocol):
    """A partition to its training, validation and test rows."""

    def __call__(self, partition: Split, rng: np.random.Generator) -> tuple[Split, Split, Split]: ...


def _check_share(name: str, value: float) -> None:
    if not (is_number(value) and 0 <= value < 1):
        raise InputError(f"{name}={value!r}; allowed: a share from 0 to below 1")


def half_up(values: Array) -> Integers:
    """Nearest whole numbers, halves up, so that sizes do not depend on being odd or even.

    >>> half_up(np.array([0.4, 0.5, 1.5, 2.5]))
    array([0, 1, 2, 3])
    """
    # 0.1 * 25 must count as 2.5 whatever its last bit.
    return np.floor(values + 0.5 + 1e-9).astype(np.int64)


@dataclass(frozen=True)
class InsideClients:
    """A share of every client's rows for validation, another for test, at random.

    Of n rows, `validation x n` and `test x n` are taken, each rounded to the nearest whole number (halves
    up); if that left no row to train on, test gives way first, then validation. With the defaults, clients
    of fewer than 5 rows only train. `shuffle=False` keeps the order: first train, then validation, then
    test, for samples that follow or overlap each other in time.

    >>> parts = InsideClients()(Split.from_lists([range(10), range(10, 13)]), np.random.default_rng(0))
    >>> [part.sizes.tolist() for part in parts]
    [[8, 3], [1, 0], [1, 0]]
    """

    validation: float = 0.1
    test: float = 0.1
    shuffle: bool = True

    def __post_init__(self) -> None:
        _check_share("validation", self.validation)
        _check_share("test", self.test)
        if self.validation + self.test >= 1:
            raise InputError(f"validation + test = {self.validation + self.test:g}; allowed: below 1")
        check_settings(self)

    def __call__(self, partition: Split, rng: np.random.Generator) -> tuple[Split, Split, Split]:
        rows = partition.shuffled(rng) if self.shuffle else partition
        train, validation, _ = self.sizes(rows.sizes)
        places, owners = rows.places, rows.owners
        scored = train[owners]
        tested = (train + validation)[owners]
        return (
            rows.where(places < scored),
            rows.where((scored <= places) & (places < tested)),
            rows.where(tested <= places),
        )

    def sizes(self, sizes: Integers) -> tuple[Integers, Integers, Integers]:
        """Of clients with so many rows, how many train, validate and test."""
        spare = np.maximum(sizes - 1, 0)
        validation = np.minimum(half_up(self.validation * sizes), spare)
        test = np.minimum(half_up(self.test * sizes), spare - validation)
        return sizes - validation - test, validation, test


@dataclass(frozen=True)
class ClientPools:
    """Three disjoint pools of clients, drawn at random: some train, some validate, some test.

    `validation` and `test` are shares of the clients (below 1) or whole numbers of clients; all rows of
    such a client are validation or test rows. `inside` is a share of each training client's rows that it
    keeps for its own validation, rounded as in `InsideClients`: methods that score inside a round need it.

    >>> lists = [range(10 * c, 10 * c + 10) for c in range(5)]
    >>> parts = ClientPools(validation=0.4, test=1)(Split.from_lists(lists), np.random.default_rng(0))
    >>> [sorted(part.sizes.tolist()) for part in parts]
    [[0, 0, 0, 10, 10], [0, 0, 0, 10, 10], [0, 0, 0, 0, 10]]
    """

    validation: float = 0.2
    test: float = 0.1
    inside: float = 0.0

    def __post_init__(self) -> None:
        _check_share("inside", self.inside)
        for name, value in (("validation", self.validation), ("test", self.test)):
            whole = isinstance(value, int | np.integer) and not isinstance(value, bool) and value >= 0
            if not whole and not (isinstance(value, float | np.floating) and 0 <= value < 1):
                raise InputError(f"{name}={value!r}; allowed: a share below 1, or a whole number of clients")
        check_settings(self)

    def __call__(self, partition: Split, rng: np.random.Generator) -> tuple[Split, Split, Split]:
        clients = partition.clients
        validators, testers = (self._number(value, clients) for value in (self.validation, self.test))
        if validators + testers >= clients:
            raise InputError(
                f"{validators} validation and {testers} test clients leave none of {clients} to train"
            )
        order = rng.permutation(clients)
        pool = np.zeros(clients, dtype=np.int64)
        pool[order[:validators]] = 1
        pool[order[validators : validators + testers]] = 2
        owner = pool[partition.owners]
        train, kept, _ = InsideClients(validation=self.inside, test=0.0)(partition.where(owner == 0), rng)
        validation = partition.where(owner == 1)
        # A client has rows in one of the two, never in both: putting them together is a stable sort.
        owners = np.concatenate([validation.owners, kept.owners])
        rows = np.concatenate([validation.indices, kept.indices])
        return train, Split.from_owners(owners, clients, rows), partition.where(owner == 2)

    @staticmethod
    def _number(value: float, clients: int) -> int:
        if isinstance(value, int | np.integer):
            return int(value)
        return max(int(half_up(np.array(value * clients))), int(value > 0))


@dataclass(frozen=True)
class GivenParts:
    """The parts that the set comes in: of femnist with pool "all", complete writers train, others validate.

    >>> rule = GivenParts().bound("toy", np.array([0, 0, 1]))
    >>> parts = rule(Split.from_lists([[0, 1], [2]]), np.random.default_rng(0))
    >>> [part.sizes.tolist() for part in parts]
    [[2, 0], [0, 1], [0, 0]]
    """

    def __call__(self, partition: Split, rng: np.random.Generator) -> tuple[Split, Split, Split]:
        raise InputError("split = 'given' goes by a set's own parts: it is for data sets of `load`")

    def bound(self, name: str, parts: Integers | None) -> SplitRule:
        """The rule by these parts, one for each row of the set."""
        if parts is None:
            raise InputError(
                f"split.kind = 'given': data set {name} comes in no parts; allowed: 'inside' or 'pools' "
                "(femnist has parts with pool = 'all')"
            )

        def rule(partition: Split, rng: np.random.Generator) -> tuple[Split, Split, Split]:
            own = parts[partition.indices]
            train, validation, test = (partition.where(own == part) for part in range(3))
            return train, validation, test

        return rule


#: Splits by their `kind` in a study file.
SPLIT_RULES = {"inside": InsideClients, "pools": ClientPools, "given": GivenParts}


def split_from_dict(mapping: Mapping[str, Any]) -> SplitRule:
    """The split that a study file describes.

    >>> split_from_dict({"kind": "inside", "validation": 0.2})
    InsideClients(validation=0.2, test=0.1, shuffle=True)
    """
    rule: SplitRule = from_dict("split", SPLIT_RULES, mapping)
    return rule
