"""A job that tunes a study, for NVFlare's simulator or a deployment."""

from __future__ import annotations

from pathlib import Path

from nvflare.collab import CollabRecipe

from fedhpo.nvflare.client import Client
from fedhpo.nvflare.server import Server
from fedhpo.search.search import COHORT
from fedhpo.study import Study


def recipe(
    name: str,
    study: Study | str | Path,
    run: str | Path,
    *,
    client: Client | None = None,
    server: Server | None = None,
    start_seconds: float = 300.0,
) -> CollabRecipe:
    """A recipe for NVFlare: `recipe(...).execute(SimEnv(num_clients=10))`, or `ProdEnv(...)`.

    `run` is the run's directory on the server's machine; the same again goes on. `client` and `server` are
    for those of your own; `start_seconds` is how long NVFlare waits for clients to begin.
    """
    study = study if isinstance(study, Study) else Study.load(study)
    wanted = study.file.nvflare.clients or study.file.budget.cohort or study.file.data.clients or COHORT
    return CollabRecipe(
        job_name=name,
        server=server or Server(dict(study.given), str(Path(run).expanduser().absolute())),
        client=client or Client(dict(study.given)),
        min_clients=wanted,
        sync_task_timeout=start_seconds,
    )
