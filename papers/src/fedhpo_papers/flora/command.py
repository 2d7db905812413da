"""Zhou et al. (2023), FLoRA: single-shot general hyper-parameter optimization for federated learning.

Tables 3, 4 and 7 to 15, and the communication savings of Figures 2 and 5 to 7. The parties' searches, and one
with all rows in one place, are kept config by config, so that the whole can be stopped and resumed anywhere;
all tables and surfaces share them. As in the paper there is one deal of the rows, and federated training is
that on pooled rows, except in Table 15.

What the paper leaves open: parties search with TPE as `LocalSearch` does, but do not try the default config;
folds are shuffled; a config that cannot be trained has a loss of 1; Table 15's parties search with XGBoost,
which is what is trained there, and score by cross-validation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedhpo.methods.flora.surfaces import SURFACES
from fedhpo.workers.spawn import cores
from fedhpo_papers.flora.data import Digits, Problem, Table, Trees
from fedhpo_papers.flora.figures import improvements
from fedhpo_papers.flora.paper import FEW, MAIN, SENT, TRIED
from fedhpo_papers.flora.settings import LEARNERS, SCALES, Scale
from fedhpo_papers.flora.work import (
    CENTRAL,
    Default,
    Recommend,
    Search,
    do_all,
    read_json,
    trainings_to_match,
)
from fedhpo_papers.shared.runs import check_asked, kept

PARTS = (
    "table3",
    "table4",
    "table7",
    "table8",
    "table9",
    "table10",
    "table11",
    "table12",
    "table13",
    "table14",
    "table15",
    "savings",
)
#: What shows results of other tables.
_SAME = {
    "table3": ("table7", "table8", "table9"),
    "table10": ("table7", "table8", "table9"),
    "savings": ("table7", "table8", "table9"),
    "table4": ("table11",),
}
_TABLES = dict(zip(("table7", "table8", "table9"), LEARNERS, strict=True))


def page(scale: str, out: Path) -> dict[str, Any]:
    """Judge what is kept in `out` again, and write page and figures anew; nothing is run."""
    from fedhpo_papers.flora.page import write

    found = kept("flora", scale, SCALES, out)
    return write({**found, "rows": [_restored(row) for row in found["rows"]]}, SCALES[scale], out)


def _restored(row: dict[str, Any]) -> dict[str, Any]:
    """A row with the numbers that JSON has no word for.

    Where the default config was beaten, trainings that are not known are more than the search had; else there
    was nothing to match.
    """

    def trainings(name: str, value: float | None) -> float:
        if value is not None:
            return value
        return math.inf if row["accuracies"][name] > row["defaults"][0] else math.nan

    restored = dict(row)
    if "regrets" in row:
        restored["regrets"] = {k: math.nan if value is None else value for k, value in row["regrets"].items()}
    if "savings" in row:
        restored["savings"] = {name: trainings(name, value) for name, value in row["savings"].items()}
    return restored


def run(
    scale: str = "default",
    *,
    only: Sequence[str] = (),
    runs: str | Path = "runs/flora",
    out: str | Path | None = None,
    workers: int | None = None,
    say: Callable[[str], None] = print,
) -> dict[str, Any]:
    """Run what has not been run, judge the claims, and write page and figures into `out`."""
    from fedhpo_papers.flora.page import write

    check_asked(scale, SCALES, only, PARTS)
    size, folder = SCALES[scale], Path(runs) / scale
    parts = {same for part in only or PARTS for same in _SAME.get(part, (part,))}
    recommended = [(part, task) for part in PARTS if part in parts for task in recommendations(part, size)]
    workers = cores() if workers is None else max(1, workers)
    searches = [search for _, task in recommended for search in searches_of(task, size)]
    defaults = [default for _, task in recommended for default in defaults_of(task.problem)]
    # The longest first: those with all rows in one place.
    do_all([*sorted(searches, key=lambda search: search.party != CENTRAL), *defaults], folder, workers, say)
    do_all([task for _, task in recommended], folder, workers, say)
    found = {"scale": scale, "rows": [row(part, task, size, folder) for part, task in recommended]}
    return write(found, size, None if out is None else Path(out))


def recommendations(part: str, scale: Scale) -> list[Recommend]:
    """What surfaces must recommend for a table."""
    if part in _TABLES:
        learner = _TABLES[part]
        return [
            Recommend(table(name, learner, scale), scale.tries)
            for name in scale.sets
            if name in MAIN[learner]
        ]
    if part == "table11":
        return [
            Recommend(table(name, "hgb", scale, parties), scale.tries if parties == 3 else scale.many_tries)
            for name, numbers in scale.parties.items()
            for parties in numbers
        ]
    if part in ("table12", "table13"):
        cases = TRIED if part == "table12" else SENT
        problems = [table(name, learner, scale) for learner, name in cases if name in scale.sets]
        few = [number for number in FEW if number < scale.tries]
        if part == "table12":
            return [Recommend(problem, number) for problem in problems for number in few]
        return [Recommend(problem, scale.tries, number) for problem in problems for number in few]
    if part == "table14":
        return [
            Recommend(
                Digits(imbalance, learner, scale.images, scale.side),
                scale.slow_image_tries if learner == "hgb" else scale.image_tries,
            )
            for learner, imbalance in scale.imbalances
        ]
    return [Recommend(Trees(name, scale.tree_folds), scale.tree_tries) for name in scale.trees]


def table(name: str, learner: str, scale: Scale, parties: int = 3) -> Table:
    """A set dealt to parties; more than three have their own number of folds."""
    folds = scale.folds if parties == 3 else scale.many_folds
    return Table(name, learner, parties, scale.limit(learner, name), folds, scale.folds)


def searches_of(task: Recommend, scale: Scale) -> list[Search]:
    """What must have been searched before: at every party, and with all rows in one place."""
    problem = task.problem
    found = [Search(problem, party, task.tries) for party in range(problem.members)]
    evaluations = central_evaluations(problem, scale)
    return [*found, *([Search(problem, CENTRAL, evaluations)] if evaluations else [])]


def central_evaluations(problem: Problem, scale: Scale) -> int:
    """How many configs the centralised search tries; none where federated training is real."""
    if isinstance(problem, Trees):
        return 0
    if isinstance(problem, Digits):
        return scale.slow_image_evaluations if problem.learner == "hgb" else scale.image_evaluations
    return scale.fewer_evaluations.get(problem.set, scale.evaluations)


def defaults_of(problem: Problem) -> tuple[Default, Default]:
    """The default config on the problem's rows, and on all rows of the set, as the paper has it."""
    if not isinstance(problem, Table):
        return Default(problem, (0,)), Default(problem, (0,))  # the split is given: one score is all
    return Default(problem), Default(replace(problem, rows=None))


def row(part: str, task: Recommend, scale: Scale, folder: Path) -> dict[str, Any]:
    """A row for the tables: accuracies (of 1), regrets and savings by surface."""
    problem, found = task.problem, read_json(task.file(folder))
    defaults, baseline = (
        [1 - loss for loss in read_json(default.file(folder))["losses"]] for default in defaults_of(problem)
    )
    accuracies = {name: 1 - found["surfaces"][name]["loss"] for name in SURFACES}
    facts: dict[str, Any] = {
        "part": part,
        "set": problem.set,
        "learner": problem.learner,
        "parties": problem.members,
        "tries": task.tries,
        "sent": task.sent,
        "defaults": defaults,
        "baseline": baseline,
        "pmin": found["pmin"],
        "pmax": found["pmax"],
        "gamma": found["pmax"] / found["pmin"] if found["pmin"] > 0 else math.nan,
        "accuracies": accuracies,
        "predicted": {name: 1 - found["surfaces"][name]["predicted"] for name in SURFACES},
        "configs": {name: found["surfaces"][name]["config"] for name in SURFACES},
        "recommended": found.get("recommended"),
        "best": None,
    }
    evaluations = central_evaluations(problem, scale)
    if evaluations:
        losses = Search(problem, CENTRAL, evaluations).pairs(folder).losses
        best = 1 - min(losses)
        regrets = {name: regret(best, defaults[0], accuracies[name]) for name in SURFACES}
        facts |= {
            "best": best,
            "regrets": regrets,
            # As in the paper, where the default is not beaten there is nothing to save.
            "savings": {
                name: trainings_to_match(losses, 1 - accuracies[name])
                if accuracies[name] > defaults[0]
                else math.nan
                for name in SURFACES
            },
            "evaluations": evaluations,
            "curve": improvements(losses),
        }
    return facts


def regret(best: float, default: float, accuracy: float) -> float:
    """The paper's relative regret: 0 is as good as the best known, 1 as the default; NaN without a gap.

    >>> regret(0.9, 0.8, 0.875), regret(0.8, 0.8, 0.7)
    (0.25, nan)
    """
    return round((best - accuracy) / (best - default), 12) if best > default else math.nan
