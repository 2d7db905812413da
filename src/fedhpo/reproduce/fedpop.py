"""Chen et al. (2025), FedPop: federated population-based hyperparameter tuning, AAAI 2025.

Tables 1 to 4, the protocol of Figure 5 (the test score of each round's clients, with centralised training
as the reference) and FedPop with other server optimisers. Every cell is a run of its own, so that the whole
can be stopped and resumed anywhere; seeds are paired: the same first configs, models and cohorts for all
methods.

What the paper leaves out or does otherwise: the best trial is selected by a fresh validation score (the
paper takes the best test accuracy); trial 0 is the middle of the space, for all methods; PACS stands for
the three cross-silo sets, CIFAR-10 at 100 clients (Dirichlet 1.0) for ImageNet-1k in Figure 5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedhpo.errors import InputError, unknown_name
from fedhpo.methods import SHA, FedEx, FedPop, Method, RandomSearch
from fedhpo.reproduce._fedpop_sets import OPTIMISERS, SEEDS, SETS, Setting
from fedhpo.run import open_read

if TYPE_CHECKING:
    from fedhpo.federation.protocol import Federation

SCALES = SETS
PARTS = ("table2", "table3", "table4", "figure5", "optimisers")
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
        if "optimisers" in parts:
            found += [
                Cell("optimisers", "femnist-niid", "rs", t, seed, o)
                for o in OPTIMISERS
                for t in ("none", "fedpop")
            ]
    # One set after the other: each federation is built once.
    return sorted(found, key=lambda cell: (list(SETS["paper"]).index(cell.set), cell.optimiser))


def method(cell: Cell, setting: Setting) -> Method:
    """The method of a cell, within the set's budget."""
    many, few = setting.trials, setting.population
    if cell.tuning in ("none", "central"):
        return SHA(trials=many) if cell.wrapper == "sha" else RandomSearch(trials=few)
    if cell.tuning == "fedex":
        if cell.wrapper == "sha":
            return FedEx(schedule="halving", trials=many)
        return FedEx(schedule="fixed", trials=few)
    if cell.wrapper == "sha":
        return FedPop(population=many, schedule="halving")
    return FedPop(population=few, local=cell.tuning != "fedpop-g", exchange=cell.tuning != "fedpop-l")


class Federations:
    """The federation of a set, made when it is first asked for; one at a time."""

    def __init__(self, sets: Mapping[str, Setting], workers: int | None) -> None:
        self._sets, self._workers = sets, workers
        self._key: tuple[str, str, bool] | None = None
        self._made: Federation | None = None

    def of(self, cell: Cell) -> Federation:
        """The federation that the cell trains in."""
        from fedhpo import simulate
        from fedhpo.reproduce._fedpop_curves import pooled

        setting, central = self._sets[cell.set], cell.tuning == "central"
        key = cell.set, cell.optimiser, central
        if self._made is None or key != self._key:
            self.close()
            data = pooled(setting.load()) if central else setting.load()
            self._made = simulate(setting.model, data, server=cell.optimiser, workers=self._workers)
            self._key = key
        return self._made

    def close(self) -> None:
        """End its worker processes."""
        if self._made is not None:
            self._made.close()
            self._made = None


@contextmanager
def _federations(sets: Mapping[str, Setting], workers: int | None) -> Iterator[Federations]:
    made = Federations(sets, workers)
    try:
        yield made
    finally:
        made.close()


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
    from fedhpo.reproduce._fedpop_page import write

    if scale not in SCALES:
        raise unknown_name("scale", scale, SCALES)
    for part in only:
        if part not in PARTS:
            raise unknown_name("part", part, PARTS)
    sets, folder = SETS[scale], Path(runs) / scale
    todo = cells([part for part in PARTS if part in (only or PARTS)], SEEDS[scale])
    rows = []
    with _federations(sets, workers) as federations:
        for done, cell in enumerate(todo):
            facts = _finished(folder / cell.name) or _tune(cell, sets[cell.set], folder, federations)
            rows.append(measured(cell, facts, folder))
            say(f"{done + 1} of {len(todo)}: {cell.name}: test accuracy {rows[-1]['accuracy']:.2f}%")
    found = {
        "scale": scale,
        "seeds": SEEDS[scale],
        "sets": {name: sets[name].words for name in dict.fromkeys(cell.set for cell in todo)},
        "rows": rows,
    }
    return write(found, None if out is None else Path(out))


def _finished(path: Path) -> dict[str, Any] | None:
    """The result of a cell that is done."""
    try:
        with open_read(path) as found:
            return found.result()
    except InputError:
        return None


def _tune(cell: Cell, setting: Setting, folder: Path, federations: Federations) -> Mapping[str, Any] | None:
    """Tune, and go on where it was stopped; None if no trial could be trained."""
    from fedhpo.evaluation import Evaluator
    from fedhpo.reproduce._fedpop_curves import watched
    from fedhpo.search import TuningError
    from fedhpo.tuning import tune

    federation, central = federations.of(cell), cell.tuning == "central"
    rounds = setting.passes if central else setting.rounds
    folder.mkdir(parents=True, exist_ok=True)
    with watched(federation, folder / f"{cell.name}.curve.jsonl", cell.part == "figure5"):
        try:
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
        except TuningError:
            return None


def measured(cell: Cell, facts: Mapping[str, Any] | None, folder: Path) -> dict[str, Any]:
    """A row for the tables, accuracy in percent; where no trial could be trained it is 0."""
    from fedhpo.reproduce._fedpop_curves import curve

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
