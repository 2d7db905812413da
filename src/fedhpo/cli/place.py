"""Where a run goes: the directory that holds the same study already, or a free one."""

from __future__ import annotations

import warnings
from pathlib import Path

from fedhpo.core.errors import InputError
from fedhpo.study import Study
from fedhpo.study.recorded import RecordedStudy, recorded_study
from fedhpo.tuning.tune import refuses_more

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
        if found.holds(study):
            return path, found.status
        if raised(found, study):
            return path, RAISED
        number += 1


def raised(found: RecordedStudy, study: Study) -> bool:
    """Whether a run goes on with this study, which has a larger total and is the same otherwise."""
    budget = study.file.budget
    old, new = found.total, budget.total or 10 * budget.rounds
    if not found.holds_but_for_total(study) or old is None or new <= old:
        return False
    private = study.evaluator.privacy is not None
    why = refuses_more(study.method, old, new, budget.rounds, private=private)
    if why:
        warnings.warn(
            f"{found.path} holds this study with a total of {old}, which cannot be raised to {new}: {why}; "
            "a new run begins beside it",
            stacklevel=2,
        )
    return not why
