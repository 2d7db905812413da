"""Where a run goes: the directory that holds the same study already, or a free one."""

from __future__ import annotations

from pathlib import Path

from fedhpo.errors import InputError
from fedhpo.study import Study
from fedhpo.study.recorded import recorded_study


def place(study: Study, runs: Path, name: str) -> tuple[Path, str]:
    """The run's directory, and the study's status there ("" if new): `name`, `name-2`, `name-3`, ..."""
    if not name or "/" in name or "\\" in name or name in (".", ".."):
        raise InputError(f"name = {name!r}: must be one part of a path, to name the run's directory")
    number = 1
    while True:
        path = runs / (name if number == 1 else f"{name}-{number}")
        found = recorded_study(path)
        if found is None:
            return path, ""
        if found.holds(study):
            return path, found.status
        number += 1
