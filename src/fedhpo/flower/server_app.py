"""`tune`: all that a Flower `ServerApp` has to say to tune a study over its clients."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fedhpo.core.errors import InputError
from fedhpo.federations.apps.block import FILE as BLOCK
from fedhpo.federations.flower.identity import RUNTIME
from fedhpo.federations.flower.transport import FlowerTransport
from fedhpo.federations.remote.base import RemoteClients
from fedhpo.study import Study
from fedhpo.study.remote import remote_federation, say, waiting
from fedhpo.tuning.result import Result

if TYPE_CHECKING:
    from fedhpo.federations.apps.federation import AppFederation

#: The key of the run config that names the run's directory.
RUN_DIRECTORY = "run-dir"


def tune(
    grid: Grid,
    context: Context,
    study: Study | str | Path,
    *,
    model: Any = None,
    callbacks: Sequence[Callable[..., Any]] = (),
) -> Result:
    """Tune a study over the clients behind `grid`; called again with the same run directory, go on.

    The run's directory is `run-dir` in the app's run config, an absolute path: a `ServerApp` does not run
    where it was started. Deadline, quorum and the like stand in the study's section `[flower]`. Data and
    training are the clients' affair. `model` is for non-PyTorch models (`Arrays`).
    """
    study = study if isinstance(study, Study) else Study.load(study)
    directory = run_directory(context.run_config)
    with federation_of(grid, study, directory, model) as federation:
        say(study, federation)
        return study.tune(directory, federation=federation, callbacks=callbacks)


def tuned(app: ServerApp, study: Study | str | Path) -> ServerApp:
    """A `ServerApp` that tunes another as it is: `app = fedhpo.flower.tuned(app, "study.toml")`.

    The study's `[app]` names the app's directory; its clients are wrapped by `fedhpo.flower.wrap`. Those that
    are not take part too, with less: see docs/flower-apps.md. The run's directory is `run-dir` in the app's
    run config, as for `tune`.
    """
    outer = ServerApp()

    @outer.main()
    def main(grid: Grid, context: Context) -> None:
        opened = study if isinstance(study, Study) else Study.load(study)
        directory = run_directory(context.run_config)
        with app_federation(grid, app, opened, context.run_config, directory) as federation:
            say(opened, federation)
            result = opened.tune(directory, federation=federation)
        if result.status == "finished":
            print(f"best config: {result.best_config}\n{(directory / BLOCK).read_text(encoding='utf-8')}")

    return outer


def app_federation(
    grid: Grid,
    server: ServerApp,
    study: Study,
    run_config: Mapping[str, Any],
    directory: Path | None = None,
    **options: Any,
) -> AppFederation:
    """The federation of an app's study, behind a grid; `run_config` is the app's, as this run has it."""
    from fedhpo.federations.apps.federation import AppFederation
    from fedhpo.federations.apps.plain import PlainGrid

    kind = study.kind.as_app()
    study.check_place(RUNTIME)
    file = kind.app_file
    config = {**file.config, **run_config}
    config.pop(RUN_DIRECTORY, None)
    settings = waiting(study, RUNTIME, directory)
    return AppFederation(
        PlainGrid(grid),
        replace(file, config=config),
        server,
        study.objective,
        **kind.options(),
        **(settings | options),
    )


def run_directory(run_config: Mapping[str, Any]) -> Path:
    """Where the run is kept.

    >>> run_directory({"run-dir": "runs/mine"})
    Traceback (most recent call last):
    ...
    fedhpo.InputError: run-dir = 'runs/mine' in the run config: must be an absolute path
    """
    given = run_config.get(RUN_DIRECTORY)
    if not isinstance(given, str) or not Path(given).expanduser().is_absolute():
        raise InputError(f"{RUN_DIRECTORY} = {given!r} in the run config: must be an absolute path")
    return Path(given).expanduser()


def federation_of(
    grid: Grid, study: Study, directory: Path | None = None, model: Any = None, **options: Any
) -> RemoteClients:
    """The federation that a study describes, behind a grid."""
    return remote_federation(study, FlowerTransport(grid), directory, model, **options)
