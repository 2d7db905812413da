"""`fedhpo resume`: go on with a run."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from fedhpo.cli.tune import note, tune


def run(options: argparse.Namespace) -> int:
    """Build the study again from the run's record, and go on."""
    from fedhpo.core.errors import InputError
    from fedhpo.study.recorded import recorded_study

    path = Path(options.run)
    found = recorded_study(path)
    if found is None:
        raise InputError(f"RUN = {str(path)!r}: {_not_begun(path)}")
    if found.directory is not None and found.directory.is_dir() and found.directory != Path.cwd():
        # Modules and relative paths that the study names mean the same as when the run was begun.
        path = path.absolute()
        os.chdir(found.directory)
        note(f"working in {found.directory}, where the run was begun")
    return tune(found.study(options.total), path, options)


def _not_begun(path: Path) -> str:
    """Why there is nothing to go on with, and what to do instead."""
    from fedhpo.run.run import LOCK

    if not path.exists():
        return "no such directory; `fedhpo runs` lists runs"
    study = path / "study.toml"
    if not study.is_file() or not (path / LOCK).exists():  # a study's directory is not yet a run's
        return "no run was begun there; `fedhpo runs` lists runs, `fedhpo tune` begins one"
    name = path.resolve().name
    return (
        "nothing was begun there, the run was stopped too early; begin it with: "
        f"fedhpo tune {study} --name {name} --runs {path.parent}"
    )
