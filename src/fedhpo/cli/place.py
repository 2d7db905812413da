"""Where a run goes: the directory that holds the same study already, or a free one."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedhpo.errors import InputError
from fedhpo.run.canonical import canonical
from fedhpo.run.extension import without_total
from fedhpo.run.record import Record
from fedhpo.run.run import RECORD
from fedhpo.study import Study
from fedhpo.tuning import refuses_more

#: The status of a run that goes on because the total is larger now.
RAISED = "raised"


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
        if raised(path, found, study):
            return path, RAISED
        number += 1


def raised(path: Path, found: Mapping[str, Any], study: Study) -> bool:
    """Whether a run goes on with this study, which has a larger total and is the same otherwise."""
    if found["study"] is None or without_total(found["study"]) != without_total(study.to_dict()):
        return False
    budget = study.file.budget
    old, new = found["budget"]["total"], budget.total or 10 * budget.rounds
    if new <= old:
        return False
    private = study.evaluator.privacy is not None
    why = refuses_more(study.method, old, new, budget.rounds, private=private)
    if why:
        warnings.warn(
            f"{path} holds this study with a total of {old}, which cannot be raised to {new}: {why}; "
            "a new run begins beside it",
            stacklevel=2,
        )
    return not why


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
