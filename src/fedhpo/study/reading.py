"""A study's file as text and tables, and files that it names."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedhpo.core.errors import InputError


def read_tables(path: Path) -> tuple[str, dict[str, Any]]:
    """The text and the tables of a file; every mistake is an `InputError` that names the file."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not a text file in UTF-8 ({error.reason})") from None
    try:
        return text, tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path}: not TOML: {error}") from None
    except RecursionError:
        raise InputError(f"{path}: not a study: its values are nested too deeply") from None
    except ValueError as error:  # whole numbers of thousands of digits
        raise InputError(f"{path}: not TOML: {error}") from None


def with_files(section: Mapping[str, Any], study: Path | None) -> Mapping[str, Any]:
    """The section with its files where they are: in the working directory, or beside the study."""
    found = {**section}
    for part in ("policy", "sampler"):
        if isinstance(found.get(part), Mapping):
            found[part] = with_files(found[part], study)
    for key in ("file", "table", "availability", "devices"):
        name = found.get(key)
        if study is not None and isinstance(name, str) and not Path(name).is_file():
            here = study.parent / name
            found[key] = str(here) if here.is_file() else name
    return found
