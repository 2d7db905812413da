"""A Flower app with all its nodes in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fedhpo.federations.apps.app_file import read_app
from fedhpo.federations.apps.federation import AppFederation
from fedhpo.federations.apps.loaded import find_modules_in, load_client, load_server, prepare
from fedhpo.federations.apps.wrapper import wrap
from fedhpo.federations.flower.in_process import InProcessGrid
from fedhpo.protocol.objective import Objective


def app_in_process(
    path: str | Path, clients: int, objective: Objective, setup: str | None = None, **options: Any
) -> AppFederation:
    """The app at this path as a federation of so many clients, none of its lines changed.

    `setup` names a function that is called before the app is imported, such as one that puts a data set on
    this machine in the place of one that the app would load from the network.
    """
    app = read_app(path)
    find_modules_in(app)
    prepare(setup)
    grid = InProcessGrid(wrap(load_client(app)), clients, app.config, seed=0)
    return AppFederation(grid, app, load_server(app), objective, clients=clients, repeatable=True, **options)
