"""What a comparison of methods comes to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from fedhpo.protocol.federation import Floats
from fedhpo.research.compare.statistics import Pair, in_words, mean_ranks, pairs
from fedhpo.research.incumbents import Incumbents, value_at

#: Shares of the budget at which methods are summed up: the paper's Figures 15 and 16.
SHARES = (1 / 3, 1.0)


@dataclass(frozen=True)
class Comparison:
    """Methods over the same seeds. The score is that of the incumbent over all validation clients.

    `runs` holds each method's incumbents, one list for each of `seeds`.
    """

    name: str
    metric: str
    maximise: bool
    total: int
    seeds: Sequence[int]
    runs: Mapping[str, Sequence[Incumbents]]
    #: Where it was done, and under which evaluation: JSON-able.
    setting: Mapping[str, Any]
    #: Of each method and seed, where it is known: what came of it against the user's own config.
    verdicts: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def methods(self) -> list[str]:
        """The methods, as they were given."""
        return list(self.runs)

    def scores(self, share: float = 1.0) -> dict[str, list[float]]:
        """Each method's true score for each seed when this share of the budget was spent."""
        spent = share * self.total * (1 + 1e-9)
        return {method: [value_at(run, spent) for run in runs] for method, runs in self.runs.items()}

    def quartiles(self, method: str, grid: Sequence[float]) -> Floats:
        """First quartile, median and third quartile over seeds; NaN where a run has no incumbent yet."""
        values = np.array([[value_at(run, spent) for spent in grid] for run in self.runs[method]])
        found: Floats = np.quantile(values, [0.25, 0.5, 0.75], axis=0)
        return found

    @cached_property
    def grid(self) -> list[int]:
        """The rounds spent at which something changes, in any run."""
        return sorted(
            {rounds for runs in self.runs.values() for run in runs for rounds, _ in run} | {self.total}
        )

    @cached_property
    def ranks(self) -> dict[str, float]:
        """The mean rank of each method at the full budget."""
        return mean_ranks(self.scores(), self.maximise)

    @cached_property
    def pairs(self) -> list[Pair]:
        """Every two methods, tested."""
        return pairs(self.scores(), self.maximise)

    def in_words(self) -> list[str]:
        """Verdicts on the differences, and on the gain over the user's own config."""
        return [*in_words(self.pairs, len(self.seeds)), *self._gains()]

    def _gains(self) -> Iterator[str]:
        for method, kinds in self.verdicts.items():
            counts = Counter(kind for kind in kinds if kind not in ("improved", "not known"))
            if counts:
                told = " and ".join(f"{kind} in {count}" for kind, count in sorted(counts.items()))
                advice = ": keep your config there" if "no improvement" in counts else ""
                yield f"{method} against your own config: {told} of {len(kinds)} seeds{advice}."

    def summary(self) -> list[dict[str, Any]]:
        """One row per method, the best rank first."""
        rows = []
        for method in sorted(self.methods, key=lambda m: self.ranks[m]):
            row: dict[str, Any] = {"method": method, "mean_rank": self.ranks[method]}
            for share in SHARES:
                low, middle, high = self.quartiles(method, [share * self.total * (1 + 1e-9)])[:, 0]
                row[_name(share)] = {"median": float(middle), "quartiles": [float(low), float(high)]}
            rows.append(row)
        return rows

    def to_dict(self) -> dict[str, Any]:
        """All of it, JSON-able."""
        return {
            "name": self.name,
            "metric": self.metric,
            "direction": "maximize" if self.maximise else "minimize",
            "total": self.total,
            "seeds": list(self.seeds),
            "setting": dict(self.setting),
            "methods": self.summary(),
            "pairs": [asdict(pair) for pair in self.pairs],
            "in_words": self.in_words(),
            "verdicts": {method: list(kinds) for method, kinds in self.verdicts.items()},
            "runs": {m: [[list(point) for point in run] for run in runs] for m, runs in self.runs.items()},
        }


def _name(share: float) -> str:
    return "at_full_budget" if share == 1 else "at_a_third"
