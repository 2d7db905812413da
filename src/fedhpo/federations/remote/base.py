"""What every federation whose clients are asked by messages does: who they are, scores, queries."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fedhpo.aggregation.aggregation import Aggregation
from fedhpo.aggregation.sizes import WEIGHT_CAP, size_limits
from fedhpo.core.canonical import canonical
from fedhpo.core.errors import InputError, unknown_name
from fedhpo.federations.remote import messages
from fedhpo.federations.remote.clients import SGD, SPLITS
from fedhpo.federations.remote.mailbox import Item, Post
from fedhpo.federations.remote.messages import Task
from fedhpo.federations.remote.nodes import Nodes
from fedhpo.federations.remote.replies import read_answer, read_scored
from fedhpo.federations.remote.transport import SIMULATION, Parcel, Transport
from fedhpo.protocol.bounds import MOST
from fedhpo.protocol.federation import (
    QUERY,
    REPEATABLE,
    Answer,
    Cost,
    Federation,
    Ints,
    Query,
    Scores,
    SplitName,
    Status,
)
from fedhpo.protocol.fine_tune import FineTune
from fedhpo.protocol.metrics import Metric, by_name
from fedhpo.protocol.reasons import Reason
from fedhpo.queries.local_search import LocalSearch
from fedhpo.queries.own import query_seed

#: What a client sends back of an evaluation: loss, accuracy and size.
_SCORE_BYTES = 24


class RemoteClients(Federation):
    """Clients that are asked by messages, whatever they train.

    Parameters
    ----------
    transport
        What brings messages to the clients' nodes, and replies back.
    clients
        How many clients to wait for before the run begins; all nodes that are there are taken. None waits
        for ten, or until no further one came for ten seconds.
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
        The most rows that a client may say it has; one that says more is left out.
    weight_cap
        How much a client weighs at most, in training and in scores, as a multiple of the median of what the
        clients that are asked with it said when they came. It never weighs more than it said itself. None is
        for clients that do not lie.
    clients_file
        Where the clients of the run are kept, so that it has the same ones when it is started again.
    repeatable
        Whether the clients do the same again when they are asked the same; a run then writes checkpoints
        only now and then. Real clients do not.
    belongs
        What else a run belongs to, where data and code of the clients are known here.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        clients: int | None = 1,
        patience: float = 300.0,
        deadline: float = 600.0,
        retries: int = 1,
        quorum: int = 1,
        message_bytes: int = 1 << 26,
        most_rows: int = 1_000_000,
        weight_cap: float | None = WEIGHT_CAP,
        clients_file: str | Path | None = None,
        repeatable: bool = False,
        belongs: Mapping[str, Any] | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] | None = None,
    ) -> None:
        whole = {
            "clients": 1 if clients is None else clients,
            "quorum": quorum,
            "message_bytes": message_bytes,
            "most_rows": most_rows,
        }
        for name, value in (whole | {"patience": patience, "deadline": deadline}).items():
            if not value > 0 or (name in whole and int(value) != value):
                kind = "a whole number of at least 1" if name in whole else "a positive number of seconds"
                raise InputError(f"{name} must be {kind}, not {value!r}")
        if weight_cap is not None and not weight_cap >= 1:
            raise InputError(f"weight_cap must be at least 1 (the median size), not {weight_cap!r}")
        if retries < 0:
            raise InputError(f"retries must be at least 0, not {retries!r}")
        self.place = self.runtime = transport.runtime
        self.remote, self._belongs = transport.runtime != SIMULATION, dict(belongs or {})
        known = clients_file is not None and Path(clients_file).exists()
        if not known:  # a run that goes on takes whoever is there
            transport.check(1 if clients is None else clients)
        self._quorum, self._most_rows, self._weight_cap = quorum, most_rows, weight_cap
        self._metrics: tuple[str, ...] = ()
        self._post = Post(
            transport,
            lambda client: self._nodes.of(client),
            deadline,
            retries,
            message_bytes,
            clock,
            sleep or transport.wait,
        )
        self._nodes = Nodes(transport, self._post, most_rows)
        self._clients = self._nodes.gather(clients, patience, Path(clients_file) if clients_file else None)
        self.train_clients = self._clients.holders("train")
        self.validation_clients = self._clients.holders("validation")
        self.test_clients = self._clients.holders("test")
        self.capabilities = frozenset({QUERY, REPEATABLE} if repeatable else {QUERY})

    def fingerprint(self, model: Mapping[str, Any]) -> dict[str, Any]:
        """The clients' own description: rows stay with them, only their number is known."""
        hellos = self._clients.hellos
        return {
            **self._belongs,
            "clients": {
                f"client {number}": {
                    **hello.to_dict(),
                    "shape": None if hello.shape is None else list(hello.shape),
                }
                for number, hello in sorted(hellos.items())
            },
        }

    @property
    def all_train_by_sgd(self) -> bool:
        """Whether all clients train by fedhpo's own SGD."""
        return all(hello.training == SGD for hello in self._clients.hellos.values())

    def stable_name(self, client: int) -> str | None:
        """The partition id or the name in its node's config."""
        return self._clients.stable_name(client)

    @abstractmethod
    def _asked_of(self, trial: int) -> tuple[Parcel, Task, tuple[int, ...]]:
        """A trial's model, what a task says of it, and its seeds; refuses one in the middle of a round."""

    def _check_fine_tune(self, task: FineTune) -> None:
        """Refuse what cannot be fine-tuned."""

    def _minimum(self, wanted: int, cohort: int) -> int:
        """Replies without which a round does not count."""
        return max(wanted, min(self._quorum, cohort))

    def _can_train(self, clients: Sequence[int]) -> list[int]:
        """The rows that these clients train on; refuses one that has none."""
        sizes = []
        for client in clients:
            hello = self._clients.hellos.get(client)
            if hello is None or not hello.sizes["train"]:
                raise InputError(f"client {client} cannot train: it is not there, or has no training data")
            sizes.append(hello.sizes["train"])
        return sizes

    def _least_loss(self, client: int) -> float:
        """The lowest loss that a client may tell: those that fedhpo trains by are never negative."""
        return 0.0 if self._clients.hellos[client].training == SGD else -MOST

    def _limits(self, clients: Sequence[int], split: SplitName) -> Ints:
        """The rows of a split that each of these clients may claim: see `weight_cap`."""
        announced = [self._clients.hellos[int(client)].sizes.get(split, 0) for client in clients]
        return size_limits(announced, self._weight_cap)

    # Scores and queries

    def measure(self, metrics: Sequence[Metric]) -> None:
        for metric in metrics:
            if metric.pooled:
                raise InputError(
                    f"pooled: {metric.name!r} of all rows together needs everybody's outputs in one place, "
                    "which only a simulation has; leave it out"
                )
            if not by_name(metric):
                raise InputError(
                    f"metric {metric.name!r}: functions are not sent to clients; use a name of ours "
                    "or of scikit-learn's scorers"
                )
        self._metrics = tuple(metric.name for metric in metrics)

    def evaluate(
        self, trials: Sequence[int], clients: Sequence[int] | Ints, split: SplitName = "validation"
    ) -> list[Scores]:
        self._check_split(split)
        asked = [self._asked_of(number) for number in trials]
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
                    bytes_down=parcel.bytes * count,
                    bytes_up=(_SCORE_BYTES + 8 * len(self._metrics)) * count,
                ),
                {name: np.full(count, np.nan) for name in self._metrics},
            )
            for number, (parcel, _, _) in zip(trials, asked, strict=True)
        ]
        self._nodes.look()
        limits = self._limits(chosen, split)
        waiting = {(scores.trial, place) for scores in found for place in range(count)}
        for scores, (parcel, task, _) in zip(found, asked, strict=True):
            for place, client in enumerate(chosen):
                scored = replace(task, client=client, split=split, metrics=self._metrics)
                self._post.add(self._scoring(scores, scored, parcel, place, waiting, int(limits[place])))
        while waiting:
            self._post.collect()
        return [replace(scores, reasons=dict(sorted(scores.reasons.items()))) for scores in found]

    def _scoring(
        self, scores: Scores, task: Task, parcel: Parcel, place: int, waiting: set[Any], most: int
    ) -> Item:
        reasons: Any = scores.reasons

        def done(status: Status, why: Reason | None, value: Any) -> None:
            waiting.discard((scores.trial, place))
            scores.status[place] = status
            if status == Status.OK:
                scores.size[place], scores.loss[place] = min(value.size, most), value.loss
                scores.accuracy[place] = value.accuracy
                for name, found in value.metrics.items():
                    scores.metrics[name][place] = found
            else:
                reasons[place] = why

        return Item(
            task.client,
            messages.EVALUATE,
            task.to_dict(),
            parcel,
            lambda reply, _: read_scored(
                reply,
                scores.trial,
                self._most_rows,
                self._metrics,
                least_loss=self._least_loss(task.client),
                untrained=not parcel.bytes and not task.round,
            ),
            done,
        )

    def query(self, task: Query, clients: Sequence[int] | Ints) -> list[Answer]:
        """Ask clients to do work that is not a round; a query with a `trial` is sent with its model."""
        if isinstance(task, LocalSearch) and task.privacy is not None and task.privacy.release != "exact":
            raise InputError(
                "privacy.release = 'simulated' is for simulation: where clients are real, noise "
                "must be 'exact'"
            )
        number = getattr(task, "trial", None)
        if isinstance(task, FineTune):
            self._check_fine_tune(task)
            self._check_split(task.split)
        asked: dict[str, Any] = {"query": task.to_dict()}
        parcel, cost = None, Cost(bytes_down=len(canonical(task.to_dict())))
        if number is not None:
            parcel, about, (seed, *others) = self._asked_of(number)
            asked |= replace(about, seed=query_seed(task, seed, *others)).to_dict()
            cost = Cost(bytes_down=parcel.bytes)
        chosen = self._known(clients)
        self._nodes.look()
        answers: dict[int, Answer] = {}
        limits = self._limits(chosen, getattr(task, "split", "train"))
        for client, most in zip(chosen, limits.tolist(), strict=True):
            self._post.add(self._asking(task, client, asked, parcel, cost, answers, most))
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
        most: int,
    ) -> Item:
        def done(status: Status, why: Reason | None, value: Any) -> None:
            content, spent = value if status == Status.OK else (None, Cost())
            if isinstance(content, dict) and isinstance(content.get("size"), int):
                content = content | {"size": min(content["size"], most)}
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

    def close(self) -> None:
        self._post.transport.close()

    @property
    def dropped(self) -> dict[str, int]:
        """How often something was rejected or dropped so far, by what it was."""
        return dict(sorted(self._post.dropped.items()))


def joined_by(aggregation: Aggregation, strategy: str | None = None) -> str:
    """What joins updates, and what it guards against, in words.

    >>> joined_by(Aggregation(rule="agreement_filter", trim=0.25))
    'agreement_filter, which guards against a hostile 25% of a cohort'
    """
    if strategy is not None:
        return f"the strategy {strategy}, which guards against no more than it says itself"
    if aggregation.own is not None:
        return f"{aggregation.rule}, a rule of your own, which guards against no more than it does itself"
    if aggregation.rule == "mean":
        return "their mean: one hostile client can spoil every model (server.aggregation = 'safe' guards)"
    if aggregation.rule in ("median", "norm_clipping", "centred_clipping"):
        return f"{aggregation.rule}, which guards against few hostile clients of a cohort"
    return f"{aggregation.rule}, which guards against a hostile {aggregation.trim:.0%} of a cohort"
