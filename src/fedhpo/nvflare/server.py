"""The server's side of an NVFlare job: tunes a study over the job's sites."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from nvflare.collab import collab

from fedhpo.core.errors import InputError
from fedhpo.federations.nvflare.transport import CollabTransport, Proxy
from fedhpo.federations.remote.base import RemoteClients
from fedhpo.study import Study
from fedhpo.study.remote import remote_federation, say
from fedhpo.tuning.result import Result


class Server:
    """Tunes a study; submitted again with the same `run`, the job goes on from the record there.

    `study` is the study's tables, `run` the run's directory on the server's machine, an absolute path:
    NVFlare starts a job in a directory of its own. A subclass may have a method `model()` that returns what
    the server begins with, such as `Arrays(function)`, where the model is not PyTorch's.
    """

    model: Any = None

    def __init__(self, study: Mapping[str, Any], run: str) -> None:
        if not Path(run).expanduser().is_absolute():
            raise InputError(f"run = {run!r}: must be an absolute path on the server's machine")
        self.study, self.run = dict(study), run

    @collab.main
    def main(self) -> None:
        """The whole job."""
        model = None if self.model is None else self.model()
        result = tune(collab.clients, Study.from_dict(self.study), self.run, model=model)
        self.report(result)

    def report(self, result: Result) -> None:
        """What is done with the result: a page beside it."""
        from fedhpo.report import write_report

        assert result.run is not None
        page = write_report([result.run], result.run / "report.html")
        print(f"best config: {result.best_config}\nreport: {page}", flush=True)


def tune(
    clients: Iterable[Proxy],
    study: Study,
    run: str | Path,
    *,
    model: Any = None,
    callbacks: Sequence[Callable[..., Any]] = (),
) -> Result:
    """Tune a study over `collab.clients`, inside a `@collab.main` of your own; the same `run` again goes on.

    Deadline, quorum and the like stand in the study's section `[nvflare]`. Data and training are the clients'
    affair. `model` is for non-PyTorch models (`Arrays`).
    """
    directory = Path(run).expanduser()
    with federation_of(clients, study, directory, model) as federation:
        say(study, federation)
        return study.tune(directory, federation=federation, callbacks=callbacks)


def federation_of(
    clients: Iterable[Proxy], study: Study, directory: Path | None = None, model: Any = None, **options: Any
) -> RemoteClients:
    """The federation that a study describes, over the sites of a job."""
    return remote_federation(study, CollabTransport(clients), directory, model, **options)
