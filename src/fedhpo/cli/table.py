"""`fedhpo table`: build a table of learning curves, list tables, say what one holds; FedTune's table."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedhpo.cli import OK
from fedhpo.cli.output import print_json
from fedhpo.core.errors import InputError

if TYPE_CHECKING:
    from fedhpo.methods.fedtune import ReferenceTable


def run(options: argparse.Namespace) -> int:
    """Build, ls, info or fedtune."""
    return {"build": _build, "ls": _ls, "info": _info, "fedtune": _fedtune}[options.action](options)


def _build(options: argparse.Namespace) -> int:
    from fedhpo.research.tables import build_table
    from fedhpo.research.tables.shipped import SUFFIX
    from fedhpo.study import Study

    study = Study.load(options.study)
    out = Path(options.output or f"{study.name}{SUFFIX}")
    built = build_table(
        study,
        options.configs,
        run=Path(options.runs) / f"table-{study.name}",
        again=options.again,
        unit=options.unit,
        every=options.every,
        workers=options.workers,
        progress=(lambda done, total: None) if options.quiet else _Lines(),
    )
    table = built.save(out)
    facts = {"table": str(out), "bytes": out.stat().st_size, **table.facts()}
    print_json(facts) if options.json else print(_in_words(facts))
    return OK


def _fedtune(options: argparse.Namespace) -> int:
    """A reference table, and a page that shows it; killed and called again it goes on."""
    from fedhpo.methods.fedtune.section import page
    from fedhpo.study import Study

    study = Study.load(options.study)
    out = Path(options.output or "table.json")
    if out.suffix != ".json":
        raise InputError(f"--output {out}: must end in .json; the heat map is written beside it, in .html")
    steps = _Steps(options.quiet)
    table = study.fill_table(
        Path(options.runs) / f"table-{study.name}", workers=options.workers, after_step=steps
    )
    table.save(out)
    shown = out.with_suffix(".html")
    shown.write_text(page(table, out.name), encoding="utf-8")
    facts = {"table": str(out), "page": str(shown), **table.to_dict()["facts"]}
    print_json(facts) if options.json else print(_of_profiles(table, facts))
    return OK


def _of_profiles(table: ReferenceTable, facts: dict[str, Any]) -> str:
    """The cells, and what filling them took."""
    from fedhpo.methods.fedtune.section import comparison
    from fedhpo.pages.numbers import number, whole
    from fedhpo.tuning.result import Table

    scores = table.scores or [None] * len(table.cells)
    rows = [
        {
            "index": f"{index:g}",
            "quantity": quantity,
            **{key: number(value) for key, value in config.items()},
            "score": "" if score is None else f"{score:.3f}",
        }
        for (index, quantity), config, score in zip(table.cells.profiles, table.configs, scores, strict=True)
    ]
    cost = f"{whole(facts['steps'])} simulations on {facts['data']}, "
    cost += f"{whole(facts['iterations'])} local trainings"
    where = f"{facts['table']}; shown in {facts['page']}"
    return "\n".join([str(Table(rows)), *comparison(facts), cost, where])


class _Steps:
    """A line every 20 seconds."""

    def __init__(self, quiet: bool) -> None:
        self._quiet, self._done, self._last = quiet, 0, time.monotonic()

    def __call__(self) -> None:
        self._done += 1
        if not self._quiet and time.monotonic() - self._last > 20:
            self._last = time.monotonic()
            print(f"{self._done} steps done", file=sys.stderr, flush=True)


class _Lines:
    """A line every 20 seconds."""

    def __init__(self) -> None:
        from fedhpo.tuning.progress import Pace

        self._pace = Pace()
        self._last = time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        from fedhpo.pages.numbers import duration

        left = self._pace.left(done, total)
        if time.monotonic() - self._last > 20:
            self._last = time.monotonic()
            ahead = f"; about {duration(left)} left" if left else ""
            print(f"round {done} of at most {total}{ahead}", file=sys.stderr, flush=True)


def _ls(options: argparse.Namespace) -> int:
    from fedhpo.research.tables import shipped_tables
    from fedhpo.research.tables.shipped import SUFFIX
    from fedhpo.tuning.result import Table

    here = {str(path): path for path in sorted(Path(options.directory).glob(f"*{SUFFIX}"))}
    found = [_listed(name, path) for name, path in {**shipped_tables(), **here}.items()]
    if options.json:
        print_json({"tables": found})
    elif found:
        print(Table([{key: one.get(key) for key in _LISTED} for one in found]))
    else:
        print(f"no tables: none come with fedhpo, none in {options.directory}")
    return OK


_LISTED = ("table", "data", "model", "configs", "rounds", "validation_clients", "problem")


def _listed(name: str, path: Path) -> dict[str, Any]:
    from fedhpo.research.tables import CurveTable

    try:
        return {"table": name, "file": str(path), **CurveTable.load(path).facts()}
    except InputError as error:
        return {"table": name, "file": str(path), "problem": str(error)}


def _info(options: argparse.Namespace) -> int:
    from fedhpo.research.tables import cross_validate, load_table

    table = load_table(options.table)
    facts = {"table": options.table, **table.facts(), "study": dict(table.study_tables)}
    if options.surrogate:
        facts["surrogate"] = cross_validate(table).to_dict()
    print_json(facts) if options.json else print(_in_words(facts))
    return OK


def _in_words(facts: dict[str, Any]) -> str:
    from fedhpo.pages.numbers import duration, score

    recipe, error = facts["recipe"], facts["error"]
    relative = 100 * 2.0 ** -(recipe.get("loss_bits", 10) + 1)
    rows = [
        ("table", facts["table"]),
        ("data, model", f"{facts['data']}, {facts['model']}"),
        ("configs", f"{facts['configs']}, of which {facts['failed_configs']} failed on the way"),
        ("rounds", f"{facts['rounds']}, scored at {len(facts['scored_rounds'])} of them"),
        ("clients", f"{facts['train_clients']} train, {facts['validation_clients']} validate"),
        ("heterogeneity", ", ".join(f"{p:g}" for p in facts["heterogeneity"])),
        ("error at the end", f"best {score(error['best'])}, median {score(error['median'])}"),
        ("spread", _spread(facts["spread"])),
        *_trained_again(facts),
        ("precision", f"errors exact, losses within {relative:.2g}%"),
        ("built in", duration(recipe.get("wall_seconds", 0.0))),
    ]
    if "surrogate" in facts:
        off = {name: 100 * value for name, value in facts["surrogate"].items()}
        words = (
            f"off by {off['level']:.1f} points for unseen configs (they deviate by {off['spread']:.1f}), "
            f"{off['better_half']:.1f} in the better half, {off['client']:.1f} at one client; "
            f"rank correlation {facts['surrogate']['rank']:.2f}"
        )
        rows.append(("surrogate", words))
    if "bytes" in facts:
        rows.append(("size", f"{facts['bytes'] / 1e6:.2f} MB"))
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {words}" for name, words in rows)


def _spread(found: dict[str, float]) -> str:
    near = f"{found['near_best']} config{'s'[: found['near_best'] > 1]}"
    return (
        f"{near} within a point of the best; in the better half configs deviate by "
        f"{100 * found['configs']:.1f} points, clients by {100 * found['clients']:.1f}"
    )


def _trained_again(facts: dict[str, Any]) -> list[tuple[str, str]]:
    if not facts["trained_again"]:
        return []
    points = 100 * facts["training_deviation"]
    words = f"the {facts['trained_again']} best configs; a training deviates by {points:.2f} points"
    return [("trained again", words)]
