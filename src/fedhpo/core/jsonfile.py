"""Small things kept as JSON files that name their format: tables, policies, ground truths."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedhpo.core.errors import InputError


def save(path: str | Path, data: Mapping[str, Any]) -> Path:
    """Write it, for people to read too."""
    path = Path(path)
    path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    return path


def load(path: str | Path, what: str) -> Any:
    """Read what `save` wrote; `what` it should be is said where it cannot be read."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except RecursionError:
        raise InputError(f"cannot read the {what} {path}: it is nested too deeply") from None
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read the {what} {path}: {error}") from None


def of_format(data: Any, format: str, what: str, where: str) -> Mapping[str, Any]:
    """The same, if it is a mapping that says it has this format.

    >>> of_format({"format": "b-2"}, "a-1", "saved policy", "a.json")
    Traceback (most recent call last):
    ...
    fedhpo.InputError: a.json: must be a saved policy with format 'a-1', found 'b-2'
    """
    if not isinstance(data, Mapping) or data.get("format") != format:
        found = data.get("format") if isinstance(data, Mapping) else type(data).__name__
        raise InputError(f"{where}: must be a {what} with format {format!r}, found {found!r}")
    return data
