"""The app's server under the configs of a study: how often its `main` runs, and what is kept of it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from flwr.serverapp import ServerApp

from fedhpo.core.canonical import canonical
from fedhpo.core.errors import InputError, unknown_name
from fedhpo.federations.apps.app_file import AppFile
from fedhpo.federations.apps.captured import Captured, capture
from fedhpo.federations.apps.literals import Literal, check_literal, is_literal

_MOST = 1000


@dataclass(frozen=True)
class Names:
    """Where the app takes a client hyperparameter from: its run config, what its server sends, its code."""

    run: Mapping[str, Any] = field(default_factory=dict)
    record: Mapping[str, Any] = field(default_factory=dict)
    literals: Mapping[str, Any] = field(default_factory=dict)


class Captures:
    """One call of `main` serves all configs that it cannot tell apart: it looked up none of what differs.

    `base` are values of the run config that hold for all trials, such as the number of rounds.
    """

    def __init__(self, app: AppFile, server: ServerApp, nodes: int, base: Mapping[str, Any]) -> None:
        self.app, self._server, self._nodes, self.base = app, server, nodes, dict(base)
        self._known: dict[str, list[tuple[dict[str, Any], Captured]]] = {}
        self._checked: set[str] = set()
        #: How often `main` ran.
        self.calls = 0

    @cached_property
    def directory(self) -> Path:
        """Where the app's server works, until `close`: what it writes there can be read by its clients."""
        return Path(tempfile.mkdtemp(prefix="fedhpo-app-"))

    def close(self) -> None:
        """Throw away what the app wrote."""
        if "directory" in vars(self):
            shutil.rmtree(self.directory, ignore_errors=True)

    def fresh(self, model: Mapping[str, Any], seed: int) -> Captured:
        """What `main` makes with this seed."""
        keys, literals = self.shape(model)
        return self._capture({**self.app.config, **self.base, **keys}, {}, literals, seed)

    def get(self, client: Mapping[str, Any], server: Mapping[str, Any], model: Mapping[str, Any]) -> Captured:
        """What the app's server would do under these hyperparameters."""
        own = {name: value for name, value in client.items() if name in self.app.config}
        known = self._known.setdefault(canonical([dict(server), dict(model)]).decode(), [])
        for config, found in known:
            read = found.read
            differ = [key for key in {**own, **config} if self._value(own, key) != self._value(config, key)]
            if not differ or (read is not None and not read & set(differ)):
                return found
        if len(known) > _MOST:
            known.clear()
        keys, literals = self.shape(model)
        run_config = {**self.app.config, **self.base, **keys, **own}
        found = self._capture(run_config, server, literals, 0)
        known.append((own, found))
        return found

    def _value(self, own: Mapping[str, Any], key: str) -> Any:
        return own.get(key, {**self.app.config, **self.base}.get(key))

    def _capture(
        self,
        run_config: Mapping[str, Any],
        server: Mapping[str, Any],
        literals: Mapping[str, Any],
        seed: int,
    ) -> Captured:
        self.calls += 1
        place = self.directory / str(self.calls)  # one each: apps name what they write by the second
        place.mkdir()
        return capture(
            self._server, run_config, server, self._nodes, seed, directory=place, literals=literals
        )

    def shape(self, model: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """The keys of the run config that shape the model, and the arguments in the app's code that do."""
        keys: dict[str, Any] = {}
        literals: dict[str, Any] = {}
        for name, value in model.items():
            if is_literal(name):
                literals[self._literal(name, "model")] = value
            elif name in self.app.config:
                keys[name] = value
            else:
                unknown = unknown_name("run config key of the app", name, self.app.config)
                raise InputError(f"space.model.{name}: {unknown}")
        return keys, literals

    def names(self, config: Mapping[str, Any], captured: Captured, *, plain: bool = False) -> Names:
        """Which of the names the app takes from where; refuses those that it has nowhere.

        `plain`: its clients run without fedhpo.
        """
        run = {name: value for name, value in config.items() if name in self.app.config}
        record = {name: value for name, value in config.items() if name in captured.sends}
        literals = {
            self._literal(name, "client"): value for name, value in config.items() if is_literal(name)
        }
        for name in config:
            if name not in run and name not in record and not is_literal(name):
                known = [*self.app.config, *captured.sends]
                error = unknown_name("key of the app's run config or train config", name, known)
                raise InputError(
                    f"space.client.{name}: {error}; a value that stands in the app's code is named "
                    '"module:callable.argument", such as "task:AdamW.lr" (fedhpo flower inspect lists them)'
                )
        for name in config if plain else ():
            if is_literal(name) or (name in run and captured.read is not None and name not in captured.read):
                where = "code" if is_literal(name) else "run config"
                raise InputError(
                    f"space.client.{name}: clients without fedhpo take it from their own {where}, which "
                    "cannot be tuned; install fedhpo there and write app = fedhpo.flower.wrap(app)"
                )
        # What the server makes of a run config key stands in its own config already.
        return Names(run, {name: value for name, value in record.items() if name not in run}, literals)

    def full(self, name: str) -> str:
        """The full name of an argument in the app's code."""
        return Literal.of(name, self.app).name

    def _literal(self, name: str, scope: str) -> str:
        found = self.full(name)
        if found not in self._checked:
            try:
                check_literal(found)
            except InputError as error:
                raise InputError(f"space.{scope}.{error}") from None
            self._checked.add(found)
        return found
