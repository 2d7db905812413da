"""Random searches on tables, thousands at once: what noise does to the choice of one config out of 16."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fedhpo.core.errors import InputError
from fedhpo.core.streams import stream
from fedhpo.protocol.federation import Floats, Ints
from fedhpo.protocol.objective import Objective
from fedhpo.research.advise import Noise, Pilot, pilot_of_table
from fedhpo.research.tables import CurveTable
from fedhpo.search.evaluator import Evaluator
from fedhpo_papers.jackknife import Jackknife
from fedhpo_papers.noisy_eval.drawing import observed, rotated

#: Configs of one random search.
CONFIGS = 16
#: The share of clients that the paper asks under noise.
ONE_PERCENT = Evaluator(clients=0.01)


@dataclass(frozen=True, eq=False)
class Searches:
    """Random searches, one a row: what each config looked like in it, and what the config is worth.

    >>> found = Searches(np.array([[0.3, 0.2, 0.4]]), np.array([[0.5, 0.7, 0.1]]))
    >>> found.incumbents.tolist()
    [[0.5, 0.7, 0.7]]
    """

    seen: Floats
    truth: Floats

    @cached_property
    def incumbents(self) -> Floats:
        """The true error of the config to name after the first, the second, ... config of each search.

        NaN as long as there is none, because all of them failed.
        """
        lowest = np.minimum.accumulate(self.seen, axis=1)
        places = np.arange(self.seen.shape[1])
        # The last place at which the lowest score so far became lower: of equal scores the first counts.
        before = np.concatenate([np.full((len(lowest), 1), np.inf), lowest[:, :-1]], axis=1)
        lower = lowest < before
        first = np.maximum.accumulate(np.where(lower, places, 0), axis=1)
        truth = np.where(np.isfinite(self.seen), self.truth, np.nan)
        return np.take_along_axis(truth, first, axis=1)

    @property
    def errors(self) -> Floats:
        """The true error of the config that each search chooses."""
        best = self.seen.argmin(axis=1)[:, None]
        truth = np.where(np.isfinite(self.seen), self.truth, np.nan)
        return np.take_along_axis(truth, best, axis=1)[:, 0]

    @property
    def at_random(self) -> Floats:
        """That of a config chosen without looking: the first that could be trained."""
        first = np.isfinite(self.seen).argmax(axis=1)
        return np.take_along_axis(self.truth, first[:, None], axis=1)[:, 0]


@dataclass(frozen=True, eq=False)
class Bench:
    """Tables, and the searches to be made on them.

    Searches of one number have the same configs on every table of as many configs, and under every noise.
    """

    tables: Mapping[str, CurveTable]
    bootstraps: int
    seed: int = 0
    #: Validation clients of the whole tables, where these are parts of them.
    whole: Mapping[str, int] = field(default_factory=dict)
    _made: dict[object, Searches] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        for table in self.tables.values():
            if len(table.configs) < CONFIGS:
                raise InputError(f"table {table.name} has {len(table.configs)} configs; {CONFIGS} are needed")

    def knives(self, parts: int) -> dict[str, Jackknife]:
        """So many parts of each table; tables of as many configs keep the same ones."""
        return {
            name: Jackknife.of(len(table.configs), self.clients(name), parts, self.seed)
            for name, table in self.tables.items()
        }

    def part(self, number: int, knives: Mapping[str, Jackknife], bootstraps: int) -> Bench:
        """The same searches, fewer of them, on one part of each table."""
        tables = {name: knives[name].parts[number].of(table) for name, table in self.tables.items()}
        whole = {name: self.clients(name) for name in self.tables}
        return replace(self, tables=tables, bootstraps=bootstraps, whole=whole, seed=self.seed, _made={})

    def related(self, first: str, second: str) -> bool:
        """Whether two tables hold the same configs: what is found on one can be tried on the other."""
        tuned = [
            [(config.client, config.server) for config in self.tables[name].configs]
            for name in (first, second)
        ]
        return tuned[0] == tuned[1]

    def members(self, name: str) -> Ints:
        """The configs of each search: 16 different ones out of the table's, in random order."""
        count = len(self.tables[name].configs)
        keys = stream(self.seed, "bootstrap").random((self.bootstraps, count))
        found: Ints = np.argsort(keys, axis=1)[:, :CONFIGS]
        return found

    def clients(self, name: str) -> int:
        """How many validation clients a table has."""
        return len(self.tables[name].validation_clients)

    def sizes(self, name: str) -> list[int]:
        """Numbers of clients to draw: from one to all."""
        most = self.whole.get(name, self.clients(name))
        return [size for size in (1, 2, 5, 10, 20, 50, 100, 200, 500) if size < most] + [self.clients(name)]

    def one_percent(self, name: str) -> int:
        """1% of the clients of the whole table, at least one."""
        return ONE_PERCENT.count(self.whole.get(name, self.clients(name)))

    def search(
        self, name: str, evaluator: Evaluator, *, heterogeneity: float = 0.0, uniform: bool = False
    ) -> Searches:
        """All searches on a table; `uniform` counts every client as one, as privacy needs it.

        Numbers of clients are nested: two clients are the one and another. So differences are clear. Under
        rotation they are not: there each config has the next clients in a search's order.
        """
        size = evaluator.count(self.clients(name))
        rotates = _rotates(evaluator)
        open_ = replace(evaluator, privacy=None, clients=1)
        key = name, open_, heterogeneity, uniform, rotates
        if (*key, size) not in self._made:
            truth, seen = (self.pilot(name, p, uniform=uniform) for p in (0.0, heterogeneity))
            members = self.members(name)
            rng = stream(self.seed, "search", name)
            if rotates:
                means = {size: rotated(seen, members, size, rng)}
            else:
                means = observed(seen, members, self._nested(name, size), open_.bias, open_.pairs(), rng)
            for one, own in means.items():
                self._made[(*key, one)] = searches(truth, own, self.able(name), members)
        found = self._made[(*key, size)]
        return found if evaluator.privacy is None else self._private(name, found, evaluator)

    def _nested(self, name: str, size: int) -> list[int]:
        """The numbers of clients that are drawn together with this one."""
        if size == self.clients(name):
            return [size]
        return sorted({*self.sizes(name)[:-1], self.one_percent(name), size})

    def _private(self, name: str, found: Searches, evaluator: Evaluator) -> Searches:
        """The same with Laplace noise, of which only the scale depends on epsilon and accounting."""
        assert evaluator.privacy is not None
        asked, epsilon = evaluator.count(self.clients(name)), evaluator.privacy.epsilon
        rotates = _rotates(evaluator)
        noise = Noise(asked, self.clients(name), epsilon, CONFIGS, paired=not rotates, rotates=rotates)
        drawn = stream(self.seed, "noise", name, asked).laplace(size=found.seen.shape)
        return Searches(found.seen + noise.scale * drawn, found.truth)

    def pilot(self, name: str, heterogeneity: float = 0.0, *, uniform: bool = False) -> Pilot:
        """Every client's score of every config at the end of training."""
        found = pilot_of_table(self.tables[name], Objective("error"), heterogeneity=heterogeneity)
        return found.uniform() if uniform else found

    def able(self, name: str) -> NDArray[np.bool_]:
        """Whether each config could be trained to the end."""
        table = self.tables[name]
        found: NDArray[np.bool_] = table.trained >= table.rounds[-1]
        return found


def _rotates(evaluator: Evaluator) -> bool:
    """Whether configs have clients of their own in turn, and a client is charged for what it was asked."""
    return evaluator.privacy is not None and evaluator.privacy.rotates and not evaluator.pairs()


def searches(truth: Pilot, seen: Floats, able: NDArray[np.bool_], members: Ints) -> Searches:
    """Searches of these configs, as they were seen; a config that failed is never chosen."""
    return Searches(np.where(able[members], seen, np.inf), truth.means[members])
