"""A study, a run or a Flower app: a config trained in a federation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fedhpo.core.canonical import canonical
from fedhpo.core.digests import digest
from fedhpo.core.errors import InputError
from fedhpo.core.streams import derive, stream
from fedhpo.protocol.federation import Cost, Federation, Ints, Scores, Work
from fedhpo.protocol.objective import metrics_of
from fedhpo.protocol.through import Through
from fedhpo.referee.sides.side import Terms, Training
from fedhpo.search.search import check_cohort, cohort_of
from fedhpo.space.config import Config
from fedhpo.study import Study

#: A round in which too few clients replied is repeated with another cohort, so often at most.
_ATTEMPTS = 3


class FederatedSide:
    """A config of a study, trained and scored through the federation protocol.

    Cohorts and first weights follow the seed of the pair alone, so that both sides of a pair have the same.
    """

    def __init__(
        self,
        study: Study,
        name: str,
        kind: str,
        *,
        config: Config | None = None,
        asked: Sequence[int] | None = None,
        spent: int | None = None,
        workers: int | None = None,
    ) -> None:
        _refuse(study, name)
        self._study = study
        self._config = study.space.default() if config is None else config
        self._federation = study.federation(workers)
        try:
            self.terms = self._begin(name, kind, asked, spent)
        except BaseException:
            self._federation.close()
            raise

    def _begin(self, name: str, kind: str, asked: Sequence[int] | None, spent: int | None) -> Terms:
        study, federation = self._study, self._federation
        self._objective = study.objective_in(federation)
        federation.measure(metrics_of(self._objective, (), federation))
        training = len(federation.train_clients)
        cohort = cohort_of(study.file.budget.cohort, training)
        check_cohort(cohort, training)
        federation.preflight(self._config, self._objective.metric)
        print_of = dict(federation.fingerprint(self._config.model))
        data = print_of.pop("data", None)
        if isinstance(data, dict):
            data = {key: value for key, value in data.items() if key not in ("scaling", "name")}
        return Terms(
            name,
            kind,
            study.file.budget.rounds,
            cohort,
            self._objective.metric,
            self._objective.maximise,
            code=digest(canonical([print_of, self._objective.to_dict()])).hex(),
            data=None if data is None else digest(canonical(data)).hex(),
            config=self._config.to_dict(),
            clients=[int(one) for one in federation.validation_clients],
            asked=asked,
            spent=spent,
        )

    def train(
        self, seed: int, clients: Sequence[int] | None, config: Mapping[str, Any] | None = None
    ) -> Training:
        """Train for the study's rounds, then score; see `Side`."""
        federation = self._federation
        used = self._config if config is None else Config.from_dict(config)
        asked: Ints = federation.validation_clients if clients is None else np.asarray(clients, np.int64)
        federation.start(0, used.model, derive(seed, "trial"))
        try:
            cost, failed = self._rounds(seed, used)
            if failed:
                return _told(cost, failed=failed)
            [scores] = federation.evaluate([0], asked)
        finally:
            federation.stop(0)
        return self._judged(scores, cost)

    def _rounds(self, seed: int, config: Config) -> tuple[Cost, str]:
        cost = Cost()
        rounds, size = self._study.file.budget.rounds, self.terms.cohort
        for number in range(rounds):
            for attempt in range(_ATTEMPTS):
                rng = stream(seed, "cohort", number, attempt)
                cohort = rng.choice(self._federation.train_clients, size, replace=False)
                work = Work(0, [int(one) for one in cohort], config.client, config.server, scores=())
                [report] = self._federation.round([work])
                cost += report.cost
                if report.applied:
                    break
            else:
                why = next(iter(report.reasons.values()), "no client replied")
                return cost, f"round {number + 1}: {why}"
        return cost, ""

    def _judged(self, scores: Scores, cost: Cost) -> Training:
        objective = self._objective
        rounds = self._study.file.budget.rounds
        found = objective.observe(scores, rounds, len(scores.clients))
        if not math.isfinite(found.value):
            return _told(cost, failed="the model has no finite score")
        whole = objective.over in ("mean", "tail") and not objective.pooled
        tail = replace(objective, over="tail", tail=0.1) if whole and objective.over == "mean" else objective
        worst = tail.observe(scores, rounds, len(scores.clients)).value if whole else None
        return _told(cost, found.value, worst, found.clients)

    def tune(self, rounds: int, seed: int, clients: Sequence[int] | None) -> dict[str, Any]:
        """Tune the study's space by its own method for so many rounds; the best config found."""
        if not self._study.space.names:
            raise InputError(f"control: {self.terms.name} has no hyperparameter to tune in [space]")
        budget = {**self._study.given["budget"], "total": max(rounds, self._study.file.budget.rounds)}
        study = Study.from_dict({**self._study.given, "budget": budget, "seed": seed % (1 << 31)}, fixed=True)
        some = self._federation if clients is None else _Judges(self._federation, clients)
        try:
            return study.tune(federation=some).best_config.to_dict()
        finally:
            for trial in list(self._federation.trials):
                self._federation.stop(trial)

    def close(self) -> None:
        """End workers."""
        self._federation.close()


class _Judges(Through):
    """A federation some of whose clients validate."""

    def __init__(self, inner: Federation, clients: Sequence[int]) -> None:
        super().__init__(inner)
        self._clients: Ints = np.asarray(clients, np.int64)

    @property
    def validation_clients(self) -> Ints:  # type: ignore[override]
        return self._clients


def _told(
    cost: Cost, score: float | None = None, tail: float | None = None, clients: int = 0, failed: str = ""
) -> Training:
    moved = cost.bytes_down + cost.bytes_up
    return Training(score, tail, clients, moved, cost.samples, failed)


def _refuse(study: Study, name: str) -> None:
    """Studies whose scores the referee may not read, or cannot."""
    if study.evaluator.privacy is not None:
        raise InputError(
            f"{name}: evaluation.privacy is set, and the referee reads scores without noise; leave it out "
            "only where clients allow that"
        )
    if study.fleet is not None:
        raise InputError(f"{name}: federation: leave it out, the referee compares rounds and has no clock")
