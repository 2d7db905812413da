"""Pieces of a reproduction: each is computed once and kept, so that the whole can be stopped anywhere."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any


class Pieces:
    """JSON files in a directory, by name.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pieces = Pieces(folder, print)
    ...     first = pieces.get("a", lambda: {"x": 1})
    ...     second = pieces.get("a", lambda: {"x": 2})
    a: done
    >>> first == second
    True
    """

    def __init__(self, folder: str | Path, say: Callable[[str], None], kept_only: bool = False) -> None:
        self.folder, self._say, self._kept_only = Path(folder), say, kept_only

    def get(self, name: str, compute: Callable[[], Any]) -> Any:
        """The piece, computed unless it is there; None where only what is kept is wanted, and it is not."""
        path = self.folder / f"{name}.json"
        if path.is_file():
            return json.loads(path.read_text(encoding="utf-8"))
        if self._kept_only:
            return None
        found = json.dumps(compute())
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(".tmp")
        draft.write_text(found, encoding="utf-8")
        draft.replace(path)
        self._say(f"{name}: done")
        return json.loads(found)
