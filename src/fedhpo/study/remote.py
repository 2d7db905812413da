"""The federation that a study describes, over clients that are asked by messages."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedhpo.aggregation.aggregation import Aggregation
from fedhpo.aggregation.presets import SAFE
from fedhpo.federations.remote.base import RemoteClients
from fedhpo.federations.remote.transport import SIMULATION, Transport
from fedhpo.protocol.federation import Federation

if TYPE_CHECKING:
    from fedhpo.study.study import Study

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
    study.check_place(runtime)
    if runtime != SIMULATION:
        return study.kind.over(transport, SAFE, waiting(study, runtime, directory) | options, model)
    default = Aggregation()
    # nobody claims more rows than it has
    settings = {**options, "weight_cap": study.aggregation(default=default).cap}
    return study.kind.over(transport, default, settings, model)
