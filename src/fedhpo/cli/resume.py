"""`fedhpo resume`: go on with a run."""

from __future__ import annotations

import argparse
from pathlib import Path

from fedhpo.cli.tune import tune


def run(options: argparse.Namespace) -> int:
    """Build the study again from the run's record, and go on."""
    from fedhpo.cli.place import recorded_study
    from fedhpo.errors import InputError
    from fedhpo.study import Study

    path = Path(options.run)
    asked = recorded_study(path)
    if asked is None:
        raise InputError(f"RUN = {str(path)!r}: {_not_begun(path)}")
    if asked["study"] is None:
        raise InputError(
            f"RUN = {str(path)!r}: was begun from Python; call fedhpo.tune(..., run={str(path)!r}) again"
        )
    return tune(Study.from_dict(asked["study"], path=path / "study.toml"), path, options)


def _not_begun(path: Path) -> str:
    """Why there is nothing to go on with, and what to do instead."""
    if not path.exists():
        return "no such directory; `fedhpo runs` lists runs"
    study = path / "study.toml"
    if not study.is_file():
        return "no run was begun there; `fedhpo runs` lists runs"
    name = path.resolve().name
    return (
        "nothing was begun there, the run was stopped too early; begin it with: "
        f"fedhpo tune {study} --name {name} --runs {path.parent}"
    )
