"""The runs of a plan, one a line of a journal; those that an earlier call left beside its page are taken up.

A run is a row of JSON with its seed, set and method. The whole can be stopped anywhere and goes on. A journal
is of one machine; the data beside a page goes with the repository. So what the journal lacks is taken from
there, if that was made by the same plan and settings, and if it repeats: the first run of each method on each
set is run once more, and only where it comes out the same are the others of that method and set taken.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedhpo.core.errors import InputError
from fedhpo.core.journal import Journal
from fedhpo_papers.shared.runs import page_name

Row = Mapping[str, Any]
#: Seed, set and method.
Key = tuple[int, str, str]


def key_of(row: Row) -> Key:
    """Which run a row is of."""
    return row["seed"], row["set"], row["method"]


def run_planned(
    wanted: Sequence[Key],
    about: Mapping[str, Any],
    path: Path,
    run: Callable[[Key], Row],
    say: Callable[[str], None],
    earlier: Sequence[Row] = (),
) -> list[Row]:
    """Run what neither the journal nor `earlier` has, in the order of `wanted`; all runs come back.

    `about` says what the runs depend on, and must be the same when a journal goes on.
    """
    journal = Journal(path, about)
    found = {key_of(row): row for row in journal}

    def done(key: Key) -> Row:
        row = run(key)
        found[key] = row
        journal.add([row])
        return row

    journal.add(_taken([row for row in earlier if key_of(row) in set(wanted)], found, done, say))
    left = [key for key in wanted if key not in found]
    for place, key in enumerate(left):
        row = done(key)
        seed, name, method = key
        say(f"{place + 1} of {len(left)}: {name} {method} seed {seed}: {row['accuracy']:.2f}%")
    return [found[key] for key in wanted]


def _taken(
    earlier: Sequence[Row], found: dict[Key, Row], run: Callable[[Key], Row], say: Callable[[str], None]
) -> list[Row]:
    """Those of the earlier runs that the journal lacks, of each method and set whose first one repeats."""
    cells: dict[tuple[str, str], list[Row]] = {}
    for row in earlier:
        if key_of(row) not in found:
            cells.setdefault((row["set"], row["method"]), []).append(row)
    taken: list[Row] = []
    for (name, method), (first, *others) in cells.items():
        again = run(key_of(first))
        same = dict(again) == dict(first)
        say(
            f"{name} {method}: seed {first['seed']} was run again and "
            + (f"is the same: {len(others)} more taken up" if same else "differs: all are run again")
        )
        if same:
            taken += others
            found.update({key_of(row): row for row in others})
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
    """A scale that has a plan: what its runs depend on, how they are run, and their page."""

    name: str
    about: Mapping[str, Any]
    run: Callable[[Path, Sequence[Row]], Sequence[Row]]
    write: Callable[[Sequence[Row]], dict[str, Any]]
    scale: str = "default"


def planned_pages(
    what: Planned, runs: Path, out: str | Path | None, only: Sequence[str], say: Callable[[str], None]
) -> dict[str, Any]:
    """Run what has not been run, and write the page; when it is stopped, the page of what is done."""
    if only:
        raise InputError(f"this scale has no parts: leave out {', '.join(only)}, or use --scale cnn")
    journal = runs / f"{what.scale}.journal"
    file = page_name(what.name, what.scale)
    earlier = earlier_rows(None if out is None else Path(out) / f"{file}.json", what.about, say)
    try:
        return what.write(what.run(journal, earlier))
    except (KeyboardInterrupt, SystemExit, InputError):  # the last: stopped in the middle of a ground truth
        part = list(Journal(journal, what.about)) if journal.is_file() else []
        if part and len(part) >= len(earlier):  # what is kept is not replaced by less
            what.write(part)
        raise
