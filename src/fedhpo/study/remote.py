"""The federation that a study describes, over clients that are asked by messages."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from fedhpo.aggregation.aggregation import Aggregation
from fedhpo.aggregation.presets import SAFE
from fedhpo.core.claims import refuse
from fedhpo.core.errors import InputError
from fedhpo.federations.remote.base import RemoteClients
from fedhpo.federations.remote.federation import RemoteFederation
from fedhpo.federations.remote.models import Arrays
from fedhpo.federations.remote.transport import SIMULATION, Transport
from fedhpo.learners.averaging import AVERAGING, can_average
from fedhpo.learners.bagging import BAGGING, JOINED
from fedhpo.learners.prepare import FITTED
from fedhpo.models import MODELS, models
from fedhpo.protocol.federation import Federation
from fedhpo.protocol.objective import BALANCED
from fedhpo.study.learners import BOOSTED, is_learner, learner_in
from fedhpo.study.parts import PLACES
from fedhpo.study.study import Study
from fedhpo.study.trainees import trainee_in

#: Where the clients of a run are kept, in its directory.
CLIENTS = "clients.json"


def waiting(study: Study, runtime: str, directory: Path | None) -> dict[str, Any]:
    """How clients are waited for, as the study's section of that name says."""
    # What clients do is theirs.
    settings: dict[str, Any] = getattr(study.file, runtime).model_dump(
        exclude_none=True, exclude={"hold_replies"}
    )
    settings.setdefault("clients", study.file.budget.cohort or study.file.data.clients)
    settings["clients_file"] = None if directory is None else directory / CLIENTS
    return settings


def say(study: Study, federation: Federation) -> None:
    """The run's notes about the study, where there is no command line to print them."""
    for line in study.said(federation):
        print(f"fedhpo: {line}", file=sys.stderr, flush=True)


def remote_federation(
    study: Study, transport: Transport, directory: Path | None = None, model: Any = None, **options: Any
) -> RemoteClients:
    """The study's federation, over the clients that a transport reaches."""
    runtime = transport.runtime
    if study.file.app is not None:
        raise InputError(
            f"[app] names a Flower app, which cannot run {PLACES[runtime]}: its clients speak Flower's "
            "messages; use fedhpo.flower, or fedhpo tune with workers"
        )
    study.check_place(runtime)
    server, name = study.file.server, study.file.model.name
    asked = runtime != SIMULATION
    settings = (waiting(study, runtime, directory) if asked else {}) | options
    default = SAFE if asked else Aggregation()
    if not asked:  # nobody claims more rows than it has
        settings["weight_cap"] = study.aggregation(default=default).cap
    if is_learner(study.file.model):
        return _learners(study, transport, settings, default)
    trainee = trainee_in(study.file.model)
    if model is None and trainee is not None:
        model = Arrays(trainee.first)
    if model is None:
        model = name if name in MODELS else models.find(name, "model.name")
    made = RemoteFederation(
        transport,
        model,
        server=server.optimiser,
        strategy=server.strategy,
        aggregation=study.aggregation(default=default),
        **settings,
    )
    if study.file.client.open and made.all_train_by_sgd:
        made.close()
        refuse(["client.open = true: has no effect, as all clients train by fedhpo's SGD: leave it out"])
    return made


def _learners(
    study: Study, transport: Transport, settings: dict[str, Any], default: Aggregation
) -> RemoteClients:
    """Boosted trees are joined, an MLP's weights averaged; of others the config is the result.

    Clients may search with scikit-learn's trees ("hgb"); what they train is XGBoost's, under the same names.
    """
    from fedhpo.federations.remote.estimators import RemoteEstimatorFederation
    from fedhpo.federations.remote.learners import RemoteLearnerFederation

    model, over = study.file.model, PLACES[transport.runtime]
    if model.others.get("scaling") not in (None, FITTED):
        raise InputError(
            f"model.scaling = {model.others['scaling']!r}: {over} nobody knows the range of all "
            f"clients' rows; leave it out, or write {FITTED!r}"
        )
    cap = study.file.server.weight_cap
    settings = {"scoring": model.others.get("scoring") or BALANCED, **settings}
    settings |= {} if cap is None else {"weight_cap": cap}
    if model.name not in BOOSTED:
        averages = can_average(learner_in(model))
        if model.others.get("training", AVERAGING) != AVERAGING or ("training" in model.others) > averages:
            raise InputError(
                f"model.training = {model.others['training']!r}: {over} an MLP is trained by averaging, "
                f"and others by each client alone; leave it out{f', or write {AVERAGING!r}' * averages}"
            )
        aggregation = study.aggregation(default=default)
        return RemoteEstimatorFederation(transport, learner_in(model), aggregation=aggregation, **settings)
    training, trips = model.others.get("training", BAGGING), model.others.get("trips", 1)
    if training not in JOINED:
        raise InputError(
            f"model.training = {training!r}: {over} boosted trees are trained by "
            f"{' or '.join(map(repr, JOINED))}"
        )
    return RemoteLearnerFederation(
        transport, weighting=study._weighting, training=training, trips=trips, **settings
    )
