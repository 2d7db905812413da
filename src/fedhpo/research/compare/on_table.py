"""Methods compared on a table: every run is a replay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedhpo.core.errors import InputError
from fedhpo.research.compare.comparison import Comparison
from fedhpo.research.compare.methods import method_named, with_method
from fedhpo.research.incumbents import Incumbents
from fedhpo.research.tables import CurveTable, Surrogate, cross_validate, load_table
from fedhpo.research.tables.replay import replay
from fedhpo.study import Study
from fedhpo.workers.processes import map_in_processes
from fedhpo.workers.spawn import cores

#: Fewer replays than these are done before another process has started.
_WORTH_PROCESSES = 24


def compare_on_table(
    table: str | Path,
    methods: Sequence[str],
    seeds: Sequence[int],
    *,
    study: Study | None = None,
    heterogeneity: float = 0.0,
    surrogate: bool = False,
    workers: int | None = None,
) -> Comparison:
    """Compare methods on a table, by name or file.

    `study` says how scores are observed, the objective, the total and methods' settings; the table's own
    study does so if it is left out. Its space must be the table's. With `surrogate` methods may try any
    config of the space, not only the table's.
    """
    found = load_table(table)
    asked = study or found.study
    if asked.space != found.space:
        raise InputError(f"space: must be that of table {found.name} to be compared on it")
    length = asked.file.budget.rounds
    if length != found.rounds[-1]:
        raise InputError(
            f"budget.rounds = {length}: must be {found.rounds[-1]}, the length of table {found.name}"
        )
    found.level(heterogeneity)
    for name in methods:
        method_named(asked, name)  # a mistake is told before anything runs
    jobs = [
        (str(table), asked.given, name, seed, heterogeneity, surrogate) for name in methods for seed in seeds
    ]
    workers = cores() if workers is None else workers
    if workers > 1 and len(jobs) >= _WORTH_PROCESSES:
        outcomes = map_in_processes(_one, jobs, workers)
    else:
        outcomes = [_one(job) for job in jobs]
    count = len(seeds)
    return Comparison(
        found.name,
        asked.objective.metric,
        asked.objective.maximise,
        asked.file.budget.total or 10 * int(found.rounds[-1]),
        list(seeds),
        {name: outcomes[i * count : (i + 1) * count] for i, name in enumerate(methods)},
        {
            "table": found.name,
            "heterogeneity": heterogeneity,
            "evaluation": asked.evaluator.to_dict(),
            "validation_clients": len(found.validation_clients),
            **({"surrogate": cross_validate(found).to_dict()} if surrogate else {}),
        },
    )


_LOADED: dict[tuple[str, bool], tuple[CurveTable, Surrogate | bool]] = {}


def _one(job: tuple[str, Mapping[str, Any], str, int, float, bool]) -> Incumbents:
    """One replay, in whatever process."""
    path, given, name, seed, heterogeneity, surrogate = job
    if (path, surrogate) not in _LOADED:
        _LOADED.clear()
        loaded = load_table(path)
        _LOADED[path, surrogate] = loaded, Surrogate(loaded) if surrogate else False
    table, fitted = _LOADED[path, surrogate]
    study = Study.from_dict(given)
    return replay(
        table,
        method_named(study, name),
        total=study.file.budget.total,
        seed=seed,
        objective=study.objective,
        evaluation=with_method(study, name).evaluator,
        heterogeneity=heterogeneity,
        surrogate=fitted,
    ).incumbents
