"""`fedhpo data`: the files of the directory that FEDHPO_DATA names."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from fedhpo.cli import FAILURE, OK
from fedhpo.cli.output import print_json
from fedhpo.core.errors import InputError

SAYS = {
    "ours": "the file that our figures were measured with",
    "other": "another file: it is read, but figures may differ",
    "missing": "missing",
}


def run(options: argparse.Namespace) -> int:
    """Say what is there, or make a set's file."""
    given = options.directory or os.environ.get("FEDHPO_DATA")
    if not given:
        raise InputError("which directory? Set the environment variable FEDHPO_DATA, or give --directory DIR")
    directory = Path(given)
    return _convert(options, directory) if options.action == "convert" else _check(options, directory)


def _check(options: argparse.Namespace, directory: Path) -> int:
    from fedhpo.data.sets.files import FILES, state

    if not directory.is_dir():
        raise InputError(f"{directory} is no directory")
    found = {name: state(name, directory) for name in FILES}
    if options.json:
        print_json({"directory": str(directory), "sets": found})
    else:
        for name, one in found.items():
            print(f"{name:14} {FILES[name].path:34} {SAYS[one]}")
    return FAILURE if "other" in found.values() else OK


def _convert(options: argparse.Namespace, directory: Path) -> int:
    from fedhpo.data.load import load
    from fedhpo.data.sets.convert import convert

    if options.set is None or options.source is None:
        raise InputError(
            "convert needs a SET and its SOURCE, as in: fedhpo data convert cifar10 cifar-10-batches-bin"
        )
    file = convert(options.set, Path(options.source), directory)
    data = load(options.set, path=directory)  # it must be readable
    if options.json:
        print_json({"file": str(file), "clients": data.clients, "rows": len(data.y)})
    else:
        print(f"{file}: {data!r}")
    return OK
