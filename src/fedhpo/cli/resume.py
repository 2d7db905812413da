"""`fedhpo resume`: go on with a run."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from fedhpo.cli.tune import note, tune

if TYPE_CHECKING:
    from fedhpo.study import Study


def run(options: argparse.Namespace) -> int:
    """Build the study again from the run's record, and go on."""
    study, path = reopened(Path(options.run), options.total)
    return tune(study, path, options)


def reopened(path: Path, total: int | None = None) -> tuple[Study, Path]:
    """The study of the run at `path`, in the directory where the run was begun; and the run's path there."""
    from fedhpo.core.errors import InputError
    from fedhpo.study.recorded import recorded_study

    found = recorded_study(path)
    if found is None:
        raise InputError(f"RUN = {str(path)!r}: {_not_begun(path)}")
    if found.directory is not None and found.directory.is_dir() and found.directory != Path.cwd():
        # Modules and relative paths that the study names mean the same as when the run was begun.
        path = path.absolute()
        os.chdir(found.directory)
        note(f"working in {found.directory}, where the run was begun")
    return found.study(total), path


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
