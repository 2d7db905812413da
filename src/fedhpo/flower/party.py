"""A client of ours: torch models on the client's own rows, by the engine of the simulated federation."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from flwr.app import Context

from fedhpo.data import FederatedData, Split, from_clients
from fedhpo.engine.executor import Executor, Job, JobResult, ScoreTask, Setup, TrainTask
from fedhpo.engine.factory import model_factory
from fedhpo.engine.streams import torch_generator
from fedhpo.errors import InputError
from fedhpo.federation.fine_tune import FineTune
from fedhpo.federation.local_search import LocalSearch
from fedhpo.federation.protocol import Status
from fedhpo.flower.client_app import named
from fedhpo.flower.clients import SGD, SPLITS, Hello
from fedhpo.flower.messages import NamedArrays, Scored, Task, Trained
from fedhpo.flower.models import layout_of
from fedhpo.flower.queries import local_search_of
from fedhpo.flower.replies import TaskFailed, TaskMissing
from fedhpo.flower.rules import rule_of
from fedhpo.study import Study
from fedhpo.study.objects import import_object, is_own

#: A client's own rows: what `fedhpo.from_clients` takes for one client.
DataFunction = Callable[[Context], Any]


class StudyParty:
    """Trains and scores a study's model at one node.

    The node's rows are those of its `partition-id` in the study's data, or what `data(context)` returns:
    arrays `(x, y)`, a dict of these for "train", "validation" and "test", or a `FederatedData` of one client,
    which also says how many classes there are.
    """

    def __init__(
        self,
        study: Study | str | Path,
        data: DataFunction | None = None,
        device: str = "cpu",
        tell_sizes: bool = True,
    ) -> None:
        self._given, self._data, self._device, self._tells = study, data, device, tell_sizes
        self._study: Study | None = study if isinstance(study, Study) else None
        self._executors: dict[int | None, Executor] = {}

    @property
    def study(self) -> Study:
        """The study, read when it is first needed: an app is imported in processes that need none."""
        if self._study is None:
            assert not isinstance(self._given, Study)
            self._study = Study.load(self._given)
        return self._study

    def hello(self, context: Context) -> Hello:
        """What this node is."""
        data, place = self._executor(context, 0).setup.data, self._place(context, 0)
        sizes = {split: self._told(len(getattr(data, split).rows(place))) for split in SPLITS}
        return Hello(*named(context), sizes, data.shape, data.classes, SGD)

    @property
    def queries(self) -> Mapping[str, Any]:
        """The queries that this client answers, by name."""
        return {FineTune.name: self.fine_tune, LocalSearch.name: self.local_search}

    def train(self, arrays: NamedArrays, task: Task, context: Context) -> Trained:
        """Local training under the task's hyperparameters, or under those that its rule finds here."""
        result, after = self._train(arrays, task, context)
        # Of a rule nothing comes back that tells what it found: no count of epochs either.
        return Trained(
            after,
            self._told(result.train_size),
            self._told(result.validation_size),
            result.loss_before,
            result.loss_after,
            result.accuracy_before,
            result.accuracy_after,
            result.samples if task.rule is None and self._tells else None,
        )

    def evaluate(self, arrays: NamedArrays, task: Task, context: Context) -> Scored:
        """The model's scores on this node's rows of a split."""
        executor, place = self._executor(context, task.client), self._place(context, task.client)
        shape = shape_of(task)
        start = layout_of(executor.model(shape).model).join(arrays)
        with _alone():
            loss, accuracy = executor.run(ScoreTask(shape, np.array([place]), task.split), [start], None)
        rows = len(getattr(executor.setup.data, task.split).rows(place))
        return Scored(self._told(rows), float(loss[0]), float(accuracy[0]))

    def fine_tune(self, query: Mapping[str, Any], arrays: NamedArrays, task: Task, context: Context) -> Any:
        """The answer to `fedhpo.federation.FineTune`, and what it cost."""
        asked = replace(task, config=query["client"], split=query["split"], scores=("before", "after"))
        result, _ = self._train(arrays, asked, context)
        names = ("loss_before", "loss_after", "accuracy_before", "accuracy_after")
        answer = {"size": self._told(result.validation_size)} | {
            name: getattr(result, name) for name in names
        }
        return answer, {"evaluations": 2, "samples": result.samples if self._tells else 0}

    def local_search(self, query: Mapping[str, Any], _: NamedArrays, task: Task, context: Context) -> Any:
        """The answer to `fedhpo.federation.local_search.LocalSearch`, and what it cost."""
        from fedhpo.federation.simulated_search import search_clients

        executor, place = self._executor(context, task.client), self._place(context, task.client)
        [answer] = search_clients(executor.setup, 0, local_search_of(query), [place])
        if answer.status == Status.MISSING:
            raise TaskMissing(answer.reason)
        if answer.status != Status.OK:
            raise TaskFailed(answer.reason)
        content = answer.content | {"size": self._told(answer.content["size"])}
        samples = answer.cost.samples if self._tells else 0
        return content, {"evaluations": answer.cost.evaluations, "samples": samples}

    def _told(self, rows: int) -> int:
        """Rows as they are told: how many, or only whether there are any."""
        return rows if self._tells else min(rows, 1)

    def _train(self, arrays: NamedArrays, task: Task, context: Context) -> tuple[JobResult, NamedArrays]:
        executor, place = self._executor(context, task.client), self._place(context, task.client)
        shape = shape_of(task)
        model = executor.model(shape).model
        layout = layout_of(model)
        config: Any = task.config if task.rule is None else rule_of(task.rule)
        job = Job(place, 0, config, task.seed, task.round)
        with _alone():
            train = TrainTask(shape, (job,), task.scores, split=task.split)
            result: JobResult = executor.run(train, [layout.join(arrays)], None)[0]
            if result.failure:
                raise TaskFailed(result.failure)
            return result, layout.split(model.vector())

    def _executor(self, context: Context, client: int) -> Executor:
        """The engine on this node's rows; in one process, nodes that deal the same data share it."""
        key = None if self._data is None else context.node_id
        if key not in self._executors:
            data = self.study.load_data() if self._data is None else own_rows(self._data(context), client)
            name = self.study.file.model.name
            model = import_object(name, "model.name") if is_own(name) else name
            self._executors[key] = Executor(Setup(model_factory(model, data), data, device=self._device))
        executor = self._executors[key]
        if self._data is not None and executor.setup.data.clients != client + 1:
            moved = placed(executor.setup.data, client)
            executor = self._executors[key] = Executor(replace(executor.setup, data=moved))
        return executor

    def _place(self, context: Context, client: int) -> int:
        """Which client of the data this node is."""
        if self._data is not None:
            return client
        partition = context.node_config.get("partition-id")
        if partition is None:
            raise InputError("the node's config has no partition-id: which part of the data is its own?")
        return int(partition)


def shape_of(task: Task) -> str:
    """The model's shape as the engine names it."""
    return json.dumps(dict(task.model), sort_keys=True)


def own_rows(given: Any, client: int) -> FederatedData:
    """One client's rows as data in which it is number `client`, so that its random streams are its own."""
    data = given if isinstance(given, FederatedData) else from_clients([given])
    return placed(data, client)


def placed(data: FederatedData, client: int) -> FederatedData:
    """The same rows, all of them those of client number `client`.

    >>> data = from_clients([(np.zeros((10, 2)), np.zeros(10, int))])
    >>> placed(data, 3).train.sizes.tolist()
    [0, 0, 0, 8]
    """

    def alone(split: Split) -> Split:
        sizes = np.zeros(client + 1, np.int64)
        sizes[client] = len(split.indices)
        return Split.from_sizes(split.indices, sizes)

    return replace(
        data,
        train=alone(data.train),
        validation=alone(data.validation),
        test=alone(data.test),
        client_names=None,
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
