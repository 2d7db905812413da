"""Building a table: all configs trained to the end, scored by every validation client on the way.

The configs train side by side in groups; then the best of them once more, if that is asked for. The run is
recorded like any other, so that a build that was stopped goes on where it was.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedhpo.core.errors import InputError
from fedhpo.core.streams import derive, stream
from fedhpo.core.version import NUMBERS
from fedhpo.protocol.failures import Failures, warn_of
from fedhpo.protocol.federation import Federation, Floats, Ints, Work
from fedhpo.research.tables.curve_table import Again, CurveTable
from fedhpo.research.tables.grid import score_rounds, table_configs
from fedhpo.research.tables.scoring import RowScoring
from fedhpo.run import Run
from fedhpo.run.recorded import RecordedSession
from fedhpo.run.run import has_begun, versions
from fedhpo.search.events import TuningError
from fedhpo.search.search import cohort_of
from fedhpo.space.config import Config
from fedhpo.study import Study
from fedhpo.study.methods import brought

#: How alike validation clients are made: the paper's three settings.
HETEROGENEITY = (0.0, 0.5, 1.0)
#: Configs that train side by side: at most so many, and fewer where their models would fill the memory.
_SIDE_BY_SIDE, _BYTES = 32, 1_000_000_000
_COMMIT_EVERY = 1.0
_LARGEST = float(np.finfo(np.float16).max)

#: Told after every round and scoring: rounds trained, rounds in all.
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class _Plan:
    """All that decides what the table will hold."""

    study: Study
    configs: Sequence[Config]
    rounds: Sequence[int]
    again: int = 0

    def to_dict(self) -> dict[str, Any]:
        return {
            "study": self.study.to_dict(),
            "configs": [config.to_dict() for config in self.configs],
            "rounds": list(self.rounds),
            "heterogeneity": list(HETEROGENEITY),
            **({"again": self.again} if self.again else {}),
        }


def build_table(
    study: Study,
    configs: int = 128,
    *,
    run: str | Path,
    again: int = 0,
    unit: int | None = None,
    every: int | None = None,
    workers: int | None = None,
    progress: Progress = lambda done, total: None,
) -> CurveTable:
    """Train `configs` configs of the study's space to the end, and keep what every client said of them.

    Parameters
    ----------
    study
        Its data, model, space, budget (`rounds`, `cohort`) and seed. Clients are split into pools, one
        that trains and one that validates, and updates are averaged with uniform weights.
    run
        The directory of the build's run; called again, the build goes on there.
    again
        So many of the configs, the best ones, train a second time: other initial weights, other cohorts.
    unit, every
        The first round at which configs are scored, and how often after that, see `score_rounds`.
    """
    study = table_study(study)
    budget = study.file.budget
    if not 0 <= again <= configs:
        raise InputError(f"again = {again}: must be at least 0 and at most {configs}, the number of configs")
    chosen = table_configs(study.space, configs)
    plan = _Plan(study, chosen, score_rounds(budget.rounds, unit, every), again)
    study.refuse_clock("a table")
    data = study.load_data()
    scoring = RowScoring.of(data, HETEROGENEITY, study.file.seed)
    if not has_begun(run):
        with study.federation(0, data=scoring.data) as federation:
            federation.preflight(plan.configs[0], study.objective.metric)
    with (
        study.federation(workers, data=scoring.data) as federation,
        Run.create_or_open(
            run,
            plan.to_dict(),
            "table",
            1,
            study.text,
            fingerprint=federation.fingerprint(study.space.default().model),
            numbers={"engine": NUMBERS["engine"]},
        ) as held,
    ):
        federation.expect(budget.rounds)
        failures = Failures(warn_of)
        recorded = RecordedSession(
            federation,
            held.record,
            held.ledger,
            commit_every=_COMMIT_EVERY,
            on_event=lambda event: failures.take(event.items, replayed=event.replayed),
        )
        curves = _Curves(plan, scoring, recorded, federation, progress)
        curves.record()
        if not curves.trained.any():
            raise TuningError(f"no config of the table could be trained; the first: {failures.first}")
        seconds = held.record.active_seconds
        recorded.checkpoint()
        held.finish({"configs": configs, "rounds": list(plan.rounds), "seconds": round(seconds, 1)})
    return CurveTable(
        name=study.name,
        study_tables={**study.to_dict(), "name": study.name},
        configs=tuple(plan.configs),
        rounds=np.array(plan.rounds, np.int64),
        heterogeneity=HETEROGENEITY,
        train_sizes=data.train.sizes,
        validation_sizes=data.validation.sizes,
        trained=curves.trained[:configs],
        parameters=curves.parameters[:configs],
        wrong=curves.wrong[:, :configs],
        counted=scoring.counted,
        loss=curves.losses[:, :configs],
        again=curves.again,
        recipe={"seed": study.file.seed, "versions": versions(), "wall_seconds": round(seconds, 1)},
    )


def table_study(study: Study) -> Study:
    """The study with uniform training weights, and with validation clients that do not train.

    >>> study = Study.from_dict({
    ...     "data": {"name": "digits"}, "model": {"name": "mlp"},
    ...     "space": {"client": {"lr": {"low": 0.1, "high": 1.0}}}, "budget": {"rounds": 9},
    ... })
    >>> table_study(study).file.server.weighting
    'uniform'
    """
    given = dict(study.given)
    if study.file.proxy is not None:
        raise InputError("proxy: a table is built from one data set: leave the section out")
    for key, name in brought(study.given):
        if not key.startswith("method"):
            raise InputError(f"{key} = {name!r}: a table is read without importing anything: use one of ours")
    if study.given["data"].get("mixing"):
        raise InputError("data.mixing: a table holds several heterogeneities: leave the key out")
    if dict(given.get("server", {})).get("weighting", "uniform") != "uniform":
        raise InputError(
            "server.weighting = 'size': a table is trained with uniform weights, so that it also serves "
            "private evaluation: leave the key out"
        )
    given["server"] = {**given.get("server", {}), "weighting": "uniform"}
    if ":" not in study.file.data.name and study.file.data.split is None:
        given["data"] = {**given["data"], "split": {"kind": "pools", "validation": 0.2, "test": 0}}
    return Study.from_dict(given, text=study.text, path=study.path)


class _Curves:
    """The arrays of a table while they fill."""

    def __init__(
        self,
        plan: _Plan,
        scoring: RowScoring,
        recorded: RecordedSession,
        federation: Federation,
        progress: Progress,
    ) -> None:
        self._plan, self._scoring, self._progress = plan, scoring, progress
        self._recorded, self._federation = recorded, federation
        self._configs = list(plan.configs)
        self._best: list[int] = []
        count, ends = len(plan.configs) + plan.again, len(plan.rounds)
        shape = (len(HETEROGENEITY), count, ends, scoring.counted.shape[1])
        self.wrong: Ints = np.zeros(shape, np.int64)
        self.loss: Floats = np.zeros(shape)
        self.trained: Ints = np.zeros(count, np.int64)
        self.parameters: Ints = np.zeros(count, np.int64)
        self._done = 0

    def record(self) -> None:
        """Group by group, as many configs as their models leave room for; then the best ones again.

        A second training is a trial of its own, and so has initial weights and cohorts of its own.
        """
        begin = 0
        while begin < len(self._configs):
            begin = self._group(begin)
            if begin == len(self._plan.configs) and self._plan.again:
                self._best = self._ranked()[: self._plan.again]
                self._configs += [self._plan.configs[place] for place in self._best]

    def _ranked(self) -> list[int]:
        """The configs by their error at the end over all clients' targets, the best first."""
        final = self.wrong[0, : len(self._plan.configs), -1].sum(axis=1)
        return [int(place) for place in np.argsort(final, kind="stable")]

    @property
    def losses(self) -> NDArray[np.float16]:
        """Losses as a table keeps them."""
        return np.minimum(np.nan_to_num(self.loss, nan=_LARGEST), _LARGEST).astype(np.float16)

    @property
    def again(self) -> Again | None:
        """What became of the second trainings."""
        if not self._best:
            return None
        first = len(self._plan.configs)
        return Again(
            np.array(self._best), self.trained[first:], self.wrong[:1, first:], self.losses[:1, first:]
        )

    def _group(self, begin: int) -> int:
        """Train one group to the end and score it; the next group begins at what is returned."""
        seed, configs = self._plan.study.file.seed, self._configs
        self._recorded.start(begin, configs[begin].model, derive(seed, "trial", begin))
        # Weights, the server's memory, a new model, and an update under way. Never the machine's own
        # memory: groups, which may be computed together, must not depend on it.
        room = _BYTES // (16 * self._size(begin))
        group = range(begin, min(begin + max(1, min(room, _SIDE_BY_SIDE)), len(configs)))
        for trial in group[1:]:
            self._recorded.start(trial, configs[trial].model, derive(seed, "trial", trial))
        alive = list(group)
        for place, end in enumerate(self._plan.rounds):
            while alive and self.trained[alive[0]] < end:
                alive = self._round(alive)
            self._score(place, group)
        for trial in group:
            self.parameters[trial] = self._size(trial)
            self._recorded.stop(trial)
        return group.stop

    def _size(self, trial: int) -> int:
        """Numbers in a trial's model; a decision, because a resumed build does not have the trial at hand."""
        weights = self._federation.state
        return int(self._recorded.decide("size", trial, lambda: len(weights(trial).arrays["weights"])))

    def _round(self, alive: list[int]) -> list[int]:
        """One round of each; those whose updates are not finite stay as they are from here on."""
        budget, seed = self._plan.study.file.budget, self._plan.study.file.seed
        clients = self._recorded.train_clients
        work = []
        for trial in alive:
            rng = stream(seed, "round", trial, int(self.trained[trial]))
            cohort = [
                int(c) for c in rng.choice(clients, cohort_of(budget.cohort, len(clients)), replace=False)
            ]
            config = self._configs[trial]
            work.append(Work(trial, cohort, config.client, config.server, scores=()))
        left = []
        for trial, report in zip(alive, self._recorded.round(work), strict=True):
            if report.applied:
                self.trained[trial] = report.round
                left.append(trial)
        self._done += len(work)
        self._progress(self._done, len(self.trained) * self._plan.rounds[-1])
        return left

    def _score(self, place: int, group: range) -> None:
        """Every client's scores of these configs. Rows' own scores are not recorded."""

        def scored() -> Mapping[str, str]:
            wrong, loss = self._scoring.score(self._federation, group)
            return {"wrong": _text(wrong.astype("<u4")), "loss": _text(loss.astype("<f4"))}

        found = self._recorded.decide("scores", [place, group.start, group.stop], scored)
        shape = (len(group), *self.wrong.shape[:1], self.wrong.shape[3])
        for name, kind, into in (("wrong", "<u4", self.wrong), ("loss", "<f4", self.loss)):
            values = np.frombuffer(base64.b64decode(found[name]), kind).reshape(shape)
            into[:, group.start : group.stop, place] = np.moveaxis(values, 0, 1)


def _text(values: NDArray[Any]) -> str:
    return base64.b64encode(np.ascontiguousarray(values).tobytes()).decode()
