"""What was found, as lines to paste into the app's `pyproject.toml`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedhpo.federations.apps.app_file import AppFile
from fedhpo.federations.apps.literals import Literal, is_literal
from fedhpo.federations.apps.sites import call_sites
from fedhpo.space.config import Config

FILE = "flower-config.toml"


def config_block(app: AppFile, config: Config) -> str:
    """`[tool.flwr.app.config]` with the values that were found; what stands elsewhere is a comment.

    >>> from pathlib import Path
    >>> app = AppFile(Path("."), {}, {"local-epochs": 1, "params.eta": 0.1})
    >>> print(config_block(app, Config(client={"local-epochs": 3, "params.eta": 0.25, "lr": 0.5})), end="")
    # Paste over these keys in the app's pyproject.toml.
    [tool.flwr.app.config]
    local-epochs = 3  # was 1
    params.eta = 0.25  # was 0.1
    # lr = 0.5: the server's train config holds it, not the run config
    """
    values = {**config.client, **config.model}
    lines = ["# Paste over these keys in the app's pyproject.toml.", "[tool.flwr.app.config]"]
    for key, value in sorted(values.items()):
        if key in app.config:
            lines.append(f"{key} = {_toml(value)}  # was {_toml(app.config[key])}")
    for key, value in sorted(values.items()):
        if is_literal(key):
            lines.append(f"# {key} = {_toml(value)}: {_in_code(app, key)}")
        elif key not in app.config:
            lines.append(f"# {key} = {_toml(value)}: the server's train config holds it, not the run config")
    lines += _arguments(config.server)
    return "\n".join(lines) + "\n"


def write_block(directory: Path, app: AppFile, config: Config) -> Path:
    """Write it into a run's directory."""
    place = directory / FILE
    place.write_text(config_block(app, config), encoding="utf-8")
    return place


def _arguments(server: Mapping[str, Any]) -> list[str]:
    return [f"# {key} = {_toml(value)}: an argument of the strategy" for key, value in sorted(server.items())]


def _in_code(app: AppFile, name: str) -> str:
    """File, line and argument of a literal."""
    literal = Literal.of(name, app)
    places = call_sites(app, literal)
    if not places:
        return f"the argument {literal.argument} of {'.'.join(literal.path)}, in the app's code"
    return "; ".join(
        f"{file}, line {line}, the argument {literal.argument} of {text}" for file, line, text in places
    )


def _toml(value: Any) -> str:
    return json.dumps(list(value) if isinstance(value, tuple) else value)
