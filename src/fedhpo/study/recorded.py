"""Rebuild a study from a run's record. `tune` and `resume` both use this and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedhpo.core.canonical import canonical
from fedhpo.core.errors import InputError
from fedhpo.run.extension import total_of, without_total
from fedhpo.run.record import Record
from fedhpo.run.run import RECORD
from fedhpo.study.study import Study


@dataclass(frozen=True)
class RecordedStudy:
    """What was asked of the run at `path`.

    `asked` is `Study.to_dict`, None of a run that was begun from Python without a study; `beside` is
    `Study.beside`; `total` are the rounds that the run may spend.
    """

    path: Path
    asked: Mapping[str, Any] | None
    beside: Mapping[str, Any]
    status: str
    total: int | None = None

    def holds(self, study: Study) -> bool:
        """Whether the run is of this study, with its own federation: then it can go on with it."""
        same = self.asked is not None and canonical(self.asked) == canonical(study.to_dict())
        return same and not self.beside.get("federation")

    def holds_but_for_total(self, study: Study) -> bool:
        """The same, whatever the totals of both are."""
        if self.asked is None or self.beside.get("federation"):
            return False
        return without_total(self.asked) == without_total(study.to_dict())

    def study(self, total: int | None = None) -> Study:
        """The study, the same as the one that was begun; its name and time limit are the latest given.

        A `total` takes the place of the one that was asked for.
        """
        where, federation = f"run {self.path}", self.beside.get("federation")
        if self.asked is None:
            raise InputError(
                f"{where}: was begun from Python; call fedhpo.tune(..., run={str(self.path)!r}) again"
            )
        if federation:
            raise InputError(
                f"{where}: was begun with clients that the study does not describe ({federation}); begin it "
                "again the same way with the same directory: then it goes on"
            )
        given = {**self.asked, **self.beside.get("tables", {})}
        for table in ("budget", "app", "job"):
            if table in given:
                given[table] = {**given[table], **self.beside.get(table, {})}
        if total is not None:
            given["budget"]["total"] = total
        return Study.from_dict(given, path=self.path / "study.toml", recorded=True)

    @property
    def directory(self) -> Path | None:
        """Where the run was begun: names of modules and relative paths in the study are looked up there."""
        found = self.beside.get("directory")
        return None if found is None else Path(found)


def recorded_study(path: str | Path) -> RecordedStudy | None:
    """What was asked of the run at `path`; None if none was begun there."""
    path = Path(path)
    if not (path / RECORD).is_file():
        return None
    record = Record(path / RECORD, read_only=True)
    try:
        facts = record.get("study")
        if facts is None:
            return None
        status = str(record.get("status", "stopped"))
        beside = record.get("beside") or {}
        return RecordedStudy(path, facts.get("study"), beside, status, total_of(facts))
    finally:
        record.close()
