"""A client that trains torch models on its own rows, with the simulator's engine."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from fedhpo.core.errors import InputError
from fedhpo.core.streams import torch_generator
from fedhpo.engine.executor import Executor, Job, JobResult, ScoreTask, Setup, TrainTask
from fedhpo.engine.factory import model_factory
from fedhpo.engine.lr_schedule import SCHEDULES
from fedhpo.federations.remote.clients import OWN, SGD, Hello
from fedhpo.federations.remote.messages import NamedArrays, Scored, Task, Trained
from fedhpo.federations.remote.models import layout_of
from fedhpo.federations.remote.replies import TaskFailed
from fedhpo.parties.context import Context
from fedhpo.parties.queries import local_search_of, searched
from fedhpo.parties.rows import NodeRows
from fedhpo.parties.rules import rule_of
from fedhpo.protocol.metrics import distinct
from fedhpo.space import ends

if TYPE_CHECKING:
    from fedhpo.study import Study


class TorchParty:
    """Trains and scores a study's torch model at one node."""

    def __init__(self, study: Study, rows: NodeRows, device: str = "cpu") -> None:
        self._study, self._rows, self._device, self.tells = study, rows, device, rows.tells
        self._executors: dict[int | None, Executor] = {}
        self._tried: list[Executor] = []

    def hello(self, context: Context) -> Hello:
        """Describe this node; a node that cannot build its model does not join."""
        executor = self._executor(context, 0)
        if not any(executor is tried for tried in self._tried):
            self._preflight(executor)
            self._tried.append(executor)
        return self._rows.hello(context, SGD if self._study.own_training is None else OWN)

    def _preflight(self, executor: Executor) -> None:
        """Try the model on this node's own rows; the server hears what is wrong, of a private study no more
        than the kind of error."""
        from fedhpo.engine.preflight import preflight

        config = self._study.space.default()
        if not len(executor.setup.data.train.indices):
            return
        try:
            preflight(executor.setup, config.model, config.client, self._study.objective.metric)
        except InputError as error:
            if self._study.evaluator.privacy is not None:
                kind = type(error).__name__
                raise InputError(f"{kind}: the model does not fit this client's rows") from error
            raise

    def train(self, arrays: NamedArrays, task: Task, context: Context) -> Trained:
        """Local training under the task's hyperparameters, or under those that its rule finds here."""
        result, after = self._train(arrays, task, context)
        # Of a rule nothing comes back that tells what it found: no count of epochs either.
        return Trained(
            after,
            self._rows.told(result.train_size),
            self._rows.told(result.validation_size),
            result.loss_before,
            result.loss_after,
            result.accuracy_before,
            result.accuracy_after,
            result.samples if task.rule is None and self._rows.tells else None,
        )

    def evaluate(self, arrays: NamedArrays, task: Task, context: Context) -> Scored:
        """The model's scores on this node's rows of a split."""
        executor, place = self._executor(context, task.client), self._rows.place(context, task.client)
        shape = shape_of(task)
        check_frozen(executor, shape, task)
        start = layout_of(executor.model(shape).model).join(arrays)
        with _alone():
            executor.measure(distinct(task.metrics))
            loss, accuracy, *others = executor.run(
                ScoreTask(shape, np.array([place]), task.split), [start], None
            )
        metrics = {name: float(found[0]) for name, found in zip(task.metrics, others, strict=True)}
        rows = len(getattr(executor.setup.data, task.split).rows(place))
        return Scored(self._rows.told(rows), float(loss[0]), float(accuracy[0]), metrics)

    def fine_tune(self, query: Mapping[str, Any], arrays: NamedArrays, task: Task, context: Context) -> Any:
        """The answer to `fedhpo.protocol.fine_tune.FineTune`, and what it cost."""
        asked = replace(task, config=query["client"], split=query["split"], scores=("before", "after"))
        result, _ = self._train(arrays, asked, context)
        names = ("loss_before", "loss_after", "accuracy_before", "accuracy_after")
        answer = {"size": self._rows.told(result.validation_size)} | {
            name: getattr(result, name) for name in names
        }
        return answer, {"evaluations": 2, "samples": result.samples if self._rows.tells else 0}

    def local_search(self, query: Mapping[str, Any], _: NamedArrays, task: Task, context: Context) -> Any:
        """The answer to `fedhpo.queries.local_search.LocalSearch`, and what it cost."""
        from fedhpo.federations.simulated_search import search_clients

        executor, place = self._executor(context, task.client), self._rows.place(context, task.client)
        [answer] = search_clients(executor.setup, 0, local_search_of(query), [place])
        return searched(answer, self._rows.tells)

    def _train(self, arrays: NamedArrays, task: Task, context: Context) -> tuple[JobResult, NamedArrays]:
        executor, place = self._executor(context, task.client), self._rows.place(context, task.client)
        shape = shape_of(task)
        check_frozen(executor, shape, task)
        model = executor.model(shape).model
        layout = layout_of(model)
        config: Any = task.config if task.rule is None else rule_of(task.rule)
        self._check_schedule(task.config)
        job = Job(place, 0, config, task.seed, task.round, task.trial, task.rounds)
        with _alone():
            train = TrainTask(shape, (job,), task.scores, split=task.split)
            result: JobResult = executor.run(train, [layout.join(arrays)], None)[0]
            if result.failure:
                raise TaskFailed(result.failure)
            return result, layout.split(model.vector())

    def _check_schedule(self, config: Mapping[str, Any]) -> None:
        """Refuse a schedule's function that this node's own study does not name: it would be imported."""
        name = config.get("lr_schedule")
        if self._study.own_training is None and name is not None and name not in SCHEDULES:
            allowed = ends(self._study.space.scope("client").get("lr_schedule"))
            if name not in allowed:
                raise InputError(f"client.lr_schedule = {name!r} is not named in this client's study")

    def _executor(self, context: Context, client: int) -> Executor:
        """The engine on this node's rows; in one process, nodes that deal the same data share it."""
        data = self._rows.of(context, client)
        key = self._rows.key(context)
        if key not in self._executors or self._executors[key].setup.data is not data:
            name = self._study.file.model.name
            self._executors[key] = Executor(
                Setup(model_factory(name, data), data, train=self._study.own_training, device=self._device)
            )
        return self._executors[key]


def shape_of(task: Task) -> str:
    """The model's shape as the engine names it."""
    return json.dumps(dict(task.model), sort_keys=True)


def check_frozen(executor: Executor, shape: str, task: Task) -> None:
    """Refuse a task for a model whose frozen weights, which do not travel, are not this node's."""
    if task.frozen is not None and executor.frozen_digest(shape) != task.frozen:
        raise InputError(
            "the model's frozen weights are not those of the server: build it from the same pretrained "
            "weights at server and clients"
        )


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Torch with one thread and its generator put back: as in a simulation, so that results are the same."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch_generator():
            yield
    finally:
        torch.set_num_threads(threads)
