"""A study that another process reads again: it must be the one that was checked, before code is imported."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from fedhpo.core.canonical import canonical
from fedhpo.core.digests import digest
from fedhpo.core.errors import InputError
from fedhpo.study.recorded import RecordedStudy
from fedhpo.study.study import Study


@dataclass(frozen=True)
class Checked:
    """A study file or a run, with the digest of what was checked."""

    source: str
    digest: str


def digest_of(found: Study | RecordedStudy) -> str:
    """The digest of a study file's text, or of what was asked of a run."""
    if isinstance(found, Study):
        return digest((found.text or "").encode()).hex()
    return digest(canonical([found.asked, found.beside.get("tables", {})])).hex()


def load_unchanged(path: str | Path, checked: str | None, *, fixed: bool = False) -> Study:
    """The study in a file whose text has this digest; any without one."""
    if checked is None:
        return Study.load(path, fixed=fixed)
    text = Path(path).read_text(encoding="utf-8", errors="replace")
    refuse_changed(str(path), digest(text.encode()).hex(), checked)
    return Study.from_dict(tomllib.loads(text), text=text, path=path, fixed=fixed)


def refuse_changed(name: str, found: str, checked: str | None) -> None:
    """Refuse what has another digest than what was checked."""
    if checked not in (None, found):
        raise InputError(f"{name}: was changed after it was checked, and nothing was run: call again")
