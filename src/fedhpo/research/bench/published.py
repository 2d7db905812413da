"""Cells in one small file, to be published: it makes the page again, and a bench goes on from it."""

from __future__ import annotations

import json
import lzma
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedhpo.core.errors import InputError

_FORMAT = 1
_KEY = ("table", "setting", "method", "seed")


def save_cells(path: str | Path, about: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> None:
    """Write all cells: what they are about, and by table, setting and method the cells of all seeds."""
    cells: dict[str, Any] = {}
    for row in rows:
        table, setting, method, seed = (row[name] for name in _KEY)
        of_seeds = cells.setdefault(table, {}).setdefault(setting, {}).setdefault(method, {})
        of_seeds[str(seed)] = {name: value for name, value in row.items() if name not in _KEY}
    content = json.dumps({"format": _FORMAT, "about": about, "cells": cells}, separators=(",", ":"))
    place = Path(path)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(lzma.compress(content.encode()))
    except OSError as error:
        raise InputError(f"cannot write the cells {place}: {error.strerror or error}") from None


def load_cells(path: str | Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What the cells of a file are about, and the cells."""
    try:
        found = json.loads(lzma.decompress(Path(path).read_bytes()))
        if found["format"] != _FORMAT:
            raise ValueError(f"format {found['format']!r}")
        rows = [
            {"table": table, "setting": setting, "method": method, "seed": int(seed), **cell}
            for table, settings in found["cells"].items()
            for setting, methods in settings.items()
            for method, seeds in methods.items()
            for seed, cell in seeds.items()
        ]
        return dict(found["about"]), rows
    except OSError as error:
        raise InputError(f"cannot read the cells {path}: {error.strerror or error}") from None
    except (lzma.LZMAError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path} holds no cells of a bench: {error}") from None
