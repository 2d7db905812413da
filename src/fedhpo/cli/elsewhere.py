"""Commands that a package beside fedhpo brings: its entry points `command.NAME` in the group `fedhpo`.

Such an entry point names a module with `add`, which adds the command's options to a parser, and `run`, which
takes the parsed options and returns the exit code.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec
from types import ModuleType

from fedhpo.core.errors import InputError
from fedhpo.core.registry import installed

#: What each does of `papers/` of the repository, which is a project of its own.
PAPERS = {
    "bench": "Compare methods on tables under every kind of noise; called again, it goes on.",
    "reproduce": "Run a paper's experiments again and judge its claims.",
}


def elsewhere(chosen: Iterable[str]) -> dict[str, str]:
    """What the commands of fedhpo-papers do, and of those `chosen` the ones that other packages bring."""
    others = [name for name in chosen if name.isidentifier() and not find_spec(f"fedhpo.cli.{name}")]
    found = installed("command") if others else {}
    return {name: f"A command of {found[name][0].value}." for name in others if name in found} | PAPERS


def brought(name: str) -> ModuleType:
    """The module of a command; an `InputError` says how to install it."""
    points = installed("command").get(name)
    if not points:
        raise InputError(
            f"fedhpo {name}: is part of fedhpo-papers, which is not installed; in a clone of fedhpo run "
            "`pip install ./papers`"
        )
    module: ModuleType = points[0].load()
    return module
