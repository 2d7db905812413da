"""The bench: every method on every table under every setting, resumable, and a page of what came of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedhpo.core.digests import digest
from fedhpo.core.errors import InputError, unknown_name
from fedhpo.core.journal import Journal
from fedhpo.research.tables import shipped_tables
from fedhpo.workers.processes import imap_in_processes
from fedhpo.workers.spawn import cores
from fedhpo_papers.bench.cells import Cell, load, play
from fedhpo_papers.bench.code import code_digest
from fedhpo_papers.bench.entries import ENTRIES, entry_named
from fedhpo_papers.bench.plan import check_plan
from fedhpo_papers.bench.published import Published, Row, load_cells, save_cells
from fedhpo_papers.bench.results import Results
from fedhpo_papers.bench.settings import Suite, suite_named

#: Cells that travel to a worker, and are kept, at once.
_TOGETHER = 8


def bench(
    suite: str = "quick",
    *,
    methods: Sequence[str] = (),
    tables: Sequence[str] = (),
    test: Sequence[str] = (),
    reference: str = "auto",
    seeds: int | None = None,
    directory: str | Path | None = None,
    cells: str | Path | None = None,
    workers: int | None = None,
    known: bool = False,
    note: str = "",
    plan: str | Path | None = None,
    again: bool = False,
    say: Callable[[str], None] = lambda line: None,
) -> tuple[dict[str, Any], Results]:
    """Play all cells that neither `directory` nor `cells` holds yet; what was run, and the results.

    `tables` are names or files, by default those that come with fedhpo; `methods` names, by default all of
    `ENTRIES`. `test` are those of the tables that nothing was tried on before: the page keeps them apart, and
    nothing is learned from them. Killed and called again, it goes on, and comes to the same results.

    `cells` is a file of cells that were published; it is written anew with all of them. Cells that other code
    has played make the page again where none is missing. With `known` nothing is played: the results are
    those of the cells that are there, and methods may have different numbers of seeds. `note` is a sentence
    for the page. `plan` is a file that fixes test tables and code beforehand; see `fedhpo_papers.bench.plan`.
    """
    chosen, names = suite_named(suite), list(dict.fromkeys(methods or ENTRIES))
    for name in names:
        entry_named(name)
    if reference not in names:
        if reference != "auto":
            raise unknown_name("reference", reference, names)
        reference = names[0]
    titles = _titles(tables, test)
    if plan is not None:
        opened = {name: table_digest(titles[name]) for name in test}
        note = f"{note} {check_plan(plan, code_digest(), opened, again=again)}".strip()
    most = chosen.seeds if seeds is None else seeds
    wanted = _cells(chosen, names, titles, test, most)
    held = _Held(titles, test, directory, cells, [] if known else wanted)
    if known:
        wanted = [cell for cell in wanted if _key_of(cell) in held.known]
        names = [name for name in names if any(cell.method == name for cell in wanted)]
    rows = _all_rows(held, wanted, workers, say)
    if not rows:
        raise InputError("known: no cell of these tables, methods and seeds has been played yet")
    if cells is not None:
        save_cells(cells, held.published)
    facts = {
        "suite": suite,
        "code": " and ".join(sorted({held.published[title][0]["code"] for title in titles})),
        "tables": {title: table_digest(path) for title, path in titles.items()},
        "seeds": max(row["seed"] for row in rows) + 1,
        "test": list(test),
        "note": note,
        "settings": [{"name": one.name, **one.to_dict()} for one in chosen.settings],
        "methods": {one.name: {"kind": one.kind, "about": one.about} for one in map(entry_named, names)},
    }
    settings = [one.name for one in chosen.settings]
    return facts, Results(list(titles), settings, names, reference, rows)


def _titles(tables: Sequence[str], test: Sequence[str]) -> dict[str, str]:
    """The files of the tables, or their names if they come with fedhpo, by the names that they have."""
    paths = list(dict.fromkeys(tables or shipped_tables()))
    titles = {load(path).name: path for path in paths}
    if len(titles) < len(paths):
        given = ", ".join(load(path).name for path in paths)
        raise InputError(f"table: each must have another name, not {given}")
    if unknown := sorted({*test} - {*titles}):
        raise InputError(f"test: {', '.join(unknown)} is none of the tables {', '.join(titles)}")
    return titles


def _cells(
    suite: Suite, names: Sequence[str], titles: Mapping[str, str], test: Sequence[str], most: int
) -> list[Cell]:
    """Seed by seed, so that a bench that is stopped has something of everything."""
    return [
        Cell(path, setting, name, seed, _others(title, titles, test))
        for seed in range(most)
        for title, path in titles.items()
        for setting in suite.settings
        for name in names
        if seed < suite.slow_seeds or not entry_named(name).slow
    ]


def _others(title: str, titles: Mapping[str, str], test: Sequence[str]) -> tuple[str, ...]:
    """The tables that may be learned from: the others of the run, and of those that come with fedhpo."""
    known = {name: name for name in shipped_tables()} | dict(titles)
    return tuple(known[name] for name in sorted(known) if name != title and name not in test)


class _Held:
    """The cells that are there already: of each table in a journal of its own, and those that were published.

    Cells of other code, of another table or learned from other tables are never mixed with these.
    """

    def __init__(
        self,
        titles: Mapping[str, str],
        test: Sequence[str],
        directory: str | Path | None,
        cells: str | Path | None,
        wanted: Sequence[Cell],
    ) -> None:
        self.published: Published = {} if cells is None else load_cells(cells)
        self._journals: dict[str, Journal] = {}
        self.known: dict[tuple[Any, ...], Row] = {}
        for title, path in titles.items():
            about = {
                "code": code_digest(),
                "table": table_digest(path),
                "others": [table_digest(other) for other in _others(title, titles, test)],
            }
            if title in self.published:
                about = self._checked(title, about, [cell for cell in wanted if cell.table == path], cells)
            file = None if directory is None else Path(directory) / f"cells-{about['table']}.jsonl"
            self._journals[title] = Journal(file, about)
            rows = [*self.published.get(title, (about, []))[1], *self._journals[title]]
            self.known |= {_key(row): row for row in rows}
            self.published[title] = (about, list({_key(row): row for row in rows}.values()))

    def _checked(
        self, title: str, about: dict[str, Any], wanted: Sequence[Cell], path: str | Path | None
    ) -> dict[str, Any]:
        """What the published cells of a table are about, if these may be taken."""
        own, rows = self.published[title]
        if any(own.get(name) != about[name] for name in ("table", "others")):
            raise InputError(
                f"{path} holds cells of another table {title}, or learned from others: name another file"
            )
        if own["code"] != about["code"] and not {_key(r) for r in rows} >= {_key_of(cell) for cell in wanted}:
            raise InputError(
                f"{path} holds cells of other code ({own['code']}, this is {about['code']}), and not all "
                "that are asked for: name another file"
            )
        return own

    def add(self, rows: Sequence[Row]) -> None:
        """Keep cells that were played."""
        for title, journal in self._journals.items():
            own = [row for row in rows if row["table"] == title]
            journal.add(own)
            self.published[title][1].extend(own)
        self.known |= {_key(row): row for row in rows}


def _all_rows(
    held: _Held, cells: Sequence[Cell], workers: int | None, say: Callable[[str], None]
) -> list[Row]:
    """What was played before and what is played now, in the order of the cells."""
    waiting = [cell for cell in cells if _key_of(cell) not in held.known]
    done = len(cells) - len(waiting)
    say(f"{len(cells)} cells, {done} of them known")
    for rows in _played(waiting, cores() if workers is None else workers):
        held.add(rows)
        done += len(rows)
        say(f"cell {done} of {len(cells)}")
    return [held.known[_key_of(cell)] for cell in cells]


def _played(cells: Sequence[Cell], workers: int) -> Iterator[list[Row]]:
    if workers > 1 and len(cells) > _TOGETHER:
        yield from imap_in_processes(play, cells, workers, _TOGETHER)
    else:
        for begin in range(0, len(cells), _TOGETHER):
            yield [play(cell) for cell in cells[begin : begin + _TOGETHER]]


def _key(row: Row) -> tuple[Any, ...]:
    return row["table"], row["setting"], row["method"], row["seed"]


def _key_of(cell: Cell) -> tuple[Any, ...]:
    return load(cell.table).name, cell.setting.name, cell.method, cell.seed


def table_digest(name: str) -> str:
    """Of a table's file."""
    return digest(Path(shipped_tables().get(name, name)).read_bytes()).hex()[:12]
