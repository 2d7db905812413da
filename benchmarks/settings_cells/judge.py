"""What becomes of a key in a context: honoured, refused, said, listed; silent or failed must not be."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from typing import Any

from fedhpo.core.errors import FedhpoError
from settings_cells import contexts, keys
from settings_cells.contexts import Context
from settings_cells.keys import Key

HONOURED, REFUSED, SAID, LIST, SILENT, FAILED = OUTCOMES = (
    "honoured",
    "refused",
    "said",
    "listed",
    "silent",
    "failed",
)


@dataclass(frozen=True)
class Cell:
    """A key in a context."""

    context: Context
    key: Key

    @property
    def name(self) -> str:
        return f"{self.key.path} | {self.context.name}"


@cache
def cells() -> Sequence[Cell]:
    """All of them, but those of NVFlare's simulator, which has a process of its own."""
    return tuple(_cells())


def _cells() -> Iterator[Cell]:
    everywhere = list(keys.general())
    made, exported = contexts.of_a_job()
    for context in (*contexts.runtimes(), *contexts.methods(), *contexts.learners(), contexts.ray(), made):
        yield from (Cell(context, key) for key in everywhere)
    yield from (Cell(exported, key) for key in everywhere if key.path.startswith("job."))
    yield from (Cell(contexts.with_a_table(), key) for key in keys.of_method("fedtune"))
    scored = contexts.scored_by_training()
    yield from (Cell(scored, key) for key in everywhere if key.path.startswith("objective."))
    for context in (*contexts.runtimes(), *contexts.learners()):
        if "learner" in context.name or "flower," in context.name:
            yield from (Cell(context, key) for key in keys.of_model("estimator" in context.name))
    for context in contexts.methods():
        yield from (Cell(context, key) for key in keys.of_method(context.name.removeprefix("method ")))
    for name, context in contexts.methods_elsewhere():
        yield from (Cell(context, key) for key in keys.of_method(name))
    for name, context in contexts.cannot():
        yield Cell(context, Key("method", ({"name": name},), {}))
    for part, name, key in keys.of_parts():
        yield Cell(contexts.tuners(part, name), key)


def with_key(tables: Any, path: str, value: Any) -> dict[str, Any]:
    """The study with this key set."""
    found = deepcopy(dict(tables))
    *sections, name = path.split(".")
    here = found
    for section in sections:
        here = here.setdefault(section, {})
        if not isinstance(here, dict):
            raise KeyError(path)
    here[name] = value
    return found


def value_in(tables: Any, path: str) -> Any:
    """The value that the study has already."""
    for name in path.split("."):
        tables = tables.get(name) if isinstance(tables, dict) else None
    return tables


def with_beside(cell: Cell) -> dict[str, Any]:
    """The context's study with what the key needs beside it."""
    tables = dict(cell.context.tables)
    for path, value in cell.key.beside.items():
        tables = with_key(tables, path, keys.given(path, value))
    return tables


_BASES: dict[str, tuple[str, str]] = {}


def base(context: Context, tables: dict[str, Any], calls: bool = True) -> tuple[str, str]:
    """The digest of a study as it is, made once in a process."""
    known = f"{context.name} {calls} " + json.dumps(tables, sort_keys=True, default=str)
    if known not in _BASES:
        _BASES[known] = seen(context, tables, calls)
    return _BASES[known]


def seen(context: Context, tables: dict[str, Any], calls: bool) -> tuple[str, str]:
    """A digest and what was said, or why the study was refused."""
    try:
        return contexts.outcome(context, tables, calls)
    except FedhpoError as error:
        return REFUSED, str(error)


def judged(cell: Cell) -> tuple[str, str]:
    """What became of a cell, and a word about it."""
    try:
        before, why = base(cell.context, dict(cell.context.tables))
        if before == REFUSED:
            return FAILED, f"the context's own study is refused: {why}"
        bare = tried(cell, dict(cell.context.tables))
        if bare[0] not in (REFUSED, FAILED) or not cell.key.beside:
            return bare
        tables = with_beside(cell)
        # Where what it needs cannot be, the key is refused with it.
        return bare if base(cell.context, tables)[0] == REFUSED else tried(cell, tables)
    except Exception as error:  # a traceback is what a user must never see
        return FAILED, f"{type(error).__name__}: {error}"[:300]


def tried(cell: Cell, tables: dict[str, Any]) -> tuple[str, str]:
    """The best outcome of the key's values beside these tables."""
    path, found = cell.key.path, dict[str, str]()
    calls = not path.startswith("client.")  # every call repeats those
    before, _ = base(cell.context, tables, calls)
    for value in cell.key.values:
        if value == value_in(tables, path):
            continue
        after, says = seen(cell.context, with_key(tables, path, value), calls)
        if after == REFUSED:
            named = names(says, path, value, new_section(tables, path))
            by = "" if named else f"{value!r} is refused by what does not name it: "
            found.setdefault(REFUSED if named else FAILED, f"{by}{says}")
        elif after != before:
            return HONOURED, repr(value)
        elif f"[{path.partition('.')[0]}]" in says or path in says:
            found.setdefault(SAID, says)
        elif keys.listed(path):
            found.setdefault(LIST, keys.listed(path))
        else:
            found.setdefault(SILENT, repr(value))
    worst_last = (SAID, SILENT, FAILED, LIST, REFUSED)
    return next(((one, found[one]) for one in worst_last if one in found), (LIST, "no other value"))


def new_section(tables: Any, path: str) -> str:
    """The section that comes with the key, as the study had none; empty where it had."""
    sections = path.split(".")[:-1]
    places = (".".join(sections[: i + 1]) for i in range(len(sections)))
    return next((place for place in places if value_in(tables, place) is None), "")


def names(message: str, path: str, value: Any, section: str = "") -> bool:
    """Whether an error names the key that was set, or the `section` that came with it.

    >>> names("server.trim = 0.3: has no effect", "server.trim", 0.3)
    True
    >>> names("budget.total = 9: must be more", "server.trim", 0.3)
    False
    """
    *within, leaf = path.split(".")
    if path in ("model.name", "method"):  # all else may be wrong for another
        return True
    whole = [path, *(".".join(within[: i + 1]) for i in range(len(within))), *within]
    starts = rf"(^|\n|: )({'|'.join(map(re.escape, whole))})(?=[.: ])"
    if path in message or re.search(starts, message):
        return True
    if section and re.search(rf"(^|[^.\w]){re.escape(section)}\b", message):
        return True
    if isinstance(value, str | list) and any(repr(one) in message for one in [value, *value]):
        return True  # it is quoted
    return re.search(rf"(^|[^.\w]){leaf}( = |: | must | needs | of | is |\))", message) is not None
