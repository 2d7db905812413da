"""A federation of clients that are asked by messages; the models are the server's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from torch import nn

from fedhpo.aggregation.aggregation import Aggregation, refuse_beside
from fedhpo.aggregation.presets import SAFE
from fedhpo.aggregation.server import optimiser_class, refuse_lengths
from fedhpo.aggregation.sizes import beyond_use
from fedhpo.core.errors import InputError, unknown_name
from fedhpo.core.fingerprint import code_of
from fedhpo.core.hyperparameters import parse
from fedhpo.engine.executor import JobResult
from fedhpo.engine.factory import ZooModel, model_factory
from fedhpo.engine.fingerprint import model_of
from fedhpo.engine.flat import ModelFactory
from fedhpo.engine.fold import Folded, folds
from fedhpo.engine.gather import Gathering
from fedhpo.engine.hyperparameters import Local
from fedhpo.engine.lr_schedule import why_no_horizon
from fedhpo.federations.remote import messages
from fedhpo.federations.remote.base import RemoteClients, joined_by
from fedhpo.federations.remote.mailbox import ArraysParcel, Item
from fedhpo.federations.remote.messages import Task
from fedhpo.federations.remote.models import Arrays, TorchModel
from fedhpo.federations.remote.replies import TaskFailed, read_trained
from fedhpo.federations.remote.transport import Incoming, Transport
from fedhpo.federations.server_trials import HoldsTrials, Round, Trials, strategy_server
from fedhpo.protocol import federation as protocol
from fedhpo.protocol.federation import ClientSide, RoundReport, Status, Work
from fedhpo.protocol.fine_tune import FineTune
from fedhpo.protocol.objective import LOCAL_SCORINGS
from fedhpo.protocol.reasons import Reason, Why
from fedhpo.space import Space
from fedhpo.space.config import Config


class RemoteFederation(HoldsTrials, RemoteClients):
    """Clients that are asked by messages; the server's side of training happens here.

    Parameters
    ----------
    transport
        What brings messages to the clients' nodes, and replies back.
    model
        A name from `fedhpo.models`, a callable that builds a `torch.nn.Module`, a module, or, for models that
        are not PyTorch's, `Arrays(function)`.
    server, aggregation
        The server optimiser, and how updates are put together; see `fedhpo.simulate`. Here it is a rule that
        a quarter of hostile clients does not overturn (`fedhpo.aggregation.presets.SAFE`) if left out.
    strategy
        In place of both, one of Flower's strategies by name, or `package.module:Name`: see
        `fedhpo.federations.strategies.named.named_strategy`.
    settings
        How clients are waited for and checked: see `RemoteClients`.
    """

    def __init__(
        self,
        transport: Transport,
        model: str | nn.Module | ModelFactory | Arrays,
        *,
        server: str = "fedavg",
        aggregation: Aggregation | None = None,
        strategy: str | None = None,
        **settings: Any,
    ) -> None:
        optimiser_class(server)  # an unknown name is an error here, not in the first round
        if strategy is None:
            refuse_lengths(server, (aggregation or SAFE).rule)
        if aggregation is not None:
            refuse_beside(strategy, server, aggregation, usual=SAFE)
        self._server = server
        self._aggregation = aggregation or SAFE
        if self._aggregation.cap is not None:
            settings = {"weight_cap": self._aggregation.cap} | settings
        super().__init__(transport, **settings)
        self._model = self._server_model(model)
        self._strategy = strategy
        kept = strategy_server(
            strategy, self._aggregation.weighting, repeatable=bool(settings.get("repeatable"))
        )
        self._trials = Trials(self._model.first, self._aggregation, server, kept)
        able = {protocol.CLIENT_CONFIGS, protocol.FORK, protocol.MIX, protocol.PRODUCTS}
        if len(np.intersect1d(self.train_clients, self.validation_clients)):
            able.add(protocol.SCORES_IN_ROUND)
        self.capabilities |= able
        self.local_scorings = LOCAL_SCORINGS if self.all_train_by_sgd else None
        self.client_settings = Local if self.all_train_by_sgd else None

    def _server_model(self, model: Any) -> TorchModel | Arrays:
        if isinstance(model, Arrays):
            return model
        if isinstance(model, str):
            shape = self._clients.common("shape")
            if shape is None:
                raise InputError(f"model = {model!r}: no client reports the shape of its samples")
            return TorchModel(ZooModel(model, shape, self._clients.common("classes") or 1))
        return TorchModel(model_factory(model, None))  # type: ignore[arg-type]  # only a name needs data

    @property
    def trust(self) -> str:
        if not self.remote:
            return ""
        return f"updates are joined by {joined_by(self._aggregation, self._strategy)}"

    def model(self, trial: int) -> Any:
        """The trial's model for use outside the federation: a module, or named arrays."""
        one = self._trials[trial]
        return self._model.trained(self._trials.shapes[one.shape], one.evaluated, one.model)

    # Rounds

    def submit(self, work: Work) -> None:
        self._submit([work])

    def round(self, work: Sequence[Work]) -> list[RoundReport]:
        self._submit(work)
        return [self.next_done(piece.trial) for piece in work]

    def _submit(self, works: Sequence[Work]) -> None:
        """Send the tasks of several rounds: those for one client share a message."""
        self._trials.apart(works)
        begun = [self._begin(work) for work in works]
        self._nodes.look()
        for one in begun:
            self._trials.rounds[one.work.trial] = one
            parcel = ArraysParcel(one.trial.weights, self._trials.shapes[one.trial.shape])
            for member in range(len(one.work.cohort)):
                self._post.add(self._training(one, member, parcel))
        self._post.send()

    def _begin(self, work: Work) -> Round:
        trial = self._trials[work.trial]
        self._trials.idle(work.trial)
        sizes = self._can_train(work.cohort)
        epochs = np.ones(len(work.cohort))
        if not work.by_rule:
            own = [work.config_of(i) for i in range(1 if isinstance(work.client, Mapping) else len(sizes))]
            parsed = [self._checked(config) for config in own]
            for i, rows in enumerate(sizes):
                h = parsed[0 if isinstance(work.client, Mapping) else i]
                epochs[i] = 1 if h is None else h.passes(int(rows))
        # As in the simulated federation, whose sums are taken in this order.
        sequence = np.argsort(-epochs * np.array(sizes), kind="stable").tolist()
        optimiser, aggregate = self._trials.server_side(work)
        if self._sums and not self._trials.apart_from_sums(work) and folds(len(sequence), len(trial.weights)):
            aggregate = Folded(self._aggregation, sequence, len(trial.weights))
        gathering = Gathering.of(
            len(trial.weights),
            sequence,
            aggregate,
            np.zeros(len(sizes), np.bool_),
            products=self._trials.products(work),
            limits=(self._limits(work.cohort, "train"), self._limits(work.cohort, "validation")),
        )
        return Round(work, trial, optimiser, gathering)

    @property
    def _sums(self) -> bool:
        """Whether a round's updates are only added up."""
        lengths = self._strategy is None and optimiser_class(self._server).needs_lengths
        return self._strategy is None and self._aggregation.sums and not lengths

    def folds(self, cohort: int, model: Mapping[str, Any]) -> bool:
        if not self._sums or protocol.REPEATABLE not in self.capabilities:
            return False
        return folds(cohort, 0) or folds(cohort, self._model.first(model, 0)[0].size)

    def _checked(self, config: Mapping[str, Any]) -> Local | None:
        """Client hyperparameters; None where the clients' training is their own."""
        hellos = self._clients.hellos.values()
        if self.all_train_by_sgd:
            return parse(Local, "client", config)
        for declared in {hello.hyperparameters for hello in hellos if hello.hyperparameters is not None}:
            for name in config:
                if name not in declared:
                    raise unknown_name("hyperparameter of the clients' own training", name, declared)
        return None

    def preflight(self, config: Config, metric: str) -> None:
        if self._checked(config.client) is not None:
            self._model.preflight(config)

    def why_no_horizon(self, space: Space) -> str:
        # Training of the clients' own is told the number of rounds.
        return why_no_horizon(space.scope("client")) if self.all_train_by_sgd else ""

    def _training(self, one: Round, member: int, parcel: ArraysParcel) -> Item:
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
            weighting=messages.BY_SIZE if self._aggregation.by_size else messages.UNIFORM,
            rounds=work.horizon or self.training_rounds,
            frozen=self._model.frozen_digest(trial.model),
        )

        def read(reply: Any, message: Incoming) -> Any:
            result, after = read_trained(
                reply,
                message,
                work.trial,
                parcel.layout,
                self._most_rows,
                by_rule=work.by_rule,
                least_loss=self._least_loss(client),
            )
            update = after - trial.weights
            if beyond_use(update, trial.weights):
                raise TaskFailed(Reason(Why.TOO_LARGE))
            return result, update

        def done(status: Status, why: Reason | None, value: Any) -> None:
            if status == Status.MISSING:
                one.missing.add(member)
            result, update = value if status == Status.OK else (JobResult(failure=why), None)
            one.gathering.take(member, result, update)

        return Item(client, messages.TRAIN, task.to_dict(), parcel, read, done)

    def next_done(self, trial: int | None = None) -> RoundReport:
        while (one := self._trials.ended(trial)) is None:
            self._post.collect()
        return self._trials.end(one, self._minimum(one.work.minimum, len(one.work.cohort)))

    def ready(self) -> list[int]:
        return self._trials.ready()

    # What the tasks of `RemoteClients` are about

    def _asked_of(self, trial: int) -> tuple[ArraysParcel, Task, tuple[int, ...]]:
        one = self._trials[trial]
        self._trials.idle(trial)
        parcel = ArraysParcel(one.evaluated, self._trials.shapes[one.shape])
        task = Task(
            trial,
            0,
            one.round,
            one.model,
            rounds=self.training_rounds,
            frozen=self._model.frozen_digest(one.model),
        )
        return parcel, task, (one.seed, one.calls)

    def _check_fine_tune(self, task: FineTune) -> None:
        self._checked(task.client)

    # The federation itself

    def fingerprint(self, model: Mapping[str, Any]) -> dict[str, Any]:
        if isinstance(self._model, Arrays):
            described = code_of(self._model.function)
        else:
            described = model_of(self._model.factory, model)
        settings = {"server": self._server, **self._aggregation.to_dict()}
        if self._strategy is not None:
            settings["strategy"] = self._strategy
        return super().fingerprint(model) | {"model": described, "settings": settings}

    def describe(self) -> dict[str, Any]:
        return {
            "runtime": self.runtime,
            "clients": len(self._clients.hellos),
            "ordered_by": self._clients.by,
            "server": self._strategy or self._server,
            "weighting": self._aggregation.weighting,
            "aggregation": self._aggregation.rule if self._strategy is None else self._strategy,
            "parameters": max((layout.size for layout in self._trials.shapes.values()), default=0),
            "deadline": self._post.deadline,
            "dropped": ", ".join(f"{what}: {count}" for what, count in self.dropped.items()),
        }

    def close(self) -> None:
        self._trials.clear()
        super().close()
