"""Where a run goes: the directory that holds the same study already, or a free one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fedhpo.errors import InputError
from fedhpo.run.canonical import canonical
from fedhpo.run.record import Record
from fedhpo.run.run import RECORD
from fedhpo.study import Study


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
        if found["study"] == json.loads(canonical(study.to_dict())):
            return path, found["status"]
        number += 1


def recorded_study(path: Path) -> dict[str, Any] | None:
    """What was asked of the run at `path`, and its `status`; None if none was begun there."""
    if not (path / RECORD).is_file():
        return None
    record = Record(path / RECORD, read_only=True)
    try:
        asked = record.get("study")
        return None if asked is None else {**asked, "status": record.get("status", "stopped")}
    finally:
        record.close()
