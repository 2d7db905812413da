"""The runs of a plan, one a line of a journal; those that an earlier call left beside its page are taken up.

The loop of all scales of the papers on FedEx and FedPop: a paper says which runs are wanted, how one is run,
and how its page is written. A run is a row of JSON; its key is the seed, and the names of what was run, by
default set and method. The whole can be stopped anywhere and goes on.

A journal is of one machine; the data beside a page goes with the repository. So what the journal lacks is
taken from there, if that was made by the same plan and settings, and if it repeats: the first run of each
method on each set is run once more, and only where it comes out the same are the others of that method and
set taken.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedhpo.core.errors import InputError
from fedhpo.core.journal import Journal
from fedhpo.pages.numbers import finite
from fedhpo_papers.shared.runs import page_name

Row = Mapping[str, Any]
#: Seed, set and method; or the seed and other names.
Key = tuple[Any, ...]


def key_of(row: Row) -> Key:
    """Which run a row is of, by seed, set and method."""
    return row["seed"], row["set"], row["method"]


def run_planned(
    wanted: Sequence[Key],
    about: Mapping[str, Any],
    path: Path,
    run: Callable[[Key], Row],
    say: Callable[[str], None],
    earlier: Sequence[Row] = (),
    key_of: Callable[[Row], Key] = key_of,
) -> list[Row]:
    """Run what neither the journal nor `earlier` has, in the order of `wanted`; all runs come back.

    `about` says what the runs depend on, and must be the same when a journal goes on.
    """
    journal = Journal(path, about)
    found = {key_of(row): row for row in journal}

    def done(key: Key) -> Row:
        row: Row = finite(run(key))  # as it is read back
        found[key] = row
        journal.add([row])
        return row

    missing = set(wanted) - found.keys()
    left_beside = {key: row for row in earlier if (key := key_of(row)) in missing}
    taken = _taken(left_beside, done, say)
    journal.add(list(taken.values()))
    found.update(taken)
    left = [key for key in wanted if key not in found]
    for place, key in enumerate(left):
        row = done(key)
        say(f"{place + 1} of {len(left)}: {_named(key)} seed {key[0]}: {row['accuracy']:.2f}%")
    return [found[key] for key in wanted]


def _named(key: Key) -> str:
    return " ".join(map(str, key[1:]))


def _taken(
    earlier: Mapping[Key, Row], run: Callable[[Key], Row], say: Callable[[str], None]
) -> dict[Key, Row]:
    """The earlier runs of everything whose first one repeats, without these first ones."""
    cells: dict[Key, list[Key]] = {}
    for key in earlier:
        cells.setdefault(key[1:], []).append(key)
    taken: dict[Key, Row] = {}
    for first, *others in cells.values():
        same = dict(run(first)) == dict(earlier[first])
        say(
            f"{_named(first)}: seed {first[0]} was run again and "
            + (f"is the same: {len(others)} more taken up" if same else "differs: all are run again")
        )
        if same:
            taken |= {key: earlier[key] for key in others}
    return taken


def earlier_rows(path: Path | None, about: Mapping[str, Any], say: Callable[[str], None]) -> list[Row]:
    """The runs of the data that an earlier call wrote, if it was made by the same plan and settings."""
    if path is None or not path.is_file():
        return []
    data = json.loads(path.read_text(encoding="utf-8"))
    changed = [name for name, value in json.loads(json.dumps(about)).items() if data.get(name) != value]
    if changed:
        say(f"{path}: made with other settings ({', '.join(changed)}); nothing is taken up from it")
        return []
    return list(data["rows"])


@dataclass(frozen=True)
class Planned:
    """A scale: what its runs depend on, how they are run, and their page; whether it has parts to choose."""

    name: str
    about: Mapping[str, Any]
    run: Callable[[Path, Sequence[Row]], Sequence[Row]]
    write: Callable[[Sequence[Row]], dict[str, Any]]
    scale: str = "default"
    parts: bool = False


def journal_of(runs: Path, scale: str) -> Path:
    """Where the runs of a scale are kept."""
    return runs / f"{scale}.journal"


def planned_pages(
    what: Planned, runs: Path, out: str | Path | None, only: Sequence[str], say: Callable[[str], None]
) -> dict[str, Any]:
    """Run what has not been run, and write the page; when it is stopped, the page of what is done."""
    if only and not what.parts:
        raise InputError(f"this scale has no parts: leave out {', '.join(only)}, or use --scale cnn")
    journal = journal_of(runs, what.scale)
    file = page_name(what.name, what.scale)
    earlier = earlier_rows(None if out is None else Path(out) / f"{file}.json", what.about, say)
    try:
        return what.write(what.run(journal, earlier))
    except (KeyboardInterrupt, SystemExit, InputError):  # the last: stopped in the middle of a ground truth
        part = list(Journal(journal, what.about)) if journal.is_file() else []
        if part and len(part) >= len(earlier):  # what is kept is not replaced by less
            what.write(part)
        raise
