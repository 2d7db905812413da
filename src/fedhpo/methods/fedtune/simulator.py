"""The tuner's objective: a short simulated federation of clients that share a profile (FedTune, 4.2).

Many configs of many groups are trained side by side, as trials of one federation: so they take all cores.
A group's trials have the same first model, cohorts and batches whatever the config, so that its score is a
function of the config, and configs are compared on equal terms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from typing import Any

from fedhpo.core.streams import derive, stream
from fedhpo.protocol.failures import Failures, warn_of
from fedhpo.protocol.federation import ClientSide, Federation, Work
from fedhpo.protocol.objective import Objective
from fedhpo.space.config import Config

_SIDE_BY_SIDE = 32

#: What the clients of a group get: a config for all, or a rule that each resolves itself.
Asked = Config | ClientSide


@dataclass(frozen=True)
class Simulated:
    """What a simulation came to: the score on the held-out rows, and on the group's own clients.

    Both are NaN where training diverged. The errors are the standard errors of scoring on so few rows: NaN
    where the metric is no share of rows.
    """

    held_out: float
    own: float
    held_out_error: float = math.nan
    own_error: float = math.nan

    def score(self, where: str) -> tuple[float, float]:
        """One of the two, by name, and its standard error."""
        return (self.own, self.own_error) if where == "own" else (self.held_out, self.held_out_error)


#: Metrics that are a share of the scored rows.
_SHARES = ("accuracy", "error")


def binomial_error(share: float, rows: float) -> float:
    """The standard error of a share of so many rows; by Laplace's rule, so that it is never 0.

    >>> round(binomial_error(0.8, 500), 4), binomial_error(1.0, 98) > 0
    (0.0179, True)
    """
    if math.isnan(share) or rows < 1:
        return math.nan
    likely = (share * rows + 1) / (rows + 2)
    return math.sqrt(likely * (1 - likely) / rows)


@dataclass(frozen=True, eq=False)
class Simulator:
    """Trains a group of clients for a few rounds and scores the model.

    `rounds` of `cohort` clients (drawn in each round, where a group has more); `scorer` is the client that
    holds the held-out rows, or, a list, that of each group. The score is the mean over the `last` rounds.
    `server` and `model` are the hyperparameters that are not tuned here.
    """

    federation: Federation
    groups: Sequence[Sequence[int]]
    scorer: int | Sequence[int]
    rounds: int = 20
    cohort: int = 5
    objective: Objective = field(default_factory=Objective)
    server: Mapping[str, Any] | None = None
    model: Mapping[str, Any] | None = None
    seed: int = 0
    own_scores: bool = False
    last: int = 1
    #: Resolves a rule for one of the simulated clients, which are the server's own. Without it clients
    #: resolve rules themselves, one by one; with it equal trainings can be stacked.
    resolve: Callable[[ClientSide, int], Mapping[str, Any]] | None = None
    failures: Failures = field(default_factory=lambda: Failures(warn_of), compare=False)

    @property
    def iterations(self) -> int:
        """Local trainings of one simulation of the largest group, the paper's tuning iterations."""
        return self.rounds * min(self.cohort, max(map(len, self.groups)))

    def simulate(self, asked: Sequence[tuple[int, Asked]]) -> list[Simulated]:
        """Scores of (group, config) pairs, in their order; in place of a config a rule may stand."""
        found: list[Simulated] = []
        for begin in range(0, len(asked), _SIDE_BY_SIDE):
            found += self._side_by_side(asked[begin : begin + _SIDE_BY_SIDE])
        return found

    def _side_by_side(self, asked: Sequence[tuple[int, Asked]]) -> list[Simulated]:
        federation = self.federation
        going = set(range(len(asked)))
        seen: dict[int, list[Simulated]] = {trial: [] for trial in going}
        for trial, (group, _) in enumerate(asked):
            federation.start(trial, dict(self.model or {}), derive(self.seed, "simulation", group))
        try:
            for number in range(self.rounds):
                work = [self._work(trial, *asked[trial], number) for trial in sorted(going)]
                reports = federation.round(work) if work else []
                self.failures.take(reports)
                for report in reports:
                    if not report.applied:
                        going.discard(report.trial)
                if number >= self.rounds - self.last:
                    for trial in sorted(going):
                        seen[trial].append(self._scored(trial, asked[trial][0]))
            return [
                _mean(seen[trial]) if trial in going else Simulated(math.nan, math.nan)
                for trial in range(len(asked))
            ]
        finally:
            for trial in list(federation.trials):
                federation.stop(trial)

    def _work(self, trial: int, group: int, config: Asked, number: int) -> Work:
        members = list(self.groups[group])
        if len(members) > self.cohort:
            rng = stream(self.seed, "cohort", group, number)
            members = [int(c) for c in rng.choice(members, self.cohort, replace=False)]
        client: Any = config
        if isinstance(config, Config):
            client = config.client
        elif self.resolve is not None:
            client = [self.resolve(config, member) for member in members]
        return Work(trial, members, client, dict(self.server or {}), scores=())

    def _scored(self, trial: int, group: int) -> Simulated:
        scorer = self.scorer if isinstance(self.scorer, int) else self.scorer[group]
        clients = [scorer, *(self.groups[group] if self.own_scores else ())]
        [scores] = self.federation.evaluate([trial], clients)
        values = self.objective.values(scores)
        share = self.objective.metric in _SHARES
        errors = [
            binomial_error(float(value), int(rows)) if share else math.nan
            for value, rows in zip(values, scores.size, strict=True)
        ]
        own, of_own = values[1:], errors[1:]
        return Simulated(
            float(values[0]),
            float(own.mean()) if len(own) else math.nan,
            errors[0],
            # Clients are scored on rows that they share, so that their errors do not cancel out.
            math.sqrt(sum(error**2 for error in of_own) / len(of_own)) if of_own else math.nan,
        )


def _mean(seen: Sequence[Simulated]) -> Simulated:
    """Of the scores of several rounds, and of their errors: on the same rows these do not cancel out."""
    if len(seen) == 1:
        return seen[0]
    return Simulated(*(math.fsum(column) / len(seen) for column in zip(*map(astuple, seen), strict=True)))
