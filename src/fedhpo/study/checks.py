"""Checks that need neither data nor a model."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from fedhpo.aggregation.aggregation import Aggregation
from fedhpo.aggregation.own_rule import rule_of
from fedhpo.aggregation.presets import PRESETS
from fedhpo.aggregation.server import optimiser_class
from fedhpo.core.claims import refuse
from fedhpo.core.errors import InputError, unknown_name
from fedhpo.core.phrasing import shown
from fedhpo.data import DATASETS, FederatedData, datasets, partition_from_dict, split_from_dict
from fedhpo.engine.hyperparameters import Local
from fedhpo.protocol.method import ONE_TRAINING
from fedhpo.space import Space, ends
from fedhpo.study.parts import refuse_anywhere
from fedhpo.study.sections import Client, Data, Server
from fedhpo.tuning.arguments import checked_enqueue
from fedhpo.tuning.objectives import check_criteria

if TYPE_CHECKING:
    from fedhpo.study.study import Study


def check_data(data: Data) -> None:
    """The name, the options of that set, and the kinds of partition and split."""
    if datasets.brings(data.name):
        return
    if "name" not in data.model_fields_set and "files" not in data.others:
        raise InputError("data.name is missing: a data set, or 'package.module:function'; or data.files")
    if data.name not in DATASETS:
        raise datasets.unknown(data.name, "data.name")
    options = DATASETS[data.name].options
    for key in data.others:
        if key not in options:
            known = [*Data.model_fields, *options]
            raise InputError(f"data: {unknown_name('key', key, known)}")
    if data.partition is not None:
        with_clients = {"clients": data.clients or 1, **data.partition}
        _named("data.partition", lambda: partition_from_dict(with_clients, data.clients))
    if data.split is not None:
        _named("data.split", lambda: split_from_dict(data.split or {}))


def _named(key: str, make: Any) -> Any:
    try:
        return make()
    except InputError as error:
        raise InputError(f"{key}: {error}") from None


def check_server(server: Server) -> None:
    """The server optimiser's name, or the strategy's."""
    optimiser_class(server.optimiser, "server.optimiser")
    if server.aggregation is not None:
        rule_of(server.aggregation, (*Aggregation.RULES, *PRESETS), "server.aggregation")
    server.refuse_uncounted("server")
    if server.strategy is not None:
        _strategy(server.strategy)


def _strategy(name: str) -> Any:
    from fedhpo.federations.strategies.server import named_strategy

    return named_strategy(name)


def check_space(space: Space, server: Server, client: Client, *, fixed: bool = False) -> None:
    """Client and server hyperparameters are known, and every value that can occur is allowed."""
    if not space.names and not fixed:
        raise InputError("space has nothing to tune: write, say, lr = { low = 1e-3, high = 1.0, log = true }")
    for key, value in space.scope("client").items():
        _check_client_values(key, value, client)
    servers = space.scope("server")
    if not servers:
        return
    if server.strategy is not None:
        strategy = _strategy(server.strategy)
        for key in servers:
            _named(f"space.server.{key}", lambda key=key: strategy.check(key))
        return
    named = servers.pop("optimiser", None)
    if named is not None and "optimiser" in server.model_fields_set:
        raise InputError(
            "server.optimiser is fixed here and also in space.server.optimiser: keep one of them"
        )
    names = ends(named) if named is not None else [server.optimiser]
    for name in names:
        optimiser_class(name, "space.server.optimiser")
    for key, value in servers.items():
        when = getattr(value, "when", None) or {}
        chosen = when.get("server.optimiser", names)
        for name in chosen if isinstance(chosen, list | tuple) else [chosen]:
            _check_values("server", key, value, optimiser_class(name), f" of {name}")


def _check_client_values(key: str, value: Any, client: Client) -> None:
    """The name is one of our training's, or of the clients' own."""
    if client.hyperparameters is not None:
        if key not in client.hyperparameters:
            error = unknown_name("hyperparameter of the clients' own training", key, client.hyperparameters)
            raise InputError(f"space.client.{key}: {error}")
    elif not client.open and client.train is None:
        try:
            _check_values("client", key, value, Local)
        except InputError as error:
            if key in {f.name for f in fields(Local)}:
                raise
            raise InputError(
                f"{error}; if clients train in their own way, say so: open = true in [client]"
            ) from None


def _check_values(scope: str, key: str, value: Any, kind: type[Any], of: str = "") -> None:
    known = [f.name for f in fields(kind)]
    path = f"space.{scope}.{key}"
    if key not in known:
        raise InputError(f"{path}: {unknown_name(f'{scope} hyperparameter{of}', key, known)}")
    for end in ends(value):
        try:
            kind(**{key: end})
        except InputError as error:
            raise InputError(f"{path} can be {shown(end)}: {error}") from None


def check_clients(data: FederatedData, cohort: int | None, evaluated: int | float | None) -> None:
    """The federation has the clients that rounds and evaluations ask for."""
    training, scoring = len(data.train_clients), len(data.validation_clients)
    if cohort is not None and cohort > training:
        raise InputError(
            f"budget.cohort = {cohort}: must be at most {training}, the number of clients that can train"
        )
    if not scoring:
        raise InputError("data.split: no client has validation rows, so that nothing can be scored")
    if isinstance(evaluated, int) and evaluated > scoring:
        raise InputError(
            f"evaluation.clients = {evaluated}: must be at most {scoring}, the number of clients that hold "
            "validation data"
        )


def check_study(study: Study) -> None:
    """Check a study section by section, without reading data or building a model."""
    file, given = study.file, study.given
    check_server(file.server)
    file.client.refuse_uncounted("client")
    file.budget.refuse_uncounted("budget")
    refuse_anywhere(study.kind, given)
    study.kind.check()
    if file.place is not None:
        from fedhpo.study.places import place_in

        place_in(study)
    _ = study.method, study.objective, study.evaluator, study.proxy_study, study.fleet
    checked_enqueue(file.enqueue, study.space)
    once = ONE_TRAINING.format(study.method.name)
    if file.enqueue and study.method.trains_once:
        refuse([f"enqueue: {once}: leave it out"])
    check_criteria(study.criteria, study.method, study.evaluator)
    if study.evaluator.privacy is not None and study.weighting == "size":
        raise InputError("server.weighting = 'size': must be 'uniform' where [evaluation.privacy] is set")
    if study.evaluator.privacy is not None and given.get("objective", {}).get("weighting") == "size":
        raise InputError(
            "objective.weighting = 'size': leave it out where [evaluation.privacy] is set, all clients "
            "count the same then"
        )
    for name, remote in (("flower", file.flower), ("nvflare", file.nvflare)):
        if remote.hold_replies >= remote.deadline:
            raise InputError(
                f"{name}.hold_replies = {remote.hold_replies:g}: must be less than {name}.deadline "
                f"({remote.deadline:g}), after which a reply is too late"
            )
    rounds, total = file.budget.rounds, file.budget.total
    if total is not None and study.method.trains_once:
        refuse([f"budget.total = {total}: {once}: leave it out"])
    if total is not None and total < rounds:
        raise InputError(
            f"budget.total = {total}: must be at least budget.rounds ({rounds}), "
            "as the final training is part of it"
        )
