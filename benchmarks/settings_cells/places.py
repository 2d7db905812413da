"""Where the cells' studies run. Each returns a result's facts, and what else was seen of what was asked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

from fedhpo.federations.jobs.run import run_job
from fedhpo.study import Study

#: As many as a trimmed choice needs.
CLIENTS = 8
Seen = tuple[Mapping[str, Any], list[Any]]
APP = Path(__file__).parents[2] / "tests" / "flower" / "apps"


def simulated(study: Study, path: Path) -> Seen:
    """In this process."""
    from settings_cells.own import OPENED

    OPENED.clear()
    return study.tune(path, workers=0 if study.file.place is None else None).facts, list(OPENED)


def on_ray(study: Study, path: Path) -> Seen:
    """On a Ray cluster of one core, which this process starts once."""
    _start_ray()
    return study.tune(path, ray="auto").facts, []


@cache
def _start_ray() -> None:
    import ray

    ray.init(
        num_cpus=1,
        object_store_memory=80_000_000,
        include_dashboard=False,
        log_to_driver=False,
        runtime_env={"env_vars": {"PYTHONPATH": str(Path(__file__).parents[1])}},
    )


def stop_ray() -> None:
    """End the cluster, if there is one."""
    if _start_ray.cache_info().currsize:
        import ray

        ray.shutdown()
        _start_ray.cache_clear()


def tabular(study: Study, path: Path) -> Seen:
    """On a made-up table."""
    from fedhpo.research.tables.federation import TabularFederation

    return study.tune(path, federation=TabularFederation(table())).facts, []


@cache
def table() -> Any:
    """One with as many clients as the studies have."""
    from fedhpo.testing.table import toy_table

    return toy_table(configs=12, rounds=9, clients=CLIENTS)


def flower(study: Study, path: Path) -> Seen:
    """Over Flower, with all nodes in this process: one is late, and one fails the first time."""
    from flwr.clientapp import ClientApp

    from fedhpo.flower import client
    from fedhpo.flower.server_app import federation_of
    from settings_cells.troubled import TroubledGrid

    grid = TroubledGrid(client(ClientApp(), study=study), CLIENTS, seed=3)
    with (
        holding(grid.log),
        federation_of(
            grid, study, path, repeatable=True, clock=lambda: grid.now, sleep=grid.rest
        ) as federation,
    ):
        return study.tune(path, federation=federation).facts, grid.log


@cache
def plain_app() -> str:
    """An app in a directory of its own, whose training at rate 0 leaves the model as it is."""
    sys.path.append(str(APP.parent))
    from trap_apps import write_app

    return str(write_app(Path(tempfile.mkdtemp(prefix="fedhpo-settings-"))))


def flower_app(study: Study, path: Path) -> Seen:
    """A Flower app as it is, with its nodes in this process: the same trouble."""
    from fedhpo.federations.apps import in_process
    from fedhpo.federations.apps.federation import AppFederation
    from settings_cells.troubled import TroubledGrid

    grids: list[TroubledGrid] = []

    def gridded(app: Any, client: Any, nodes: Any, *_: Any) -> TroubledGrid:
        grids.append(TroubledGrid(client, nodes, app.config, seed=0))
        return grids[-1]

    def clocked(grid: TroubledGrid, *arguments: Any, **options: Any) -> AppFederation:
        return AppFederation(grid, *arguments, clock=lambda: grid.now, sleep=grid.rest, **options)

    with (
        mock.patch.object(in_process, "app_grid", gridded),
        mock.patch.object(in_process, "AppFederation", clocked),
    ):
        return study.tune(path).facts, grids[0].log


@cache
def job() -> str:
    """An NVFlare job in a directory of its own, as its script makes it."""
    sys.path.append(str(APP.parents[1] / "nvflare"))
    from job_files import write_job

    return str(write_job(Path(tempfile.mkdtemp(prefix="fedhpo-settings-")) / "steps"))


@cache
def exported_job() -> str:
    """The same, as NVFlare exports it."""
    place = Path(job())
    script = (place / "job.py").read_text().partition("recipe.execute")[0] + 'recipe.export("exported")\n'
    subprocess.run([sys.executable, "-c", script + "\nmain()"], cwd=place, check=True, capture_output=True)
    made = place.parent / "exported"
    (place / "exported").rename(made)  # not a part of the job
    return str(next(made.iterdir()))


def nvflare_job(study: Study, path: Path) -> Seen:
    """In NVFlare's simulator; a run that was made once with the same values is not made again."""
    from fedhpo.federations.jobs import federation

    with (
        mock.patch.object(federation, "run_job", _once_a_job),
        mock.patch.dict("os.environ", {"PYTHONPATH": _beside(Path(__file__).parents[1])}),
    ):
        return study.tune(path).facts, []


_RUNS: dict[str, Any] = {}


def _once_a_job(job: Any, values: Any = None, **options: Any) -> Any:
    known = json.dumps([str(job.path), values, options], sort_keys=True, default=str)
    if known not in _RUNS:
        _RUNS[known] = run_job(job, values, **options)
    return _RUNS[known]


def _beside(place: Path) -> str:
    return os.pathsep.join(filter(None, (str(place), os.environ.get("PYTHONPATH", ""))))


def holding(log: list[Any]) -> Any:
    """Replies that would be held back are noted and leave at once."""
    from fedhpo.parties.hold import Held

    def held(self: Held, reply: Any) -> Any:
        if self.seconds:
            log.append(("held", self.seconds))
        return reply()

    return mock.patch.object(Held, "__call__", held)
