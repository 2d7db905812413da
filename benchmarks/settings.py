"""Every key of a study in every combination: it has an effect, is refused, or stands in a short list.

Keys come from the schema, the registries and the dataclasses; a cell sets one to another value in a small
study and looks at what was asked of the federation and at the result. All pairs of key and runtime, key and
method, key and learner; NVFlare's simulator and Ray have every key once. A key that counts only beside others
is set with them. A cell that does nothing without a word is silent, and there must be none.

    python benchmarks/settings.py [--processes 2] [--only TEXT] [--done settings-cells.json]

What is done is kept in the file that `--done` names and is not done again by the same code.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import multiprocessing
import os
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from fedhpo.core.errors import FedhpoError
from settings_cells import contexts, keys
from settings_cells.contexts import Context
from settings_cells.keys import LISTED, Key

OUTCOMES = ("honoured", "refused", "said", "listed", "silent", "failed")

#: In place of a digest.
REFUSED = "refused"


@dataclass(frozen=True)
class Cell:
    """A key in a context."""

    context: Context
    key: Key

    @property
    def name(self) -> str:
        return f"{self.key.path} | {self.context.name}"


def cells() -> Iterator[Cell]:
    """All of them but those on Ray and NVFlare."""
    everywhere = list(keys.general())
    for context in (*contexts.runtimes(), *contexts.methods(), *contexts.learners()):
        yield from (Cell(context, key) for key in everywhere)
    for context in (*contexts.runtimes(), *contexts.learners()):
        if "learner" in context.name or "," in context.name:
            yield from (Cell(context, key) for key in keys.of_model("estimator" in context.name))
    for context in contexts.methods():
        yield from (Cell(context, key) for key in keys.of_method(context.name.removeprefix("method ")))
    for name, context in contexts.methods_elsewhere():
        yield from (Cell(context, key) for key in keys.of_method(name))
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


def base(context: Context, tables: dict[str, Any]) -> tuple[str, str]:
    """The digest of a study as it is, made once in a process."""
    known = context.name + json.dumps(tables, sort_keys=True, default=str)
    if known not in _BASES:
        _BASES[known] = seen(context, tables)
    return _BASES[known]


def seen(context: Context, tables: dict[str, Any]) -> tuple[str, str]:
    """A digest and what was said, or why the study was refused."""
    try:
        return contexts.outcome(context, tables)
    except FedhpoError as error:
        return REFUSED, str(error)


def judged(cell: Cell) -> tuple[str, str]:
    """What became of a cell, and a word about it."""
    try:
        bare = tried(cell, dict(cell.context.tables))
        if bare[0] != "refused" or not cell.key.beside:
            return bare
        return tried(cell, with_beside(cell))
    except Exception as error:  # a traceback is what a user must never see
        return "failed", f"{type(error).__name__}: {error}"[:300]


def tried(cell: Cell, tables: dict[str, Any]) -> tuple[str, str]:
    """The best outcome of the key's values beside these tables."""
    before, why = base(cell.context, tables)
    if before == REFUSED:
        return "refused", f"even without the key: {why}"
    values = [value for value in cell.key.values if value != value_in(tables, cell.key.path)]
    found, word = ("listed", "no other value") if not values else ("refused", "")
    for value in values:
        after, says = seen(cell.context, with_key(tables, cell.key.path, value))
        if after == REFUSED:
            word = word or says
        elif after != before:
            return "honoured", repr(value)
        elif f"[{cell.key.path.partition('.')[0]}]" in says or cell.key.path in says:
            return "said", says
        else:
            found, word = "silent", repr(value)
    return (
        ("listed", LISTED[cell.key.path]) if found == "silent" and cell.key.path in LISTED else (found, word)
    )


def judged_all(names: list[str]) -> list[tuple[str, str, str]]:
    """In a process of its own: cells by name."""
    wanted = set(names)
    return [(cell.name, *judged(cell)) for cell in cells() if cell.name in wanted]


def batches(names: list[str], size: int = 12) -> list[list[str]]:
    """Cells of one context together, so that the study as it is runs once."""
    by_context: dict[str, list[str]] = defaultdict(list)
    for name in names:
        by_context[name.partition(" | ")[2]].append(name)
    return [some[i : i + size] for some in by_context.values() for i in range(0, len(some), size)]


def run(names: list[str], processes: int, done: Path, results: dict[str, Any]) -> None:
    """Judge the cells that are not done, and keep what comes of each batch."""
    begun, left = time.monotonic(), batches([name for name in names if name not in results])
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(processes, mp_context=spawn) as pool:
        jobs = [pool.submit(judged_all, batch) for batch in left]
        for number, job in enumerate(concurrent.futures.as_completed(jobs), 1):
            results |= {name: [outcome, word] for name, outcome, word in job.result()}
            write(done, results)
            print(f"{number} of {len(left)} batches, {time.monotonic() - begun:.0f} s", file=sys.stderr)


def write(path: Path, results: dict[str, Any]) -> None:
    """Keep what is done."""
    other = path.with_suffix(".new")
    other.write_text(json.dumps({"code": contexts.code_digest(), "cells": results}, indent=1, sort_keys=True))
    os.replace(other, path)


def read(path: Path) -> dict[str, Any]:
    """What the same code has done."""
    if not path.is_file():
        return {}
    found = json.loads(path.read_text())
    return dict(found["cells"]) if found["code"] == contexts.code_digest() else {}


def report(results: dict[str, Any]) -> int:
    """Print the figures; 1 if a cell is silent or failed, or a key is honoured nowhere."""
    count = Counter(outcome for outcome, _ in results.values())
    for outcome in ("silent", "failed"):
        for name, (found, word) in sorted(results.items()):
            if found == outcome:
                print(f"{outcome}: {name}: {word}")
    honoured = {name.partition(" | ")[0] for name, (found, _) in results.items() if found == "honoured"}
    nowhere = sorted({name.partition(" | ")[0] for name in results} - honoured - set(LISTED))
    for key in nowhere:
        print(f"honoured nowhere: {key}")
    print(f"cells tried {len(results)}, " + ", ".join(f"{name} {count[name]}" for name in OUTCOMES))
    print(f"keys {len(honoured | set(nowhere))}, honoured somewhere {len(honoured)}")
    return int(bool(count["silent"] or count["failed"]))


def main() -> int:
    """The whole of it."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--processes", type=int, default=2)
    options.add_argument("--only", default="", help="cells whose name holds this text")
    options.add_argument("--done", type=Path, default=Path("settings-cells.json"))
    given = options.parse_args()
    results = read(given.done)
    names = [cell.name for cell in cells() if given.only in cell.name]
    run(names, given.processes, given.done, results)
    return report({name: results[name] for name in names})


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
