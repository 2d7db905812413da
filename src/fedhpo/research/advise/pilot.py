"""What a few configs score at every validation client: from a table, or trained briefly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from fedhpo.core.errors import InputError
from fedhpo.core.streams import derive, stream
from fedhpo.protocol.failures import Failures, warn_of
from fedhpo.protocol.federation import Federation, Floats, Ints, Work
from fedhpo.protocol.objective import Objective
from fedhpo.research.tables.grid import table_configs
from fedhpo.search.search import cohort_of
from fedhpo.space.config import Config

if TYPE_CHECKING:
    from fedhpo.research.tables import CurveTable
    from fedhpo.study import Study


@dataclass(frozen=True, eq=False)
class Pilot:
    """What some configs score at every validation client: `values[config, client]` of a metric in [0, 1]."""

    values: Floats
    sizes: Ints
    objective: Objective
    round: int
    source: str
    #: Which configs these are: their numbers in the space's fixed list, see `table_configs`.
    configs: tuple[int, ...] = ()
    #: What the user's own config scores at these clients, where it was trained, too.
    own: Floats | None = None

    @property
    def clients(self) -> int:
        """How many validation clients there are."""
        return len(self.sizes)

    @cached_property
    def means(self) -> Floats:
        """The true score of each config: over all clients."""
        found: Floats = self.values @ self.weights / self.weights.sum()
        return found

    @cached_property
    def weights(self) -> Floats:
        """How much each client counts."""
        uniform = self.objective.weighting == "uniform"
        return np.ones(self.clients) if uniform else self.sizes.astype(np.float64)

    @cached_property
    def covariance(self) -> Floats:
        """Covariance, between configs and over clients, of what one client adds to a score.

        A weighted mean over drawn clients is linearised (Cochran, 1977, ch. 6): client i adds
        w_i (value_i - mean), in units of the mean weight.
        """
        residuals = (self.values - self.means[:, None]) * self.weights / self.weights.mean()
        found: Floats = np.atleast_2d(np.cov(residuals))
        return found

    @property
    def spread(self) -> float:
        """Standard deviation of a score between clients, for a typical config."""
        return float(np.sqrt(np.median(np.diag(self.covariance))))

    @property
    def heterogeneity(self) -> float:
        """The share of the clients' variance that is not due to their having few rows: 0 if all are alike."""
        within = np.median((self.values * (1 - self.values) / np.maximum(self.sizes, 1)).mean(axis=1))
        between = np.median(self.values.var(axis=1, ddof=1))
        return float(np.clip(1 - within / between, 0, 1)) if between > 0 else 0.0

    @property
    def config_spread(self) -> float:
        """Standard deviation between the true scores of configs."""
        return float(self.means.std(ddof=1)) if len(self.means) > 1 else 0.0

    def of(self, configs: Sequence[int], clients: Ints | None = None) -> Pilot:
        """The same with these configs, by their numbers, and these clients, by their places, only."""
        rows = [self.configs.index(config) for config in configs]
        columns = np.arange(self.clients) if clients is None else clients
        values, sizes = self.values[rows][:, columns], self.sizes[columns]
        own = None if self.own is None else self.own[columns]
        return replace(self, values=values, sizes=sizes, configs=tuple(configs), own=own)

    def uniform(self) -> Pilot:
        """The same with every client counting as one, as private scores need it."""
        return replace(self, objective=Objective(self.objective.metric, weighting="uniform"))


def pilot_of_table(
    table: CurveTable,
    objective: Objective | None = None,
    *,
    round: int | None = None,
    configs: int | None = None,
    seed: int = 0,
    heterogeneity: float = 0.0,
) -> Pilot:
    """A pilot out of a table: all of its configs at the end, or some of them at some round."""
    objective = objective or table.study.objective
    place = table.place(int(table.rounds[-1]) if round is None else round)
    if place < 0:
        raise InputError(f"round = {round}: table {table.name} begins at round {table.rounds[0]}")
    errors = table.errors(heterogeneity)[:, place]
    chosen = np.arange(len(errors))
    if configs is not None:
        chosen = np.sort(stream(seed, "pilot").permutation(len(errors))[:configs])
    sizes = table.validation_sizes[table.validation_clients]
    source = f"table {table.name}"
    return _pilot(errors[chosen], sizes, objective, int(table.rounds[place]), source, chosen.tolist())


def run_pilot(
    study: Study, *, configs: int = 8, rounds: int | None = None, workers: int | None = None
) -> Pilot:
    """Train a few configs of the study's space briefly, and ask all validation clients.

    By default 8 configs and the user's own for a twentieth of a training: less than half of one in all.
    """
    study.refuse_clock("the pilot of an advice")
    rounds = rounds or max(1, study.file.budget.rounds // 20)
    space, seed = study.space, study.file.seed
    with study.federation(workers) as federation:
        cohort = cohort_of(study.file.budget.cohort, len(federation.train_clients))
        chosen = [*table_configs(space, configs), space.default()]
        federation.preflight(chosen[0], study.objective.metric)
        failures = Failures(warn_of)
        for trial, config in enumerate(chosen):
            federation.start(trial, config.model, derive(seed, "trial", trial))
        alive = list(range(len(chosen)))
        for round in range(rounds):
            work = [_work(federation, trial, chosen[trial], cohort, seed, round) for trial in alive]
            reports = federation.round(work) if work else []
            failures.take(reports)
            alive = [report.trial for report in reports if report.applied]
        others = [trial for trial in alive if trial < configs]
        if len(others) < 2:
            why = "" if failures.first is None else f"; {failures.first}"
            raise InputError(f"the pilot failed: {len(others)} of {configs} configs could be trained{why}")
        clients = federation.validation_clients
        scores = federation.evaluate(alive, clients)
    errors = np.array([1 - s.accuracy for s in scores])
    if not np.isfinite(errors).all():
        raise InputError("the pilot has no error rates to go by: advice needs a classification task")
    source = f"a pilot of {len(others)} configs, {rounds} rounds each"
    found = _pilot(errors[: len(others)], scores[0].size, study.objective, rounds, source, others)
    own = errors[-1] if len(alive) > len(others) else np.ones(len(clients))
    return replace(found, own=1 - own if found.objective.maximise else own)


def _work(federation: Federation, trial: int, config: Config, cohort: int, seed: int, round: int) -> Work:
    members = stream(seed, "round", trial, round).choice(federation.train_clients, cohort, replace=False)
    return Work(trial, [int(c) for c in members], config.client, config.server, scores=())


def _pilot(
    errors: Floats, sizes: Ints, objective: Objective, round: int, source: str, configs: Sequence[int]
) -> Pilot:
    if objective.metric == "loss":  # errors are bounded and comparable: a loss is advised on by its error
        objective = Objective("error", weighting=objective.weighting)
    values = 1 - errors if objective.maximise else errors
    return Pilot(values, sizes, objective, round, source, tuple(configs))
