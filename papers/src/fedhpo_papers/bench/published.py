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

Row = dict[str, Any]
#: By table: what its cells are about, and the cells.
Published = dict[str, tuple[dict[str, Any], list[Row]]]


def save_cells(path: str | Path, published: Mapping[str, tuple[Mapping[str, Any], Sequence[Row]]]) -> None:
    """Write the cells of all tables, by setting, method and seed."""
    tables = {name: {"about": about, "cells": _nested(rows)} for name, (about, rows) in published.items()}
    content = json.dumps({"format": _FORMAT, "tables": tables}, separators=(",", ":"))
    place = Path(path)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(lzma.compress(content.encode()))
    except OSError as error:
        raise InputError(f"cannot write the cells {place}: {error.strerror or error}") from None


def _nested(rows: Sequence[Row]) -> dict[str, Any]:
    cells: dict[str, Any] = {}
    for row in rows:
        of_seeds = cells.setdefault(row["setting"], {}).setdefault(row["method"], {})
        of_seeds[str(row["seed"])] = {name: value for name, value in row.items() if name not in _KEY}
    return cells


def load_cells(path: str | Path) -> Published:
    """The cells of a file; none where there is no such file yet."""
    if not Path(path).exists():
        return {}
    try:
        found = json.loads(lzma.decompress(Path(path).read_bytes()))
        if found["format"] != _FORMAT:
            raise ValueError(f"format {found['format']!r}")
        return {
            table: (
                dict(one["about"]),
                [
                    {"table": table, "setting": setting, "method": method, "seed": int(seed), **cell}
                    for setting, methods in one["cells"].items()
                    for method, seeds in methods.items()
                    for seed, cell in seeds.items()
                ],
            )
            for table, one in found["tables"].items()
        }
    except OSError as error:
        raise InputError(f"cannot read the cells {path}: {error.strerror or error}") from None
    except (lzma.LZMAError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path} holds no cells of a bench: {error}") from None
