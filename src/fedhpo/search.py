"""A search: all that a method works with while a study is tuned.

It starts trials, trains and scores them through the federation, and keeps what is known of each. A
method never sees a client: what it may know of them comes through here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from fedhpo.config import Config
from fedhpo.engine.streams import derive, stream
from fedhpo.errors import FedhpoError, InputError
from fedhpo.evaluation import Evaluator, Objective, Score
from fedhpo.federation.protocol import Cost, RoundReport, Scores, Work
from fedhpo.federation.recorded import RecordedFederation
from fedhpo.policies import ClientPolicy, PolicyState
from fedhpo.run import Ledger
from fedhpo.samplers import Observation, Sampler
from fedhpo.space import Space

#: A round in which too few clients replied is repeated with another cohort, so often at most.
_ATTEMPTS = 3

TRAINING, FINISHED, ELIMINATED, FAILED = "training", "finished", "eliminated", "failed"


class TuningError(FedhpoError):
    """No trial of the search could be trained."""


class StopTuning(Exception):
    """Raised by a callback to stop the run; it can be resumed."""


@dataclass(frozen=True)
class Evaluation:
    """What each client said of a trial after `round` rounds; `number` counts the search's evaluations."""

    number: int
    round: int
    scores: Scores


@dataclass(eq=False)
class Trial:
    """One model in training, and what is known of it."""

    number: int
    config: Config
    policy: PolicyState
    scores_in_round: tuple[str, ...]
    round: int = 0
    status: str = TRAINING
    reason: str = ""
    scores: list[Score] = field(default_factory=list)
    evaluations: list[Evaluation] = field(default_factory=list, repr=False)

    @property
    def score(self) -> Score | None:
        """The latest score."""
        return self.scores[-1] if self.scores else None

    @property
    def rank_value(self) -> float:
        """The latest score as a number of which less is better; infinite without one."""
        failed = self.status == FAILED or self.score is None
        return math.inf if failed or self.score is None else self.score.rank_value


@dataclass(frozen=True)
class Event:
    """What callbacks are told: something happened in the search."""

    kind: str
    search: Search
    replayed: bool
    trials: Sequence[Trial] = ()


class Search:
    """See the module's docstring.

    `rounds` is the length of one full training, `total` the rounds to spend over all trials, `cohort`
    the number of clients in a round. A method can plan before there is a `federation`.
    """

    federation: RecordedFederation

    def __init__(
        self,
        space: Space,
        *,
        rounds: int,
        total: int,
        cohort: int,
        seed: int,
        objective: Objective,
        evaluator: Evaluator,
        enqueued: Sequence[Config] = (),
        pool: Sequence[Config] | None = None,
        keep_baseline: bool = False,
        on_event: Callable[[Event], None] = lambda event: None,
    ) -> None:
        self.space = space
        self.rounds, self.total, self.cohort, self.seed = rounds, total, cohort, seed
        self.objective, self.evaluator = objective, evaluator
        self.pool = pool
        self.enqueued = [config for config in enqueued if pool is None or config in pool]
        self.trials: list[Trial] = []
        self.baseline_rounds = 0
        self._keep_baseline = keep_baseline
        self._evaluations = 0
        self._asked_since = 0
        self._on_event = on_event

    @property
    def ledger(self) -> Ledger:
        """What was spent."""
        return self.federation.ledger

    @property
    def observations(self) -> list[Observation]:
        """Every score of every trial so far; a trial that failed scores infinitely bad where it stopped."""
        seen = []
        for trial in self.trials:
            seen += [Observation(trial.number, trial.config, score) for score in trial.scores]
            if trial.status == FAILED:
                failed = Score(math.nan, math.nan, 0, trial.round, math.inf)
                seen.append(Observation(trial.number, trial.config, failed))
        return seen

    # Trials

    def start(self, count: int, sampler: Sampler, policy: ClientPolicy) -> list[Trial]:
        """Start up to `count` trials: configs that were enqueued first, then what the sampler suggests."""
        started: list[Trial] = []
        for _ in range(count):
            config = self._next_config(sampler)
            if config is None:
                break
            number = len(self.trials)
            self.federation.start(number, config.model, derive(self.seed, "trial", number))
            state = policy.begin(config, self.space, stream(self.seed, "policy", number))
            started.append(Trial(number, config, state, policy.scores))
            self.trials.append(started[-1])
        self._emit("start", started)
        return started

    def _next_config(self, sampler: Sampler) -> Config | None:
        number = len(self.trials)

        def ask() -> Any:
            if number < len(self.enqueued):
                return self.enqueued[number].to_dict()
            asked = [trial.config for trial in self.trials[self._asked_since :]]
            rng = stream(self.seed, "ask", number)
            config = sampler.suggest(self.space, self.observations, asked, rng, self.pool)
            return None if config is None else config.to_dict()

        answer = self.federation.decide("ask", {"trial": number}, ask)
        return None if answer is None else Config.from_dict(answer)

    def distinct(self, wanted: int, sampler: Sampler) -> int:
        """How many of `wanted` trials there can be, no config coming twice."""
        if self.pool is not None:
            return min(wanted, len(self.pool))
        limit = sampler.limit(self.space)
        if limit is None:
            return wanted
        inside = math.isfinite(self.space.size) and limit >= self.space.size
        return min(wanted, limit if inside else limit + len(self.enqueued))

    def refill(self) -> None:
        """From here on configs that were tried before may be tried again: a new bracket begins."""
        self._asked_since = len(self.trials)

    def train(self, trials: Sequence[Trial], until: int) -> None:
        """Train these trials, side by side, until each has `until` rounds behind it.

        Where rounds had to be repeated the budget may end before that; trials then stay as they are.
        """
        while ready := self._payable([t for t in trials if t.status == TRAINING and t.round < until]):
            self.round(ready)

    def _payable(self, trials: list[Trial]) -> list[Trial]:
        left = self.ledger.remaining["rounds"]
        return trials if left is None else trials[: int(left)]

    def round(self, trials: Sequence[Trial]) -> None:
        """One round of each trial; what came back goes to its policy."""
        todo = list(trials)
        for attempt in range(_ATTEMPTS):
            if not todo:
                break
            self.ledger.require(Cost(rounds=len(todo)))
            reports = self.federation.round([self._work(trial, attempt) for trial in todo])
            again = []
            for trial, report in zip(todo, reports, strict=True):
                if report.applied:
                    trial.round = report.round
                    trial.policy.learn(report)
                elif attempt + 1 < _ATTEMPTS and not _diverged(report):
                    again.append(trial)
                else:
                    self._fail(trial, report)
            todo = self._payable(again)
        self._emit("round", trials)

    def _work(self, trial: Trial, attempt: int) -> Work:
        rng = stream(self.seed, "round", trial.number, trial.round, attempt)
        clients = self.federation.train_clients
        cohort = [int(c) for c in rng.choice(clients, self.cohort, replace=False)]
        return Work(
            trial.number,
            cohort,
            trial.policy.assign(cohort, rng),
            trial.config.server,
            trial.scores_in_round,
        )

    def _fail(self, trial: Trial, report: RoundReport) -> None:
        why = next(iter(report.reasons.values()), "no client replied")
        trial.reason = f"round {trial.round + 1}: no update could be used ({why})"
        trial.status = FAILED
        self.federation.stop(trial.number)

    def evaluate(self, trials: Sequence[Trial]) -> None:
        """A fresh score of each trial, all at the same clients."""
        ready = [trial for trial in trials if trial.status != FAILED]
        if not ready:
            return
        rng = stream(self.seed, "evaluate", self._evaluations)
        self._evaluations += 1
        population = self.federation.validation_clients
        clients = self.evaluator.draw(population, rng)
        for trial, scores in zip(
            ready, self.federation.evaluate([t.number for t in ready], clients), strict=True
        ):
            trial.scores.append(self.objective.observe(scores, trial.round, len(population)))
            trial.evaluations.append(Evaluation(self._evaluations, trial.round, scores))
        self._emit("evaluate", ready)

    def top(self, rung: Sequence[Trial], count: int) -> list[Trial]:
        """The best `count` trials of a rung by their latest score, ties to the earlier trial."""
        return sorted(rung, key=lambda trial: (trial.rank_value, trial.number))[:count]

    def eliminate(self, trials: Sequence[Trial]) -> None:
        """Drop trials. The user's own config is kept where it is to be trained to the end."""
        for trial in trials:
            if trial.status != FAILED:
                trial.status = ELIMINATED
                if not (self._keep_baseline and trial.number == 0):
                    self.federation.stop(trial.number)

    def finish(self, trials: Sequence[Trial]) -> None:
        """These trials are trained to the end; all but the best so far, and trial 0, are freed."""
        for trial in trials:
            if trial.status == TRAINING:
                trial.status = FINISHED
        done = [t for t in self.trials if t.status == FINISHED]
        best = self.top(done, 1)
        for trial in done:
            if trial.number in self.federation.trials and trial not in best and trial.number != 0:
                self.federation.stop(trial.number)

    def best(self, trials: Sequence[Trial] | None = None) -> Trial:
        """The best of these trials (of all that were trained to the end).

        Where all of these failed it is the `leader`, as far as that one got.
        """
        if trials is None:
            trials = [trial for trial in self.trials if trial.status == FINISHED]
        good = [trial for trial in trials if math.isfinite(trial.rank_value)]
        best = self.top(good, 1)[0] if good else self.leader()
        if best is None:
            reasons = [t.reason for t in self.trials if t.reason] or ["no trial has a finite score"]
            raise TuningError(f"no trial could be trained; the first: {reasons[0]}")
        return best

    def leader(self) -> Trial | None:
        """The trial to name if the search ended now: among those trained longest, the best."""
        scored = [t for t in self.trials if t.scores and math.isfinite(t.rank_value)]
        return min(scored, key=lambda t: (-t.scores[-1].round, t.rank_value, t.number), default=None)

    def _emit(self, kind: str, trials: Sequence[Trial]) -> None:
        self._on_event(Event(kind, self, self.federation.replaying, trials))


def _diverged(report: RoundReport) -> bool:
    """Whether every reply was a model that is not finite: then another cohort will not help."""
    reasons = report.reasons.values()
    return len(report.reasons) == len(report.cohort) and all("not finite" in why for why in reasons)


def check_cohort(cohort: int, clients: int) -> None:
    """Refuse a cohort that the federation does not have."""
    if isinstance(cohort, bool) or not isinstance(cohort, int) or cohort < 1:
        raise InputError(f"cohort must be a whole number of at least 1, not {cohort!r}")
    if cohort > clients:
        raise InputError(f"cohort is {cohort}, but only {clients} clients can train")
