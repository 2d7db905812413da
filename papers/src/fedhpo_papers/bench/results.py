"""What the cells of a bench come to: means, ranks, and paired differences with their errors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.stats import rankdata

from fedhpo.protocol.federation import Floats
from fedhpo_papers.bench.cells import GRID
from fedhpo_papers.bench.estimates import Estimate, by_table, estimate, over_tables, sign_flip
from fedhpo_papers.bench.sample import SEEDS

Row = Mapping[str, Any]
#: Tables on which nearly all configs are equally good: shown as a warning, and part of no verdict.
DEGENERATE = ("stackexchange",)
Key = tuple[str, str, str]


@dataclass(frozen=True)
class Results:
    """Cells by table, setting and method. `reference` is what the other methods are compared with."""

    tables: Sequence[str]
    settings: Sequence[str]
    methods: Sequence[str]
    reference: str
    rows: Sequence[Row]

    @cached_property
    def _cells(self) -> dict[Key, dict[int, Row]]:
        found: dict[Key, dict[int, Row]] = {}
        for row in self.rows:
            if "regret" in row:
                found.setdefault((row["table"], row["setting"], row["method"]), {})[row["seed"]] = row
        return found

    @cached_property
    def refused(self) -> list[tuple[str, str, list[str]]]:
        """Methods, why a table could not replay them, and under which settings."""
        found: dict[tuple[str, str], set[str]] = {}
        for row in self.rows:
            why = row.get("refused") or row.get("failed")
            if why:
                found.setdefault((row["method"], why), set()).add(row["setting"])
        return [
            (method, why, [setting for setting in self.settings if setting in where])
            for method in self.methods
            for (name, why), where in sorted(found.items())
            if name == method
        ]

    def values(self, table: str, setting: str, method: str, what: str = "regret") -> dict[int, float]:
        """A number of each cell by its seed."""
        return {seed: float(row[what]) for seed, row in self._cells.get((table, setting, method), {}).items()}

    def seeds(self, method: str, settings: Sequence[str]) -> list[int]:
        """On each table the number of seeds that it has a result of under all of these settings."""
        return [len(self._mean(table, settings, method, "regret")) for table in self.tables]

    def played(self, method: str, settings: Sequence[str]) -> bool:
        """Whether the method has cells under all of these settings on every table."""
        return all((table, setting, method) in self._cells for table in self.tables for setting in settings)

    def regret(
        self, method: str, settings: Sequence[str], tables: Sequence[str] | None = None, what: str = "regret"
    ) -> Estimate:
        """Its mean over settings and tables, with the error of a bootstrap of parts."""
        return self._estimate(tables, lambda table: self._mean(table, settings, method, what))

    def difference(
        self, method: str, settings: Sequence[str], tables: Sequence[str] | None = None
    ) -> Estimate:
        """How much more regret it has than the reference, seed by seed."""

        def apart(table: str) -> dict[int, float]:
            own = self._mean(table, settings, method, "regret")
            other = self._mean(table, settings, self.reference, "regret")
            return {seed: own[seed] - other[seed] for seed in own.keys() & other.keys()}

        return self._estimate(tables, apart)

    def _mean(self, table: str, settings: Sequence[str], method: str, what: str) -> dict[int, float]:
        found = [self.values(table, setting, method, what) for setting in settings]
        seeds = set.intersection(*(set(one) for one in found))
        return {seed: float(np.mean([one[seed] for one in found])) for seed in seeds}

    def _estimate(self, tables: Sequence[str] | None, values: Any) -> Estimate:
        return over_tables([estimate(by_part(values(table))) for table in tables or self.tables])

    def ranks(self, settings: Sequence[str], methods: Sequence[str]) -> dict[str, float]:
        """The mean rank of each of these methods over tables, settings and the seeds that all have."""
        ranks = []
        for table in self.tables:
            for setting in settings:
                cells = [self.values(table, setting, method) for method in methods]
                for seed in sorted(set.intersection(*(set(one) for one in cells))):
                    ranks.append(rankdata([round(one[seed], 9) for one in cells]))
        means = np.mean(ranks, axis=0) if ranks else np.full(len(methods), math.nan)
        return dict(zip(methods, means.tolist(), strict=True))

    def ratio(self, method: str, settings: Sequence[str]) -> float:
        """The geometric mean over tables of its regret over the reference's; see `log_ratio`."""
        return math.exp(-self.log_ratio(method, settings).mean)

    def log_ratio(
        self, method: str, settings: Sequence[str], tables: Sequence[str] | None = None
    ) -> Estimate:
        """The mean over tables of log(the reference's regret / the method's), 0.01 points added to both.

        It is about the seeds that both have. Its error is that of the first order: each seed's regret is
        taken in units of the method's mean.
        """
        found = []
        for table in tables or self.tables:
            own, other = (self._mean(table, settings, one, "regret") for one in (self.reference, method))
            seeds = sorted(own.keys() & other.keys())
            means = [float(np.mean([one[seed] for seed in seeds])) + 0.01 for one in (own, other)]
            apart = {seed: own[seed] / means[0] - other[seed] / means[1] for seed in seeds}
            error = estimate(by_part(apart))
            found.append(replace(error, mean=math.log(means[0] / means[1])))
        return over_tables(found)

    def verdict(self, method: str, settings: Sequence[str]) -> tuple[Estimate, float]:
        """The mean log ratio with the table as unit, and a sign-flip test over tables that it is below 0.

        Degenerate tables do not count. Of a single table it is that table's own, and the test says nothing.
        """
        tables = [table for table in self.tables if table not in DEGENERATE] or list(self.tables)
        each = [self.log_ratio(method, settings, [table]) for table in tables]
        if len(each) == 1:
            return each[0], 1.0
        means = [one.mean for one in each]
        return by_table(means), sign_flip(means)

    def curve(self, table: str, setting: str, method: str) -> list[tuple[float, float, float, float]]:
        """Share of the budget, and the quartiles of regret there, from where every seed has an incumbent."""
        rows = self._cells.get((table, setting, method), {})
        curves = np.array(
            [[math.nan if v is None else v for v in rows[seed]["curve"]] for seed in sorted(rows)]
        )
        points = []
        for place, share in enumerate(GRID):
            values = curves[:, place] if len(curves) else curves
            if len(values) and np.isfinite(values).all():
                low, middle, high = (float(q) for q in np.quantile(values, [0.25, 0.5, 0.75]))
                points.append((share, low, middle, high))
        return points


def by_part(values: Mapping[int, float]) -> Floats:
    """Values by part and seed; seeds of a part that is not complete are left out.

    >>> by_part({0: 1.0, 1: 2.0, 2: 5.0, 3: 6.0, 4: 9.0}).tolist()
    [[1.0, 2.0], [5.0, 6.0]]
    >>> by_part({0: 1.0}).shape
    (0, 2)
    """
    parts: dict[int, list[float]] = {}
    for seed in sorted(values):
        parts.setdefault(seed // SEEDS, []).append(values[seed])
    return np.array([found for found in parts.values() if len(found) == SEEDS]).reshape(-1, SEEDS)
