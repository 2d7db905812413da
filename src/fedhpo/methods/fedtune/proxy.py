"""Proxy data: a public set on the server, dealt to simulated clients of wanted profiles (FedTune, 4.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedhpo.core.errors import InputError
from fedhpo.core.settings import is_number
from fedhpo.core.streams import derive, stream
from fedhpo.data import FederatedData, Split
from fedhpo.data.by_class import by_class
from fedhpo.data.container import Floats, Integers
from fedhpo.methods.fedtune.cells import Cells
from fedhpo.methods.fedtune.dealing import deal
from fedhpo.methods.fedtune.measures import check_measure, profiled
from fedhpo.methods.fedtune.profiles import Profiles
from fedhpo.methods.fedtune.reference_table import ReferenceTable
from fedhpo.protocol.federation import ClientSide

#: Targets of regression are cut into so many classes of equal size.
_BINS = 10


@dataclass(frozen=True, eq=False)
class ProxySet:
    """Public samples: rows to be dealt to simulated clients, and a balanced iid part to score on.

    `labels` holds the class of each row of `data`; for regression, that of its target between `edges`.
    `dealt` are the rows that are dealt, `scored` those that are scored on. Made by `of`.
    """

    data: FederatedData
    labels: Integers
    edges: tuple[float, ...] | None
    dealt: Integers
    scored: Integers

    @classmethod
    def of(cls, data: FederatedData, held_out: float | int = 0.2, seed: int = 0) -> ProxySet:
        """The samples of `data`, whoever holds them there; it must be nobody's private data.

        `held_out`, a share of the rows or their number, is kept for scoring: as many of each class, as far as
        classes reach, and never more than half of a class.

        >>> import fedhpo as fh
        >>> proxy = ProxySet.of(fh.load("digits"), held_out=300)
        >>> np.bincount(proxy.labels[proxy.scored]).tolist()
        [30, 30, 30, 30, 30, 30, 30, 30, 30, 30]
        """
        if data.task == "language":
            raise InputError(
                "proxy data of task 'language' cannot be dealt by class, as a row has many labels; allowed: "
                "classification, regression"
            )
        splits = (data.train, data.validation, data.test)
        rows = np.unique(np.concatenate([split.indices for split in splits]))
        if not is_number(held_out) or not 0 < held_out < len(rows):
            raise InputError(f"held_out={held_out!r}; allowed: a share below 1, or a number of rows")
        edges = None if data.classes is not None else _edges(data.y[rows])
        codes = data.y[rows] if edges is None else np.searchsorted(edges, data.y[rows], side="right")
        wanted = held_out if isinstance(held_out, int) else int(held_out * len(rows))
        pool = by_class(codes.astype(np.int64), stream(seed, "held out"))
        each = np.minimum(max(1, wanted // pool.clients), pool.sizes // 2)
        held = pool.where(pool.places < each[pool.owners]).indices
        if not len(held):
            raise InputError("proxy data has no class of at least 2 rows: nothing can be held out")
        labels = np.full(len(data.y), -1, np.int64)
        labels[rows] = codes
        cut = None if edges is None else tuple(edges.tolist())
        return cls(data, labels, cut, np.setdiff1d(rows, rows[held]), np.sort(rows[held]))

    def federation(
        self, cells: Cells, clients: int = 5, measure: str = "heterogeneity_index", seed: int = 0
    ) -> Proxies:
        """`clients` simulated clients for each cell, each cell dealt by itself; and one that only scores.

        A client's own validation rows are those held-out rows whose class it holds.
        """
        check_measure(measure)
        codes = self.labels[self.dealt]
        lists: list[Integers] = []
        for number, (index, quantity) in enumerate(cells.profiles):
            dealt = _dealt(codes, measure, index, quantity, clients, stream(seed, "cell", number))
            lists += [self.dealt[dealt.rows(client)] for client in range(clients)]
        groups = [list(range(c * clients, (c + 1) * clients)) for c in range(len(cells))]
        return self._simulated(lists, groups, measure, [self.scored])

    def mixture(
        self,
        profiles: Profiles,
        clients: int,
        deals: int,
        measure: str = "heterogeneity_index",
        seed: int = 0,
    ) -> Proxies:
        """Whole federations of `clients` simulated clients with these profiles; each is a fresh deal.

        A group is the clients of a deal. Each deal holds out rows of its own, as many as `scored`, so that
        scores over several deals are of more rows than one of them holds out; after the clients come those
        that only score, one for each deal.
        """
        check_measure(measure)
        counts = profiles.counts(clients)
        lists: list[Integers] = []
        scored: list[Integers] = []
        for number in range(deals):
            own = ProxySet.of(self.data, len(self.scored), derive(seed, "mixture", number))
            scored.append(own.scored)
            for cell, count in enumerate(counts):
                index, quantity = profiles.cells.profiles[cell]
                if count:
                    rng = stream(seed, "mixture", number, cell)
                    codes = own.labels[own.dealt]
                    dealt = _dealt(codes, measure, index, quantity, int(count), rng)
                    lists += [own.dealt[dealt.rows(client)] for client in range(int(count))]
        groups = [list(range(d * clients, (d + 1) * clients)) for d in range(deals)]
        return self._simulated(lists, groups, measure, scored)

    def _simulated(
        self, lists: list[Integers], groups: list[list[int]], measure: str, scored: list[Integers]
    ) -> Proxies:
        """Clients that hold these rows, and those that score: one for all groups, or one for each."""
        own: list[Integers] = []
        for group, held in zip(groups, scored * (len(groups) // len(scored)), strict=True):
            own += [held[np.isin(self.labels[held], self.labels[lists[client]])] for client in group]
        data = replace(
            self.data,
            train=Split.from_lists([*lists, *[[]] * len(scored)]),
            validation=Split.from_lists([*own, *scored]),
            test=Split.from_lists([[]] * (len(lists) + len(scored))),
            name=f"proxies of {self.data.name}",
            client_names=None,
        )
        found = [profiled(measure, self.data.y[rows], self.data.classes, self.edges) for rows in lists]
        attained = np.array([np.mean([found[client][0] for client in group]) for group in groups])
        sizes = np.array([len(rows) for rows in lists])
        scorers = list(range(len(lists), len(lists) + len(scored)))
        scorer = scorers if len(scored) > 1 else scorers[0]
        return Proxies(data.validate(), groups, scorer, attained, sizes, found)


def _dealt(
    codes: Integers, measure: str, index: float, quantity: int, clients: int, rng: np.random.Generator
) -> Split:
    try:
        return deal(codes, measure, index, quantity, clients, rng)
    except InputError as error:
        raise InputError(f"cell of index {index:g} and quantity {quantity}: {error}") from None


@dataclass(frozen=True, eq=False)
class Proxies:
    """Simulated clients.

    `groups` are the clients of each cell, or of each deal of a mixture, `scorer` the client that holds the
    held-out rows and trains nothing (a list: that of each deal), `attained` the mean index that the clients
    of each group really have, `sizes` and `profiles` are those of each client.
    """

    data: FederatedData
    groups: Sequence[Sequence[int]]
    scorer: int | Sequence[int]
    attained: Floats
    sizes: Integers
    profiles: Sequence[tuple[float, int]] = ()

    def resolve(self, rule: ClientSide, client: int) -> Mapping[str, Any]:
        """What a rule has for one of them."""
        if isinstance(rule, ReferenceTable):
            return rule.config_for(*self.profiles[client])
        return rule.resolve(self.data.y[self.data.train.rows(client)], self.data.classes)


def _edges(targets: Floats) -> Floats:
    """Where targets are cut into classes of equal size; fewer where values repeat."""
    if targets.ndim != 1:
        raise InputError("proxy data of regression needs one target a row")
    inner = np.quantile(targets, np.arange(1, _BINS) / _BINS)
    found: Floats = np.unique(inner[(inner > targets.min()) & (inner <= targets.max())])
    if not len(found):
        raise InputError("proxy data of regression has one target only: there is no index to tell clients by")
    return found
