"""Kuo et al. (2023), On noisy evaluation in federated hyperparameter tuning, MLSys 2023.

The eight observations and Figures 1 and 3 to 16, on tables of learning curves instead of the paper's four
data sets: nothing is trained. Random search is bootstrapped, 16 different configs out of the table's (the
paper's bootstrap may draw a config twice); the four methods are replayed. Beyond the paper: what two remedies
gain, and whether `fedhpo advise` predicts what is measured.

What differs: trainings are shorter (a table says how long), Hyperband's unit is scaled with them; a table has
100 validation clients, 1% of them is one; in Figure 13 the configs of a range are those of the table that
lie in it, drawn 128 times with replacement.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

from fedhpo.core.errors import InputError
from fedhpo.reproduce.shared.runs import check_asked, kept
from fedhpo.reproduce.shared.verdicts import Verdict
from fedhpo.research.tables import CurveTable, load_table, shipped_tables


@dataclass(frozen=True)
class Scale:
    """Random searches, and replays of each method."""

    bootstraps: int
    seeds: int


SCALES = {"default": Scale(100, 24), "paper": Scale(100, 8), "smoke": Scale(20, 2)}
PARTS = (
    "subsampling",
    "heterogeneity",
    "privacy",
    "methods",
    "proxy",
    "spaces",
    "remedies",
    "rotation",
    "advise",
)


def page(scale: str, out: Path) -> dict[str, Any]:
    """Write page and figures of what is kept in `out` anew; nothing is run, and verdicts stay as they are."""
    from fedhpo.reproduce.noisy_eval.figures import Curves, Dots
    from fedhpo.reproduce.noisy_eval.page import publish_data

    found = kept("noisy-eval", scale, SCALES, out)
    kinds = {True: Curves, False: Dots}
    figures = [kinds["points" in plot].from_dict(plot) for plot in found["plots"]]
    return publish_data(found, figures, [Verdict(**one) for one in found["verdicts"]], out)


def run(
    scale: str = "default",
    *,
    only: Sequence[str] = (),
    runs: str | Path | None = None,
    out: str | Path | None = None,
    workers: int | None = None,
    say: Callable[[str], None] = print,
    tables: Sequence[str | Path] = (),
) -> dict[str, Any]:
    """Make the figures, judge the observations, and write page, figures and data into `out`.

    `tables` are names or files, by default all tables that come with fedhpo. Nothing is kept in `runs`:
    the whole takes a few minutes.
    """
    from fedhpo.reproduce.noisy_eval.advice import advice
    from fedhpo.reproduce.noisy_eval.claims import judge
    from fedhpo.reproduce.noisy_eval.methods import methods, remedies
    from fedhpo.reproduce.noisy_eval.page import write
    from fedhpo.reproduce.noisy_eval.proxy import proxy
    from fedhpo.reproduce.noisy_eval.rotation import rotation
    from fedhpo.reproduce.noisy_eval.search import Bench
    from fedhpo.reproduce.noisy_eval.subsampling import heterogeneity, privacy, spaces, subsampling

    check_asked(scale, SCALES, only, PARTS)
    begun, size = time.monotonic(), SCALES[scale]
    loaded = _loaded(tables)
    paths = {table.name: path for path, table in loaded}
    bench = Bench({table.name: table for _, table in loaded}, size.bootstraps)
    made: dict[str, Callable[[], Sequence[Any]]] = {
        "subsampling": lambda: subsampling(bench),
        "heterogeneity": lambda: heterogeneity(bench),
        "privacy": lambda: privacy(bench),
        "methods": lambda: methods(bench, paths, size.seeds, workers),
        "proxy": lambda: proxy(bench),
        "spaces": lambda: spaces(bench),
        "remedies": lambda: remedies(bench, paths, size.seeds, workers),
        "rotation": lambda: rotation(bench, paths, size.seeds, workers),
    }
    figures: list[Any] = []
    for part, make in made.items():
        if part in (only or PARTS):
            figures += make()
            say(f"{part}: {time.monotonic() - begun:.0f} s")
    figures.sort(key=lambda figure: figure.place)
    advised = advice(bench) if "advise" in (only or PARTS) else []
    found = {
        "scale": scale,
        "bootstraps": size.bootstraps,
        "seeds": size.seeds,
        "seconds": round(time.monotonic() - begun, 1),
        "tables": [table.facts() for table in bench.tables.values()],
    }
    verdicts = judge({figure.number: figure for figure in figures}, _same_task(bench.tables.values()))
    return write(found, figures, advised, verdicts, None if out is None else Path(out))


def _loaded(tables: Sequence[str | Path]) -> list[tuple[str, CurveTable]]:
    """Tables and where they are from; each by another name."""
    chosen = [str(table) for table in tables] or list(shipped_tables())
    if not chosen:
        raise InputError("table: none comes with this fedhpo; name files that `fedhpo table build` wrote")
    found = [(path, load_table(path)) for path in chosen]
    names = [table.name for _, table in found]
    if len(set(names)) < len(names):
        raise InputError(f"table: each must have another name, not {', '.join(names)}")
    return found


def _same_task(tables: Any) -> list[tuple[str, str]]:
    """Pairs of tables with the same kind of model: the same kind of task."""
    kind = {table.name: table.study_tables["model"].get("name") for table in tables}
    return [(a, b) for a, b in combinations(kind, 2) if kind[a] == kind[b]]
