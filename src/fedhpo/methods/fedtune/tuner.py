"""The tuner that fills the cells: Bayesian optimisation in each, all cells side by side (FedTune, 4.2).

Samplers keep no state, so that what was tried, from the journal, is all that it takes to go on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fedhpo.core.errors import unknown_name
from fedhpo.core.journal import Journal
from fedhpo.core.settings import check_settings, whole_number
from fedhpo.methods.fedtune.cells import Cells
from fedhpo.protocol.objective import Objective
from fedhpo.protocol.sampler import Sampler
from fedhpo.samplers import GP, Asker, Grid, Random
from fedhpo.space import Space
from fedhpo.space.config import Config

SAMPLERS = ("gp", "random", "grid")

#: From (cell, config) pairs to scores and their standard errors, in their order. A score is NaN where
#: training diverged, an error where it is not known.
Scorer = Callable[[Sequence[tuple[int, Config]]], Sequence[tuple[float, float]]]


@dataclass(frozen=True)
class CellTuner:
    """How one cell is tuned.

    `sampler` is "gp" (Gaussian process with expected improvement), "random" or "grid" (`points` values of
    each continuous hyperparameter). A cell stops after `patience` steps without improvement (None: never),
    and after `steps` at most. With `warm_start` every second cell, as on a chessboard, waits for its
    neighbours and tries their best configs first. Each cell tries `side_by_side` configs at a time. Scores
    are noisy: with "gp" a cell's best config is the one with the best posterior mean, not the one with the
    luckiest score.
    """

    sampler: str = "gp"
    steps: int = 30
    patience: int | None = 5
    points: int = 5
    warm_start: bool = False
    side_by_side: int = 1

    def __post_init__(self) -> None:
        check_settings(self)
        if self.sampler not in SAMPLERS:
            raise unknown_name("sampler", self.sampler, SAMPLERS)
        for name in ("steps", "points", "side_by_side"):
            whole_number(name, getattr(self, name))
        if self.patience is not None:
            whole_number("patience", self.patience)

    def made(self) -> Sampler:
        """The sampler."""
        made: dict[str, Sampler] = {"gp": GP(), "random": Random(), "grid": Grid(self.points)}
        return made[self.sampler]

    def stops(self, ranks: Sequence[float]) -> bool:
        """Whether a cell that scored so (less is better) is done.

        >>> CellTuner(patience=2).stops([3.0, 2.0, 2.5]), CellTuner(patience=2).stops([3.0, 2.0, 2.5, 2.0])
        (False, True)
        """
        if len(ranks) >= self.steps:
            return True
        if self.patience is None or len(ranks) <= self.patience:
            return False
        return min(ranks[: -self.patience]) <= min(ranks[-self.patience :])


@dataclass(eq=False)
class CellSearch:
    """What was tried in a cell; `chosen` is the place of the config that a model finds best, if one did."""

    cell: int
    configs: list[Config] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    errors: list[float] = field(default_factory=list)
    chosen: int | None = None

    def add(self, config: Config, score: float, error: float = math.nan) -> None:
        """A config was tried."""
        self.configs.append(config)
        self.scores.append(score)
        self.errors.append(error)

    def ranks(self, objective: Objective) -> list[float]:
        """The scores as numbers of which less is better; infinite where training diverged."""
        sign = -1.0 if objective.maximise else 1.0
        return [math.inf if math.isnan(score) else sign * score for score in self.scores]

    def best(self, objective: Objective) -> tuple[Config, float] | None:
        """The best config and its score: the chosen one, or the first with the best score.

        None if all diverged.
        """
        if self.chosen is not None:
            return self.configs[self.chosen], self.scores[self.chosen]
        ranks = self.ranks(objective)
        place = min(range(len(ranks)), key=ranks.__getitem__, default=None)
        if place is None or math.isinf(ranks[place]):
            return None
        return self.configs[place], self.scores[place]


def tune_cells(
    scorer: Scorer,
    cells: Cells,
    space: Space,
    tuner: CellTuner | None = None,
    *,
    objective: Objective | None = None,
    seed: int = 0,
    journal: Journal | None = None,
    pools: Sequence[Sequence[Config]] | None = None,
    first: Sequence[Config] = (),
    known: Sequence[tuple[Config, float, float]] = (),
    after_step: Callable[[], Any] = lambda: None,
) -> list[CellSearch]:
    """Search each cell; all that are still searched take a step together.

    `first` are configs that every cell tries before anything else. `known` are configs that were tried
    before, with score and standard error: they count as steps. With `pools`, one list of configs for each
    cell, only those are tried. `after_step` is called when the steps of all cells are in the journal.
    """
    tuner, objective = tuner or CellTuner(), objective or Objective()
    journal = Journal(None, {}) if journal is None else journal
    searches = [CellSearch(cell) for cell in range(len(cells))]
    askers = [
        Asker(
            space,
            tuner.made(),
            seed=seed,
            pool=None if pools is None else pools[cell],
            maximise=objective.maximise,
            purpose=("ask", cell),
        )
        for cell in range(len(cells))
    ]
    for config, score, error in known:
        for asker, search in zip(askers, searches, strict=True):
            asker.add(config, score, standard_error=error)
            search.add(config, score, error)
    for line in journal:
        config, score, error = Config.from_dict(line["config"]), _read(line["score"]), _read(line["error"])
        askers[line["cell"]].add(config, score, standard_error=error)
        searches[line["cell"]].add(config, score, error)
    for wave in (0, 1) if tuner.warm_start else (None,):
        live = [s for s in searches if wave is None or cells.colour(s.cell) == wave]
        while live := [s for s in live if not tuner.stops(s.ranks(objective))]:
            asked = []
            for search in live:
                beside = _best_beside(search, searches, cells, objective) if wave else []
                for _ in range(min(tuner.side_by_side, tuner.steps - len(search.configs))):
                    suggested = askers[search.cell].ask(prefer=[*first, *beside])
                    if suggested is not None:
                        asked.append((search, suggested))
            if not asked:
                break
            found = scorer([(search.cell, config) for search, config in asked])
            lines = []
            for (search, config), (score, error) in zip(asked, found, strict=True):
                askers[search.cell].tell(config, float(score), standard_error=float(error))
                search.add(config, float(score), float(error))
                kept = {"score": _kept(score), "error": _kept(error)}
                lines.append({"cell": search.cell, "config": config.to_dict(), **kept})
            journal.add(lines)
            after_step()
            live = list({search.cell: search for search, _ in asked}.values())
        for search in searches if wave is None else [s for s in searches if cells.colour(s.cell) == wave]:
            search.chosen = askers[search.cell].recommended()
    return searches


def _kept(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def _read(value: float | None) -> float:
    return math.nan if value is None else value


def _best_beside(
    search: CellSearch, searches: Sequence[CellSearch], cells: Cells, objective: Objective
) -> list[Config]:
    """The best configs of the neighbouring cells, each once."""
    found = (searches[cell].best(objective) for cell in cells.neighbours(search.cell))
    return list(dict.fromkeys(best[0] for best in found if best is not None))


def counted(searches: Sequence[CellSearch]) -> Mapping[str, Any]:
    """Steps in all and in each cell."""
    steps = [len(search.configs) for search in searches]
    return {"steps": sum(steps), "steps_by_cell": steps}
