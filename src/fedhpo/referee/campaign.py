"""A campaign: one alpha for all its proposals, and a file that remembers every comparison.

The file holds lines of JSON, each with a digest of itself and of all lines before: the rules, then
proposals, pairs and verdicts, in the order in which they came. Lines are only ever appended. A line that a
crash cut short is dropped; a file that is damaged elsewhere is refused, because a comparison that is
forgotten is a comparison that alpha does not cover.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedhpo.core.chained import ChainedFile, read_chained
from fedhpo.core.errors import InputError
from fedhpo.referee.rules import KEEP, Rules

FORMAT = 1


class Campaign:
    """The comparisons so far; see the module's docstring. Without a path nothing is kept."""

    def __init__(self, path: str | Path | None) -> None:
        self.path = None if path is None else Path(path)
        self.head: dict[str, Any] = {}
        self.lines: list[dict[str, Any]] = []
        self._of: dict[tuple[int, str], list[dict[str, Any]]] = {}
        self._file = ChainedFile(self.path, "campaign")
        if self._file.lines:
            self.head, *lines = self._file.lines
            if self.head.get("campaign") != FORMAT:
                self.close()
                raise InputError(f"{path}: is no campaign that this version can read")
            for line in lines:
                self._note(line)

    def begin(self, rules: Rules, facts: Mapping[str, Any]) -> None:
        """Take the rules, or check that they are those that the campaign was begun with."""
        fixed = {key: value for key, value in rules.to_dict().items() if key not in ("pairs", "after")}
        if not self.head:
            # Written with the first line: a comparison that is refused leaves nothing behind.
            self.head = json.loads(json.dumps({"campaign": FORMAT, "rules": fixed, **facts}))
            return
        for key, value in fixed.items():
            if self.head["rules"][key] != value:
                raise InputError(
                    f"{key} = {value}: the campaign {self.path} was begun with {self.head['rules'][key]}, "
                    "which holds for all of it: leave it out, or begin another campaign"
                )

    def add(self, **line: Any) -> None:
        """Append a line; it is on disk when this returns."""
        found = json.loads(json.dumps(line))
        if not self._file.lines:
            self._file.add(self.head)
        self._file.add(found)
        self._note(found)

    def _note(self, line: dict[str, Any]) -> None:
        self.lines.append(line)
        self._of.setdefault((line.get("proposal", 0), line["event"]), []).append(line)

    @property
    def proposals(self) -> list[dict[str, Any]]:
        """The proposals so far, in order."""
        return [line for line in self.lines if line["event"] == "proposal"]

    def of(self, number: int, event: str) -> list[dict[str, Any]]:
        """The lines of one proposal."""
        return self._of.get((number, event), [])

    def verdict(self, number: int) -> str | None:
        """What was last said of a proposal."""
        found = self.of(number, "verdict")
        return found[-1]["verdict"] if found else None

    @property
    def base(self) -> dict[str, Any]:
        """The base that the next proposal is compared with: its name and its digest."""
        found: dict[str, Any] = self.head["base"]
        for one in self.proposals:
            if self.verdict(one["proposal"]) == KEEP:
                found = one["candidate"]
        return found

    @property
    def closed(self) -> dict[str, Any] | None:
        """How the last base was judged at the end; None as long as the campaign goes on."""
        return next((line for line in self.lines if line["event"] == "final"), None)

    @property
    def digest(self) -> str:
        """A digest of all lines."""
        return self._file.digest

    def close(self) -> None:
        """Let the next process in."""
        self._file.close()

    def __enter__(self) -> Campaign:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_lines(path: Path) -> list[dict[str, Any]]:
    """All lines of a campaign's file, the rules first."""
    return read_chained(path)[0]
