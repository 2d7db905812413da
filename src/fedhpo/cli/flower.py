"""`fedhpo flower tune APP STUDY`: the same as `fedhpo tune STUDY` with the app's directory in `[app]`.

`fedhpo flower wrap APP STUDY DIRECTORY` writes an app around a copy of it, which `flwr run` tunes.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from fedhpo.cli import OK
from fedhpo.cli.output import print_json
from fedhpo.cli.tune import begin

if TYPE_CHECKING:
    from fedhpo.study import Study


def run(options: argparse.Namespace) -> int:
    """Put the app's path into the study, and tune, or write the app around it."""
    from fedhpo.core.errors import InputError
    from fedhpo.study import Study

    study = Study.load(options.study, app=Path(options.app).absolute())
    if options.action == "tune":
        if options.directory is not None:
            raise InputError("DIRECTORY: leave it out; it is for fedhpo flower wrap")
        return begin(study, options)
    if options.directory is None:
        raise InputError("DIRECTORY is missing: where to write the app")
    return _wrap(study, Path(options.directory), options)


def _wrap(study: Study, directory: Path, options: argparse.Namespace) -> int:
    from fedhpo.federations.apps.app_file import read_app
    from fedhpo.federations.apps.around import write_around

    section = study.file.app
    assert section is not None
    run = Path(options.runs) / (options.name or study.name)
    write_around(read_app(section.path), study.given, directory, run, section.setup)
    if options.json:
        print_json({"app": str(directory), "run": str(run.absolute())})
    else:
        print(f"wrote {directory}; tune it with: flwr run {directory} --stream")
    return OK
