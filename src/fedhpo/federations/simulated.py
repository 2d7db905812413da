"""The simulated federation: clients in this machine's memory, local training on all its cores."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, Protocol, get_args

import numpy as np
from torch import nn

from fedhpo.aggregation.aggregation import Aggregation
from fedhpo.aggregation.server import OPTIMISERS, optimiser_class, optimisers
from fedhpo.aggregation.sizes import size_limits
from fedhpo.core.canonical import canonical
from fedhpo.core.errors import InputError, unknown_name
from fedhpo.core.fingerprint import code_of
from fedhpo.core.hyperparameters import parse
from fedhpo.core.settings import is_number, whole_number
from fedhpo.core.streams import derive, stream
from fedhpo.core.vectors import Vector, named_parts
from fedhpo.data import Encoding, distances
from fedhpo.data.columns import Preparation, described
from fedhpo.data.fingerprint import data_of
from fedhpo.data.lazy import source_of
from fedhpo.data.profile import majority_share
from fedhpo.engine import flat
from fedhpo.engine.built import to_channels_last
from fedhpo.engine.effort import UNKNOWN, Effort, effort_of
from fedhpo.engine.executor import Executor, Job, JobResult, ScoreTask, Setup, Shares, TrainTask
from fedhpo.engine.factory import ZooModel
from fedhpo.engine.fingerprint import model_of
from fedhpo.engine.flat import FlatModel
from fedhpo.engine.fold import LARGE
from fedhpo.engine.frozen import Shapes
from fedhpo.engine.gather import Gathering
from fedhpo.engine.hyperparameters import Local
from fedhpo.engine.lr_schedule import why_no_horizon
from fedhpo.engine.plan import Member, plan
from fedhpo.engine.pool import Done, Order, Pool, start_pool
from fedhpo.engine.rows import MOST_SHARE, RowLayout, RowSum, exact, has_tables, row_layout
from fedhpo.engine.score import PartScores, means
from fedhpo.engine.stacked import can_stack, largest_batch
from fedhpo.federations.apart import Apart
from fedhpo.federations.branches import Branches, Whole
from fedhpo.federations.first_model import (
    fresh_model,
    warn_of_batch_norm,
    warn_of_drawn,
    warn_of_no_dropout,
)
from fedhpo.federations.fleet import Fleet
from fedhpo.federations.server_trials import HoldsTrials, Round, Trials, strategy_server
from fedhpo.federations.simulated_search import search_clients
from fedhpo.federations.timing import Timed, Timing, epochs_of
from fedhpo.federations.untrained import UntrainedFederation
from fedhpo.protocol import federation as protocol
from fedhpo.protocol.bounds import checked_scores
from fedhpo.protocol.federation import (
    AFTER,
    BEFORE,
    Answer,
    Cost,
    Floats,
    Ints,
    Query,
    RoundReport,
    Scores,
    SplitName,
    Status,
    Work,
)
from fedhpo.protocol.fine_tune import FineTune
from fedhpo.protocol.metrics import Metric, check_metrics
from fedhpo.protocol.objective import LOCAL_SCORINGS
from fedhpo.protocol.query import OwnQuery
from fedhpo.protocol.reasons import Reason
from fedhpo.queries.local_search import LocalSearch
from fedhpo.queries.own import ask_each, party_at, query_seed
from fedhpo.space import Space
from fedhpo.space.config import Config
from fedhpo.workers.spawn import cores, refuse_in_worker

SPLITS = get_args(SplitName)
#: Nominal seconds of a scoring task that follows the clients.
_SCORED = 20e-3
#: What a client sends back of an evaluation: loss, accuracy and size.
_SCORE_BYTES = 24


@dataclass(frozen=True)
class _Shape:
    """What is known of a model shape: its sizes, the largest batch to stack, whether it trains by hand."""

    size: int
    trainable: int
    stacked_batch: float
    shapes: Mapping[str, tuple[int, ...]]
    by_hand: bool
    #: How clients train and send the rows of large embeddings that they touch; else why they do not.
    rows: RowLayout | None = None
    dense: str = ""
    #: What its forward pass costs.
    effort: Effort = UNKNOWN
    #: Why convolutions are not laid out channels last; empty where they are, None where there are none.
    layout: str | None = None


class _Models:
    """Makes the first model of each trial, and looks at every shape once.

    Not part of the federation: trials would then keep the federation alive after its last use.
    """

    def __init__(self, setup: Setup, stacking: bool) -> None:
        self._setup, self._stacking = setup, stacking
        self._known: dict[str, _Shape] = {}
        self.shapes = Shapes(setup.factory)

    def first(self, hyperparameters: Mapping[str, Any], seed: int) -> tuple[_Shape, Vector]:
        model = fresh_model(self.shapes, hyperparameters, seed)
        weights = model.vector()  # before anybody tries the model
        return self._look(hyperparameters, model), weights

    def shape(self, hyperparameters: Mapping[str, Any]) -> _Shape:
        """What is known of models with these hyperparameters."""
        known = self._known.get(flat.shape_key(hyperparameters))
        return known or self._look(hyperparameters, self.shapes.build(hyperparameters))

    def _look(self, hyperparameters: Mapping[str, Any], model: FlatModel) -> _Shape:
        shape = flat.shape_key(hyperparameters)
        if shape not in self._known:
            self._known[shape] = self._inspect(shape, model)
        return self._known[shape]

    def _inspect(self, shape: str, model: FlatModel) -> _Shape:
        warn_of_batch_norm(model.module)
        warn_of_drawn(model)
        largest, hand, rows, dense = 0.0, False, None, ""
        executor = Executor(self._setup)
        if self._setup.train is None and not model.frozen:  # else the plain path is taken
            hand = executor.trains_by_hand(shape)
            if self._stacking:
                largest = self._largest(executor, shape)
        if has_tables(model):
            rows, dense = self._rows(model)
        effort, (x, y) = UNKNOWN, executor.sample()
        if self._setup.device == "cpu":
            effort = effort_of(model.module, x, len(y))
        layout = to_channels_last(model.module, x)
        size, trained, shapes = model.size, model.trainable_size, model.shapes
        return _Shape(size, trained, largest, shapes, hand, rows, dense, effort, layout)

    def _rows(self, model: FlatModel) -> tuple[RowLayout | None, str]:
        """How models of this shape travel by rows, or why not."""
        setup = self._setup
        for reason, holds in (
            ("local training is a function of your own", setup.train is not None),
            ("batches are collated by a function of your own", setup.collate is not None),
            (f"training runs on {setup.device}", setup.device != "cpu"),
            ("clients are loaded lazily", source_of(setup.data) is not None),
        ):
            if holds:
                return None, reason
        return row_layout(model, Executor(setup).sample()[0])

    def _largest(self, executor: Executor, shape: str) -> float:
        """The largest batch with which models of this shape are stacked."""
        x, y = executor.sample()
        built, on_gpu = executor.model(shape).model, self._setup.device != "cpu"
        if not can_stack(built, x, y, self._setup.loss, any_size=on_gpu):
            return 0.0
        return math.inf if on_gpu else largest_batch(built.module, x)


class Adversary(Protocol):
    """Some clients of a simulation that lie; `fedhpo.testing.attacks` has one."""

    def announced(self, trial: int, clients: Ints, sizes: Ints) -> Ints:
        """The rows that clients say they have, given those that they have."""

    def gathering(self, trial: int, honest: Gathering, cohort: Ints) -> Gathering:
        """A round's gathering in which hostile members' replies are replaced."""

    def scores(self, honest: Scores) -> Scores:
        """Scores in which those of hostile clients are replaced."""


def _layout(shapes: Collection[_Shape]) -> dict[str, str]:
    """How images lie in memory, where there are convolutions."""
    found = dict.fromkeys(shape.layout for shape in shapes if shape.layout is not None)
    said = [f"channels first: {why}" if why else "channels last" for why in found]
    return {"layout": "; ".join(said)} if said else {}


def _embeddings(shapes: Collection[_Shape], sums: bool) -> dict[str, str]:
    """How large embeddings are trained, where there are any; `sums`: whether updates are only added up."""
    tables = dict.fromkeys(table.name for shape in shapes if shape.rows for table in shape.rows.tables)
    names, reasons = ", ".join(tables), dict.fromkeys(shape.dense for shape in shapes if shape.dense)
    by_rows = f"by touched rows: {names}" if sums else f"whole: {names}: the server looks at each update"
    said = [
        *([by_rows] if names else []),
        *(f"whole: {one}" for one in reasons),
    ]
    return {"embeddings": "; ".join(said)} if said else {}


def _by_row(places: Sequence[tuple[Round, int]], rows: Sequence[int]) -> list[tuple[Round, list[int]]]:
    """The members of a task whose updates come as one, by row of its output, and the round they belong to."""
    found: dict[int, tuple[Round, list[int]]] = {}
    for (one, member), row in zip(places, rows, strict=True):
        found.setdefault(row, (one, []))[1].append(member)
    return [found[row] for row in sorted(found)]


class SimulatedFederation(HoldsTrials):
    """Clients in this machine's memory; see `fedhpo.simulate` for the arguments."""

    place, local_scorings, cut_by_cost = "simulation", LOCAL_SCORINGS, True

    def __init__(
        self,
        setup: Setup,
        *,
        server: str = "fedavg",
        aggregation: Aggregation | None = None,
        workers: int | None = None,
        stacking: bool = True,
        missing: float = 0.0,
        strategy: str | None = None,
        fleet: Fleet | None = None,
        runtime: str = "simulated",
        pool: Callable[[Setup], tuple[Pool, str]] | None = None,
    ) -> None:
        refuse_in_worker()
        if workers is not None:
            workers = whole_number("workers", workers, least=0)
        if not is_number(missing) or not 0 <= missing <= 1:
            raise InputError(f"missing must be a probability, not {missing!r}")
        if not isinstance(server, str):
            raise optimisers.unknown(server)
        optimiser_class(server)  # an unknown name is an error here, not in the first round
        self._setup = setup
        data = setup.data
        self._server = server
        self._aggregation = aggregation or Aggregation()
        self._workers = cores() if workers is None else workers
        self._missing, self._stacking = missing, stacking
        self._pool: Pool | None = None
        count = self._workers  # not the federation itself: its workers go when nobody holds it any more
        self._start_pool = pool or (lambda setup: start_pool(setup, count))
        self._runtime, self._note = runtime, ""
        self._strategy = strategy
        models = _Models(setup, stacking)
        self._shapes, self._models = models.shapes, models
        self._trials = Trials(
            models.first,
            self._aggregation,
            server,
            strategy_server(strategy, self._aggregation.weighting, repeatable=True),
        )
        #: Hostile clients, to try what training withstands; see `fedhpo.testing.attacks`.
        self.adversary: Adversary | None = None
        self._running: dict[Order, list[tuple[Round, int]]] = {}
        self._apart: dict[Order, Apart] = {}
        self._branches = Branches()
        #: By model shape and client, how many rows of large embeddings its training data names.
        self._touched: dict[tuple[str, int], int] = {}
        self._train_sizes = data.train.sizes
        self._timing: Timing | None = None
        if fleet is not None:
            self._timing = Timing(fleet, data.train.sizes, data.validation.sizes, data.client_names)
        self.timed = fleet is not None
        self.client_settings = Local if setup.train is None else None
        self.client_names, self.task = data.client_names, data.task
        self.train_clients = data.train_clients
        self.validation_clients = data.validation_clients
        self.test_clients = data.test_clients
        able = {
            protocol.CLIENT_CONFIGS,
            protocol.FORK,
            protocol.MIX,
            protocol.PRODUCTS,
            protocol.QUERY,
            protocol.REPEATABLE,
        }
        if len(np.intersect1d(self.train_clients, self.validation_clients)):
            able.add(protocol.SCORES_IN_ROUND)
        if self.timed:  # how long a client takes for other work is not simulated
            able.discard(protocol.QUERY)
        self.capabilities = frozenset(able)

    def preflight(self, config: Config, metric: str) -> None:
        from fedhpo.engine.preflight import preflight

        preflight(self._setup, config.model, config.client, metric)
        if self._setup.train is None:
            warn_of_no_dropout(self._shapes.build(config.model).module, config.client)

    def why_no_horizon(self, space: Space) -> str:
        # Training of the user's own is told the number of rounds.
        return "" if self._setup.train is not None else why_no_horizon(space.scope("client"))

    def seconds_a_row(self, config: Config) -> float | None:
        """How long one thread of this machine trains on a row; see `fedhpo.engine.pace`."""
        from fedhpo.engine.pace import seconds_a_row

        return seconds_a_row(self._setup, config.model, config.client)

    def model(self, trial: int) -> nn.Module:
        """The trial's model as a module, for use outside the federation."""
        one = self._trials[trial]
        model = self._shapes.build(one.model)
        model.load(one.evaluated)
        return model.module

    def by_rows(self, model: Mapping[str, Any]) -> bool:
        return self._models.shape(model).rows is not None

    @cached_property
    def majority(self) -> float | None:
        """The share of the commonest class among validation rows."""
        return majority_share(self._setup.data)

    @property
    def encoding(self) -> Encoding | None:
        """How columns became features, where data came as columns."""
        return self._setup.data.encoding

    @property
    def preparation(self) -> Preparation:
        """What encoded rows go through before the model sees them."""
        data = self._setup.data
        return Preparation(data.fill, data.mean, data.std)

    @property
    def zoo(self) -> dict[str, Any] | None:
        """What builds the model, where it is one of ours."""
        factory = self._setup.factory
        return asdict(factory) if isinstance(factory, ZooModel) else None

    # Rounds

    def submit(self, work: Work) -> None:
        self._plan([work])

    def round(self, work: Sequence[Work]) -> list[RoundReport]:
        self._plan(work)
        return [self.next_done(piece.trial) for piece in work]

    def _plan(self, works: Sequence[Work]) -> None:
        """Turn rounds into tasks, and submit them."""
        self._trials.apart(works)
        rounds = [self._begin(work) for work in works]
        places = [(one, member) for one in rounds for member in one.gathering.sequence]
        wanted = [self._member(one, member) for one, member in places]
        orders = []
        units: dict[int, list[list[int]]] = {one.work.trial: [] for one in rounds}
        for task, members in plan(wanted, self._setup.device, self._aggregation.clip_norm):
            chosen = [places[i] for i in members]
            weights = [one.trial.weights for one, _ in chosen]
            shares = range(len(members)) if task.shares is None else task.shares.rows
            width = len(weights[0])
            if task.rows is not None:
                found = (self._rows_of(task.shape, task.rows, job.client) for job in task.jobs)
                width = task.rows.room(min(sum(found), task.rows.rows))
            cost = sum(wanted[i].seconds for i in members)
            orders.append(Order(task, weights, (max(shares) + 1, width), seconds=cost))
            self._running[orders[-1]] = chosen
            for one, together in _by_row(chosen, shares):
                units[one.work.trial].append(together)
        for one in rounds:
            one.gathering.arrange(self._planted(one, orders) or units[one.work.trial])
        for order in orders:
            self._started_pool.submit(order)
        self._trials.rounds.update({one.work.trial: one for one in rounds})

    def _planted(self, one: Round, orders: Sequence[Order]) -> list[list[int]]:
        """A round's members as one unit, if workers add up all its updates; else nothing."""
        if len(one.trial.weights) < LARGE or not self._sums(one.work) or one.rows is not None:
            return []
        own = [order for order in orders if self._running[order][0][0] is one]
        if not own or any(order.output is None or order.output[0] > 1 for order in own):
            return []
        self._branches.plant(own)
        return [[member for order in own for _, member in self._running[order]]]

    def _begin(self, work: Work) -> Round:
        trial = self._trials[work.trial]
        self._trials.idle(work.trial)
        cohort = np.array(work.cohort, np.int64)
        for client in work.cohort:
            if not 0 <= client < len(self._train_sizes) or not self._train_sizes[client]:
                raise InputError(f"client {client} cannot train: it is not there, or has no training data")
        epochs = epochs_of(work, self._train_sizes, own_training=self._setup.train is not None)
        missing = np.zeros(len(cohort), np.bool_)
        if self._missing:
            missing = stream(trial.seed, "missing", trial.calls).random(len(cohort)) < self._missing
        rows = self._by_rows(work)
        timed = self._timed(work, epochs)
        if timed is not None:
            missing[list(timed.reasons)] = True
        longest_first = np.argsort(-epochs * self._train_sizes[cohort], kind="stable")
        sequence = [int(i) for i in longest_first if not missing[i]]
        optimiser, aggregate = self._trials.server_side(work)
        gathering = Gathering.of(
            len(trial.weights),
            sequence,
            aggregate,
            missing,
            products=self._trials.products(work),
            limits=self._limits(work.trial, cohort),
            why=None if timed is None else timed.reasons,
        )
        if self.adversary is not None:
            gathering = self.adversary.gathering(work.trial, gathering, cohort)
        ends = trial.clock + float((epochs * self._train_sizes[cohort]).max())
        return Round(
            work,
            trial,
            optimiser,
            gathering,
            ends if timed is None else timed.last,
            timed=timed,
            traffic=None if rows is None else self._traffic(work, rows),
            rows=rows,
        )

    def _by_rows(self, work: Work) -> RowLayout | None:
        """How a round's updates are summed by rows of large embeddings; None where whole ones are.

        By a fixed rule: updates are only summed, rows without gradients stay multiples of themselves under
        every member's steps, and the members touch a quarter of the rows at most, on average.
        """
        shape = self._trials[work.trial].shape
        layout = self._trials.shapes[shape].rows
        if layout is None or work.by_rule or not self._sums(work) or not len(work.cohort):
            return None
        if not all(exact(parse(Local, "client", work.config_of(i))) for i in range(len(work.cohort))):
            return None
        touched = sum(self._rows_of(shape, layout, client) for client in work.cohort)
        return layout if touched <= MOST_SHARE * layout.rows * len(work.cohort) else None

    def _rows_of(self, shape: str, layout: RowLayout, client: int) -> int:
        if (shape, client) not in self._touched:
            data = self._setup.data
            self._touched[shape, client] = len(layout.touched(data, data.train.rows(client)))
        return self._touched[shape, client]

    def _traffic(self, work: Work, rows: RowLayout) -> tuple[Ints, Ints]:
        shape = self._trials[work.trial].shape
        touched = [self._rows_of(shape, rows, client) for client in work.cohort]
        down, up = ([how(count) for count in touched] for how in (rows.down, rows.up))
        return np.array(down, np.int64), np.array(up, np.int64)

    def _timed(self, work: Work, epochs: Floats) -> Timed | None:
        """When the members of a round reply, where there is a fleet."""
        if self._timing is None:
            return None
        trial, rows = self._trials[work.trial], self._by_rows(work)
        size = len(trial.weights) if rows is None else np.add(*self._traffic(work, rows)) / 2
        return self._timing.round(work, epochs, size, trial.clock)

    def present(self, time: float, least: int, clients: Ints) -> tuple[float, Ints]:
        return (time, clients) if self._timing is None else self._timing.present(time, least, clients)

    def starts(self, cohort: Sequence[int], time: float, beside: Sequence[Work]) -> list[float]:
        if self._timing is None:
            return super().starts(cohort, time, beside)
        own_training = self._setup.train is not None
        sizes = self._train_sizes
        planned = [self._timed(work, epochs_of(work, sizes, own_training=own_training)) for work in beside]
        others = [*(one.timed for one in self._trials.rounds.values()), *planned]
        return self._timing.starts(cohort, time, [timed for timed in others if timed is not None])

    def _limits(self, trial: int, cohort: Ints) -> tuple[Ints, Ints] | None:
        """The rows that each member may claim; None where nobody claims more than it has."""
        if self._aggregation.cap is None and self.adversary is None:
            return None
        announced = (self._announced(trial, cohort, split) for split in ("train", "validation"))
        rows, held = (size_limits(sizes, self._aggregation.cap) for sizes in announced)
        return rows, held

    def _announced(self, trial: int, clients: Ints, split: str) -> Ints:
        """The rows that clients say they have, before anything is asked of them."""
        sizes = self._split_sizes(split)[clients]
        return sizes if self.adversary is None else self.adversary.announced(trial, clients, sizes)

    def _member(self, one: Round, member: int) -> Member:
        trial, client = one.trial, int(one.work.cohort[member])
        shape = self._trials.shapes[trial.shape]
        config: Any = one.work.client
        stack, rows = None, int(self._train_sizes[client])
        samples, steps = rows, 1  # of a rule, or training of the user's own, more is not known
        if not one.work.by_rule:
            config = one.work.config_of(member)
            if self._setup.train is None:
                h = parse(Local, "client", config)
                samples, steps = h.samples(rows), h.steps(rows)
                if h.plain and not h.dropout and min(h.batch_size, rows) <= shape.stacked_batch:
                    stack = (h.batch_size, steps)
        job = Job(
            client,
            0,
            config,
            (trial.seed, trial.calls),
            trial.round,
            one.work.trial,
            one.work.horizon or self.training_rounds,
        )
        share = None
        if self._sums(one.work):
            limits = one.gathering.limits
            rows = rows if limits is None else min(rows, int(limits[0][member]))
            share = one.work.trial, self._aggregation.weight(rows)
        seconds = shape.effort.training(samples, 0 if stack else steps)  # a stack shares its calls
        return Member(job, trial.shape, shape.size, one.work.scores, stack, share, one.rows, seconds)

    def _sums(self, work: Work) -> bool:
        """Whether workers may add up the updates of a round: nobody looks at single ones."""
        return self._adds_up and not self._trials.apart_from_sums(work)

    @property
    def _adds_up(self) -> bool:
        """Whether updates are only added up, unless a round's work asks for more."""
        return self._strategy is None and self.adversary is None and self._aggregation.sums

    # Which round ends first is a matter of simulated time, not of how busy this machine is: a round takes as
    # long as its member with most samples to train on. So trials at their own pace repeat, bit for bit.

    def next_done(self, trial: int | None = None) -> RoundReport:
        self._trials.submitted(trial)
        rounds = self._trials.rounds
        first = min(rounds, key=lambda number: rounds[number].ends) if trial is None else trial
        while not rounds[first].gathering.complete:
            self._collect(self._started_pool.next())
        one = rounds.pop(first)
        return self._trials.end(one, one.work.minimum)

    def ready(self) -> list[int]:
        trials, rounds = self._trials, self._trials.rounds
        now = max((trials[number].clock for number in trials.numbers if number not in rounds), default=0.0)
        return [number for number, one in rounds.items() if one.ends <= now]

    def _collect(self, done: Done) -> None:
        """Give each member of a round its result of a task."""
        whole = self._whole(done)
        if whole is None:
            return
        done = whole
        if done.order in self._branches:
            ended, again = self._branches.take(done)
            for order in again:
                self._started_pool.submit(order)
            if ended is not None:
                self._collect_whole(ended)
            return
        places = self._running.pop(done.order)
        if done.failure or done.output is None:
            for one, member in places:
                one.gathering.take(member, JobResult(failure=done.failure))
            done.release()
        elif done.order.shares is not None:
            self._collect_sums(done, done.order.shares, places)
        elif len(places) == 1:
            one, member = places[0]
            one.gathering.take(member, done.value[0], done.output[0], done.release)
        else:  # rows of a stack are small: copy them, and release the stack as a whole
            for row, (one, member) in enumerate(places):
                one.gathering.take(member, done.value[row], done.output[row].copy())
            done.release()

    def _collect_whole(self, whole: Whole) -> None:
        """Give a round all its results, and the sum of its updates."""
        members: list[int] = []
        results: list[JobResult] = []
        weights: list[float] = []
        for done in whole.ends:
            places, shares = self._running.pop(done.order), done.order.shares
            assert shares is not None
            one = places[0][0]
            lost = done.failure or whole.total.failure
            members += [member for _, member in places]
            results += [JobResult(failure=lost)] * len(places) if lost else done.value
            weights += shares.weights
        output = whole.total.output
        total = np.zeros(0, np.float32) if output is None else output[0]
        one.gathering.take_sum(members, results, total, weights, whole.total.release)

    def _whole(self, done: Done) -> Done | None:
        """The end of an order; None while its jobs are done again one by one, after they failed together."""
        apart = self._apart.pop(done.order, None)
        if apart is not None:
            return apart.take(done)
        task, shares = done.order.task, done.order.shares
        if done.failure and isinstance(task, TrainTask) and task.rows is not None:
            # Whole tables can do what rows cannot: look up a row that no token names.
            done.release()
            starts = done.order.starts
            again = Order(replace(task, rows=None), starts, (1, len(starts[0])))
            self._running[again] = self._running.pop(done.order)
            self._started_pool.submit(again)
            return None
        if not done.failure or shares is None or not isinstance(task, TrainTask) or len(task.jobs) == 1:
            return done
        done.release()
        apart = Apart(done.order, task, shares)
        for order in apart.orders:
            self._apart[order] = apart
            self._started_pool.submit(order)
        return None

    def _collect_sums(self, done: Done, shares: Shares, places: list[tuple[Round, int]]) -> None:
        assert done.output is not None
        task = done.order.task
        if isinstance(task, TrainTask) and task.rows is not None:
            found = RowSum(task.rows, done.output[0])
            members = [member for _, member in places]
            places[0][0].gathering.take_sum(members, done.value, found, shares.weights, done.release)
            return
        alone = len(done.output) == 1
        for row, (one, members) in enumerate(_by_row(places, shares.rows)):
            inside = [i for i, own in enumerate(shares.rows) if own == row]
            results, weights = [done.value[i] for i in inside], [shares.weights[i] for i in inside]
            total = done.output[row] if alone else done.output[row].copy()
            if alone:
                one.gathering.take_sum(members, results, total, weights, done.release)
            else:
                one.gathering.take_sum(members, results, total, weights)
        if not alone:
            done.release()

    # Scores and queries

    def measure(self, metrics: Sequence[Metric]) -> None:
        check_metrics(metrics, self.task)
        if tuple(metrics) == self._setup.metrics:
            return
        if self._trials.rounds:
            raise InputError("measure: rounds are under way; call it before them")
        if self._pool is not None:  # its workers know the old ones
            self._pool.close()
            self._pool = None
        self._setup = replace(self._setup, metrics=tuple(metrics))

    def evaluate(
        self, trials: Sequence[int], clients: Sequence[int] | Ints, split: SplitName = "validation"
    ) -> list[Scores]:
        self._trials.idle(*trials)
        chosen = self._known_clients(clients)
        sizes = self._split_sizes(split)[chosen]
        names = [metric.name for metric in self._setup.metrics]
        values = np.full((len(trials), 2 + len(names), len(chosen)), np.nan)
        status = np.zeros((len(trials), len(chosen)), np.int8)
        reasons: list[dict[int, Reason]] = [{} for _ in trials]
        cuts = [self._scoring(number, chosen, sizes, split, len(trials)) for number in trials]
        ends: dict[Order, Done | None] = {order: None for parts in cuts for order, _ in parts}
        for order in ends:
            self._started_pool.submit(order)
        while None in ends.values():
            done = self._started_pool.next()
            if done.order in ends:
                ends[done.order] = done
            else:
                self._collect(done)
        for i, parts in enumerate(cuts):
            sums = np.zeros((len(chosen), 3))
            for order, where in parts:
                end = ends[order]
                assert end is not None
                failures: dict[int, Reason] = {}
                if end.failure:
                    failures = dict.fromkeys(range(where.stop - where.start), end.failure)
                elif isinstance(end.value, PartScores):
                    failures = end.value.failures
                    np.add.at(sums, where.start + end.value.places, end.value.sums.T)
                else:
                    values[i, :, where] = end.value
                for place, why in failures.items():
                    status[i, where.start + place] = Status.FAILED
                    reasons[i].setdefault(where.start + place, why)
            if not names:
                values[i] = np.where(status[i] == Status.FAILED, np.nan, np.stack(means(sums.T)))
        found = [
            checked_scores(
                Scores(
                    number,
                    split,
                    chosen,
                    status[i],
                    sizes,
                    values[i, 0],
                    values[i, 1],
                    reasons[i],
                    Cost(
                        evaluations=len(chosen),
                        bytes_down=4 * len(self._trials[number].weights) * len(chosen),
                        bytes_up=(_SCORE_BYTES + 8 * len(names)) * len(chosen),
                    ),
                    dict(zip(names, values[i, 2:], strict=True)),
                )
            )
            for i, number in enumerate(trials)
        ]
        if self._timing is not None and split == "validation":
            found = self._timing.scored(found, chosen, [len(self._trials[n].weights) for n in trials])
        if self.adversary is not None:
            found = [self.adversary.scores(scores) for scores in found]
        if self._aggregation.cap is None:
            return found
        limits = [size_limits(self._announced(n, chosen, split), self._aggregation.cap) for n in trials]
        return [
            replace(scores, size=np.minimum(scores.size, limit))
            for scores, limit in zip(found, limits, strict=True)
        ]

    def _scoring(
        self, number: int, clients: Ints, sizes: Ints, split: str, alike: int
    ) -> list[tuple[Order, slice]]:
        """What one trial's evaluation is cut into, and the places of the clients of each part."""
        trial = self._trials[number]
        effort, weights = self._trials.shapes[trial.shape].effort, [trial.evaluated]
        ends = np.cumsum(sizes)
        rows = int(ends[-1]) if len(ends) else 0
        if self._setup.metrics:
            # A metric sees all rows of a client at once, a pooled one those of all clients: tasks follow the
            # clients, and never the number of workers.
            each = max(1, round(_SCORED / effort.row))
            pooled = any(metric.pooled for metric in self._setup.metrics)
            starts = np.zeros(len(clients)) if pooled else np.cumsum(np.maximum(sizes, 1)) // each
            bounds = [*np.unique(starts, return_index=True)[1].tolist(), len(clients)]
            cuts: list[tuple[slice, tuple[int, int, int] | None]] = [
                (slice(begin, end), None) for begin, end in itertools.pairwise(bounds)
            ]
        else:
            cuts = []
            for begin, end in effort.pieces(rows, self._started_pool.workers, alike) if rows else []:
                first, last = np.searchsorted(ends, [begin, end - 1], "right").tolist()
                skipped = begin - int(ends[first] - sizes[first])
                cuts.append((slice(first, last + 1), (skipped, end - begin, effort.batch)))
        return [
            (
                Order(
                    ScoreTask(trial.shape, clients[where], split, part),
                    weights,
                    seconds=effort.scoring(int(sizes[where].sum()) if part is None else part[1]),
                ),
                where,
            )
            for where, part in cuts
        ]

    def _split_sizes(self, split: str) -> Ints:
        if split not in SPLITS:
            raise unknown_name("split", split, SPLITS)
        sizes: Ints = getattr(self._setup.data, split).sizes
        return sizes

    def _known_clients(self, clients: Sequence[int] | Ints) -> Ints:
        chosen = np.asarray(clients, np.int64)
        bad = chosen[(chosen < 0) | (chosen >= self._setup.data.clients)]
        if len(bad):
            raise InputError(f"client {bad[0]} is not there: clients are 0..{self._setup.data.clients - 1}")
        return chosen

    def query(self, task: Query, clients: Sequence[int] | Ints) -> list[Answer]:
        if isinstance(task, LocalSearch):
            chosen = [int(c) for c in self._known_clients(clients)]
            return search_clients(self._setup, self._workers, task, chosen)
        if isinstance(task, OwnQuery):
            return self._answers(task, [int(c) for c in self._known_clients(clients)])
        if not isinstance(task, FineTune):
            known = f"{FineTune.name!r}, {LocalSearch.name!r} and those that have an `answer`"
            raise InputError(f"a simulated federation answers the queries {known}, not {task.name!r}")
        trial = self._trials[task.trial]
        self._trials.idle(task.trial)
        if self._setup.train is None:
            parse(Local, "client", task.client)
        self._split_sizes(task.split)
        chosen = [int(c) for c in self._known_clients(clients)]
        orders = {}
        for client in chosen:
            job = Job(
                client,
                0,
                task.client,
                (derive(trial.seed, "fine-tune"), trial.calls),
                trial.round,
                task.trial,
                self.training_rounds,
            )
            order = Order(
                TrainTask(trial.shape, (job,), (BEFORE, AFTER), split=task.split), [trial.evaluated]
            )
            orders[order] = client
            self._started_pool.submit(order)
        answers = {}
        sent = Cost(bytes_down=4 * len(trial.weights))
        while orders:
            done = self._started_pool.next()
            if done.order not in orders:
                self._collect(done)
                continue
            client = orders.pop(done.order)
            result = JobResult(failure=done.failure) if done.failure else done.value[0]
            if result.failure:
                answers[client] = Answer(client, Status.FAILED, reason=result.failure, cost=sent)
                continue
            names = ("loss_before", "loss_after", "accuracy_before", "accuracy_after")
            content = {"size": result.validation_size} | {name: getattr(result, name) for name in names}
            cost = sent + Cost(bytes_up=2 * _SCORE_BYTES, evaluations=2, samples=result.samples)
            answers[client] = Answer(client, Status.OK, content, cost=cost)
        return [answers[client] for client in chosen]

    def _answers(self, task: OwnQuery, clients: Sequence[int]) -> list[Answer]:
        """Answers to a query of the user's own, which comes with a trial's model if it names one."""
        number: int | None = getattr(task, "trial", None)
        weights: Mapping[str, Vector] | None
        seed: tuple[int, ...]
        weights, seed, down = None, (), len(canonical(task.to_dict()))
        if number is not None:
            trial = self._trials[number]
            self._trials.idle(number)
            shapes = self._shapes.build(trial.model).shapes
            weights, down = named_parts(shapes, trial.evaluated), 4 * len(trial.weights)
            seed = query_seed(task, trial.seed, trial.calls)
        data = self._setup.data
        return ask_each(task, clients, lambda c: party_at(data, c, c, task, weights, seed), down)

    # The federation itself

    def untrained(self, seed: int) -> UntrainedFederation:
        """The same clients with another draw of their fleet, and nobody trains: to plan with.

        Without a fleet everybody is there, and the clock means nothing.
        """
        setup, fleet = self._setup, None if self._timing is None else self._timing.fleet
        if fleet is not None:
            fleet = replace(fleet, seed=derive(seed, "fleet", fleet.seed))
        return UntrainedFederation(
            setup.factory, setup.data, fleet, seed, own_training=setup.train is not None
        )

    def describe(self) -> dict[str, Any]:
        shapes = self._trials.shapes.values()
        return {
            "runtime": self._runtime,
            "data": self._setup.data.name,
            "clients": self._setup.data.clients,
            **described(self._setup.data),
            "server": self._strategy or self._server,
            "weighting": self._aggregation.weighting,
            "aggregation": self._aggregation.rule if self._strategy is None else self._strategy,
            "parameters": max((shape.size for shape in shapes), default=0),
            "stacked": any(shape.stacked_batch for shape in shapes),
            "by_hand": any(shape.by_hand for shape in shapes),
            **_embeddings(shapes, self._adds_up and not optimiser_class(self._server).needs_lengths),
            **_layout(shapes),
            "workers": self._workers if self._pool is None else self._pool.workers,
            "worker_kind": "not started" if self._pool is None else self._pool.kind,
            "note": self._note,
        }

    def fingerprint(self, model: Mapping[str, Any]) -> dict[str, Any]:
        setup, aggregation = self._setup, self._aggregation.to_dict()
        return {
            "data": data_of(setup.data),
            "model": model_of(setup.factory, model),
            "loss": None if setup.loss is None else code_of(setup.loss),
            "train": None if setup.train is None else code_of(setup.train),
            **({} if setup.collate is None else {"collate": code_of(setup.collate)}),
            "settings": {
                "server": self._server,
                **aggregation,
                "stacking": self._stacking,
                "missing": self._missing,
                "device": setup.device,
                **({} if self._strategy is None else {"strategy": self._strategy}),
                **({} if self._timing is None else {"fleet": self._timing.fingerprint()}),
            },
            **({} if self._server in OPTIMISERS else {"server": code_of(optimiser_class(self._server))}),
        }

    def distances(self, clients: Sequence[int] | Ints, seed: int) -> dict[str, Any] | None:
        return distances(self._setup.data, self._known_clients(clients), seed)

    @property
    def pids(self) -> list[int]:
        """The worker processes' ids, if there are any."""
        return [] if self._pool is None else self._pool.pids

    @property
    def _started_pool(self) -> Pool:
        if self._pool is None:
            self._pool, self._note = self._start_pool(self._setup)  # which may have got metrics since
        return self._pool

    def close(self) -> None:
        if self._pool is not None:
            self._pool.close()
            self._pool = None
        self._trials.clear()
        self._running.clear()
        self._apart.clear()
        self._branches.clear()
