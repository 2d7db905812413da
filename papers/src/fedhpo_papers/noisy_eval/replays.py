"""Whole methods on tables, many replays side by side; what was replayed once is kept."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from fedhpo.protocol.method import Method
from fedhpo.protocol.objective import Objective
from fedhpo.research.incumbents import Incumbents
from fedhpo.research.tables import CurveTable, load_table, shipped_tables
from fedhpo.research.tables.replay import replay
from fedhpo.search.evaluator import Evaluator
from fedhpo.workers.processes import map_in_processes
from fedhpo.workers.spawn import cores
from fedhpo_papers.jackknife import Jackknife
from fedhpo_papers.noisy_eval.search import CONFIGS

#: Replays between two writes of what is kept.
_TOGETHER = 64


@dataclass(frozen=True)
class Job:
    """One replay. The score is the error with every client counting the same, as privacy needs it."""

    table: str
    method: Method
    evaluator: Evaluator
    seed: int
    #: The number of a part of the table; None for all of it.
    part: int | None = None

    def key(self, digest: str) -> str:
        """What tells it from others: the table by the digest of its file, method, evaluation, seed, part."""
        facts = [digest, repr(self.method), asdict(self.evaluator), self.seed, self.part]
        return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()[:20]


@dataclass(frozen=True)
class Replays:
    """Replays of jobs on these tables (by name, their files), kept in `store` if there is one."""

    paths: Mapping[str, str]
    workers: int | None = None
    store: Path | None = None

    def of(self, jobs: Sequence[Job]) -> list[Incumbents]:
        """The incumbents of each job, in their order."""
        known, digests = self._read(), {name: _digest(path) for name, path in self.paths.items()}
        keys = [job.key(digests[job.table]) for job in jobs]
        missing = [pair for pair in zip(keys, jobs, strict=True) if pair[0] not in known]
        for begin in range(0, len(missing), _TOGETHER):
            some = missing[begin : begin + _TOGETHER]
            found = self._replayed([(self.paths[job.table], job) for _, job in some])
            new = {key: incumbents for (key, _), incumbents in zip(some, found, strict=True)}
            self._keep(new)
            known |= new
        return [known[key] for key in keys]

    def _replayed(self, jobs: list[tuple[str, Job]]) -> list[Incumbents]:
        workers = cores() if self.workers is None else self.workers
        if workers < 2:
            return [_one(job) for job in jobs]
        return map_in_processes(_one, jobs, workers)

    def _read(self) -> dict[str, Incumbents]:
        if self.store is None or not self.store.exists():
            return {}
        lines = self.store.read_text().splitlines()
        whole = [json.loads(line) for line in lines if line.endswith("}")]  # the last may be cut off
        return {one["key"]: [(int(r), float(e)) for r, e in one["incumbents"]] for one in whole}

    def _keep(self, found: Mapping[str, Incumbents]) -> None:
        if self.store is None:
            return
        self.store.parent.mkdir(parents=True, exist_ok=True)
        with self.store.open("a") as file:
            for key, incumbents in found.items():
                file.write(json.dumps({"key": key, "incumbents": [list(one) for one in incumbents]}) + "\n")


def _digest(path: str) -> str:
    return hashlib.sha256(Path(shipped_tables().get(path, path)).read_bytes()).hexdigest()


_LOADED: dict[tuple[str, int | None], CurveTable] = {}


def _one(given: tuple[str, Job]) -> Incumbents:
    """One replay, in whatever process."""
    path, job = given
    table = _table(path, job.part)
    return replay(
        table,
        job.method,
        total=CONFIGS * int(table.rounds[-1]),
        seed=job.seed,
        objective=Objective("error", weighting="uniform"),
        evaluation=job.evaluator,
    ).incumbents


def _table(path: str, part: int | None) -> CurveTable:
    if (path, None) not in _LOADED:
        _LOADED[path, None] = load_table(path)
    whole = _LOADED[path, None]
    if part is None:
        return whole
    if (path, part) not in _LOADED:
        for key in [key for key in _LOADED if key[1] is not None]:
            del _LOADED[key]
        knife = Jackknife.of(len(whole.configs), len(whole.validation_clients), part + 2)
        _LOADED[path, part] = knife.parts[part].of(whole)
    return _LOADED[path, part]
