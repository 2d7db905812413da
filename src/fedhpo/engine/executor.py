"""Does one task of local work: trains some clients, scores a model, fine-tunes.

An executor lives in each worker (process or thread). It keeps the clients' data and one module per
model shape, and is given weights as flat vectors.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedhpo.aggregation.norm_clipping import clip_scale
from fedhpo.core.errors import InputError
from fedhpo.core.hyperparameters import parse
from fedhpo.core.streams import first_seed, sequence
from fedhpo.core.vectors import Vector
from fedhpo.data import FederatedData
from fedhpo.engine import flat
from fedhpo.engine.built import ROWS, Built, look_at
from fedhpo.engine.by_hand import by_hand
from fedhpo.engine.context import TrainContext, TrainFunction, call_training
from fedhpo.engine.device import seed_generators
from fedhpo.engine.flat import FlatModel, FrozenChanged, ModelFactory
from fedhpo.engine.frozen import Pool, Shapes, joint_digest, shape_hyperparameters
from fedhpo.engine.hyperparameters import Local
from fedhpo.engine.local import dropout_layers, drops_out, train
from fedhpo.engine.loss import LossFunction
from fedhpo.engine.lr_schedule import factor
from fedhpo.engine.outputs import Collate, collated
from fedhpo.engine.rows import Ids, RowChange, RowLayout, RowModel, RowSum, UnknownRow
from fedhpo.engine.score import (
    BATCH,
    ClientScores,
    PartScores,
    PartSums,
    batch_sums,
    per_client_metrics,
    score,
)
from fedhpo.engine.stacked import Stack, StackedRun, stack_weights
from fedhpo.engine.view import ClientView, DataView
from fedhpo.protocol.bounds import MOST, trouble_with
from fedhpo.protocol.metrics import Metric, check_metrics
from fedhpo.protocol.reasons import Reason, Why, raised

NAN = float("nan")


@dataclass(frozen=True)
class Setup:
    """What an executor is made from; it travels to worker processes once."""

    factory: ModelFactory
    data: FederatedData
    loss: LossFunction | None = None
    train: TrainFunction | None = None
    device: str = "cpu"
    #: What clients compute beside loss and accuracy when they evaluate.
    metrics: tuple[Metric, ...] = ()
    #: Makes a batch of rows, in training and scoring.
    collate: Collate | None = None


@dataclass(frozen=True)
class Job:
    """Local training at one client: which start weights, which hyperparameters, which random stream.

    `config` is a mapping of hyperparameters or a `ClientSide` rule, resolved here, at the client.
    """

    client: int
    start: int
    config: Any
    seed: tuple[int, ...]
    round: int
    trial: int = 0
    #: The rounds of one full training; 0 where nobody said.
    rounds: int = 0

    def context(self, seed: int, device: str) -> TrainContext:
        """The context that a user's training function gets for this job."""
        return TrainContext(self.round, self.rounds or self.round + 1, self.trial, self.client, seed, device)


@dataclass(frozen=True)
class JobResult:
    """A client's report of its training; `failure` is None if its update may be used."""

    failure: Reason | None = None
    train_size: int = 0
    validation_size: int = 0
    loss_before: float = NAN
    accuracy_before: float = NAN
    loss_after: float = NAN
    accuracy_after: float = NAN
    samples: int = 0


@dataclass(frozen=True)
class Shares:
    """To what sums a task's changes are added: by job the row of the output, and the weight.

    A change is shortened to the norm `clip` first, if there is one.
    """

    rows: tuple[int, ...]
    weights: tuple[float, ...]
    clip: float | None = None


@dataclass(frozen=True)
class TrainTask:
    """Train these jobs; job i leaves its change of the weights in row i of the output, if there is one.

    With `shares` the output holds weighted sums of the changes instead; with `rows` besides, one of them, as
    a `RowSum`. `scores` says when each client scores the model, on its own rows of `split`.
    """

    shape: str
    jobs: tuple[Job, ...]
    scores: tuple[str, ...] = ()
    stacked: bool = False
    split: str = "validation"
    shares: Shares | None = None
    rows: RowLayout | None = None


@dataclass(frozen=True)
class ScoreTask:
    """Score one model at these clients on one split.

    `part` says which of their rows, put one after the other: how many are skipped, how many follow, and how
    many are scored at once. Models whose scores of a row depend on other rows are scored by whole clients:
    those whose first row lies there.
    """

    shape: str
    clients: NDArray[np.int64]
    split: str
    part: tuple[int, int, int] | None = None


@dataclass(frozen=True)
class AddTask:
    """Add up what other tasks left, in the order in which it is given."""


Task = TrainTask | ScoreTask | AddTask

#: Numbers that are added up at a time: those of a few vectors stay in the cache.
_BLOCK = 1 << 14


def add_up(parts: Sequence[Vector], total: Vector) -> None:
    """Write the sum of `parts`, taken from first to last, into `total`."""
    with np.errstate(over="ignore", invalid="ignore"):  # the result is checked at the end
        for begin in range(0, len(total), _BLOCK):
            block = total[begin : begin + _BLOCK]
            block[:] = parts[0][begin : begin + _BLOCK]
            for part in parts[1:]:
                block += part[begin : begin + _BLOCK]


class Sums:
    """The sums that a task's changes are added to, in the order of its jobs."""

    def __init__(self, shares: Shares, out: NDArray[np.float32]) -> None:
        self._shares, self._out = shares, torch.from_numpy(out).zero_()

    def added(self, job: int, change: Vector, result: JobResult) -> JobResult:
        """A job's result, after its change was added; changes that cannot be used are left out."""
        problem = flat.check_update(change, self._out.shape[1])
        if problem is not None:
            return JobResult(failure=problem, train_size=result.train_size)
        clip = self._shares.clip
        scale = 1.0 if clip is None else clip_scale(change, clip)
        # The result is checked at the end.
        self._out[self._shares.rows[job]].add_(
            torch.from_numpy(change), alpha=scale * self._shares.weights[job]
        )
        return result


class RowSums:
    """The same for changes by rows, all of which belong to one sum."""

    def __init__(self, layout: RowLayout, shares: Shares, out: Vector, jobs: Sequence[Ids]) -> None:
        self._shares, self._jobs = shares, jobs
        touched = np.zeros(layout.rows, np.bool_)
        for ids in jobs:
            touched[ids] = True
        self._sum = RowSum(layout, out)
        self._sum.clear(np.flatnonzero(touched))
        self._place = np.cumsum(touched) - 1
        self._rest = torch.from_numpy(self._sum.rest)
        self._tables = [torch.from_numpy(part) for part in self._sum.of_tables()]

    def added(self, job: int, change: RowChange, result: JobResult) -> JobResult:
        """A job's result, after its change was added; one that cannot be used is left out."""
        if not change.finite:
            return JobResult(failure=Reason(Why.DIVERGED), train_size=result.train_size)
        clip, length = self._shares.clip, math.sqrt(change.squared)
        scale = 1.0 if clip is None or not length else min(1.0, clip / length)
        alpha = scale * self._shares.weights[job]
        self._rest.add_(torch.from_numpy(change.rest), alpha=alpha)
        for table, multiple in enumerate(change.shared):
            self._sum.shared[table] += np.float32(alpha * multiple)
        place = torch.from_numpy(self._place[self._jobs[job]])
        for into, own in zip(self._tables, change.own, strict=True):
            into.index_add_(0, place, own, alpha=alpha)
        return result


def _checked(result: JobResult) -> JobResult:
    """A result, failed where a loss of the user's own cannot be."""
    for name in ("loss_before", "loss_after"):
        value = getattr(result, name)
        if (abs(value) > MOST or value == -math.inf) and value != math.inf:
            return JobResult(failure=trouble_with(name, value, -MOST, MOST), train_size=result.train_size)
    return result


class Executor:
    """Does tasks; see the module's docstring."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.view = DataView(setup.data, setup.device)
        self._models: dict[str, Built] = {}
        self._by_rows: dict[str, tuple[Built, RowModel]] = {}
        self._shapes, self.frozen = Shapes(setup.factory), Pool()
        self._spoilt: FrozenChanged | None = None

    def model(self, shape: str) -> Built:
        """The module for a model shape."""
        if shape not in self._models:
            built = look_at(
                self._fresh(shape), *self.sample(), self.setup.loss, own_training=self.setup.train is not None
            )
            if self.setup.collate is not None:
                # What it draws and how it pads follows the rows of a batch: clients are scored one by one.
                built = built._replace(draws=True, mixes=True, by_hand=None, stacked=None)
            if built.model.frozen:
                self.frozen.share(built.model, self._shapes.frozen(shape_hyperparameters(shape)))
            self._models[shape] = built
        return self._models[shape]

    def by_rows(self, shape: str, layout: RowLayout) -> tuple[Built, RowModel]:
        """The module for a model shape whose clients train the rows that their data names."""
        if shape not in self._by_rows:
            frozen = self._shapes.frozen(shape_hyperparameters(shape))
            small = RowModel(self._fresh(shape).module, layout, list(frozen))
            if small.flat.frozen:
                self.frozen.share(small.flat, frozen)
            found = self.model(shape)._replace(
                model=small.flat, dropouts=dropout_layers(small.flat.module), by_hand=None, stacked=None
            )
            self._by_rows[shape] = found, small
        return self._by_rows[shape]

    def trains_by_hand(self, shape: str) -> bool:
        """Whether models of this shape are trained without autograd."""
        return self.setup.train is None and (
            by_hand(self._fresh(shape), *self.sample(), self.setup.loss) is not None
        )

    def sample(self) -> tuple[Tensor, Tensor]:
        """A few rows to try a model on."""
        return collated(self.setup.collate, *self.view.gather(self.setup.data.train.indices[:ROWS]))

    def _fresh(self, shape: str) -> FlatModel:
        model = self._shapes.build(shape_hyperparameters(shape))
        model.module.to(self.setup.device)
        return model

    def frozen_digest(self, shape: str) -> str | None:
        """The digest of what models of this shape share, None where that is nothing."""
        found = self._shapes.frozen(shape_hyperparameters(shape))
        return joint_digest(found) if found else None

    def measure(self, metrics: tuple[Metric, ...]) -> None:
        """What clients compute beside loss and accuracy from now on."""
        check_metrics(metrics, self.setup.data.task)
        self.setup = replace(self.setup, metrics=metrics)

    def is_random(self, task: Task) -> bool:
        """Whether the task may draw from torch's global generator, which threads share."""
        if isinstance(task, AddTask):
            return False
        if isinstance(task, ScoreTask):
            return self.model(task.shape).draws
        return any(self._is_random(task.shape, job) for job in task.jobs)

    def _is_random(self, shape: str, job: Job) -> bool:
        built = self.model(shape)
        if self.setup.train is not None or built.draws:
            return True
        return bool(built.dropouts) and drops_out(built.dropouts, self._config(job).get("dropout"))

    def run(self, task: Task, starts: Sequence[Vector], out: NDArray[np.float32] | None) -> Any:
        """Do a task, given start weights and room for the results."""
        if isinstance(task, AddTask):
            assert out is not None
            return add_up(starts, out[0])
        if isinstance(task, ScoreTask):
            return self._score(task, starts[0])
        if task.stacked:
            # One client's failure is not that of the others in its stack: then train them one by one.
            with contextlib.suppress(Exception):
                return self._train_stacked(task, starts, out)
        if task.rows is not None and task.shares is not None and out is not None:
            return self._train_rows(task, task.rows, task.shares, starts, out[0])
        if task.shares is not None and out is not None:
            return self._train_summed(task, starts, Sums(task.shares, out))
        return [
            self._train_one(task, job, starts[job.start], None if out is None else out[i])
            for i, job in enumerate(task.jobs)
        ]

    def _train_summed(self, task: TrainTask, starts: Sequence[Vector], sums: Sums) -> list[JobResult]:
        room = np.empty_like(starts[0])
        model = self.model(task.shape).model
        results: list[JobResult] = []
        for i, job in enumerate(task.jobs):
            start = starts[job.start]
            result = self._train_one(task, job, start, None)
            results.append(result if result.failure else sums.added(i, model.change(start, room), result))
        return results

    def _train_rows(
        self, task: TrainTask, layout: RowLayout, shares: Shares, starts: Sequence[Vector], out: Vector
    ) -> list[JobResult]:
        built, small = self.by_rows(task.shape, layout)
        data, split = self.view.data, self.view.split(task.split)
        touched = [layout.touched(data, data.train.rows(job.client)) for job in task.jobs]
        sums = RowSums(layout, shares, out, touched)
        results: list[JobResult] = []
        for i, job in enumerate(task.jobs):
            start, further = starts[job.start], None
            if task.scores:
                further = layout.touched(data, split.rows(job.client))
            small.load(start, touched[i], further)
            result = self._train_one(task, job, start, None, built)
            if not result.failure:
                change = small.change(self._local(job).update_scale, shares.clip is not None)
                result = sums.added(i, change, result)
            results.append(result)
        return results

    def _score(self, task: ScoreTask, start: Vector) -> NDArray[np.float64] | PartScores:
        """Loss, accuracy, and the further metrics, a row each; a column for each client."""
        if self._spoilt is not None:
            raise self._spoilt
        built = self.model(task.shape)
        built.model.load(start)
        split = self.view.split(task.split)
        rows = [split.rows(int(client)) for client in task.clients]
        if task.part is not None:
            return self._score_part(built, task.clients, rows, *task.part)
        if not (built.draws or built.mixes):
            return self._measured(built, rows)
        # A client's score must not depend on which clients are scored with it.
        values = np.empty((2, len(rows)))
        outputs: list[NDArray[Any]] = []
        for i, client in enumerate(task.clients):
            if built.draws:
                self._seed_torch(int(client))
            values[:, i] = np.stack(self._base(built, [rows[i]], outputs))[:, 0]
        return np.vstack([values, *self._further(outputs, rows)])

    def _score_part(
        self,
        built: Built,
        clients: NDArray[np.int64],
        rows: list[NDArray[np.int64]],
        skipped: int,
        count: int,
        batch: int,
    ) -> PartScores:
        found = PartSums()
        built.model.module.eval()
        if built.draws or built.mixes:
            first = np.cumsum([0, *map(len, rows)])[:-1]
            for place in np.flatnonzero((first >= skipped) & (first < skipped + count)).tolist():
                found.take(np.full(1, place), partial(self._score_alone, built, clients[place], rows[place]))
            return found.found()
        owners = np.repeat(np.arange(len(rows)), [len(own) for own in rows])[skipped : skipped + count]
        everything = np.concatenate(rows)[skipped : skipped + count]
        for begin in range(0, count, batch):
            inside = everything[begin : begin + batch]
            found.take(owners[begin : begin + batch], partial(self._batch_sums, built, inside))
        return found.found()

    def _score_alone(self, built: Built, client: int, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """The sums of one client's rows, in batches of its own."""
        if built.draws:
            self._seed_torch(int(client))
        parts = [self._batch_sums(built, rows[i : i + BATCH]) for i in range(0, len(rows), BATCH)]
        return np.concatenate(parts, 1).sum(1, keepdims=True) if parts else np.zeros((3, 1))

    def _batch_sums(self, built: Built, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        setup = self.setup
        return batch_sums(
            built.model.module, self.view, rows, setup.loss, built.channels_last, collate=setup.collate
        )

    def _measured(self, built: Built, rows: list[NDArray[np.int64]]) -> NDArray[np.float64]:
        outputs: list[NDArray[Any]] = []
        base = self._base(built, rows, outputs)
        return np.stack([*base, *self._further(outputs, rows)])

    def _base(self, built: Built, rows: list[NDArray[np.int64]], outputs: list[NDArray[Any]]) -> ClientScores:
        """Loss and accuracy; what the model says of the rows is added to `outputs`, if metrics need it."""
        kept = outputs if self.setup.metrics else None
        return score(
            built.model.module,
            self.view,
            rows,
            self.setup.loss,
            built.channels_last,
            kept,
            self.setup.collate,
        )

    def _further(
        self, outputs: list[NDArray[Any]], rows: list[NDArray[np.int64]]
    ) -> list[NDArray[np.float64]]:
        return per_client_metrics(self.setup.metrics, outputs, self.view.data.y, rows)

    def _score_rows(self, built: Built, rows: list[NDArray[np.int64]]) -> ClientScores:
        return score(
            built.model.module,
            self.view,
            rows,
            self.setup.loss,
            built.channels_last,
            collate=self.setup.collate,
        )

    def _train_one(
        self, task: TrainTask, job: Job, start: Vector, change: Vector | None, loaded: Built | None = None
    ) -> JobResult:
        """Train from `start`; a model that was `loaded` holds it already, and is read later."""
        built = loaded or self.model(task.shape)
        model = built.model
        rng, torch_seed = generators(job)
        rows = self.view.data.train.rows(job.client)
        held = self.view.split(task.split).rows(job.client)
        scores: dict[str, float] = {}
        scale = 1.0

        def take(moment: str) -> None:
            if moment in task.scores:
                if built.draws:
                    self._seed_torch(torch_seed)
                values = self._score_rows(built, [held])
                scores[f"loss_{moment}"] = float(values.loss[0])
                scores[f"accuracy_{moment}"] = float(values.accuracy[0])

        try:
            if self._spoilt is not None:
                raise self._spoilt
            if not len(rows):
                raise InputError("the client has no training data")
            if loaded is None:
                model.load(start)
            take("before")
            if self._is_random(task.shape, job):
                self._seed_torch(torch_seed)
            if self.setup.train is None:
                h = self._local(job)
                # One epoch's rows are gathered in its order; for more they are gathered once.
                once = h.epochs == 1 and h.max_steps is None
                x, y = self.view.gather(rows[rng.permutation(len(rows))] if once else rows)
                order = None if once else rng
                if built.by_hand is not None and h.plain:
                    built.by_hand.train(x, y, h, order)
                else:
                    train(model, x, y, h, order, self.setup.loss, built.channels_last, self.setup.collate)
                samples, scale = h.samples(len(rows)), h.update_scale
            else:
                x, y = self.view.gather(rows)
                model.module.train()
                model.module.zero_grad(set_to_none=True)  # of the client before this one
                call_training(
                    self.setup.train,
                    model.module,
                    ClientView.of(job.client, x, y),
                    self._config(job),
                    job.context(torch_seed, self.setup.device),
                )
                samples = len(rows)
            model.check_frozen()
            take("after")
            if scale != 1.0 and loaded is None:
                model.load((start + np.float32(scale) * (model.vector() - start)).astype(np.float32))
            if change is not None:
                model.write_change(start, change)
        except UnknownRow:  # all of the task is done again, with whole tables
            raise
        except Exception as error:  # a client that fails is reported, it does not end the run
            if isinstance(error, FrozenChanged):
                self._spoilt = error  # nobody's model is right any more in this worker
            return JobResult(failure=raised(error), train_size=len(rows))
        return _checked(JobResult(None, len(rows), len(held), samples=samples, **scores))

    def _seed_torch(self, seed: int) -> None:
        seed_generators(seed, self.setup.device)

    def _train_stacked(
        self, task: TrainTask, starts: Sequence[Vector], out: NDArray[np.float32] | None
    ) -> list[JobResult]:
        built = self.model(task.shape)
        split = self.view.split(task.split)
        held = [split.rows(job.client) for job in task.jobs]
        runs = []
        for job in task.jobs:
            x, y = self.view.gather(self.view.data.train.rows(job.client))
            runs.append(StackedRun(x, y, self._local(job), generators(job)[0]))
        before = stack_weights([starts[job.start] for job in task.jobs]).to(self.setup.device)
        stack = Stack(built.model, before.clone(), self.setup.loss, built.stacked)
        own = [self.view.gather(rows) for rows in held] if task.scores else []
        xs, ys = [x for x, _ in own], [y for _, y in own]
        nan = np.full(len(runs), NAN)
        first = stack.score(xs, ys) if "before" in task.scores else (nan, nan)
        stack.train(runs)
        last = stack.score(xs, ys) if "after" in task.scores else (nan, nan)
        results = [
            _checked(
                JobResult(
                    None,
                    len(run.x),
                    len(held[i]),
                    float(first[0][i]),
                    float(first[1][i]),
                    float(last[0][i]),
                    float(last[1][i]),
                    run.hyperparameters.epochs * len(run.x),
                )
            )
            for i, run in enumerate(runs)
        ]
        if out is None:
            return results
        scales = torch.tensor([run.hyperparameters.update_scale for run in runs], device=before.device)
        changes = (stack.weights - before) * scales[:, None]
        if task.shares is None:
            torch.from_numpy(out).copy_(changes)
            return results
        sums, rows = Sums(task.shares, out), changes.cpu().numpy()
        return [sums.added(i, rows[i], result) for i, result in enumerate(results)]

    def _config(self, job: Job) -> Mapping[str, Any]:
        if isinstance(job.config, Mapping):
            return job.config
        labels = self.view.data.y[self.view.data.train.rows(job.client)]
        config: Mapping[str, Any] = job.config.resolve(labels, self.view.data.classes)
        return config

    def _local(self, job: Job) -> Local:
        h = parse(Local, "client", self._config(job))
        rate = h.lr * h.lr_decay**job.round * factor(h, job.round, job.rounds)
        return h if rate == h.lr else replace(h, lr=rate)


def generators(job: Job) -> tuple[np.random.Generator, int]:
    """The job's generator for the order of batches, and its seed for torch (dropout)."""
    drawn = sequence(*job.seed, job.client)
    return np.random.default_rng(drawn), first_seed(drawn)
