"""`fedhpo new`: a working app to begin with."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from pathlib import Path

from fedhpo.cli import OK
from fedhpo.cli.output import print_json
from fedhpo.core.errors import InputError, unknown_name

KINDS = ("flower", "nvflare")


def run(options: argparse.Namespace) -> int:
    """Write the app, and say what to do next."""
    if options.kind not in KINDS:
        raise unknown_name("kind of app", options.kind, KINDS)
    directory = Path(options.directory)
    name = directory.name
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name):
        raise InputError(
            f"DIRECTORY = {str(directory)!r}: its last part names the app: small letters, digits and single "
            "hyphens, a letter first"
        )
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise InputError(f"DIRECTORY = {str(directory)!r}: must be new, or empty")
    files, begin = _files(options.kind, name, directory)
    written = _write(directory, files)
    if options.json:
        print_json({"files": [str(path) for path in written]})
    else:
        print("\n".join(f"wrote {path}" for path in written))
        print(f"next: cd {directory} && {begin}")
    return OK


def _files(kind: str, name: str, directory: Path) -> tuple[Mapping[str, str], str]:
    """The files of an app by their places, and how it is begun."""
    if kind == "flower":
        from fedhpo.flower.template import app_files

        return app_files(name, directory), f"python -m {name.replace('-', '_')}    (or: flwr run .)"
    from fedhpo.nvflare.template import job_files

    return job_files(name), "python job.py"


def _write(directory: Path, files: Mapping[str, str]) -> list[Path]:
    written = []
    for place, text in files.items():
        path = directory / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        written.append(path)
    return written
