"""The journal of calls: what an agent asked for, and what came of it."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedhpo.core.chained import ChainedFile, read_chained
from fedhpo.core.errors import FedhpoError

FILE = "agents.journal"
#: Of each argument and answer so many characters are kept.
_KEPT = 400
#: So many calls are shown.
_SHOWN = 200


class Calls:
    """Appends a line for the start of the server and for each call; see `fedhpo.core.chained`."""

    def __init__(self, root: Path, limits: Mapping[str, Any]) -> None:
        self._file = ChainedFile(root / FILE, "the journal")
        self._file.add({"event": "start", "time": time.time(), "limits": dict(limits)})

    def note(self, tool: str, arguments: Mapping[str, Any], outcome: str, said: str, seconds: float) -> None:
        """One call; `outcome` is "done", "refused" or "failed"."""
        self._file.add(
            {
                "event": "call",
                "time": time.time(),
                "tool": tool[:100],
                "arguments": {str(key)[:40]: _short(value) for key, value in list(arguments.items())[:20]},
                "outcome": outcome,
                "said": said[:_KEPT],
                "seconds": round(seconds, 3),
            }
        )

    def close(self) -> None:
        """Let the next server in."""
        self._file.close()


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= _KEPT else f"{text[:_KEPT]}... ({len(text)} characters)"


def calls_table(directory: Path) -> dict[str, Any] | None:
    """The last calls as a table with a title, from the journal in a directory or above it; None without one.

    >>> calls_table(Path("/nowhere")) is None
    True
    """
    for place in (directory, directory.parent):
        file = place / FILE
        if file.is_file() and not file.is_symlink():
            break
    else:
        return None
    try:
        lines, _, _ = read_chained(file)
    except (OSError, FedhpoError) as error:
        return {"title": "Calls of agents", "columns": ["problem"], "rows": [[str(error)[:300]]]}
    found = [line for line in lines if line.get("event") == "call"][-_SHOWN:]
    rows = [
        [
            time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(float(one["time"]))),
            str(one["tool"]),
            json.dumps(one["arguments"])[:_KEPT],
            str(one["outcome"]),
            str(one["said"]),
            float(one["seconds"]),
        ]
        for one in reversed(found)
    ]
    columns = ["time (UTC)", "tool", "arguments", "outcome", "said", "seconds"]
    return {"title": "Calls of agents", "columns": columns, "rows": rows}
