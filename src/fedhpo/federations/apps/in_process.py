"""A Flower app with all its nodes on this machine, or on a Ray cluster."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedhpo.federations.apps.app_file import read_app
from fedhpo.federations.apps.federation import AppFederation
from fedhpo.federations.apps.in_workers import app_grid
from fedhpo.federations.apps.loaded import find_modules_in, load_client, load_server, prepare
from fedhpo.federations.apps.quiet import to_standard_error
from fedhpo.federations.apps.wrapper import wrap
from fedhpo.protocol.objective import Objective


def app_in_process(
    path: str | Path,
    clients: int,
    objective: Objective,
    setup: str | None = None,
    node_config: Mapping[str, Any] | None = None,
    *,
    workers: int | None = None,
    ray: str | None = None,
    **options: Any,
) -> AppFederation:
    """The app at this path as a federation of so many clients, none of its lines changed.

    `setup` names a function that is called before the app is imported, such as one that puts a data set on
    this machine in the place of one that the app would load from the network. `node_config` are further keys
    of every node's config; `{}` in a text stands for the node's number. With `workers`, or a Ray cluster,
    other processes do the clients' work, and call `setup` too.
    """
    app = read_app(path)
    find_modules_in(app)
    with to_standard_error():
        prepare(setup)
        client, server = load_client(app), load_server(app)
    nodes = [
        {"partition-id": number, "num-partitions": clients, **_numbered(node_config or {}, number)}
        for number in range(clients)
    ]
    grid = app_grid(app, wrap(client), nodes, setup, workers, ray)
    return AppFederation(grid, app, server, objective, clients=clients, repeatable=True, **options)


def _numbered(config: Mapping[str, Any], number: int) -> dict[str, Any]:
    """A node's own values.

    >>> _numbered({"dataset-path": "data/{}", "name": "a"}, 3)
    {'dataset-path': 'data/3', 'name': 'a'}
    """
    return {
        key: value.replace("{}", str(number)) if isinstance(value, str) else value
        for key, value in config.items()
    }
