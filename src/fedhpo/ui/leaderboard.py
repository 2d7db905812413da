"""A leaderboard beside the runs, where a bench left one: `leaderboard.json`, a table with a title."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FILE = "leaderboard.json"
_LARGEST = 2_000_000


def leaderboard(directory: Path) -> dict[str, Any] | None:
    """Title, columns and rows of plain values; None where there is no such file, or it is of another form.

    >>> leaderboard(Path("/nowhere")) is None
    True
    """
    file = directory / FILE
    try:
        if file.is_symlink() or not file.is_file() or file.stat().st_size > _LARGEST:
            return None
        found = json.loads(file.read_bytes())
        columns = [str(column) for column in found["columns"]]
        rows = [[_plain(value) for value in row] for row in found["rows"]]
        title = str(found.get("title", "Leaderboard"))
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None
    return {"title": title, "columns": columns, "rows": [row for row in rows if len(row) == len(columns)]}


def _plain(value: Any) -> float | str | None:
    return value if value is None or isinstance(value, int | float) else str(value)
