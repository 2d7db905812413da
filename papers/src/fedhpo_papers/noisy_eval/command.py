"""Kuo et al. (2023), On noisy evaluation in federated hyperparameter tuning, MLSys 2023.

The eight observations and Figures 1 and 3 to 16, on tables of learning curves instead of the paper's four
data sets: nothing is trained. Random search (16 different configs out of the table's; the paper's bootstrap
may draw a config twice) and Hyperband are simulated thousands of times in plain arrays; TPE and BOHB, which
learn, are replayed. Standard errors are those of a delete-d jackknife: all of it again on parts of the
tables, three quarters of the configs and of the clients each. Beyond the paper: Hyperband by the rules of
the authors' code, what two remedies gain, and whether `fedhpo advise` predicts what is measured.

What differs: trainings are shorter (a table says how long), Hyperband's unit is scaled with them; a table
has 79 to 320 validation clients, 1% of them is one to three; in Figure 13 the configs of a range are those
of the table that lie in it, drawn 128 times with replacement; a proxy is tried on tables of the same
configs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedhpo.core.errors import InputError
from fedhpo.research.tables import CurveTable, load_table, shipped_tables
from fedhpo_papers.shared.runs import check_asked, kept

if TYPE_CHECKING:
    from fedhpo_papers.noisy_eval.figures import Curves, Dots
    from fedhpo_papers.noisy_eval.replays import Replays
    from fedhpo_papers.noisy_eval.rules import Claim
    from fedhpo_papers.noisy_eval.search import Bench


@dataclass(frozen=True)
class Scale:
    """Simulated searches, replays of each method; parts of the jackknife, and both in each of them."""

    bootstraps: int
    seeds: int
    parts: int
    part_bootstraps: int
    part_seeds: int


SCALES = {
    "default": Scale(4000, 48, 40, 1000, 2),
    "paper": Scale(100, 8, 40, 100, 2),
    "smoke": Scale(20, 2, 3, 20, 2),
}
#: Parts whose figures observations are judged by.
_JUDGED = ("subsampling", "heterogeneity", "privacy", "methods", "proxy", "spaces")
PARTS = (*_JUDGED, "remedies", "rotation", "advise")


def page(scale: str, out: Path) -> dict[str, Any]:
    """Write page and figures of what is kept in `out` anew; nothing is run, and verdicts stay as they are."""
    from fedhpo_papers.noisy_eval.figures import Curves, Dots
    from fedhpo_papers.noisy_eval.page import publish_data

    found = kept("noisy-eval", scale, SCALES, out)
    figures: list[Curves | Dots] = [
        Curves.from_dict(plot) if "points" in plot else Dots.from_dict(plot) for plot in found["plots"]
    ]
    return publish_data(found, figures, out)


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

    `tables` are names or files, by default all tables that come with fedhpo. Replays are kept in `runs`, if
    it is given: called again, it goes on there.
    """
    from fedhpo_papers.noisy_eval.advice import advice
    from fedhpo_papers.noisy_eval.page import write
    from fedhpo_papers.noisy_eval.replays import Replays
    from fedhpo_papers.noisy_eval.rules import with_jackknife
    from fedhpo_papers.noisy_eval.search import Bench

    check_asked(scale, SCALES, only, PARTS)
    begun, size, asked = time.monotonic(), SCALES[scale], only or PARTS
    loaded = _loaded(tables)
    store = None if runs is None else Path(runs) / "replays.jsonl"
    replays = Replays({table.name: path for path, table in loaded}, workers, store)
    bench = Bench({table.name: table for _, table in loaded}, size.bootstraps)
    same_task = _same_task(bench.tables.values())

    def told(what: str) -> None:
        say(f"{what}: {time.monotonic() - begun:.0f} s")

    figures = figures_of(bench, replays, asked, size.seeds, told)
    claims, variant = _claims(figures, same_task)
    knives = bench.knives(size.parts)
    parts = []
    for number in range(size.parts):
        part = bench.part(number, knives, size.part_bootstraps)
        needed = [name for name in asked if name in _JUDGED]
        parts.append(_claims(figures_of(part, replays, needed, size.part_seeds, part=number), same_task))
        if (number + 1) % 10 == 0:
            told(f"{number + 1} parts")
    claims = with_jackknife(claims, [one for one, _ in parts], knives)
    variant = with_jackknife(variant, [one for _, one in parts], knives)
    advised = advice(bench) if "advise" in asked else []
    found = {
        "scale": scale,
        **asdict(size),
        "seconds": round(time.monotonic() - begun, 1),
        "tables": [table.facts() for table in bench.tables.values()],
    }
    ordered = sorted(figures.values(), key=lambda figure: figure.place)
    verdicts = [[claim.verdict for claim in some] for some in (claims, variant)]
    return write(found, ordered, advised, verdicts[0], verdicts[1], None if out is None else Path(out))


def figures_of(
    bench: Bench,
    replays: Replays,
    asked: Sequence[str],
    seeds: int,
    told: Callable[[str], None] = lambda what: None,
    part: int | None = None,
) -> dict[str, Curves | Dots]:
    """The figures of these parts of the paper, by number; on parts of tables where `part` says which."""
    from fedhpo_papers.noisy_eval.methods import as_in_the_code, methods, remedies, replay_jobs
    from fedhpo_papers.noisy_eval.proxy import proxy
    from fedhpo_papers.noisy_eval.rotation import rotation
    from fedhpo_papers.noisy_eval.subsampling import heterogeneity, privacy, spaces, subsampling

    def by_methods() -> list[Curves]:
        jobs = replay_jobs(bench, seeds, part)
        runs = iter(replays.of([job for own in jobs.values() for job in own]))
        replayed = {cell: [next(runs) for _ in own] for cell, own in jobs.items()}
        return [*methods(bench, replayed), *as_in_the_code(bench)]

    made: dict[str, Callable[[], Sequence[Curves | Dots]]] = {
        "subsampling": lambda: subsampling(bench),
        "heterogeneity": lambda: heterogeneity(bench),
        "privacy": lambda: privacy(bench),
        "methods": by_methods,
        "proxy": lambda: proxy(bench),
        "spaces": lambda: spaces(bench),
        "remedies": lambda: remedies(bench, replays.of, seeds),
        "rotation": lambda: rotation(bench, replays.of, seeds),
    }
    figures: dict[str, Curves | Dots] = {}
    for name, make in made.items():
        if name in asked:
            figures |= {figure.number: figure for figure in make()}
            told(name)
    return figures


def _claims(
    figures: dict[str, Curves | Dots], same_task: list[tuple[str, str]]
) -> tuple[list[Claim], list[Claim]]:
    """The paper's observations, and the sixth by the rules of the authors' code."""
    from fedhpo_papers.noisy_eval.claims import claims_of
    from fedhpo_papers.noisy_eval.method_claims import code_claims

    variant = code_claims(figures) if "authors' code, third" in figures else []
    return claims_of(figures, same_task), variant


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
