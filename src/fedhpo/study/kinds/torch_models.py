"""Studies of torch models, ours or the user's own."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from fedhpo.aggregation.aggregation import Aggregation
from fedhpo.core.claims import Part, refuse
from fedhpo.core.errors import InputError, unknown_name
from fedhpo.core.fingerprint import code_of
from fedhpo.engine.hyperparameters import Local
from fedhpo.models import MODELS, hyperparameter_defaults, models
from fedhpo.study.checks import check_space
from fedhpo.study.kinds.kind import Kind
from fedhpo.study.kinds.learners import NAMES
from fedhpo.study.loading import model_for
from fedhpo.study.parts import LOCAL, OWN_TRAINING, SIMULATION, TORCH, TORCH_ASKED, TORCH_AT_PLACE, without
from fedhpo.study.sections import Model

if TYPE_CHECKING:
    from fedhpo.data import FederatedData
    from fedhpo.federations.remote.federation import RemoteFederation
    from fedhpo.federations.remote.transport import Transport
    from fedhpo.parties.rows import NodeRows
    from fedhpo.parties.torch_party import TorchParty
    from fedhpo.protocol.federation import Federation


class ArraysKind(Kind):
    """Models that travel as arrays, which the server puts together."""

    @abstractmethod
    def first(self) -> Any:
        """What makes the model that a trial begins with, at the server."""

    def over(
        self, transport: Transport, default: Aggregation, settings: dict[str, Any], model: Any = None
    ) -> RemoteFederation:
        """Over the clients that a transport reaches."""
        from fedhpo.federations.remote.federation import RemoteFederation

        server = self.file.server
        return RemoteFederation(
            transport,
            self.first() if model is None else model,
            server=server.optimiser,
            strategy=server.strategy,
            aggregation=self.study.aggregation(default=default),
            **settings,
        )


class TorchKind(ArraysKind):
    """A torch model, trained by SGD of ours or by a function of the user's."""

    def check_space(self) -> None:
        """Refuse hyperparameters that model, training and server do not have."""
        check_model(self.file.model, self.file.space.model)
        fixed = self.study.fixed or self.file.budget.tuning is not None
        check_space(self.study.space, self.file.server, self.file.client, fixed=fixed)

    def tables(self, given: dict[str, Any]) -> Mapping[str, Any]:
        """With what [model] and [client] fix."""
        for scope, found in (("model", self.file.model.others), ("client", self._local())):
            if found:
                fixed = {key: {"value": value} for key, value in found.items()}
                given[scope] = {**fixed, **given.get(scope, {})}
        return given

    def _local(self) -> dict[str, Any]:
        """The hyperparameters of local training that stand in [client]."""
        known, given = {f.name for f in fields(Local)}, self.study.given
        found = {key: value for key, value in given.get("client", {}).items() if key in known}
        for key in found:
            if key in given["space"].get("client", {}):
                raise InputError(
                    f"client.{key} is fixed here and also in space.client.{key}: keep one of them"
                )
        return found

    def part(self, place: str) -> Part:
        """Keys of local training count where clients do not train in their own way."""
        client = self.file.client
        if place == SIMULATION and self.file.place is not None:
            return TORCH_AT_PLACE
        if place != SIMULATION:
            own = client.train is not None or client.open or client.hyperparameters is not None
            return without(TORCH_ASKED, LOCAL if own else ())
        return without(TORCH, LOCAL if client.train is not None else OWN_TRAINING)

    def simulated(self, data: FederatedData, workers: int | None, ray: str | None) -> Federation:
        """On this machine, or on a Ray cluster."""
        from fedhpo.federations.simulate import simulate

        study, how = self.study, self.study.aggregation(default=Aggregation())
        return simulate(
            model_for(self.file.model.name, study.space.default().model, data),
            data,
            server=self.file.server.optimiser,
            strategy=self.file.server.strategy,
            weighting=how.weighting,
            aggregation=how.own or how.rule,
            trim=how.trim,
            clip_norm=how.clip_norm,
            weight_cap=how.weight_cap,
            train=study.own_training,
            workers=workers,
            device=self.file.device,
            fleet=study.fleet,
            ray=ray,
        )

    def over(
        self, transport: Transport, default: Aggregation, settings: dict[str, Any], model: Any = None
    ) -> RemoteFederation:
        """Over the clients that a transport reaches."""
        made = super().over(transport, default, settings, model)
        if self.file.client.open and made.all_train_by_sgd:
            made.close()
            refuse(["client.open = true: has no effect, as all clients train by fedhpo's SGD: leave it out"])
        return made

    def first(self) -> Any:
        """The model, by its name or the function that builds it."""
        name = self.file.model.name
        return name if name in MODELS else models.find(name, "model.name")

    def belongs(self) -> dict[str, Any]:
        """A training of the user's own."""
        train = self.study.own_training
        return {} if train is None else {"train": code_of(train)}

    def party(self, rows: NodeRows, device: str) -> TorchParty:
        """Trains by the engine of the simulation."""
        from fedhpo.parties.torch_party import TorchParty

        return TorchParty(self.study, rows, device)


def check_model(model: Model, tuned: Mapping[str, Any]) -> None:
    """The name, and the hyperparameters of its shape, fixed in [model] or tuned in [space.model]."""
    for key in model.others:
        if key in tuned:
            raise InputError(f"model.{key} is fixed here and tuned in space.model.{key}: keep one of them")
    if models.brings(model.name):
        return
    if model.name not in MODELS:
        # Learners are models too here, though they are found elsewhere.
        raise replace(models, ours=dict.fromkeys((*MODELS, *NAMES))).unknown(model.name, "model.name")
    known = hyperparameter_defaults(model.name)
    for where, keys in (("model", model.others), ("space.model", tuned)):
        for key in keys:
            if key not in known:
                kind = f"hyperparameter of {model.name}"
                raise InputError(f"{where}.{key}: {unknown_name(kind, key, known)}")
