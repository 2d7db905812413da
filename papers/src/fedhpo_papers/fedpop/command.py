"""Chen et al. (2025), FedPop: federated population-based hyperparameter tuning, AAAI 2025.

The default scale has small models and many seeds, "deep" a CNN and an LSTM and fewer of both: see
`fedhpo_papers.fedpop.many`. The others, "cnn" with a few seeds, "paper" and "smoke", are the paper's own
tables:

Tables 1 to 4, the protocol of Figure 5 (the test score of each round's clients, with centralised training
as the reference) and FedPop with other server optimisers; beyond the paper, one set with few rows at each
client, and FedPop judged by fresh evaluations. Every cell is a run in a directory of its own, so that a long
one can be stopped in its middle; seeds are paired: the same first configs, models and cohorts for all
methods.

What the paper leaves out or does otherwise: the best trial is selected by a fresh validation score (the
paper takes the best test accuracy); trial 0 is the middle of the space, for all methods; PACS stands for
the three cross-silo sets, CIFAR-10 at 100 clients (Dirichlet 1.0) for ImageNet-1k in Figure 5.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from fedhpo.methods import SHA, FedEx, FedPop, RandomSearch
from fedhpo.protocol.method import Method
from fedhpo.research.statistics import Plan
from fedhpo_papers.fedpop.sets import FULL, JUDGED, OPTIMISERS, SEEDS, SETS, Setting
from fedhpo_papers.shared.planned import Key, Planned, Row, planned_pages, run_planned
from fedhpo_papers.shared.runs import OneAtATime, check_asked, facts_of, kept

if TYPE_CHECKING:
    from fedhpo.protocol.federation import Federation

SCALES = ("default", "deep", *SETS)
#: Those that have a plan.
PLANNED = SCALES[:2]
PARTS = ("table2", "table3", "table4", "figure5", "optimisers", "judged")
BENCHMARKS = tuple(name for name in SETS["paper"] if name not in ("pacs", "figure5"))


@dataclass(frozen=True)
class Cell:
    """One run: a method on a set, with a seed; table 1 counts the vectors that table 2's runs tried."""

    part: str
    set: str
    wrapper: str
    tuning: str
    seed: int
    optimiser: str = "fedavgm"

    @property
    def key(self) -> Key:
        """The cell in a journal."""
        part, set, wrapper, tuning, seed, optimiser = astuple(self)
        return seed, part, set, wrapper, tuning, optimiser

    @classmethod
    def of(cls, row: Row) -> Cell:
        """The cell of a row."""
        return cls(**{name: row[name] for name in cls.__dataclass_fields__})

    @property
    def name(self) -> str:
        """The run's directory; parts that need the same run share it.

        >>> Cell("table4", "cifar-iid", "rs", "fedpop-g", 0).name
        'cifar-iid-rs-fedpop-g-fedavgm-seed0'
        """
        return f"{self.set}-{self.wrapper}-{self.tuning}-{self.optimiser}-seed{self.seed}"


def cells(parts: Sequence[str], seeds: int) -> list[Cell]:
    """All runs of these parts."""
    found: list[Cell] = []
    both, tunings = ("rs", "sha"), ("none", "fedex", "fedpop")
    for seed in range(seeds):
        if "table2" in parts:
            found += [Cell("table2", s, w, t, seed) for s in BENCHMARKS for w in both for t in tunings]
        if "table3" in parts:
            found += [Cell("table3", "pacs", "sha", t, seed) for t in tunings]
        if "table4" in parts:
            halves = ("none", "fedpop-g", "fedpop-l", "fedpop")
            found += [Cell("table4", s, "rs", t, seed) for s in BENCHMARKS[:3] for t in halves]
        if "figure5" in parts:
            found += [Cell("figure5", "figure5", "rs", t, seed) for t in tunings]
            found.append(Cell("figure5", "figure5", "rs", "central", seed))
        if "judged" in parts:
            judges = ("none", "fedpop", "fedpop-judged")
            found += [Cell("judged", s, w, t, seed) for s in JUDGED for w in both for t in judges]
    if "optimisers" in parts:  # FedAvgM's are those of table 2; for the others 3 seeds had decided nothing
        found += [
            Cell("optimisers", s, "rs", t, seed, o)
            for o in OPTIMISERS
            for seed in range(seeds if o == "fedavgm" else 2 * seeds)
            for s in (FULL, "femnist-niid")
            for t in ("none", "fedpop")
        ]
    # One set after the other: each federation is built once.
    return sorted(found, key=lambda cell: (list(SETS["cnn"]).index(cell.set), cell.optimiser))


def method(cell: Cell, setting: Setting) -> Method:
    """The method of a cell, within the set's budget."""
    many, few = setting.trials, setting.population
    if cell.tuning in ("none", "central"):
        return SHA(trials=many, finalists=1) if cell.wrapper == "sha" else RandomSearch(trials=few)
    if cell.tuning == "fedex":
        if cell.wrapper == "sha":
            return FedEx(schedule="halving", trials=many)
        return FedEx(schedule="fixed", trials=few)
    judge: Literal["losses", "evaluation"] = "evaluation" if cell.tuning == "fedpop-judged" else "losses"
    if cell.wrapper == "sha":
        return FedPop(population=many, schedule="halving", judge=judge)
    local, exchange = cell.tuning != "fedpop-g", cell.tuning != "fedpop-l"
    return FedPop(population=few, local=local, exchange=exchange, judge=judge)


Place = tuple[str, str, bool]  # set, server optimiser, and whether all data is in one place


def place(cell: Cell) -> Place:
    """Where the cell trains; cells of the same place share a federation."""
    return cell.set, cell.optimiser, cell.tuning == "central"


def federation(sets: Mapping[str, Setting], where: Place, workers: int | None) -> Federation:
    """The federation of a place."""
    from fedhpo.federations.simulate import simulate
    from fedhpo_papers.fedpop.curves import pooled

    name, optimiser, central = where
    setting = sets[name]
    data = pooled(setting.load()) if central else setting.load()
    return simulate(setting.model, data, server=optimiser, workers=workers)


def page(scale: str, out: Path) -> dict[str, Any]:
    """Judge what is kept in `out` again, and write page and figures anew; nothing is run."""
    from fedhpo_papers.fedpop.page import write

    found = kept("fedpop", scale, SCALES, out)
    return _publish(scale, found["rows"], out) if scale in PLANNED else write(found, out)


def run(
    scale: str = "default",
    *,
    only: Sequence[str] = (),
    runs: str | Path = "runs/fedpop",
    out: str | Path | None = None,
    workers: int | None = None,
    say: Callable[[str], None] = print,
) -> dict[str, Any]:
    """Run what has not been run, judge the claims, and write page and figures into `out`."""
    from fedhpo_papers.fedpop.page import write

    check_asked(scale, SCALES, only, PARTS)
    if scale in PLANNED:
        return _many(scale, Path(runs), out, only, say)
    sets, folder = SETS[scale], Path(runs) / scale
    asked = cells([part for part in PARTS if part in (only or PARTS)], SEEDS[scale])
    todo = {cell.key: cell for cell in asked if cell.set in sets}
    about = {"seeds": SEEDS[scale], "settings": {name: asdict(setting) for name, setting in sets.items()}}

    def run_cells(path: Path, earlier: Sequence[Row]) -> Sequence[Row]:
        with OneAtATime[Place](lambda where: federation(sets, where, workers)) as federations:

            def run(key: Key) -> Row:
                cell = todo[key]
                facts = facts_of(
                    folder / cell.name,
                    lambda: _tune(cell, sets[cell.set], folder, federations[place(cell)]),
                )
                return measured(cell, facts, folder)

            return run_planned(list(todo), about, path, run, say, earlier, lambda row: Cell.of(row).key)

    def write_rows(rows: Sequence[Row]) -> dict[str, Any]:
        words = {name: sets[name].words for name in dict.fromkeys(row["set"] for row in rows)}
        found = {"scale": scale, **about, "sets": words, "rows": list(rows)}
        return write(found, None if out is None else Path(out))

    what = Planned("fedpop", about, run_cells, write_rows, scale, parts=True)
    return planned_pages(what, Path(runs), out, only, say)


def _many(
    scale: str, runs: Path, out: str | Path | None, only: Sequence[str], say: Callable[[str], None]
) -> dict[str, Any]:
    """Small models and many seeds."""
    from fedhpo_papers.fedpop import many

    sets = many.SCALES[scale].sets
    plan = Plan.load(many.SCALES[scale].plan)
    planned = Planned(
        "fedpop",
        many.about(plan, sets),
        lambda path, earlier: many.run_all(plan, sets, path, say, earlier=earlier),
        lambda rows: _publish(scale, rows, out),
        scale,
    )
    return planned_pages(planned, runs, out, only, say)


def _publish(scale: str, rows: Sequence[Mapping[str, Any]], out: str | Path | None) -> dict[str, Any]:
    from fedhpo_papers.fedpop import many
    from fedhpo_papers.fedpop.many_page import differences, facts, page
    from fedhpo_papers.shared.pages import publish

    sets, done = many.SCALES[scale].sets, [many.Done(**row) for row in rows]
    plan = Plan.load(many.SCALES[scale].plan)
    found = {"scale": scale, **facts(plan, sets, done)}
    return publish("fedpop", found, page(scale, plan, sets, done), out, None, differences(plan, done))


def _tune(cell: Cell, setting: Setting, folder: Path, federation: Federation) -> Mapping[str, Any]:
    """Tune, and go on where it was stopped."""
    from fedhpo.search.evaluator import Evaluator
    from fedhpo.tuning.tune import tune
    from fedhpo_papers.fedpop.curves import watched

    central = cell.tuning == "central"
    rounds = setting.passes if central else setting.rounds
    folder.mkdir(parents=True, exist_ok=True)
    with watched(federation, folder / f"{cell.name}.curve.jsonl", cell.part == "figure5"):
        return tune(
            federation,
            setting.space(cell.optimiser),
            method(cell, setting),
            rounds=rounds,
            total=rounds * setting.population if central else setting.total,
            cohort=1 if central else setting.cohort,
            seed=cell.seed,
            run=folder / cell.name,
            evaluation=Evaluator(personalised=not central),
        ).facts


def measured(cell: Cell, facts: Mapping[str, Any] | None, folder: Path) -> dict[str, Any]:
    """A row for the tables, accuracy in percent; where no trial could be trained it is 0."""
    from fedhpo_papers.fedpop.curves import curve

    row: dict[str, Any] = {name: getattr(cell, name) for name in ("part", "set", "wrapper", "tuning", "seed")}
    row |= {"optimiser": cell.optimiser, "failed": facts is None, "fine_tuned": 0.0, "accuracy": 0.0}
    if facts is None:
        return row | {"server": 0, "client": 0, "copies": 0, "curve": None, "rounds": 0}
    personal = facts["personal"]
    return row | {
        "accuracy": 100 * float(facts["best"]["test"]["accuracy"]),
        "fine_tuned": 100 * float(personal["fine_tuned"]["accuracy"]["mean"]) if personal else 0.0,
        **facts["tried"],
        "copies": sum(max(0, len(trial["path"]) - 1) for trial in facts["trials"]),
        "curve": curve(folder, cell.name) if cell.part == "figure5" else None,
        #: A centralised round sees as many rows as several rounds of clients.
        "rounds": facts["best"]["rounds"],
    }
