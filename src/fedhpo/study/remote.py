"""The federation that a study describes, over clients that are asked by messages."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from fedhpo.aggregation.presets import SAFE
from fedhpo.core.errors import InputError
from fedhpo.federations.remote.base import RemoteClients
from fedhpo.learners import HGB, XGBOOST
from fedhpo.learners.bagging import BAGGING, JOINED
from fedhpo.models import MODELS, models
from fedhpo.protocol.objective import BALANCED
from fedhpo.study.learners import is_learner
from fedhpo.study.study import Study

#: Where the clients of a run are kept, in its directory.
CLIENTS = "clients.json"


def waiting(study: Study, runtime: str, directory: Path | None) -> dict[str, Any]:
    """How clients are waited for, as the study's section of that name says."""
    # What clients do is theirs.
    settings: dict[str, Any] = getattr(study.file, runtime).model_dump(
        exclude_none=True, exclude={"hold_replies"}
    )
    settings.setdefault("clients", study.file.budget.cohort)
    settings["clients_file"] = None if directory is None else directory / CLIENTS
    return settings


def remote_federation(
    study: Study,
    runtime: str,
    federation: Callable[..., RemoteClients],
    learners: Callable[..., RemoteClients],
    directory: Path | None = None,
    model: Any = None,
    **options: Any,
) -> RemoteClients:
    """The study's federation: `federation(model, ...)`, or, for boosted trees, `learners(...)`."""
    server, name = study.file.server, study.file.model.name
    settings = waiting(study, runtime, directory)
    if is_learner(study.file.model):
        return learners(**_boosting(study, runtime), **(settings | options))
    if model is None:
        model = name if name in MODELS else models.find(name, "model.name")
    return federation(
        model,
        server=server.optimiser,
        strategy=server.strategy,
        aggregation=study.aggregation(default=SAFE),
        **(settings | options),
    )


def _boosting(study: Study, runtime: str) -> dict[str, Any]:
    """Boosted trees, the one learner whose parts can be joined without anybody's rows.

    Clients may search with scikit-learn's ("hgb"); what they train is XGBoost's, under the same names.
    """
    model, over = study.file.model, {"flower": "Flower", "nvflare": "NVFlare"}[runtime]
    if model.name not in (HGB.name, XGBOOST.name):
        raise InputError(
            f"model.name = {model.name!r}: trained by `fedhpo tune`, not over {over}, since what clients fit "
            f"cannot be joined to one model; use {XGBOOST.name!r}, {HGB.name!r}, or a torch model"
        )
    training, trips = model.others.get("training", BAGGING), model.others.get("trips", 1)
    if training not in JOINED:
        raise InputError(
            f"model.training = {training!r}: over {over} boosted trees are trained by "
            f"{' or '.join(map(repr, JOINED))}"
        )
    scoring = model.others.get("scoring") or BALANCED
    return {"weighting": study._weighting, "scoring": scoring, "training": training, "trips": trips}
