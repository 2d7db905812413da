"""`fedhpo flower tune APP STUDY`: the same as `fedhpo tune STUDY` with the app's directory in `[app]`.

`fedhpo flower inspect APP [STUDY]` lists what is tunable in it, and writes a first study file.
`fedhpo flower wrap APP STUDY DIRECTORY` writes an app around a copy of it, which `flwr run` tunes.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from fedhpo.cli import OK
from fedhpo.cli.output import print_json
from fedhpo.cli.tune import begin

if TYPE_CHECKING:
    from fedhpo.federations.apps.inspection import Inspected
    from fedhpo.study import Study


def run(options: argparse.Namespace) -> int:
    """Put the app's path into the study, and tune, or write the app around it."""
    from fedhpo.core.errors import InputError
    from fedhpo.study import Study

    if options.action == "inspect":
        return _inspect(options)
    if options.study is None:
        raise InputError(
            f"STUDY is missing: fedhpo flower inspect {options.app} study.toml writes a first one"
        )
    study = Study.load(options.study, app=Path(options.app).absolute())
    if options.action == "tune":
        if options.directory is not None:
            raise InputError("DIRECTORY: leave it out; it is for fedhpo flower wrap")
        return begin(study, options)
    if options.directory is None:
        raise InputError("DIRECTORY is missing: where to write the app")
    return _wrap(study, Path(options.directory), options)


def _inspect(options: argparse.Namespace) -> int:
    """List what is tunable in the app; with STUDY, write a first study file there."""
    from fedhpo.federations.apps.app_file import read_app
    from fedhpo.federations.apps.first_study import first_study
    from fedhpo.federations.apps.inspection import inspect_app

    app = read_app(options.app, "APP")
    found = inspect_app(app)
    return show_inspected(
        options, found, first_study(app, found, str(app.path)), f"flower tune {options.app}"
    )


def show_inspected(options: argparse.Namespace, found: Inspected, study: str, tune: str) -> int:
    """List what was found; with STUDY, write a first study file there. `tune` is how to go on."""
    from fedhpo.core.errors import InputError
    from fedhpo.federations.apps.first_study import range_for

    place = None if options.study is None else Path(options.study)
    if place is not None and place.exists():
        raise InputError(f"STUDY = {str(place)!r}: is there already; name one that is not")
    if place is not None:
        place.write_text(study, encoding="utf-8")
    if options.json:
        tables = [{**asdict(one), "range": range_for(one.name, one.value)} for one in found.tunables]
        print_json({"tunables": tables, "metrics": found.metrics, "strategy": found.strategy})
        return OK
    rows = [(f"space.{one.scope}", one.name, repr(one.value), one.kind, one.where) for one in found.tunables]
    for row in [("scope", "name", "value", "what it is", "where"), *rows]:
        print("  ".join(part.ljust(width) for part, width in zip(row, _widths(rows), strict=True)).rstrip())
    if not rows:
        print("nothing that looks tunable was found")
    for source, names in found.metrics.items():
        print(f'metrics of from = "{source}": {", ".join(names)}')
    if place is not None:
        print(f"wrote {place}; tune it with: fedhpo {tune} {place}")
    return OK


def _widths(rows: Sequence[tuple[str, ...]]) -> list[int]:
    heads = [("scope", "name", "value", "what it is", "where"), *rows]
    return [max(len(row[place]) for row in heads) for place in range(5)]


def _wrap(study: Study, directory: Path, options: argparse.Namespace) -> int:
    from fedhpo.federations.apps.around import write_around

    app = study.kind.as_app()
    run = Path(options.runs) / (options.name or study.name)
    write_around(app.app_file, study.given, directory, run, app.section.setup)
    if options.json:
        print_json({"app": str(directory), "run": str(run.absolute())})
    else:
        print(f"wrote {directory}; tune it with: flwr run {directory} --stream")
    return OK
