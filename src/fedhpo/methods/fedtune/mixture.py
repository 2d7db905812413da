"""Tables that are scored where they will work: in a simulated federation of all profiles at once.

A cell that is simulated alone has clients that are all alike: its score cannot see what a client's rate does
among others, where it also sets how much a biased update counts. Here every candidate is a whole table, and
its score is that of a federation with the expected distribution of profiles, on proxy rows.

1. One config for all is searched, by `steps` candidates.
2. The first half of these, as tables with slopes 0, and as many tables with slopes as are left of `steps`,
   make the search of the table, which knows nothing of the other half: both have the same budget.
3. The best few of each search are simulated again on fresh deals.
4. The table's highest rate is lowered until one config for all at that rate is stable.
5. On further fresh deals table, one config for all and the user's own config are compared. The table is kept
   if it is ahead of one config for all by the standard error of their difference.

Candidates share deals, cohorts, batches and first models.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from fedhpo.core.canonical import canonical
from fedhpo.core.digests import digest
from fedhpo.core.journal import Journal
from fedhpo.core.settings import check_settings, whole_number
from fedhpo.methods.fedtune.cells import Cells
from fedhpo.methods.fedtune.reference_table import ReferenceTable
from fedhpo.methods.fedtune.shapes import Tables
from fedhpo.methods.fedtune.simulator import Simulated, Simulator
from fedhpo.methods.fedtune.tuner import CellSearch, CellTuner, tune_cells
from fedhpo.protocol.objective import Objective
from fedhpo.space.config import Config

#: A score and its standard error.
Scored = tuple[float, float]

_ONE_CELL = Cells((0.5,), (1,))
#: A rate is stable where one config for all reaches this share of the best score.
_STABLE = 0.5
_HALVINGS = 4


@dataclass(frozen=True)
class Budget:
    """What a search in the mixture takes.

    `steps` candidates, each simulated on `deals` deals of `clients` clients, `cohort` of them in each of
    `rounds` rounds; the `finalists` of each search again on `deals` fresh ones, and the last two on
    `guard_deals`. So many candidates are simulated `side_by_side`, on all cores.
    """

    steps: int = 30
    deals: int = 2
    clients: int = 24
    cohort: int = 5
    rounds: int = 20
    finalists: int = 3
    guard_deals: int = 4
    side_by_side: int = 4

    def __post_init__(self) -> None:
        check_settings(self)
        for name, value in asdict(self).items():
            whole_number(name, value, least=2 if name in ("steps", "guard_deals") else 1)

    @property
    def scored_rounds(self) -> int:
        """A score is the mean over the last quarter: after one round it depends much on who trained last."""
        return max(1, self.rounds // 4)

    @property
    def groups(self) -> int:
        """How many deals there are: for the search, for its finalists, for the guard."""
        return 2 * self.deals + self.guard_deals


@dataclass(frozen=True, eq=False)
class Chosen:
    """What one search found: the config of a shape, and the table that it stands for."""

    tables: Tables
    config: Config
    search: CellSearch

    @property
    def table(self) -> ReferenceTable:
        """Its table."""
        return self.tables.table(self.config)


class Mixture:
    """Simulations of whole tables on the deals of a mixture, each done once and kept in a journal."""

    def __init__(
        self,
        simulator: Simulator,
        budget: Budget,
        journal: Journal | None = None,
        after_step: Callable[[], Any] = lambda: None,
    ) -> None:
        self._simulator, self.budget, self._after_step = simulator, budget, after_step
        self._journal = Journal(None, {}) if journal is None else journal
        self._found: dict[tuple[str, int], Simulated] = {}
        self.simulations = 0
        for line in self._journal:
            self._take(line)

    def scores(self, tables: Sequence[ReferenceTable], deals: Sequence[int]) -> list[list[Scored]]:
        """Score and standard error of each table on each of these deals."""
        keys = [(_key(table), deal) for table in tables for deal in deals]
        rules = {_key(table): table for table in tables}
        todo = [key for key in dict.fromkeys(keys) if key not in self._found]
        if todo:
            done = self._simulator.simulate([(deal, rules[key]) for key, deal in todo])
            lines = [
                {"table": key, "deal": deal, "score": _kept(one.held_out), "error": _kept(one.held_out_error)}
                for (key, deal), one in zip(todo, done, strict=True)
            ]
            self._journal.add(lines)
            for line in lines:
                self._take(line)
            self._after_step()
        pairs = iter([self._found[key].score("held-out") for key in keys])
        return [[next(pairs) for _ in deals] for _ in tables]

    def _take(self, line: Any) -> None:
        score, error = (math.nan if line[name] is None else line[name] for name in ("score", "error"))
        self._found[line["table"], line["deal"]] = Simulated(score, math.nan, error)
        self.simulations += 1

    @property
    def objective(self) -> Objective:
        """What is optimised."""
        return self._simulator.objective

    def search(self, tables: Tables, seed: int, before: CellSearch | None = None) -> Chosen:
        """The best table of a shape: by a Gaussian process, then among the finalists on fresh deals.

        `before` is the search of constant configs whose first half counts as steps of this one.
        """
        deals = range(self.budget.deals)

        def scorer(asked: Sequence[tuple[int, Config]]) -> list[Scored]:
            found = self.scores([tables.table(config) for _, config in asked], deals)
            return [pooled(one) for one in found]

        half = [] if before is None else self.half(before)
        best = min(half, key=lambda one: self._rank(one[1]), default=None)
        [search] = tune_cells(
            scorer,
            _ONE_CELL,
            tables.searched,
            CellTuner("gp", self.budget.steps, None, side_by_side=self.budget.side_by_side),
            objective=self.objective,
            seed=seed,
            first=[tables.searched.default(), *([] if best is None else tables.around(best[0]))],
            known=[(tables.lifted(config), score, error) for config, score, error in half],
        )
        return Chosen(tables, self._finalist(tables, search), search)

    def half(self, search: CellSearch) -> list[tuple[Config, float, float]]:
        """The first half of a search's steps, which another one shares: configs, scores, standard errors."""
        rows = zip(search.configs, search.scores, search.errors, strict=True)
        return list(itertools.islice(rows, self.budget.steps // 2))

    def _rank(self, score: float) -> float:
        """Less is better; what diverged is last."""
        if math.isnan(score):
            return math.inf
        return -score if self.objective.maximise else score

    def _finalist(self, tables: Tables, search: CellSearch) -> Config:
        """The best over the deals of the search and as many fresh ones, of the few that lead."""
        scored = search.ranks(self.objective)
        order = sorted(range(len(scored)), key=scored.__getitem__)
        leading = ([] if search.chosen is None else [search.chosen]) + order
        places = list(dict.fromkeys(leading))[: self.budget.finalists]
        found = self.scores(
            [tables.table(search.configs[place]) for place in places], range(2 * self.budget.deals)
        )
        ranks = [self._rank(pooled(one)[0]) for one in found]
        return search.configs[places[int(np.argmin(ranks))]]

    def capped(self, chosen: Chosen, constant: Tables) -> Chosen:
        """The table with its highest rate lowered until one config for all at that rate is stable."""
        if chosen.tables.shape != "rate":
            return chosen
        config, deals = chosen.config, self._guard
        for _ in range(_HALVINGS):
            table = chosen.tables.table(config)
            highest = max(float(cell["lr"]) for cell in table.configs)
            flat = constant.searched.complete({"client": {**config.client, "lr": highest}})
            alone, ours = self.scores([constant.table(flat), table], deals)
            if self._stable(pooled(alone)[0], pooled(ours)[0]):
                break
            config = config.replace(client={**config.client, "lr": chosen.tables.halved(config)})
        return Chosen(chosen.tables, config, chosen.search)

    def _stable(self, score: float, best: float) -> bool:
        if math.isnan(score):
            return False
        if not self.objective.maximise:
            return bool(math.isnan(best) or score <= best / _STABLE)
        return bool(math.isnan(best) or score >= _STABLE * best)

    @property
    def _guard(self) -> range:
        return range(2 * self.budget.deals, self.budget.groups)

    def compared(self, table: Chosen, constant: Chosen, own: Config) -> dict[str, Any]:
        """Table, one config for all and the user's own config on fresh deals, and which is kept."""
        mine = constant.tables.table(constant.tables.lifted(own))
        ours, flat, first = self.scores([table.table, constant.table, mine], self._guard)
        gap, error = difference(ours, flat, self.objective.maximise)
        over, over_error = difference(ours, first, self.objective.maximise)
        return {
            "table": _rounded(pooled(ours)[0]),
            "global": _rounded(pooled(flat)[0]),
            "own": _rounded(pooled(first)[0]),
            "over_global": [_rounded(gap), _rounded(error)],
            "over_own": [_rounded(over), _rounded(over_error)],
            "deals": len(self._guard),
            "kept": bool(gap > error),
            "global_config": Config(client=constant.config.client).to_dict()["client"],
        }


def pooled(scores: Sequence[Scored]) -> Scored:
    """The mean over deals, NaN if one diverged, and its standard error.

    >>> pooled([(0.5, 0.03), (0.7, 0.04)])
    (0.6, 0.025)
    """
    values, errors = (np.array(column, np.float64) for column in zip(*scores, strict=True))
    return float(values.mean()), float(np.sqrt((errors**2).sum()) / len(errors))


def difference(ours: Sequence[Scored], theirs: Sequence[Scored], maximise: bool) -> tuple[float, float]:
    """How much better the first is, deal by deal, and the standard error; a deal that diverged scores 0.

    >>> mean, error = difference([(0.6, 0.0), (0.8, 0.0)], [(0.5, 0.0), (0.6, 0.0)], maximise=True)
    >>> round(mean, 9), round(error, 9)
    (0.15, 0.05)
    """
    sign = 1.0 if maximise else -1.0
    worst = 0.0 if maximise else math.inf
    a, b = ([worst if math.isnan(score) else score for score, _ in one] for one in (ours, theirs))
    gaps = sign * (np.array(a) - np.array(b))
    return float(gaps.mean()), float(gaps.std(ddof=1) / math.sqrt(len(gaps)))


def _key(table: ReferenceTable) -> str:
    """What tells tables apart: what clients get."""
    return digest(canonical(table.for_clients().to_dict())).hex()[:24]


def _kept(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def _rounded(value: float) -> float | None:
    return round(value, 6) if math.isfinite(value) else None
