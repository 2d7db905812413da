"""The simulated federation: clients in this machine's memory, local training on all its cores."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray
from torch import nn

from fedhpo.engine import Vector, flat
from fedhpo.engine.executor import Executor, Job, JobResult, ScoreTask, Setup, TrainTask
from fedhpo.engine.flat import FlatModel
from fedhpo.engine.gather import Gathering
from fedhpo.engine.hyperparameters import Local, parse
from fedhpo.engine.plan import Member, plan
from fedhpo.engine.pool import Done, Order, Pool, ProcessPool, cores, hire, refuse_in_worker
from fedhpo.engine.reply import discreet
from fedhpo.engine.server import OPTIMISERS, Aggregation, FedAvg, server_optimiser
from fedhpo.engine.stacked import can_stack
from fedhpo.engine.streams import derive, stream
from fedhpo.errors import InputError, unknown_name
from fedhpo.federation import protocol
from fedhpo.federation.fine_tune import FineTune
from fedhpo.federation.local_search import LocalSearch
from fedhpo.federation.protocol import (
    AFTER,
    BEFORE,
    Answer,
    ClientSide,
    Cost,
    Federation,
    Ints,
    Query,
    RoundReport,
    Scores,
    SplitName,
    Status,
    TrialError,
    TrialState,
    Work,
)
from fedhpo.federation.simulated_search import search_clients
from fedhpo.run.canonical import canonical

SPLITS = get_args(SplitName)
#: Rows that one scoring task takes on; tasks follow the clients, never the number of workers.
_ROWS_PER_TASK = 2048
#: What a client sends back of an evaluation: loss, accuracy and size.
_SCORE_BYTES = 24


@dataclass(frozen=True)
class _Trial:
    """A model in training. Immutable: a round makes a new one, so saving never has to copy."""

    shape: str
    seed: int
    weights: Vector
    memory: Mapping[str, Vector] = field(default_factory=dict)
    round: int = 0
    calls: int = 0


@dataclass(eq=False)
class _Round:
    """A round under way."""

    work: Work
    trial: _Trial
    optimiser: FedAvg
    gathering: Gathering


class SimulatedFederation(Federation):
    """Clients in this machine's memory; see `fedhpo.simulate` for the arguments."""

    def __init__(
        self,
        setup: Setup,
        *,
        server: str = "fedavg",
        aggregation: Aggregation | None = None,
        workers: int | None = None,
        stacking: bool = True,
        missing: float = 0.0,
    ) -> None:
        refuse_in_worker()
        if workers is not None and workers < 0:
            raise InputError(f"workers must be at least 0, not {workers}")
        if not 0 <= missing <= 1:
            raise InputError(f"missing must be a probability, not {missing!r}")
        OPTIMISERS[server]  # an unknown name is an error here, not in the first round
        self._setup = setup
        data = setup.data
        self._server = server
        self._aggregation = aggregation or Aggregation()
        self._workers = cores() if workers is None else workers
        self._stacking = stacking
        self._missing = missing
        self._pool: Pool | None = None
        self._note = ""
        self._trials: dict[int, _Trial] = {}
        self._shapes: dict[str, tuple[int, int, bool]] = {}
        self._rounds: dict[int, _Round] = {}
        self._running: dict[Order, list[tuple[_Round, int]]] = {}
        self._train_sizes = data.train.sizes
        self.train_clients = data.train_clients
        self.validation_clients = data.validation_clients
        self.test_clients = data.test_clients
        able = {protocol.CLIENT_CONFIGS, protocol.FORK, protocol.QUERY, protocol.REPEATABLE}
        if len(np.intersect1d(self.train_clients, self.validation_clients)):
            able.add(protocol.SCORES_IN_ROUND)
        self.capabilities = frozenset(able)

    # Trials

    def start(self, trial: int, model: Mapping[str, Any], seed: int) -> None:
        if trial in self._trials:
            raise TrialError(f"trial {trial} has been started already")
        try:
            shape = flat.shape_key(model)
            module = flat.build(self._setup.factory, model, derive(seed, "model"))
        except InputError:
            raise
        except TypeError as error:
            raise InputError(f"the model cannot be built with {dict(model)}: {error}") from error
        flat_model = FlatModel(module)
        if shape not in self._shapes:
            self._inspect(shape, flat_model)
        self._trials[trial] = _Trial(shape, seed, flat_model.vector())

    def _inspect(self, shape: str, model: FlatModel) -> None:
        """What planning must know of a model shape: its sizes, and whether its runs may be stacked."""
        if any(isinstance(m, nn.modules.batchnorm._BatchNorm) for m in model.module.modules()):
            warnings.warn(
                "the model has BatchNorm layers: averaging their statistics over clients with different "
                "data is not meaningful; GroupNorm is the usual choice in federated learning",
                stacklevel=4,
            )
        stacked = self._stacking and self._setup.train is None
        if stacked:
            executor = Executor(self._setup)
            x, y = executor.view.gather(self._setup.data.train.indices[:2])
            on_gpu = self._setup.device != "cpu"
            stacked = can_stack(executor.model(shape).model, x, y, self._setup.loss, any_size=on_gpu)
        self._shapes[shape] = model.size, model.trainable_size, stacked

    def fork(self, source: int, target: int) -> None:
        origin, copy = self._trial(source), self._trial(target)
        if origin.shape != copy.shape:
            raise InputError(
                f"trial {target} cannot become a copy of trial {source}: "
                f"its model has another shape ({copy.shape}, not {origin.shape})"
            )
        self._idle(target)
        self._trials[target] = replace(copy, weights=origin.weights, memory=origin.memory, round=origin.round)

    def stop(self, trial: int) -> None:
        self._trial(trial)
        self._idle(trial)
        del self._trials[trial]

    @property
    def trials(self) -> Sequence[int]:
        return sorted(self._trials)

    def _trial(self, trial: int) -> _Trial:
        if trial not in self._trials:
            raise TrialError(f"trial {trial} is not there: it was not started, or was stopped")
        return self._trials[trial]

    def _idle(self, *trials: int) -> None:
        for trial in trials:
            if trial in self._rounds:
                raise TrialError(f"trial {trial} is in the middle of a round")

    # Rounds

    def submit(self, work: Work) -> None:
        self._plan([work])

    def round(self, work: Sequence[Work]) -> list[RoundReport]:
        self._plan(work)
        return [self.next_done(piece.trial) for piece in work]

    def _plan(self, works: Sequence[Work]) -> None:
        """Turn rounds into tasks, and submit them."""
        numbers = [work.trial for work in works]
        if len(set(numbers)) < len(numbers):
            raise TrialError(f"one round per trial at a time: found work for the trials {numbers}")
        rounds = [self._begin(work) for work in works]
        places = [(one, member) for one in rounds for member in one.gathering.sequence]
        for task, members in plan([self._member(one, member) for one, member in places]):
            weights = [places[i][0].trial.weights for i in members]
            order = Order(task, weights, (len(members), len(weights[0])))
            self._running[order] = [places[i] for i in members]
            self._workforce.submit(order)
        self._rounds.update({one.work.trial: one for one in rounds})

    def _begin(self, work: Work) -> _Round:
        trial = self._trial(work.trial)
        self._idle(work.trial)
        cohort = np.array(work.cohort, np.int64)
        for client in work.cohort:
            if not 0 <= client < len(self._train_sizes) or not self._train_sizes[client]:
                raise InputError(f"client {client} cannot train: it is not there, or has no training data")
        epochs = np.ones(len(cohort))
        if self._setup.train is None and not work.by_rule:
            own = [work.config_of(i) for i in range(1 if isinstance(work.client, Mapping) else len(cohort))]
            epochs[:] = [parse(Local, "client", config).epochs for config in own]
        missing = np.zeros(len(cohort), np.bool_)
        if self._missing:
            missing = stream(trial.seed, "missing", trial.calls).random(len(cohort)) < self._missing
        longest_first = np.argsort(-epochs * self._train_sizes[cohort], kind="stable")
        sequence = [int(i) for i in longest_first if not missing[i]]
        return _Round(
            work,
            trial,
            server_optimiser(self._server, work.server),
            Gathering.of(len(trial.weights), sequence, self._aggregation.start(), missing),
        )

    def _member(self, one: _Round, member: int) -> Member:
        trial, client = one.trial, int(one.work.cohort[member])
        size, _, stackable = self._shapes[trial.shape]
        config: Any = one.work.client
        stack = None
        if not one.work.by_rule:
            config = one.work.config_of(member)
            if stackable:
                h = parse(Local, "client", config)
                stack = None if h.dropout else (h.batch_size, h.steps(int(self._train_sizes[client])))
        job = Job(client, 0, config, (trial.seed, trial.calls), trial.round)
        return Member(job, trial.shape, size, one.work.scores, stack)

    def next_done(self, trial: int | None = None) -> RoundReport:
        if not self._rounds or (trial is not None and trial not in self._rounds):
            raise TrialError("no round was submitted" + ("" if trial is None else f" for trial {trial}"))
        while True:
            for number, one in self._rounds.items():
                if one.gathering.complete and trial in (None, number):
                    del self._rounds[number]
                    return self._end(one)
            self._collect(self._workforce.next())

    def ready(self) -> list[int]:
        return [number for number, one in self._rounds.items() if one.gathering.complete]

    def _collect(self, done: Done) -> None:
        """Give each member of a round what a task brought."""
        places = self._running.pop(done.order)
        if done.failure or done.output is None:
            for one, member in places:
                one.gathering.take(member, JobResult(failure=done.failure))
            done.release()
        elif len(places) == 1:
            one, member = places[0]
            one.gathering.take(member, done.value[0], done.output[0], done.release)
        else:  # rows of a stack are small: copy them, and release the stack as a whole
            for row, (one, member) in enumerate(places):
                one.gathering.take(member, done.value[row], done.output[row].copy())
            done.release()

    def _end(self, one: _Round) -> RoundReport:
        work, trial, gathered = one.work, one.trial, one.gathering
        applied = int((gathered.status == Status.OK).sum()) >= work.minimum
        if applied:
            trained = self._step(one)
            if flat.finite(trained.weights, *trained.memory.values()):
                trial = trained
            else:
                applied = False
                gathered.reject("updates are so large that the model after them is not finite")
        replies = int((gathered.status == Status.OK).sum())
        size = len(trial.weights)
        self._trials[work.trial] = replace(trial, calls=trial.calls + 1)
        results, rule_bytes = gathered.results, 0
        if isinstance(work.client, ClientSide):  # the rule goes out with the model, what it looked at stays
            results = [discreet(result, self._aggregation) for result in results]
            rule_bytes = len(canonical(work.client.to_dict()))

        def column(name: str, kind: type) -> NDArray[Any]:
            return np.array([getattr(result, name) for result in results], kind)

        return RoundReport(
            work.trial,
            trial.round,
            applied,
            np.array(work.cohort, np.int64),
            gathered.status,
            column("train_size", np.int64),
            column("validation_size", np.int64),
            column("loss_before", np.float64),
            column("loss_after", np.float64),
            column("accuracy_before", np.float64),
            column("accuracy_after", np.float64),
            dict(sorted(gathered.reasons.items())),
            Cost(
                rounds=1,
                client_rounds=len(work.cohort),
                bytes_down=(4 * size + rule_bytes) * len(work.cohort),
                bytes_up=4 * size * replies,
                samples=sum(result.samples for result in results),
            ),
        )

    def _step(self, one: _Round) -> _Trial:
        """The trial after the server's step."""
        trial = one.trial
        with np.errstate(over="ignore", invalid="ignore"):
            change = one.gathering.aggregate.mean()
            trainable = self._shapes[trial.shape][1]
            step, memory = one.optimiser.step(change[:trainable], trial.memory, trial.round)
            weights = trial.weights + np.concatenate([step, change[trainable:]])
        return replace(trial, weights=weights, memory=memory, round=trial.round + 1)

    # Scores and queries

    def evaluate(
        self, trials: Sequence[int], clients: Sequence[int] | Ints, split: SplitName = "validation"
    ) -> list[Scores]:
        self._idle(*trials)
        chosen = self._known_clients(clients)
        sizes = self._split_sizes(split)[chosen]
        bounds = np.unique(np.cumsum(np.maximum(sizes, 1)) // _ROWS_PER_TASK, return_index=True)[1].tolist()
        chunks = list(zip(bounds, [*bounds[1:], len(chosen)], strict=True)) if len(chosen) else []
        orders: dict[Order, tuple[int, slice]] = {}
        loss, accuracy = np.full((2, len(trials), len(chosen)), np.nan)
        status = np.zeros((len(trials), len(chosen)), np.int8)
        reasons: list[dict[int, str]] = [{} for _ in trials]
        for i, trial in enumerate(self._trial(number) for number in trials):
            for begin, end in chunks:
                order = Order(ScoreTask(trial.shape, chosen[begin:end], split), [trial.weights])
                orders[order] = i, slice(begin, end)
                self._workforce.submit(order)
        while orders:
            done = self._workforce.next()
            if done.order not in orders:
                self._collect(done)
                continue
            i, where = orders.pop(done.order)
            if done.failure:
                status[i, where] = Status.FAILED
                reasons[i].update(dict.fromkeys(range(where.start, where.stop), done.failure))
            else:
                loss[i, where], accuracy[i, where] = done.value
        return [
            Scores(
                number,
                split,
                chosen,
                status[i],
                sizes,
                loss[i],
                accuracy[i],
                reasons[i],
                Cost(
                    evaluations=len(chosen),
                    bytes_down=4 * len(self._trial(number).weights) * len(chosen),
                    bytes_up=_SCORE_BYTES * len(chosen),
                ),
            )
            for i, number in enumerate(trials)
        ]

    def _split_sizes(self, split: SplitName) -> Ints:
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
        if not isinstance(task, FineTune):
            known = f"{FineTune.name!r} and {LocalSearch.name!r}"
            raise InputError(f"a simulated federation answers the queries {known}, not {task.name!r}")
        trial = self._trial(task.trial)
        self._idle(task.trial)
        if self._setup.train is None:
            parse(Local, "client", task.client)
        self._split_sizes(task.split)
        chosen = [int(c) for c in self._known_clients(clients)]
        orders = {}
        for client in chosen:
            job = Job(client, 0, task.client, (derive(trial.seed, "fine-tune"), trial.calls), trial.round)
            order = Order(TrainTask(trial.shape, (job,), (BEFORE, AFTER), split=task.split), [trial.weights])
            orders[order] = client
            self._workforce.submit(order)
        answers = {}
        cost = Cost(bytes_down=4 * len(trial.weights), bytes_up=2 * _SCORE_BYTES, evaluations=2)
        while orders:
            done = self._workforce.next()
            if done.order not in orders:
                self._collect(done)
                continue
            client = orders.pop(done.order)
            result = JobResult(failure=done.failure) if done.failure else done.value[0]
            if result.failure:
                answers[client] = Answer(client, Status.FAILED, reason=result.failure, cost=cost)
                continue
            names = ("loss_before", "loss_after", "accuracy_before", "accuracy_after")
            content = {"size": result.validation_size} | {name: getattr(result, name) for name in names}
            answers[client] = Answer(client, Status.OK, content, cost=replace(cost, samples=result.samples))
        return [answers[client] for client in chosen]

    # State

    def state(self, trial: int) -> TrialState:
        one = self._trial(trial)
        arrays = {"weights": one.weights} | {f"server.{name}": v for name, v in one.memory.items()}
        facts = {"shape": one.shape, "seed": one.seed, "round": one.round, "calls": one.calls}
        return TrialState(arrays, facts)

    def restore(self, trial: int, state: TrialState) -> None:
        self._idle(trial)
        facts = dict(state.facts)
        shape = facts["shape"]
        if shape not in self._shapes:
            self._inspect(shape, Executor(self._setup).model(shape).model)
        weights = state.arrays["weights"]
        if weights.shape != (self._shapes[shape][0],):
            raise InputError(f"the saved trial {trial} does not fit the model: {weights.shape[0]} numbers")
        memory = {n.removeprefix("server."): v for n, v in state.arrays.items() if n.startswith("server.")}
        self._trials[trial] = _Trial(shape, facts["seed"], weights, memory, facts["round"], facts["calls"])

    def model(self, trial: int) -> nn.Module:
        """The trial's model as a module, for use outside the federation."""
        one = self._trial(trial)
        model = FlatModel(flat.build(self._setup.factory, json.loads(one.shape)))
        model.load(one.weights)
        return model.module

    def describe(self) -> dict[str, Any]:
        sizes = [size for size, _, _ in self._shapes.values()]
        return {
            "runtime": "simulated",
            "data": self._setup.data.name,
            "clients": self._setup.data.clients,
            "server": self._server,
            "weighting": self._aggregation.weighting,
            "aggregation": self._aggregation.rule,
            "parameters": max(sizes, default=0),
            "stacked": any(stacked for _, _, stacked in self._shapes.values()),
            "workers": self._workers if self._pool is None else self._pool.workers,
            "worker_kind": "not started" if self._pool is None else self._pool.kind,
            "note": self._note,
        }

    @property
    def pids(self) -> list[int]:
        """The worker processes' ids, if there are any."""
        return self._pool.pids if isinstance(self._pool, ProcessPool) else []

    @property
    def _workforce(self) -> Pool:
        if self._pool is None:
            self._pool, self._note = self._hire()
        return self._pool

    def _hire(self) -> tuple[Pool, str]:
        return hire(self._setup, self._workers)

    def close(self) -> None:
        if self._pool is not None:
            self._pool.close()
            self._pool = None
        self._trials.clear()
        self._rounds.clear()
        self._running.clear()
