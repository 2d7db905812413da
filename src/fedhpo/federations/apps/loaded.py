"""The components of a Flower app, imported from its directory."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp

from fedhpo.core.errors import InputError
from fedhpo.core.objects import call_own, import_object
from fedhpo.core.user_code import in_words
from fedhpo.federations.apps.app_file import FILE, AppFile


def find_modules_in(app: AppFile) -> None:
    """Let the app's modules be imported by their names, as Flower does."""
    place = str(app.path)
    if place not in sys.path:
        sys.path.insert(0, place)
    importlib.invalidate_caches()


def prepare(setup: str | None) -> None:
    """Call the function that makes this machine ready for an app."""
    if setup is not None:
        call_own(import_object(setup, "app.setup"), {}, f"app.setup = {setup!r}")


def load_client(app: AppFile) -> ClientApp:
    """The app's `ClientApp`."""
    found = _component(app, "clientapp")
    if not isinstance(found, ClientApp):
        raise InputError(f"app.path: {app.components['clientapp']} is no ClientApp")
    return found


def load_server(app: AppFile) -> ServerApp:
    """The app's `ServerApp`."""
    found = _component(app, "serverapp")
    if not isinstance(found, ServerApp):
        raise InputError(f"app.path: {app.components['serverapp']} is no ServerApp")
    return found


def _component(app: AppFile, which: str) -> Any:
    module, _, name = app.components[which].partition(":")
    find_modules_in(app)
    try:
        found = importlib.import_module(module)
    except Exception as error:
        raise InputError(f"app.path: {which} {module!r} cannot be imported: {in_words(error)}") from error
    where = Path(getattr(found, "__file__", None) or "/").absolute()
    if not where.is_relative_to(app.path):
        raise InputError(
            f"app.path: {which} {module!r} was imported from {where}, not from {app.path}: another package "
            "has the same name"
        )
    if not hasattr(found, name):
        raise InputError(f"app.path: {module} has no {name!r}, which {FILE} names as the {which}")
    return getattr(found, name)


#: By module, the plain values of its names when the app's server was first called.
_IMPORTED: dict[str, dict[str, Any]] = {}


def as_imported(server: ServerApp) -> None:
    """Give plain values of the app's modules back what they were before its `main` ran first.

    `main` runs once in a process of Flower's, and may write a name such as RESULTS_FILE from itself. What is
    kept there for later, such as a data set that was loaded once, stays.
    """
    function: Any = server._main or server._server_fn
    package = str(getattr(function, "__module__", "")).partition(".")[0]
    for name, module in list(sys.modules.items()):
        if not package or name.partition(".")[0] != package:
            continue
        plain = {
            key: value
            for key, value in vars(module).items()
            if type(value) in (str, int, float, bool) and not key.startswith("__")
        }
        known = _IMPORTED.setdefault(name, plain)
        for key, value in known.items():
            if key in plain and type(plain[key]) is type(value):
                setattr(module, key, value)
