"""What the worlds with 24 cells say: accuracy by way, early and late, and the rates that were found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from fedhpo_papers.fedtune.claims import Row, gap, most_cells
from fedhpo_papers.shared.tables import Mean, markdown


def cells_table(rows: Sequence[Row]) -> str:
    """Figures 1a, 2c and 8 as one table; Figure 1b as a distribution; how many configs the cells have."""
    parts = []
    for name in dict.fromkeys(row["set"] for row in rows):
        own = [row for row in rows if row["set"] == name]
        lines = []
        for way in dict.fromkeys(row["way"] for row in own):
            of_way = [row for row in own if row["way"] == way]
            known = [row["accuracy"] for row in of_way if row["accuracy"] is not None]
            early = Mean.of(_early(row) for row in of_way if row["curve"])
            over = "–" if way == "1 cell" else gap(own, way, "1 cell").signed
            late = str(Mean.of(known)) if known else "–"
            lines.append(
                [_WORDS.get(way, way), early, late, over, f"{len(of_way) - len(known)} of {len(of_way)}"]
            )
        columns = ["way", "a fifth into training", "end", "over one config", "diverged"]
        parts += [f"### {name}", markdown(columns, lines), _rates(own), _distinct(own)]
    return "\n\n".join(parts)


_WORDS = {
    "1 cell": "one config for all (heterogeneity-oblivious, Figure 1a)",
    "own clients": "all cells, scored at their own clients (Figure 2c)",
    "hand": "each client tuned by hand (heterogeneity-aware, Figure 1a)",
}


def _early(row: Row) -> float:
    """The accuracy at the first point from a fifth of the curve on."""
    last = row["curve"][-1][0]
    return float(next(y for x, y in row["curve"] if x >= last / 5))


def _rates(rows: Sequence[Row]) -> str:
    """Figure 1b: how many clients each rate suits best, tuned by hand."""
    counts = Counter(rate for row in rows if row["way"] == "hand" for rate in row["rates"])
    return markdown(["rate by hand (Figure 1b)", "clients"], [[f"{r:g}", counts[r]] for r in sorted(counts)])


def _distinct(rows: Sequence[Row]) -> str:
    """How far the cells of the largest table differ."""
    tables = [row["configs"] for row in rows if row["way"] == most_cells(rows)]
    configs = [len({tuple(sorted(config.items())) for config in table}) for table in tables]
    spread = [max(c["lr"] for c in table) / min(c["lr"] for c in table) for table in tables]
    return (
        f"Of {len(tables[0])} cells {np.mean(configs):.1f} have a config of their own (mean over worlds); "
        f"their highest rate is {np.median(spread):.0f} times their lowest (median)."
    )
