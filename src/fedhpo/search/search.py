"""A search: all that a method works with while a study is tuned.

It starts trials, trains and scores them through the federation, and keeps what is known of each. A
method never sees a client: what it may know of them comes through here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from copy import copy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fedhpo.core.errors import FedhpoError, InputError
from fedhpo.core.streams import derive, stream
from fedhpo.policies import Fixed
from fedhpo.policies.losses import round_loss
from fedhpo.policies.sums import SumsPolicy
from fedhpo.protocol.federation import SCORES_IN_ROUND, Cost, RoundReport, Scores, Status, Work
from fedhpo.protocol.objective import Objective, Score
from fedhpo.protocol.policy import ClientPolicy, PolicyState
from fedhpo.protocol.sampler import Observation, Sampler
from fedhpo.run import Ledger
from fedhpo.run.failures import Failures
from fedhpo.run.recorded import RecordedFederation
from fedhpo.search.channel import best_first
from fedhpo.search.evaluator import Evaluator
from fedhpo.search.private import channel_of
from fedhpo.space import Space
from fedhpo.space.config import Config

if TYPE_CHECKING:
    from fedhpo.methods.fedpop.exchange import Exchange

#: A round in which too few clients replied is repeated with another cohort, so often at most.
_ATTEMPTS = 3

#: What is tried out before the search proper is numbered from here, apart from its trials.
TRIED_OUT = 1_000_000
#: The user's own config, where the trial that had it became a copy of another and it is trained once more.
OWN_AGAIN = TRIED_OUT - 1

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


@dataclass(frozen=True)
class Replacement:
    """A trial became a copy of another: as that one was after `round` rounds, to go on under `config`.

    `left` is the round at which it left its own model, `source_step` how often the source had been replaced
    itself. The scores are those that the exchange went by; `reason` says why the trial had failed, if so.
    """

    round: int
    source: int
    source_step: int
    left: int
    config: Config
    score: float | None
    source_score: float | None
    reason: str = ""


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
    #: Loss of each round since the trial began, or was replaced; see `fedhpo.policies.losses`.
    losses: list[float] = field(default_factory=list, repr=False)
    replacements: list[Replacement] = field(default_factory=list, repr=False)
    #: Rounds that were trained for this trial; `round` is how many its model has behind it.
    trained: int = 0
    first: Config = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.first = self.config

    @property
    def training(self) -> bool:
        """Whether it goes on."""
        return self.status == TRAINING

    @property
    def failed(self) -> bool:
        """Whether its training failed."""
        return self.status == FAILED

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
        self.channel = channel_of(evaluator)
        self.pool = pool
        self.enqueued = [config for config in enqueued if pool is None or config in pool]
        self.trials: list[Trial] = []
        self.baseline_rounds = 0
        #: Whether the method has made its choice: what follows compares it with the user's own config.
        self.concluding = False
        self.rounds_before = 0
        #: What failed at clients, counted from every reply.
        self.failures = Failures()
        #: The last report of each trial whose round has yet to be repeated.
        self._unused: dict[int, RoundReport] = {}
        #: Every total that the run had, where it was raised.
        self.totals: list[int] = []
        #: What the method adds to result.json.
        self.facts: dict[str, Any] = {}
        #: Trials that private releases are planned for; None for no limit.
        self.most_trials: int | None = None
        self._own_again: Trial | None = None
        #: What happens between trials while they train; see `fedhpo.methods.fedpop.exchange`.
        self.exchange: Exchange | None = None
        #: The server's and the clients' vectors of hyperparameters that were trained with.
        self.tried: dict[str, set[str]] = {"server": set(), "client": set()}
        self._policies: dict[int, ClientPolicy] = {}
        self._incumbent: Trial | None = None
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

    def stages(self) -> Iterator[None]:
        """One pass for every total that the run had: a schedule that can go on spends one after the other.

        In a pass `total` and the budget are those of that time, so that the calls are the same again.
        """
        if len(self.totals) < 2:
            yield
            return
        for total in self.totals:
            self.total = total - self.rounds_before
            rounds = total + (self.rounds if self._keep_baseline else 0)
            self.ledger.budget = replace(self.ledger.budget, rounds=rounds)
            yield

    # Trials

    def start(self, count: int, sampler: Sampler, policy: ClientPolicy) -> list[Trial]:
        """Start up to `count` trials: configs that were enqueued first, then what the sampler suggests."""
        started: list[Trial] = []
        if self.most_trials is not None:
            count = min(count, self.most_trials - len(self.trials))
        for _ in range(count):
            config = self._next_config(sampler)
            if config is None:
                break
            number = len(self.trials)
            self.federation.start(number, config.model, derive(self.seed, "trial", number))
            state = policy.begin(config, self.space, stream(self.seed, "policy", number))
            started.append(Trial(number, config, state, self._scores_in_round(policy)))
            self._policies[number] = policy
            self.trials.append(started[-1])
        self._emit("start", started)
        return started

    def _scores_in_round(self, policy: ClientPolicy) -> tuple[str, ...]:
        """The policy's and the exchange's; where scores are private, only what noisy sums are made of."""
        exchanged = () if self.exchange is None else self.exchange.scores
        if self.evaluator.privacy is None:
            return tuple(dict.fromkeys((*policy.scores, *exchanged)))
        if not exchanged and isinstance(policy, SumsPolicy):
            policy.check_private(self.space, self.evaluator.privacy)
            return policy.scores
        if SCORES_IN_ROUND in policy.needs or exchanged:
            name = (
                "fedpop (its exchange)" if exchanged else policy.to_dict().get("name", type(policy).__name__)
            )
            raise InputError(
                f"privacy: {name} learns from scores inside rounds, which are not private: use fedex, or a "
                "method that learns from evaluations only, such as sha, hyperband or tpe"
            )
        return ()

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

    def try_out(self, configs: Sequence[Config], rounds: int) -> list[Trial]:
        """Train configs for a few rounds and score them, before the search proper begins.

        They are no trials of the search, but their rounds come out of its total.
        """
        tried = [self._apart(TRIED_OUT + place, config) for place, config in enumerate(configs)]
        self.train(tried, rounds)
        self.evaluate(tried)
        self.eliminate(tried)
        self.rounds_before += len(tried) * rounds
        self.total -= len(tried) * rounds
        return tried

    def _apart(self, number: int, config: Config) -> Trial:
        """A trial that is none of the search."""
        self.federation.start(number, config.model, derive(self.seed, "trial", number))
        state = Fixed().begin(config, self.space, stream(self.seed, "policy", number))
        return Trial(number, config, state, self._scores_in_round(Fixed()))

    @property
    def own(self) -> Trial | None:
        """The trial of the user's own config; None where it became a copy of another."""
        if self._own_again is not None:
            return self._own_again
        return self.trials[0] if self.trials and not self.trials[0].replacements else None

    def begin_own_again(self) -> Trial:
        """The user's own config from the beginning, if there is no trial of it any more."""
        if self.own is None:
            self._own_again = self._apart(OWN_AGAIN, self.trials[0].first)
        assert self.own is not None
        return self.own

    def less(self, rounds: int) -> Search:
        """The same search with a smaller total, to plan with."""
        smaller = copy(self)
        smaller.total -= rounds
        return smaller

    def train(self, trials: Sequence[Trial], until: int) -> None:
        """Train these trials, side by side, until each has `until` rounds behind it.

        Where rounds had to be repeated the budget may end before that; trials then stay as they are. One that
        has no round behind it has failed.
        """
        if self.exchange is not None:
            self.exchange.train(self, trials, until)
        else:
            while ready := self.payable([t for t in trials if t.status == TRAINING and t.round < until]):
                self.round(ready)
        self._fail_untrained(trials)

    def payable(self, trials: list[Trial], under_way: int = 0) -> list[Trial]:
        """As many of these as the budget has a round for, beyond those under way."""
        left = self.ledger.remaining["rounds"]
        return trials if left is None else trials[: max(0, int(left) - under_way)]

    def round(self, trials: Sequence[Trial]) -> None:
        """One round of each trial; what came back goes to its policy."""
        todo, heard = list(trials), []
        sealed = self.evaluator.privacy is not None and any(trial.scores_in_round for trial in trials)
        # A private release is drawn from scores that are nowhere but in memory.
        with self.federation.in_one_piece() if sealed else nullcontext():
            for attempt in range(_ATTEMPTS):
                if not todo:
                    break
                self.ledger.require(Cost(rounds=len(todo)))
                reports = self.federation.round([self._work(trial, attempt) for trial in todo])
                done = list(zip(todo, reports, strict=True))
                heard += [(trial, report) for trial, report in done if report.applied]
                todo = self.payable([t for t, report in done if self._take(t, report, attempt)])
            self.channel.learn(self, heard)
        self._emit("round", trials)

    def submit(self, trial: Trial, attempt: int = 0) -> None:
        """Begin a round of one trial, so that others need not wait for it."""
        self.federation.submit(self._work(trial, attempt))

    def collect(
        self, trials: Mapping[int, Trial], attempts: dict[int, int], number: int | None = None
    ) -> Trial:
        """A trial whose round has ended, any or the one named; `attempts` counts those of rounds under way.

        A trial whose round must be repeated stays in `attempts`, and is to be submitted again.
        """
        report = self.federation.next_done(number)
        done = trials[report.trial]
        if self._take(done, report, attempts[done.number]):
            attempts[done.number] += 1
        else:
            del attempts[done.number]
        if report.applied:
            self.channel.learn(self, [(done, report)])
        self._emit("round", [done])
        return done

    def _take(self, trial: Trial, report: RoundReport, attempt: int) -> bool:
        """Take in what came back from a round; returns whether it is to be repeated."""
        self._unused.pop(trial.number, None)
        if report.applied:
            trial.round = report.round
            trial.trained += 1
            trial.losses.append(round_loss(report))
        elif attempt + 1 < _ATTEMPTS and not _diverged(report):
            self._unused[trial.number] = report
            return True
        else:
            self._fail(trial, _why(report))
        return False

    def replace(
        self, trial: Trial, source: Trial, config: Config, score: float | None, source_score: float | None
    ) -> None:
        """Make a trial a copy of another, weights and server state, that goes on under a config of its own.

        What was known of it is not of this model: its scores and its policy start anew.
        """
        number, times = trial.number, len(trial.replacements) + 1
        if trial.status == FAILED or trial.config.model != config.model:
            if trial.status != FAILED:
                self.federation.stop(number)
            self.federation.start(number, config.model, derive(self.seed, "trial", number, times))
        self.federation.fork(source.number, number)
        trial.replacements.append(
            Replacement(
                source.round,
                source.number,
                len(source.replacements),
                trial.round,
                config,
                score,
                source_score,
                trial.reason,
            )
        )
        trial.config, trial.round, trial.status, trial.reason = config, source.round, TRAINING, ""
        trial.policy = self._policies[number].begin(
            config, self.space, stream(self.seed, "policy", number, times)
        )
        for known in (trial.scores, trial.evaluations, trial.losses):
            known.clear()
        self._emit("exchange", [trial])

    def members(self, trial: Trial, attempt: int) -> tuple[list[int], np.random.Generator]:
        """The cohort of a trial's next round, and the generator for what else is drawn in it."""
        rng = stream(self.seed, "round", trial.number, trial.round, attempt)
        clients = self.federation.train_clients
        return [int(c) for c in rng.choice(clients, self.cohort, replace=False)], rng

    def _work(self, trial: Trial, attempt: int) -> Work:
        cohort, rng = self.members(trial, attempt)
        work = Work(
            trial.number,
            cohort,
            trial.policy.assign(cohort, rng),
            trial.config.server,
            trial.scores_in_round,
        )
        self._note_tried(work)
        return work

    def _note_tried(self, work: Work) -> None:
        self.tried["server"].add(_vector(work.server))
        if isinstance(work.client, Mapping):
            self.tried["client"].add(_vector(work.client))
        elif isinstance(work.client, Sequence):
            self.tried["client"].update(map(_vector, work.client))

    def _fail(self, trial: Trial, why: str) -> None:
        trial.reason = f"round {trial.round + 1}: no update could be used ({why})"
        trial.status = FAILED
        self.federation.stop(trial.number)

    def _fail_untrained(self, trials: Sequence[Trial]) -> None:
        """A model without a single round is as it was built: it must be neither scored nor selected."""
        for trial in trials:
            if trial.status == TRAINING and not trial.round:
                report = self._unused.get(trial.number)
                spent = "the budget was spent before" if report is None else _why(report)
                self._fail(trial, spent)

    def evaluate(self, trials: Sequence[Trial]) -> None:
        """A fresh score of each trial, through the channel that the evaluator sets."""
        ready = [trial for trial in trials if trial.status != FAILED]
        if not ready:
            return
        observed = self.channel.observe(self, ready, self._evaluations)
        self._evaluations += 1
        for trial, (score, scores) in zip(ready, observed, strict=True):
            trial.scores.append(score)
            if scores is not None:
                trial.evaluations.append(Evaluation(self._evaluations, trial.round, scores))
        self._emit("evaluate", ready)

    def top(self, rung: Sequence[Trial], count: int) -> list[Trial]:
        """The best `count` trials of a rung: as the evaluator compares them, or by a private choice."""
        return self.channel.top(self, rung, count)

    def eliminate(self, trials: Sequence[Trial]) -> None:
        """Drop trials. The user's own config is kept where it is to be trained to the end."""
        for trial in trials:
            if trial.status != FAILED:
                trial.status = ELIMINATED
                if not (self._keep_baseline and trial.number == 0):
                    self.federation.stop(trial.number)

    def finish(
        self, trials: Sequence[Trial], prefer: Callable[[Sequence[Trial]], Trial | None] | None = None
    ) -> None:
        """These trials are trained to the end; all but the best so far, and trial 0, are freed.

        `prefer` names the best of several, or None to go by their scores: see `Recommender`.
        """
        self._fail_untrained(trials)
        fresh = [trial for trial in trials if trial.status == TRAINING]
        for trial in fresh:
            trial.status = FINISHED
        rivals = fresh if self._incumbent is None else [self._incumbent, *fresh]
        if rivals:
            self._incumbent = (prefer and prefer(rivals)) or self.top(rivals, 1)[0]
        for trial in self.trials:
            lost = trial.status == FINISHED and trial is not self._incumbent and trial.number != 0
            if lost and trial.number in self.federation.trials:
                self.federation.stop(trial.number)

    def best(self, trials: Sequence[Trial] | None = None) -> Trial:
        """The best of these trials (of all that were trained to the end).

        Where all of these failed it is the `leader`, as far as that one got.
        """
        if trials is None:
            # The others lost to it, at the rounds that were theirs in common, and are freed.
            found = self._incumbent
            trials = [found] if found is not None and math.isfinite(found.rank_value) else []
        good = [trial for trial in trials if trial.round and math.isfinite(trial.rank_value)]
        best = self.top(good, 1)[0] if good else self.leader()
        if best is None:
            raise TuningError(self._why_none())
        return best

    def _why_none(self) -> str:
        """Why there is no best trial, with the first thing that went wrong at a client."""
        first = self.failures.first
        quoted = "" if first is None else f"; {first}"
        reasons = [t.reason for t in self.trials if t.reason]
        if any(trial.trained for trial in self.trials) or not reasons:
            return f"no trial has a finite score{quoted or (f'; the first: {reasons[0]}' if reasons else '')}"
        return f"no trial could be trained; the first: {reasons[0]}"

    def leader(self) -> Trial | None:
        """The trial to name if the search ended now: among those trained longest, the best."""
        scored = [t for t in self.trials if t.round and t.scores and math.isfinite(t.rank_value)]
        longest = max((trial.scores[-1].round for trial in scored), default=0)
        # Of those that are finished all but one have lost already: see `finish`.
        beaten = {t for t in scored if t.status == FINISHED and t is not self._incumbent}
        if (
            self._incumbent is None
            or self._incumbent not in scored
            or self._incumbent.scores[-1].round < longest
        ):
            beaten = set()
        rivals = [t for t in scored if t.scores[-1].round == longest and t not in beaten]
        return best_first(rivals, self.evaluator)[0] if rivals else None

    def tell(self, kind: str) -> None:
        """Tell callbacks that a method got on with what is no training, so that one of them may stop it."""
        self._emit(kind, ())

    def _emit(self, kind: str, trials: Sequence[Trial]) -> None:
        self._on_event(Event(kind, self, self.federation.replaying, trials))


def _vector(values: Mapping[str, Any]) -> str:
    """One text per vector of hyperparameters, to count them by."""
    return repr(sorted(values.items()))


def _why(report: RoundReport) -> str:
    """The first client that failed and its reason; of one that is missing if none failed."""
    order = sorted(report.reasons, key=lambda place: (report.status[place] != Status.FAILED, place))
    if not order:
        return "no client replied"
    return f"client {report.cohort[order[0]]}: {report.reasons[order[0]]}"


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
