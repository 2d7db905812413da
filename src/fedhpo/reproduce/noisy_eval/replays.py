"""Whole methods on tables, many replays side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fedhpo.protocol.method import Method
from fedhpo.protocol.objective import Objective
from fedhpo.reproduce.noisy_eval.search import CONFIGS
from fedhpo.research.compare.comparison import Incumbents
from fedhpo.research.tables import CurveTable, load_table
from fedhpo.research.tables.replay import replay
from fedhpo.search.evaluator import Evaluator
from fedhpo.workers.processes import map_in_processes
from fedhpo.workers.spawn import cores


@dataclass(frozen=True)
class Job:
    """One replay. The score is the error with every client counting the same, as privacy needs it."""

    table: str
    method: Method
    evaluator: Evaluator
    seed: int


def replays(jobs: Sequence[Job], workers: int | None = None) -> list[Incumbents]:
    """The incumbents of each job, in their order."""
    workers = cores() if workers is None else workers
    if workers < 2:
        return [_one(job) for job in jobs]
    return map_in_processes(_one, jobs, workers)


_LOADED: dict[str, CurveTable] = {}


def _one(job: Job) -> Incumbents:
    """One replay, in whatever process."""
    if job.table not in _LOADED:
        _LOADED[job.table] = load_table(job.table)
    table = _LOADED[job.table]
    return replay(
        table,
        job.method,
        total=CONFIGS * int(table.rounds[-1]),
        seed=job.seed,
        objective=Objective("error", weighting="uniform"),
        evaluation=job.evaluator,
    ).incumbents
