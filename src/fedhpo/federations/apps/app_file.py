"""What an app's `pyproject.toml` says, read without Flower and without importing anything."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from fedhpo.core.errors import InputError

FILE = "pyproject.toml"
#: The modules that `fedhpo flower wrap` adds to a copy of an app.
CLIENT, SERVER = "fedhpo_client_app", "fedhpo_server_app"

#: What apps call their number of rounds.
_ROUNDS = ("num-server-rounds", "num-rounds", "server-rounds", "num-global-rounds", "global-rounds", "rounds")


@dataclass(frozen=True)
class AppFile:
    """What an app's `pyproject.toml` says: where its components are, and its run config, keys with dots."""

    path: Path
    components: Mapping[str, str]
    config: Mapping[str, Any]
    #: Of a wrapped copy: the components that the app itself has.
    wrapped: Mapping[str, str] | None = None

    @property
    def own(self) -> Mapping[str, str]:
        """The app's own components, by which its modules are found."""
        return self.components if self.wrapped is None else self.wrapped

    def digest(self) -> str:
        """Of all Python files of the app, fedhpo's own aside: a run belongs to the code it was begun with."""
        found = blake2b(digest_size=16)
        for file in sorted(self.path.rglob("*.py")):
            if file.stem in (CLIENT, SERVER):
                continue
            found.update(str(file.relative_to(self.path)).encode() + b"\0" + file.read_bytes())
        return found.hexdigest()

    @property
    def rounds_key(self) -> str | None:
        """The key of the run config that holds the number of rounds, by the names that apps give it."""
        plain = {
            key.lower().replace("_", "-"): key for key, value in self.config.items() if type(value) is int
        }
        return next((plain[name] for name in _ROUNDS if name in plain), None)

    def module(self, name: str) -> str:
        """The full name of a module that may be given without the app's package before it."""
        for component in self.own.values():
            package = component.partition(":")[0].rpartition(".")[0]
            if package and self.source(f"{package}.{name}") is not None:
                return f"{package}.{name}"
        return name

    def source(self, module: str) -> Path | None:
        """The file of one of the app's modules."""
        place = self.path.joinpath(*module.split("."))
        for file in (place.with_suffix(".py"), place / "__init__.py"):
            if file.is_file():
                return file
        return None


def is_app(path: Path) -> bool:
    """Whether a directory's `pyproject.toml` is that of a Flower app, or of nothing else that is known."""
    file = path / FILE
    return file.is_file() and ("flwr" in file.read_text(errors="replace") or not (path / "job.py").is_file())


def read_app(path: str | Path, key: str = "app.path") -> AppFile:
    """Read the app's file, without importing anything."""
    place = Path(path).expanduser().absolute()
    file = place / FILE
    try:
        tables = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{key} = {str(path)!r}: {FILE} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{key} = {str(path)!r}: {FILE} is not TOML: {error}") from None
    app = tables.get("tool", {}).get("flwr", {}).get("app", {})
    components = app.get("components", {})
    for name in ("serverapp", "clientapp"):
        if not isinstance(components.get(name), str) or ":" not in components[name]:
            raise InputError(
                f"{key} = {str(path)!r}: {FILE} names no {name} in [tool.flwr.app.components]; is this a "
                "Flower app?"
            )
    wrapped = tables["tool"].get("fedhpo", {}).get("components")
    return AppFile(place, components, flattened(app.get("config", {})), wrapped)


def flattened(table: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Tables of tables as keys with dots, as Flower hands out the run config.

    >>> flattened({"lr": 0.1, "params": {"eta": 1, "tree": {"depth": 3}}})
    {'lr': 0.1, 'params.eta': 1, 'params.tree.depth': 3}
    """
    found: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, Mapping):
            found |= flattened(value, f"{before}{key}.")
        else:
            found[f"{before}{key}"] = value
    return found
