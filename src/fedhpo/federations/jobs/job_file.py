"""An NVFlare job as it lies on disk: its files, the names in its code, and a copy to run."""

from __future__ import annotations

import ast
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from fedhpo.core.errors import InputError
from fedhpo.federations.apps.literals import is_literal

#: The file that makes and runs a job.
SCRIPT = "job.py"
_EXPORTED = ("meta.json", "meta.conf", "meta.yml")
#: Directories above the job whose other entries its code may look for (`Path(__file__).parents[2]`).
_ABOVE = 2
_MOST_ENTRIES = 300
#: Directories beside the job that its code names are copied, up to so many files and bytes; others linked.
_MOST_FILES, _MOST_BYTES = 500, 1 << 24
_IGNORED = shutil.ignore_patterns("__pycache__", ".git", "runs")


@dataclass(frozen=True)
class JobFile:
    """A job: its directory, and the script there that makes it; None of an exported job."""

    path: Path
    script: str | None

    @property
    def files(self) -> list[Path]:
        """Its Python files."""
        return [one for one in sorted(self.path.rglob("*.py")) if "__pycache__" not in one.parts]

    def check_sites(self, arguments: Sequence[str], clients: int | None) -> None:
        """A script says its sites and takes arguments; an exported job does neither."""
        if self.script is not None and clients is not None:
            raise InputError(
                f"job.clients = {clients}: has no effect, as {self.script} says how many sites there are: "
                "leave it out (job.arguments takes an option of the script)"
            )
        if self.script is None and arguments:
            raise InputError(
                f"job.arguments = {list(arguments)}: has no effect, as an exported job has no script: leave "
                "it out"
            )
        if self.script is None and clients is None:
            raise InputError("job.clients is missing: an exported job does not say how many sites there are")

    def digest(self) -> str:
        """Of its Python files and settings: a run belongs to the code it was begun with."""
        found = blake2b(digest_size=16)
        for file in sorted(self.path.rglob("*")):
            if file.suffix in (".py", ".json", ".conf", ".yml", ".yaml") and "__pycache__" not in file.parts:
                found.update(str(file.relative_to(self.path)).encode() + b"\0" + file.read_bytes())
        return found.hexdigest()

    def copy_to(self, place: Path) -> Path:
        """A copy below `place`, with what lies beside and above it; the job's own files stay."""
        directory, chain = place, list(self.path.parents[:_ABOVE])
        words = {word for file in self.files for word in re.findall(r"\w+", file.read_text(errors="replace"))}
        for above, below in zip(reversed(chain), [*reversed(chain[:-1]), self.path], strict=True):
            directory = directory / (above.name or "root")
            directory.mkdir()
            beside = [one for one in above.iterdir() if one != below and not one.name.startswith(".")]
            for one in beside if len(beside) <= _MOST_ENTRIES else ():
                if one.is_file() or one.name not in words or not _is_small(one):
                    os.symlink(one, directory / one.name)
                else:  # NVFlare takes no file of a job's from outside its place
                    shutil.copytree(one, directory / one.name, symlinks=True, ignore=_IGNORED)
        made = directory / self.path.name
        shutil.copytree(self.path, made, symlinks=True, ignore=_IGNORED)
        return made

    def plan(self, values: Mapping[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Which values are options of parsers, and which are arguments in the code."""
        options = {name: value for name, value in values.items() if not is_literal(name)}
        literals = [self.literal(name) | {"value": values[name]} for name in values if is_literal(name)]
        return options, literals

    def literal(self, name: str) -> dict[str, Any]:
        """Where an argument in the code, such as `"client:SGD.lr"`, is to be found while the job runs."""
        module, _, rest = name.partition(":")
        *path, argument = rest.split(".")
        own = next((one for one in self.files if one.stem == module.rpartition(".")[2]), None)
        found = {"name": name, "module": module, "path": path, "argument": argument, "caller": None}
        if own is None:
            return found  # an installed module, wherever it is called from
        names = imported(own)
        if path[0] in names:
            origin = names[path[0]]
            dotted = [*origin.split("."), *path[1:]]
            whole = len(dotted) - 1
            return found | {"module": ".".join(dotted[:whole]), "path": dotted[whole:], "caller": own.name}
        if own.name == self.script or _is_script(own):
            raise InputError(
                f"{name}: {'.'.join(path)} is not imported by {own.name}, which runs as a script: name a "
                "function or class that it imports, or one of its options"
            )
        return found


def is_job(path: Path) -> bool:
    """Whether a directory holds a job."""
    return any((path / name).is_file() for name in (SCRIPT, *_EXPORTED))


def read_job(path: str | Path, key: str = "job.path") -> JobFile:
    """The job at a path: a directory with `job.py`, such a script itself, or an exported job."""
    place = Path(path).expanduser().absolute()
    if place.is_file() and place.suffix == ".py":
        return JobFile(place.parent, place.name)
    if (place / SCRIPT).is_file():
        return JobFile(place, SCRIPT)
    if any((place / name).is_file() for name in _EXPORTED):
        return JobFile(place, None)
    raise InputError(
        f"{key} = {str(path)!r}: must be a directory with a {SCRIPT}, such a script itself, or an exported "
        f"job (a directory with {_EXPORTED[0]})"
    )


def imported(file: Path) -> dict[str, str]:
    """The names that a file imports, anywhere in it, with what they stand for."""
    found: dict[str, str] = {}
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.Import):
            for one in node.names:
                found[one.asname or one.name.partition(".")[0]] = (
                    one.name if one.asname else one.name.partition(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for one in node.names:
                found[one.asname or one.name] = f"{node.module}.{one.name}"
    return found


def tree(file: Path) -> ast.Module:
    """A file's code; empty where it cannot be read."""
    try:
        return ast.parse(file.read_text(encoding="utf-8"))
    except (SyntaxError, UnicodeDecodeError, OSError):
        return ast.Module([], [])


def _is_small(directory: Path) -> bool:
    files = size = 0
    for one in directory.rglob("*"):
        files, size = files + 1, size + (one.stat().st_size if one.is_file() else 0)
        if files > _MOST_FILES or size > _MOST_BYTES:
            return False
    return True


def _is_script(file: Path) -> bool:
    return "__main__" in file.read_text(encoding="utf-8")
