"""The bench: every method on every table under every setting, resumable, and a page of what came of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from fedhpo.core.digests import digest
from fedhpo.core.errors import InputError, unknown_name
from fedhpo.core.journal import Journal
from fedhpo.research.bench.cells import Cell, load, play
from fedhpo.research.bench.code import code_digest
from fedhpo.research.bench.entries import ENTRIES, entry_named
from fedhpo.research.bench.published import load_cells, save_cells
from fedhpo.research.bench.results import Results
from fedhpo.research.bench.sample import knife_of
from fedhpo.research.bench.settings import Suite, suite_named
from fedhpo.research.tables import shipped_tables
from fedhpo.workers.processes import imap_in_processes
from fedhpo.workers.spawn import cores

#: Cells that travel to a worker, and are kept, at once.
_TOGETHER = 8


def bench(
    suite: str = "quick",
    *,
    methods: Sequence[str] = (),
    tables: Sequence[str] = (),
    reference: str = "auto",
    seeds: int | None = None,
    directory: str | Path | None = None,
    cells: str | Path | None = None,
    workers: int | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> tuple[dict[str, Any], Results]:
    """Play all cells that neither `directory` nor `cells` holds yet; what was run, and the results.

    `tables` are names or files, by default those that come with fedhpo; `methods` names, by default all of
    `ENTRIES`. Killed and called again, it goes on, and comes to the same results. `cells` is a file of cells
    that were published; it is written anew with all of them. Cells that other code has played make the page
    again where none is missing.
    """
    chosen, names = suite_named(suite), list(dict.fromkeys(methods or ENTRIES))
    paths = list(dict.fromkeys(tables or shipped_tables()))
    for name in names:
        entry_named(name)
    if reference not in names:
        if reference != "auto":
            raise unknown_name("reference", reference, names)
        reference = names[0]
    titles = [load(path).name for path in paths]
    if len(set(titles)) < len(titles):
        raise InputError(f"table: each must have another name, not {', '.join(titles)}")
    about = {
        "code": code_digest(),
        "tables": {t: table_digest(p) for t, p in zip(titles, paths, strict=True)},
    }
    journal = Journal(None if directory is None else Path(directory) / "cells.jsonl", about)
    most = chosen.seeds if seeds is None else seeds
    wanted = _cells(chosen, names, paths, most)
    whose, published = _published(cells, about, wanted)
    rows = _all_rows(journal, published, wanted, workers, say)
    if cells is not None:
        save_cells(cells, whose, list({_key(row): row for row in (*published, *rows)}.values()))
    facts = {
        "suite": suite,
        **about,
        "code": whose["code"],
        "seeds": most,
        "settings": [{"name": one.name, **one.to_dict()} for one in chosen.settings],
        "methods": {
            name: {"kind": entry_named(name).kind, "about": entry_named(name).about} for name in names
        },
    }
    knives = {title: knife_of(load(path), most) for title, path in zip(titles, paths, strict=True)}
    return facts, Results(titles, [one.name for one in chosen.settings], names, reference, rows, knives)


def _cells(suite: Suite, names: Sequence[str], paths: Sequence[str], most: int) -> list[Cell]:
    """Seed by seed, so that a bench that is stopped has something of everything."""
    return [
        Cell(path, setting, name, seed, tuple(other for other in paths if other != path))
        for seed in range(most)
        for path in paths
        for setting in suite.settings
        for name in names
        if seed < suite.slow_seeds or not entry_named(name).slow
    ]


def _published(
    path: str | Path | None, about: dict[str, Any], wanted: Sequence[Cell]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What a file of cells is about, and the cells; `about` itself, and none, where there is no file yet."""
    if path is None or not Path(path).is_file():
        return about, []
    own, rows = load_cells(path)
    changed = [name for name, one in about["tables"].items() if own["tables"].get(name, one) != one]
    if changed:
        raise InputError(f"{path} holds cells of other tables ({', '.join(changed)}): name another file")
    if own["code"] != about["code"] and not {_key(row) for row in rows} >= {_key_of(cell) for cell in wanted}:
        raise InputError(
            f"{path} holds cells of other code ({own['code']}, this is {about['code']}), and not all that "
            "are asked for: name another file"
        )
    return {"code": own["code"], "tables": own["tables"] | about["tables"]}, rows


def _all_rows(
    journal: Journal,
    published: Sequence[dict[str, Any]],
    cells: Sequence[Cell],
    workers: int | None,
    say: Callable[[str], None],
) -> list[dict[str, Any]]:
    """What was played before and what is played now, in the order of the cells."""
    known = {_key(row): row for row in (*published, *journal)}
    waiting = [cell for cell in cells if _key_of(cell) not in known]
    done = len(cells) - len(waiting)
    say(f"{len(cells)} cells, {done} of them known")
    for rows in _played(waiting, cores() if workers is None else workers):
        journal.add(rows)
        known |= {_key(row): row for row in rows}
        done += len(rows)
        say(f"cell {done} of {len(cells)}")
    return [known[_key_of(cell)] for cell in cells]


def _played(cells: Sequence[Cell], workers: int) -> Iterator[list[dict[str, Any]]]:
    if workers > 1 and len(cells) > _TOGETHER:
        yield from imap_in_processes(play, cells, workers, _TOGETHER)
    else:
        for begin in range(0, len(cells), _TOGETHER):
            yield [play(cell) for cell in cells[begin : begin + _TOGETHER]]


def _key(row: Any) -> tuple[Any, ...]:
    return row["table"], row["setting"], row["method"], row["seed"]


def _key_of(cell: Cell) -> tuple[Any, ...]:
    return load(cell.table).name, cell.setting.name, cell.method, cell.seed


def table_digest(name: str) -> str:
    """Of a table's file."""
    return digest(Path(shipped_tables().get(name, name)).read_bytes()).hex()[:12]
