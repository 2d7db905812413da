"""`fedhpo new`: a working study, app or job to begin with."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from pathlib import Path

from fedhpo.cli import OK
from fedhpo.cli.output import print_json
from fedhpo.core.errors import InputError, unknown_name

KINDS = ("torch", "csv", "flower", "nvflare")


def run(options: argparse.Namespace) -> int:
    """Write the app, and say what to do next."""
    if options.kind not in KINDS:
        raise unknown_name("kind", options.kind, KINDS)
    if options.files and options.kind != "csv":
        raise InputError(f"{options.files[0]!r} is one argument too many: only `fedhpo new csv` takes files")
    if options.label is not None and options.kind != "csv":
        raise InputError(f"--label has no effect with `fedhpo new {options.kind}`: only with csv")
    directory = Path(options.directory)
    name = directory.name
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name):
        raise InputError(
            f"DIRECTORY = {str(directory)!r}: its last part names the app: small letters, digits and single "
            "hyphens, a letter first"
        )
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise InputError(f"DIRECTORY = {str(directory)!r}: must be new, or empty")
    if options.finetune and options.kind != "flower":
        raise InputError(f"--finetune: has no effect with {options.kind!r}; there is a template for 'flower'")
    files, begin, said = _files(options, name, directory)
    written = _write(directory, files)
    if options.json:
        print_json({"files": [str(path) for path in written], "found": said})
    else:
        print("".join(f"{line}\n" for line in said), end="")
        print("\n".join(f"wrote {path}" for path in written))
        print(f"next: cd {directory} && {begin}")
    return OK


def _files(
    options: argparse.Namespace, name: str, directory: Path
) -> tuple[Mapping[str, str], str, list[str]]:
    """The files by their places, how to begin with them, and what was found on the way."""
    begin = "fedhpo check study.toml && fedhpo tune study.toml"
    if options.kind == "torch":
        from fedhpo.study.new_torch import study_files

        return study_files(name), begin, []
    if options.kind == "csv":
        from fedhpo.study.new_csv import study_text, survey

        if not options.files:
            raise InputError("FILE is missing: fedhpo new csv DIRECTORY north.csv south.csv ..., one a party")
        found = survey(options.files, options.label)
        said = [f"predicts {found.label!r} from {len(found.kinds) - len(found.drop) - 1} columns"]
        said += [f"drops {column!r}: {why}" for column, why in found.drop.items()]
        return {"study.toml": study_text(name, found, directory, options.model)}, begin, said
    if options.kind == "flower":
        from fedhpo.flower.template import app_files

        return (
            app_files(name, directory, options.finetune),
            f"python -m {name.replace('-', '_')}    (or: flwr run .)",
            [],
        )
    from fedhpo.nvflare.template import job_files

    return job_files(name), "python job.py", []


def _write(directory: Path, files: Mapping[str, str]) -> list[Path]:
    written = []
    for place, text in files.items():
        path = directory / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        written.append(path)
    return written
