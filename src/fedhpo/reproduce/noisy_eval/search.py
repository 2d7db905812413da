"""Random searches on tables, many at once: what noise does to the choice of one config out of 16."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedhpo.core.errors import InputError
from fedhpo.core.streams import stream
from fedhpo.privacy.rotation import slot_cohort
from fedhpo.protocol.federation import Floats, Ints
from fedhpo.protocol.objective import Objective
from fedhpo.research.advise import Noise, Pilot, pilot_of_table
from fedhpo.research.tables import CurveTable
from fedhpo.search.evaluator import Evaluator

#: Configs of one random search.
CONFIGS = 16


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
        first = [self.seen[:, : place + 1].argmin(axis=1) for place in range(self.seen.shape[1])]
        truth = np.where(np.isfinite(self.seen), self.truth, np.nan)
        return np.take_along_axis(truth, np.array(first).T, axis=1)

    @property
    def errors(self) -> Floats:
        """The true error of the config that each search chooses."""
        last: Floats = self.incumbents[:, -1]
        return last

    @property
    def at_random(self) -> Floats:
        """That of a config chosen without looking: the first that could be trained."""
        first = np.isfinite(self.seen).argmax(axis=1)
        return np.take_along_axis(self.truth, first[:, None], axis=1)[:, 0]


def _tuned(table: CurveTable) -> list[Any]:
    """What the configs say of training; the shape of the model belongs to the data set."""
    return [(config.client, config.server) for config in table.configs]


@dataclass(frozen=True, eq=False)
class Bench:
    """Tables of the same configs, and the searches to be made on them.

    Searches of one number have the same configs on every table and under every noise.
    """

    tables: Mapping[str, CurveTable]
    bootstraps: int
    seed: int = 0
    _made: dict[object, Searches] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        first, *others = self.tables.values()
        for table in others:
            if _tuned(table) != _tuned(first):
                raise InputError(f"tables {first.name} and {table.name} must hold the same configs")
        if len(first.configs) < CONFIGS:
            raise InputError(f"table {first.name} has {len(first.configs)} configs; {CONFIGS} are needed")

    @cached_property
    def members(self) -> Ints:
        """The configs of each search: 16 different ones out of the table's, in random order."""
        count = len(next(iter(self.tables.values())).configs)
        rngs = [stream(self.seed, "bootstrap", number) for number in range(self.bootstraps)]
        return np.array([rng.permutation(count)[:CONFIGS] for rng in rngs])

    def clients(self, name: str) -> int:
        """How many validation clients a table has."""
        return len(self.tables[name].validation_clients)

    def sizes(self, name: str) -> list[int]:
        """Numbers of clients to draw: from one to all."""
        most = self.clients(name)
        return [size for size in (1, 2, 5, 10, 20, 50, 100, 200, 500) if size < most] + [most]

    def search(
        self, name: str, evaluator: Evaluator, *, heterogeneity: float = 0.0, uniform: bool = False
    ) -> Searches:
        """All searches on a table; `uniform` counts every client as one, as privacy needs it."""
        key = name, evaluator, heterogeneity, uniform
        if key not in self._made:
            truth, seen = (self.pilot(name, p, uniform=uniform) for p in (0.0, heterogeneity))
            # The same draws of clients whatever is changed beside their number: differences are clearer.
            rng = stream(self.seed, "search", name, evaluator.count(self.clients(name)))
            able = self.able(name)
            self._made[key] = random_searches(truth, seen, able, self.members, evaluator, rng)
        return self._made[key]

    def pilot(self, name: str, heterogeneity: float = 0.0, *, uniform: bool = False) -> Pilot:
        """What every client says of every config at the end of its training."""
        found = pilot_of_table(self.tables[name], Objective("error"), heterogeneity=heterogeneity)
        return found.uniform() if uniform else found

    def able(self, name: str) -> NDArray[np.bool_]:
        """Whether each config could be trained to the end."""
        table = self.tables[name]
        found: NDArray[np.bool_] = table.trained >= table.rounds[-1]
        return found


def random_searches(
    truth: Pilot,
    seen: Pilot,
    able: NDArray[np.bool_],
    members: Ints,
    evaluator: Evaluator,
    rng: np.random.Generator,
) -> Searches:
    """Score the configs of each search once, through the evaluator; a config that failed is never chosen.

    Under privacy each of the M scores of a search has Laplace noise of scale M / (epsilon |S|), with rotation
    of scale m / (epsilon |S|) for the m scores that one client is asked for. What `replay` of random search
    comes to, without going through its rounds.
    """
    rotates = evaluator.privacy is not None and evaluator.privacy.rotates
    everybody, accuracy = np.arange(seen.clients), 1 - seen.values
    found = np.empty(members.shape)
    for search, configs in enumerate(members):
        order = rng.permutation(seen.clients) if rotates else everybody
        clocks = rng.bit_generator.state
        for place, config in enumerate(configs):
            if evaluator.pairs():
                rng.bit_generator.state = clocks  # the same draw for all of them
            if rotates:
                drawn = slot_cohort(order, place, evaluator.count(seen.clients))
            else:
                drawn = evaluator.draw(everybody, rng, accuracy[config])
            weights = seen.weights[drawn]
            found[search, place] = seen.values[config, drawn] @ weights / weights.sum()
    if evaluator.privacy is not None:
        asked = evaluator.count(seen.clients)
        epsilon, scores = evaluator.privacy.epsilon, members.shape[1]
        noise = Noise(asked, seen.clients, epsilon, scores, paired=evaluator.pairs(), rotates=rotates)
        found += rng.laplace(scale=noise.scale, size=found.shape)
    found[~able[members]] = np.inf
    return Searches(found, truth.means[members])
