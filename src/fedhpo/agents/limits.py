"""What a person allows at the start, and no tool can raise."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedhpo.core.errors import InputError
from fedhpo.study import Study

#: The longest text that a call may hold, and what names of files and runs are made of.
LONGEST = 20_000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,60}")
#: Keys of a study that name files.
_FILES = {"path", "files", "file", "table", "availability", "devices"}


@dataclass(frozen=True)
class Limits:
    """The root below which all paths lie; rounds and epsilon of the whole session; whether code may be named.

    `seconds` bounds how long a job may take.
    """

    root: Path
    rounds: int = 2_000
    epsilon: float = 0.0
    code: bool = False
    seconds: float = 3_600.0

    def path(self, given: Any, what: str = "path", *, exists: bool = True) -> Path:
        """A path below the root; links are followed, so that none leads out."""
        if not isinstance(given, str) or not given or len(given) > 300 or "\0" in given:
            raise InputError(f"{what}: must be a path of at most 300 characters below the root")
        found = (self.root / given).resolve()
        if not found.is_relative_to(self.root):
            raise InputError(f"{what} = {given[:80]!r}: lies outside the root; name a path below it")
        if exists and not found.exists():
            raise InputError(f"{what} = {given[:80]!r}: there is no such file below the root")
        return found

    def name(self, given: Any, what: str = "name") -> str:
        """A plain name."""
        if not isinstance(given, str) or not _NAME.fullmatch(given):
            raise InputError(f"{what}: must be 1 to 61 letters, digits, dots, dashes and underscores")
        return given

    def study(self, given: Any) -> Study:
        """The study of a file below the root, or of TOML text, checked against the limits before it is read.

        Nothing that it names is imported before that check.
        """
        if not isinstance(given, str) or len(given) > LONGEST:
            raise InputError(f"study: must be a path, or TOML text of at most {LONGEST} characters")
        path = None
        if "\n" not in given and "=" not in given:
            path = self.path(given, "study")
            if not path.is_file() or path.stat().st_size > LONGEST:
                raise InputError(f"study = {given[:80]!r}: must be a TOML file of at most {LONGEST} bytes")
        text = given if path is None else path.read_text(encoding="utf-8", errors="replace")
        try:
            tables = tomllib.loads(text)
        except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
            raise InputError(f"study: is not TOML: {str(error)[:200]}") from None
        self.check_tables(tables)
        return Study.from_dict(tables, text=text, path=path, fixed=True)

    def check_tables(self, tables: Mapping[str, Any]) -> None:
        """Refuse code and paths that the person did not allow, before anything is looked up."""
        for name in {"app", "job"} & tables.keys() if not self.code else ():
            raise InputError(f"{name}: runs a program of its own, {_CODE}")
        for key, value in _texts(tables, ""):
            last = key.rpartition(".")[2]
            if last in _FILES or "/" in value or "\\" in value or value.startswith("~"):
                self.path(value, key, exists=False)
            if ":" in value and not self.code:
                raise InputError(
                    f"{key} = {value[:80]!r}: names code, {_CODE}; use a name that `schema` lists"
                )

    def check_epsilon(self, study: Study, spent: float) -> float:
        """The epsilon that a study would spend; refused beyond the limit."""
        privacy = study.evaluator.privacy
        asked = 0.0 if privacy is None else privacy.epsilon
        if asked and spent + asked > self.epsilon + 1e-12:
            raise InputError(
                f"evaluation.privacy.epsilon = {asked:g}: {self.epsilon - spent:g} of the {self.epsilon:g} "
                "that the person allowed are left; ask for less"
            )
        return asked

    def check_rounds(self, asked: int, spent: int, what: str) -> None:
        """Refuse what could spend more rounds than are left."""
        if spent + asked > self.rounds:
            raise InputError(
                f"{what} may take {asked} rounds, and {self.rounds - spent} of the {self.rounds} that the "
                "person allowed are left; take fewer rounds, trials or pairs"
            )


_CODE = "which the person who started this server did not allow (--allow-code)"


def _texts(value: Any, key: str) -> Iterator[tuple[str, str]]:
    """Every text in tables, with its key; keys are texts too, as some are free."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            if len(str(name)) > 100:
                raise InputError(f"{key or 'study'}: a key has more than 100 characters")
            yield from _texts(inner, f"{key}.{name}" if key else str(name))
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner, key)
    elif isinstance(value, str):
        yield key, value
