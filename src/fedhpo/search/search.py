"""A search: all that a method works with while a study is tuned.

It starts trials, trains and scores them through the session, and keeps what is known of each. A method never
sees a client: what it may know of them comes through here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from operator import is_not
from typing import Any, Protocol

from fedhpo.core.errors import InputError
from fedhpo.core.streams import derive, stream
from fedhpo.policies import Fixed
from fedhpo.protocol.criteria import Criteria
from fedhpo.protocol.failures import Failures
from fedhpo.protocol.federation import PRODUCTS, Ints
from fedhpo.protocol.ledger import Ledger
from fedhpo.protocol.objective import Objective, Score
from fedhpo.protocol.policy import ClientPolicy
from fedhpo.protocol.sampler import Asked, Observation, Sampler, limit_of
from fedhpo.protocol.schedule import FULL, RUNG
from fedhpo.protocol.session import Session
from fedhpo.search.channel import Channel
from fedhpo.search.comparison import Comparison
from fedhpo.search.evaluator import Evaluator
from fedhpo.search.events import Event, TuningError
from fedhpo.search.keeping import Keep, Keeper
from fedhpo.search.private import channel_of
from fedhpo.search.rounds import Rounds
from fedhpo.search.scalarised import told
from fedhpo.search.scores_in_round import scores_in_round
from fedhpo.search.standing import leader_of, why_none
from fedhpo.search.trial import (
    ELIMINATED,
    FAILED,
    FINISHED,
    OWN_AGAIN,
    TRAINING,
    TRIED_OUT,
    Evaluation,
    Replacement,
    Trial,
)
from fedhpo.space import Space
from fedhpo.space.config import Config


class Exchanging(Protocol):
    """What happens between trials while they train; see `fedhpo.methods.fedpop.exchange`."""

    @property
    def scores(self) -> tuple[str, ...]:
        """Which scores clients take inside a round."""

    def train(self, search: Search, population: Sequence[Trial], until: int) -> None:
        """Train these trials until each has `until` rounds behind it, and exchange on the way."""


class Search:
    """See the module's docstring.

    `rounds` is the length of one full training, `total` the rounds to spend over all trials, `cohort`
    the number of clients in a round. A method can plan (`Method.rounds`) before the search has begun, that
    is, before there is a `session`.
    """

    session: Session

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
        failures: Failures | None = None,
        criteria: Criteria | None = None,
        horizon: str = FULL,
        keep: Keep = "last",
        margin: float | None = None,
    ) -> None:
        self.space = space
        #: Where a race ends once its leader is not worse than another by more than this: see `decided`.
        self.margin = margin
        #: Which model of a training is kept: see `fedhpo.search.keeping`.
        self.keep: Keep = keep
        self._keeper = None if keep == "last" else Keeper(keep)
        #: How long the schedules of a trial are that is cut short: see `HORIZONS`.
        self.horizon = horizon
        self.rounds, self.total, self.cohort, self.seed = rounds, total, cohort, seed
        self.objective, self.evaluator = objective, evaluator
        #: What trials are judged by besides: further objectives, and constraints.
        self.criteria = Criteria() if criteria is None else criteria
        #: What stands between clients' scores and the method.
        self.channel: Channel = channel_of(evaluator)
        self.pool = pool
        self.enqueued = [config for config in enqueued if pool is None or config in pool]
        self.trials: list[Trial] = []
        #: Whether the method has made its choice: what follows compares it with the user's own config.
        self.concluding = False
        self.rounds_before = 0
        #: What failed at clients, counted from every reply.
        self.failures = Failures() if failures is None else failures
        #: Every total that the run had, where it was raised.
        self.totals: list[int] = []
        #: The trial that the search ended with, once it is over: for what a method says of itself.
        self.winner: Trial | None = None
        #: What the method adds to result.json.
        self.facts: dict[str, Any] = {}
        #: Trials that private releases are planned for; None for no limit.
        self.most_trials: int | None = None
        #: What happens between trials while they train, if anything does.
        self.exchange: Exchanging | None = None
        #: Whether all trials train at the same clients in the same round.
        self.shared_cohorts = False
        #: Who compares the winner with the user's own config in a private run; None where nobody does.
        self.comparison: Comparison | None = None
        #: Whether they were asked.
        self.compared = False
        #: Whether clients that no score came from compare the two at the end; `asked` are the others.
        self.compares_afresh = False
        self.asked: set[int] = set()
        #: Whether only clients count that answered about all trials of an evaluation.
        self.counts_together = False
        #: Each client's accuracy when it was first scored, for `Evaluator.bias_per`.
        self.first_seen: dict[int, float] = {}
        self._own_again: Trial | None = None
        self._rounds = Rounds()
        self._policies: dict[int, ClientPolicy] = {}
        self._incumbent: Trial | None = None
        self.keeps_baseline = keep_baseline
        self._evaluations = 0
        self._watches = 0
        self._asked_since = 0
        self._asked = Asked()
        #: By trial, its observations and what they were made of: most trials change no more.
        self._observed: dict[int, tuple[tuple[Any, ...], list[Observation]]] = {}
        self._on_event = on_event

    def begin(
        self,
        session: Session,
        *,
        channel: Channel | None = None,
        most_trials: int | None = None,
        totals: Sequence[int] = (),
    ) -> None:
        """Give the search its session; with privacy also what was planned, see `fedhpo.search.private_setup`.

        `totals` are all totals that the run had, where it was raised.
        """
        self.session, self.totals, self.most_trials = session, list(totals), most_trials
        if channel is not None:
            self.channel = channel

    def afresh(self, session: Session, channel: Channel) -> Search:
        """The same search as it will begin, in another session and unwatched; this one stays as it is."""
        other = Search(
            self.space,
            rounds=self.rounds,
            total=self.total,
            cohort=self.cohort,
            seed=self.seed,
            objective=self.objective,
            evaluator=self.evaluator,
            enqueued=self.enqueued,
            pool=self.pool,
            keep_baseline=self.keeps_baseline,
            criteria=self.criteria,
            horizon=self.horizon,
            keep=self.keep,
            margin=self.margin,
        )
        other.comparison = self.comparison
        other.begin(session, channel=channel)
        return other

    def exchange_by(self, exchange: Exchanging | None) -> None:
        """From here on trials that train together exchange in this way; None for not at all."""
        self.exchange = exchange

    @property
    def population(self) -> Ints:
        """The clients whose scores the search may ask for: those that hold validation data and search."""
        return self.session.validation_clients if self.comparison is None else self.comparison.searched

    def may_hear(self, clients: Iterable[int]) -> list[int]:
        """Those of the clients that are not held out of a private search."""
        plan = self.comparison
        held_out = set(plan.clients.tolist()) if plan is not None and plan.held_out else ()
        return [client for client in clients if client not in held_out]

    @property
    def ledger(self) -> Ledger:
        """What was spent."""
        return self.session.ledger

    @property
    def tried(self) -> Mapping[str, set[str]]:
        """The server's and the clients' vectors of hyperparameters that were trained with."""
        return self._rounds.tried

    @property
    def observations(self) -> list[Observation]:
        """Every score of every trial so far; a trial that failed scores infinitely bad where it stopped."""
        seen = []
        for trial in self.trials:
            facts = (trial.config, trial.status, trial.round, *trial.scores)
            before, found = self._observed.get(trial.number, ((), []))
            if len(before) != len(facts) or any(map(is_not, before, facts)):
                found = _observations_of(trial, self.rounds)
                self._observed[trial.number] = facts, found
            seen += found
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
            rounds = total + (self.rounds if self.keeps_baseline else 0)
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
            self.session.start(number, config.model, derive(self.seed, "trial", number))
            state = policy.begin(config, self.space, stream(self.seed, "policy", number))
            scores, products = self._scores_in_round(policy), PRODUCTS in policy.needs
            started.append(Trial(number, config, state, scores, products=products))
            self._policies[number] = policy
            self.trials.append(started[-1])
        self._emit("start", started)
        return started

    def _scores_in_round(self, policy: ClientPolicy) -> tuple[str, ...]:
        return scores_in_round(policy, self.exchange, self.space, self.evaluator.privacy)

    def _next_config(self, sampler: Sampler) -> Config | None:
        number = len(self.trials)

        def ask() -> Any:
            if number < len(self.enqueued):
                return self.enqueued[number].to_dict()
            asked = self._asked = self._asked.grown(
                [trial.config for trial in self.trials[self._asked_since :]]
            )
            rng = stream(self.seed, "ask", number)
            seen = told(sampler, self.observations, stream(self.seed, "weights", number))
            config = sampler.suggest(self.space, seen, asked, rng, self.pool)
            return None if config is None else config.to_dict()

        any_config = self.space.default().to_dict()
        answer = self.session.decide("ask", {"trial": number}, ask, planned=any_config)
        return None if answer is None else Config.from_dict(answer)

    def distinct(self, wanted: int, sampler: Sampler) -> int:
        """How many of `wanted` trials there can be, no config coming twice."""
        if self.pool is not None:
            return min(wanted, len(self.pool))
        limit = limit_of(sampler, self.space)
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
        tried = [self.apart(TRIED_OUT + place, config) for place, config in enumerate(configs)]
        self.train(tried, rounds)
        self.evaluate(tried)
        self.eliminate(tried)
        self.rounds_before += len(tried) * rounds
        self.total -= len(tried) * rounds
        return tried

    def apart(self, number: int, config: Config) -> Trial:
        """A trial outside the search."""
        self.session.start(number, config.model, derive(self.seed, "trial", number))
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
            self._own_again = self.apart(OWN_AGAIN, self.trials[0].first)
        assert self.own is not None
        return self.own

    def train_own(self, rounds: int) -> bool:
        """Train the user's own config until it has so many rounds, whatever the search did with it.

        Returns whether its training went well.
        """
        own = self.begin_own_again()
        status, own.status = own.status, TRAINING
        self._train_alone(
            [own], rounds
        )  # an exchange would score it on the way, and nobody has paid for that
        if own.status != TRAINING:
            return False
        own.status = status
        return True

    def _drop_kept(self, trial: Trial) -> None:
        if self._keeper is not None:
            self._keeper.drop(self, trial)

    def settle(self, best: Trial) -> None:
        """The method names its winner; which of its models that is, follows from `keep`."""
        if self._keeper is not None:
            self._keeper.close(self, best)

    def conclude(self) -> None:
        """The method has made its choice."""
        self.tell("chosen")
        self.concluding = True

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
        if self.exchange is None:
            self._train_alone(trials, until)
        else:
            self.exchange.train(self, trials, until)
            self._rounds.fail_untrained(self, trials)

    def _train_alone(self, trials: Sequence[Trial], until: int) -> None:
        """The same, with no exchange between them."""
        if self.anew:
            self._begin_anew(trials, until)
        while ready := self.payable([t for t in trials if t.status == TRAINING and t.round < until]):
            self.round(ready)
            if self._keeper is not None and not self.concluding:
                self._keeper.follow(self, ready)
        self._rounds.fail_untrained(self, trials)

    @property
    def anew(self) -> bool:
        """Whether a trial that goes on to the next rung is trained anew, on the schedule of that rung."""
        return self.horizon == RUNG

    def _begin_anew(self, trials: Sequence[Trial], until: int) -> None:
        """Let these trials begin from round 0, with schedules that end at `until`; scores are kept."""
        for trial in trials:
            if trial.status != TRAINING or trial.round >= until:
                continue
            if trial.round:
                number = trial.number
                self.session.stop(number)
                self.session.start(number, trial.config.model, derive(self.seed, "trial", number))
                trial.round = 0
                trial.losses.clear()
            trial.horizon = until

    def payable(self, trials: list[Trial], under_way: int = 0) -> list[Trial]:
        """As many of these as the budget has a round for, beyond those under way."""
        left = self.ledger.remaining["rounds"]
        return trials if left is None else trials[: max(0, int(left) - under_way)]

    def there(self, clients: Ints, least: int) -> Ints:
        """The clients that are available now; waits until at least `least` are.

        All of them, unless the federation simulates time.
        """
        if not self.session.timed:
            return clients
        time, found = self.session.present(self.ledger.simulated_seconds, least, clients)
        self.ledger.reach(time)
        return found

    def round(self, trials: Sequence[Trial]) -> None:
        """One round of each trial; what came back goes to its policy."""
        self._rounds.run(self, trials)
        self._emit("round", trials)
        self._watch(trials)

    def submit(self, trial: Trial, attempt: int = 0) -> None:
        """Begin a round of one trial, so that others need not wait for it."""
        self._rounds.submit(self, trial, attempt)

    def collect(
        self, trials: Mapping[int, Trial], attempts: dict[int, int], number: int | None = None
    ) -> Trial:
        """A trial whose round has ended, any or the one named; `attempts` counts those of rounds under way.

        A trial whose round must be repeated stays in `attempts`, and is to be submitted again.
        """
        done = self._rounds.collect(self, trials, attempts, number)
        self._emit("round", [done])
        return done

    def _watch(self, trials: Sequence[Trial]) -> None:
        """Score trials under way for those who watch, if the evaluator says so, unseen by the method."""
        every = self.evaluator.every
        if every is None or self.concluding or self.exchange is not None:
            return
        looked = [
            trial
            for trial in trials
            if trial.status == TRAINING
            and 0 < trial.round < self.rounds
            and trial.round % every == 0
            and trial.number < OWN_AGAIN
            and all(score.round != trial.round for score in trial.scores)
        ]
        if looked:
            # Numbered apart, so that the clients of other evaluations stay the same.
            observed = self.channel.observe(self, looked, WATCHED + self._watches)
            self._watches += 1
            for trial, (score, _) in zip(looked, observed, strict=True):
                trial.watched.add(trial.round)
                trial.scores.append(score)
            self._emit("evaluate", looked)

    def replace(
        self, trial: Trial, source: Trial, config: Config, score: float | None, source_score: float | None
    ) -> None:
        """Make a trial a copy of another, weights and server state, that goes on under a config of its own.

        What was known of it is not of this model: its scores and its policy start anew.
        """
        number, times = trial.number, len(trial.replacements) + 1
        if trial.status == FAILED or trial.config.model != config.model:
            if trial.status != FAILED:
                self.session.stop(number)
            self.session.start(number, config.model, derive(self.seed, "trial", number, times))
        self.session.fork(source.number, number)
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

    def snapshot(
        self,
        trial: Trial,
        into: Trial | None = None,
        *,
        config: Config | None = None,
        policy: ClientPolicy | None = None,
    ) -> Trial:
        """A copy of a trial as it is now, to come back to; into the one given, or into a new trial.

        A new one may go on under a config and a client policy of its own.
        """
        if into is None:
            number = len(self.trials)
            self.session.start(number, trial.config.model, derive(self.seed, "trial", number))
            scores = trial.scores_in_round if policy is None else self._scores_in_round(policy)
            into = Trial(number, trial.config, trial.policy, scores, products=trial.products)
            self._policies[number] = policy or self._policies[trial.number]
            self.trials.append(into)
        value = None if trial.score is None else trial.score.value
        self.replace(into, trial, config or trial.config, None, value)
        return into

    def mix(self, trial: Trial, into: Trial, share: float) -> None:
        """Move a trial that does not train, a snapshot, by this share towards another as it is now.

        With shares of 1/2, 1/3 and so on it is the mean of the models that it was mixed from.
        """
        self.session.mix(trial.number, into.number, share)
        into.round = trial.round
        for known in (into.scores, into.evaluations, into.losses):
            known.clear()

    def evaluate(self, trials: Sequence[Trial]) -> None:
        """A fresh score of each trial, through the channel that the evaluator sets."""
        ready = [trial for trial in trials if trial.status != FAILED]
        if not ready:
            return
        for trial in ready:
            trial.forget_watched()
        observed = self.channel.observe(self, ready, self._evaluations)
        self._evaluations += 1
        for trial, (score, scores) in zip(ready, observed, strict=True):
            trial.scores.append(score)
            if scores is not None:
                self.asked.update(scores.clients.tolist())
                trial.evaluations.append(Evaluation(self._evaluations, trial.round, scores))
        self._emit("evaluate", ready)

    def choose(self, trials: Sequence[Trial], count: int, looks: int = 1) -> list[Trial]:
        """The best `count` of these trials: by what the evaluator compares them by, or by a private choice.

        A private choice says which trials are best, not in which order: they then come by their numbers. For
        an order use `rank`. It pools `looks` evaluations, each at other clients, into one release.
        """
        return self.channel.choose(self, trials, count, looks)

    def rank(self, trials: Sequence[Trial]) -> list[Trial]:
        """These trials, the best first. Raises `InputError` where privacy releases no values."""
        return self.channel.rank(self, trials)

    def eliminate(self, trials: Sequence[Trial]) -> None:
        """Drop trials. The user's own config is kept where it is to be trained to the end."""
        for trial in trials:
            if trial.status != FAILED:
                trial.status = ELIMINATED
                self._drop_kept(trial)
                if not (self.keeps_baseline and trial.number == 0):
                    self.session.stop(trial.number)

    def finish(
        self, trials: Sequence[Trial], prefer: Callable[[Sequence[Trial]], Trial | None] | None = None
    ) -> None:
        """These trials are trained to the end; all but the best so far, and trial 0, are freed.

        `prefer` names the best of several, or None to go by their scores: see `Recommender`.
        """
        self._rounds.fail_untrained(self, trials)
        fresh = [trial for trial in trials if trial.status == TRAINING]
        for trial in fresh:
            trial.status = FINISHED
        rivals = fresh if self._incumbent is None else [self._incumbent, *fresh]
        if rivals:
            self._incumbent = (prefer and prefer(rivals)) or self.choose(rivals, 1)[0]
        for trial in self.trials:
            lost = trial.status == FINISHED and trial is not self._incumbent and trial.number != 0
            if lost and trial.number in self.session.trials:
                self._drop_kept(trial)
                self.session.stop(trial.number)

    def best(self, trials: Sequence[Trial] | None = None) -> Trial:
        """The best of these trials (of all that were trained to the end).

        Where all of these failed it is the `leader`, as far as that one got.
        """
        if trials is None:
            # The others lost to it, at the rounds that were theirs in common, and are freed.
            found = self._incumbent
            trials = [found] if found is not None and math.isfinite(found.rank_value) else []
        good = [trial for trial in trials if trial.round and math.isfinite(trial.rank_value)]
        best = self.choose(good, 1)[0] if good else self.leader()
        if best is None:
            raise TuningError(why_none(self.trials, self.failures))
        return best

    def leader(self) -> Trial | None:
        """The trial to name if the search ended now: among those trained longest, the best."""
        return leader_of(self.trials, self._incumbent, self.evaluator, self.objective)

    def tell(self, kind: str) -> None:
        """Report non-training progress to callbacks, so that one of them may stop the run."""
        self._emit(kind, ())

    def _emit(self, kind: str, trials: Sequence[Trial]) -> None:
        self._on_event(Event(kind, self, self.session.replaying, trials))


def _observations_of(trial: Trial, rounds: int) -> list[Observation]:
    """A trial's scores; infinitely bad where it failed."""
    asked = (score for score in trial.scores if score.round not in trial.watched)
    seen = [Observation(trial.number, trial.config, score, score.round >= rounds) for score in asked]
    if trial.status == FAILED:
        seen.append(
            Observation(trial.number, trial.config, Score(math.nan, math.nan, 0, trial.round, math.inf))
        )
    return seen


#: Evaluations for those who watch are numbered from here.
WATCHED = 1_000_000

#: Clients in a round where nothing is said, and there are so many.
COHORT = 10


def cohort_of(wanted: int | None, clients: int) -> int:
    """How many of so many clients train in a round: `COHORT`, or all, where nothing is said.

    >>> cohort_of(None, 3), cohort_of(None, 50), cohort_of(7, 50)
    (3, 10, 7)
    """
    return min(COHORT, clients) if wanted is None else wanted


def check_cohort(cohort: int, clients: int) -> None:
    """Refuse a cohort that the federation does not have."""
    if isinstance(cohort, bool) or not isinstance(cohort, int) or cohort < 1:
        raise InputError(f"cohort must be a whole number of at least 1, not {cohort!r}")
    if cohort > clients:
        raise InputError(f"cohort is {cohort}, but only {clients} clients can train")
