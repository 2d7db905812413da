"""The Flower federation: real clients, reached through the grid of a Flower `ServerApp`."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Message
from flwr.serverapp import Grid
from torch import nn

from fedhpo.engine.executor import JobResult
from fedhpo.engine.factory import ZooModel, model_factory
from fedhpo.engine.flat import ModelFactory
from fedhpo.engine.gather import Gathering
from fedhpo.engine.hyperparameters import Local, parse
from fedhpo.engine.server import OPTIMISERS, Aggregation, server_optimiser
from fedhpo.engine.streams import derive
from fedhpo.errors import InputError, unknown_name
from fedhpo.federation import protocol
from fedhpo.federation.fine_tune import FineTune
from fedhpo.federation.protocol import (
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
from fedhpo.flower import messages
from fedhpo.flower.clients import SGD, SPLITS
from fedhpo.flower.messages import Task
from fedhpo.flower.models import Arrays, TorchModel
from fedhpo.flower.nodes import Nodes
from fedhpo.flower.post import Item, Parcel, Post
from fedhpo.flower.replies import read_answer, read_scored, read_trained
from fedhpo.flower.served import Round, Trial, Trials
from fedhpo.run.canonical import canonical

#: What a client sends back of an evaluation: loss, accuracy and size.
_SCORE_BYTES = 24


class FlowerFederation(Federation):
    """Clients behind a Flower grid; the server's side of training happens here.

    Parameters
    ----------
    grid
        What Flower gives to a `ServerApp`, or an `InProcessGrid`.
    model
        A name from `fedhpo.models`, a callable that builds a `torch.nn.Module`, a module, or, for models that
        are none of torch's, `Arrays(function)`.
    server, aggregation
        The server optimiser, and how updates are put together; see `fedhpo.simulate`.
    clients
        How many clients to wait for before the run begins; all nodes that are there are taken.
    patience
        Seconds to wait for them.
    deadline
        Seconds that a client has for each task, in a local search for each config; one that takes longer is
        missing.
    retries
        How often a task is sent again after an error that may pass, such as a node that went.
    quorum
        Replies without which a round does not count, whatever the work says.
    message_bytes
        Models that one message may hold, in bytes: with more, tasks travel in several, one after the other. A
        message holds at least one model.
    most_rows
        The most rows that a client may say it has: it cannot weigh more than that.
    clients_file
        Where the clients of the run are kept, so that it has the same ones when it is started again.
    repeatable
        Whether the clients do the same again when they are asked the same; a run then writes checkpoints
        only now and then. Real clients do not.
    """

    def __init__(
        self,
        grid: Grid,
        model: str | nn.Module | ModelFactory | Arrays,
        *,
        server: str = "fedavg",
        aggregation: Aggregation | None = None,
        clients: int = 1,
        patience: float = 300.0,
        deadline: float = 600.0,
        retries: int = 1,
        quorum: int = 1,
        message_bytes: int = 1 << 26,
        most_rows: int = 1_000_000,
        clients_file: str | Path | None = None,
        repeatable: bool = False,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        OPTIMISERS[server]  # an unknown name is an error here, not in the first round
        whole = {
            "clients": clients,
            "quorum": quorum,
            "message_bytes": message_bytes,
            "most_rows": most_rows,
        }
        for name, value in (whole | {"patience": patience, "deadline": deadline}).items():
            if not value > 0 or (name in whole and int(value) != value):
                kind = "a whole number of at least 1" if name in whole else "a positive number of seconds"
                raise InputError(f"{name} must be {kind}, not {value!r}")
        if retries < 0:
            raise InputError(f"retries must be at least 0, not {retries!r}")
        self._server = server
        self._aggregation = aggregation or Aggregation()
        self._quorum, self._most_rows = quorum, most_rows
        self._post = Post(
            grid, lambda client: self._nodes.of(client), deadline, retries, message_bytes, clock, sleep
        )
        self._nodes = Nodes(grid, self._post, most_rows)
        self._clients = self._nodes.gather(clients, patience, Path(clients_file) if clients_file else None)
        self._trials = Trials(self._server_model(model), self._aggregation)
        self.train_clients = self._clients.holders("train")
        self.validation_clients = self._clients.holders("validation")
        self.test_clients = self._clients.holders("test")
        able = {protocol.CLIENT_CONFIGS, protocol.FORK, protocol.QUERY}
        if repeatable:
            able.add(protocol.REPEATABLE)
        if len(np.intersect1d(self.train_clients, self.validation_clients)):
            able.add(protocol.SCORES_IN_ROUND)
        self.capabilities = frozenset(able)

    def _server_model(self, model: Any) -> TorchModel | Arrays:
        if isinstance(model, Arrays):
            return model
        if isinstance(model, str):
            shape = self._clients.common("shape")
            if shape is None:
                raise InputError(f"model = {model!r}: no client says of what shape its samples are")
            return TorchModel(ZooModel(model, shape, self._clients.common("classes") or 1))
        return TorchModel(model_factory(model, None))  # type: ignore[arg-type]  # only a name needs data

    # Trials

    def start(self, trial: int, model: Mapping[str, Any], seed: int) -> None:
        self._trials.start(trial, model, seed)

    def fork(self, source: int, target: int) -> None:
        self._trials.fork(source, target)

    def stop(self, trial: int) -> None:
        self._trials.stop(trial)

    @property
    def trials(self) -> Sequence[int]:
        return self._trials.numbers

    def state(self, trial: int) -> TrialState:
        return self._trials.state(trial)

    def restore(self, trial: int, state: TrialState) -> None:
        self._trials.restore(trial, state)

    def model(self, trial: int) -> Any:
        """The trial's model for use outside the federation: a module, or named arrays."""
        return self._trials.model(trial)

    # Rounds

    def submit(self, work: Work) -> None:
        self._submit([work])

    def round(self, work: Sequence[Work]) -> list[RoundReport]:
        self._submit(work)
        return [self.next_done(piece.trial) for piece in work]

    def _submit(self, works: Sequence[Work]) -> None:
        """Send the tasks of several rounds: those for one client share a message."""
        numbers = [work.trial for work in works]
        if len(set(numbers)) < len(numbers):
            raise TrialError(f"one round per trial at a time: found work for the trials {numbers}")
        begun = [self._begin(work) for work in works]
        self._nodes.look()
        for one in begun:
            self._trials.rounds[one.work.trial] = one
            parcel = Parcel(one.trial.weights, self._trials.layouts[one.trial.shape])
            for member in range(len(one.work.cohort)):
                self._post.add(self._training(one, member, parcel))
        self._post.send()

    def _begin(self, work: Work) -> Round:
        trial = self._trials[work.trial]
        self._trials.idle(work.trial)
        sizes = []
        for client in work.cohort:
            hello = self._clients.hellos.get(client)
            if hello is None or not hello.sizes["train"]:
                raise InputError(f"client {client} cannot train: it is not there, or has no training data")
            sizes.append(hello.sizes["train"])
        epochs = np.ones(len(work.cohort))
        if not work.by_rule:
            own = [work.config_of(i) for i in range(1 if isinstance(work.client, Mapping) else len(sizes))]
            epochs[:] = [self._epochs(config) for config in own]
        # As in the simulated federation, whose sums are taken in this order.
        sequence = np.argsort(-epochs * np.array(sizes), kind="stable").tolist()
        gathering = Gathering.of(
            len(trial.weights), sequence, self._aggregation.start(), np.zeros(len(sizes), np.bool_)
        )
        return Round(work, trial, server_optimiser(self._server, work.server), gathering)

    def _epochs(self, config: Mapping[str, Any]) -> int:
        """Checks client hyperparameters, where the clients' training is ours, and counts epochs."""
        ours = all(hello.training == SGD for hello in self._clients.hellos.values())
        return parse(Local, "client", config).epochs if ours else 1

    def _training(self, one: Round, member: int, parcel: Parcel) -> Item:
        work, trial, client = one.work, one.trial, int(one.work.cohort[member])
        task = Task(
            work.trial,
            client,
            trial.round,
            trial.model,
            {} if work.by_rule else work.config_of(member),
            work.client.to_dict() if isinstance(work.client, ClientSide) else None,
            work.scores,
            (trial.seed, trial.calls),
        )

        def read(reply: Any, message: Message) -> Any:
            result, after = read_trained(reply, message, work.trial, parcel.layout, self._most_rows)
            return result, after - trial.weights

        def done(status: Status, why: str, value: Any) -> None:
            if status == Status.MISSING:
                one.missing.add(member)
            result, update = value if status == Status.OK else (JobResult(failure=why), None)
            one.gathering.take(member, result, update)

        return Item(client, messages.TRAIN, task.to_dict(), parcel, read, done)

    def next_done(self, trial: int | None = None) -> RoundReport:
        rounds = self._trials.rounds
        if not rounds or (trial is not None and trial not in rounds):
            raise TrialError("no round was submitted" + ("" if trial is None else f" for trial {trial}"))
        while True:
            for number, one in rounds.items():
                if one.gathering.complete and trial in (None, number):
                    del rounds[number]
                    minimum = max(one.work.minimum, min(self._quorum, len(one.work.cohort)))
                    return self._trials.end(one, minimum)
            self._post.collect()

    def ready(self) -> list[int]:
        return [number for number, one in self._trials.rounds.items() if one.gathering.complete]

    # Scores and queries

    def evaluate(
        self, trials: Sequence[int], clients: Sequence[int] | Ints, split: SplitName = "validation"
    ) -> list[Scores]:
        self._trials.idle(*trials)
        self._check_split(split)
        chosen = self._known(clients)
        count = len(chosen)
        found = [
            Scores(
                number,
                split,
                np.array(chosen, np.int64),
                np.zeros(count, np.int8),
                np.zeros(count, np.int64),
                np.full(count, np.nan),
                np.full(count, np.nan),
                {},
                Cost(
                    evaluations=count,
                    bytes_down=4 * len(self._trials[number].weights) * count,
                    bytes_up=_SCORE_BYTES * count,
                ),
            )
            for number in trials
        ]
        self._nodes.look()
        waiting = {(scores.trial, place) for scores in found for place in range(count)}
        for scores in found:
            trial = self._trials[scores.trial]
            parcel = Parcel(trial.weights, self._trials.layouts[trial.shape])
            for place, client in enumerate(chosen):
                self._post.add(self._scoring(scores, trial, parcel, place, client, waiting))
        while waiting:
            self._post.collect()
        return [replace(scores, reasons=dict(sorted(scores.reasons.items()))) for scores in found]

    def _scoring(
        self, scores: Scores, trial: Trial, parcel: Parcel, place: int, client: int, waiting: set[Any]
    ) -> Item:
        task = Task(scores.trial, client, trial.round, trial.model, split=scores.split)
        reasons: Any = scores.reasons

        def done(status: Status, why: str, value: Any) -> None:
            waiting.discard((scores.trial, place))
            scores.status[place] = status
            if status == Status.OK:
                scores.size[place], scores.loss[place] = value.size, value.loss
                scores.accuracy[place] = value.accuracy
            else:
                reasons[place] = why

        return Item(
            client,
            messages.EVALUATE,
            task.to_dict(),
            parcel,
            lambda reply, _: read_scored(reply, scores.trial, self._most_rows),
            done,
        )

    def query(self, task: Query, clients: Sequence[int] | Ints) -> list[Answer]:
        """Ask clients to do work that is not a round; a query with a `trial` is sent with its model."""
        number = getattr(task, "trial", None)
        if isinstance(task, FineTune):
            self._epochs(task.client)
            self._check_split(task.split)
        asked: dict[str, Any] = {"query": task.to_dict()}
        parcel, cost = None, Cost(bytes_down=len(canonical(task.to_dict())))
        if number is not None:
            trial = self._trials[number]
            self._trials.idle(number)
            parcel = Parcel(trial.weights, self._trials.layouts[trial.shape])
            seed = (derive(trial.seed, task.name.replace("_", "-")), trial.calls)
            asked |= Task(number, 0, trial.round, trial.model, seed=seed).to_dict()
            cost = Cost(bytes_down=4 * len(trial.weights))
        chosen = self._known(clients)
        self._nodes.look()
        answers: dict[int, Answer] = {}
        for client in chosen:
            self._post.add(self._asking(task, client, asked, parcel, cost, answers))
        while len(answers) < len(set(chosen)):
            self._post.collect()
        return [answers[client] for client in chosen]

    def _asking(
        self,
        task: Query,
        client: int,
        asked: Mapping[str, Any],
        parcel: Parcel | None,
        cost: Cost,
        answers: dict[int, Answer],
    ) -> Item:
        def done(status: Status, why: str, value: Any) -> None:
            content, spent = value if status == Status.OK else (None, Cost())
            if status == Status.OK:
                # Scores come back as numbers, whose text may be longer on one day than on another.
                up = 2 * _SCORE_BYTES if isinstance(task, FineTune) else len(canonical(content))
                spent += Cost(bytes_up=up)
            answers[client] = Answer(client, status, content, why, cost + spent)

        return Item(
            client,
            f"{messages.QUERY}.{task.name}",
            asked,
            parcel,
            lambda reply, _: read_answer(reply),
            done,
            trainings=getattr(task, "configs", 1),
        )

    def _check_split(self, split: str) -> None:
        if split not in SPLITS:
            raise unknown_name("split", split, SPLITS)

    def _known(self, clients: Sequence[int] | Ints) -> list[int]:
        chosen = [int(client) for client in clients]
        for client in chosen:
            if client not in self._clients.hellos:
                known = sorted(self._clients.hellos)
                raise InputError(f"client {client} is not there: clients are {known[0]}..{known[-1]}")
        return chosen

    # The federation itself

    def describe(self) -> dict[str, Any]:
        return {
            "runtime": "flower",
            "clients": len(self._clients.hellos),
            "ordered_by": self._clients.by,
            "server": self._server,
            "weighting": self._aggregation.weighting,
            "aggregation": self._aggregation.rule,
            "parameters": max((layout.size for layout in self._trials.layouts.values()), default=0),
            "deadline": self._post.deadline,
            "dropped": ", ".join(f"{what}: {count}" for what, count in self.dropped.items()),
        }

    @property
    def dropped(self) -> dict[str, int]:
        """How often something was rejected or dropped so far, by what it was."""
        return dict(sorted(self._post.dropped.items()))

    def close(self) -> None:
        self._trials.clear()
