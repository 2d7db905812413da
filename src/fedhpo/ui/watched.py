"""One run that is looked at: what was read of it so far, and the parts of its page."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedhpo.core.errors import FedhpoError, InputError
from fedhpo.figures.reading import refuse_links, view_of
from fedhpo.figures.told import Told
from fedhpo.figures.view import RunView
from fedhpo.pages.html import Section, text
from fedhpo.report.page import DAMAGE, subtitle
from fedhpo.report.sections import SECTIONS, listed
from fedhpo.report.sections.importance import importance
from fedhpo.report.trial import trial_sections
from fedhpo.run import open_read
from fedhpo.ui.now import now

#: Seconds that a page waits for events to be read, at first and then: the rest follows.
FIRST, THEN = 0.25, 2.0


#: Parts that take long: made beside the others, and anew only when the trials are more by this factor.
_SLOW, _GROWN = (importance,), 1.1
#: What a function of the report's sections returns.
Made = Section | Sequence[Section] | None
_WORKERS = ThreadPoolExecutor(1, "section")


@dataclass(frozen=True)
class Look:
    """A run at a moment: its view, what happens now, and the share of its record that was read."""

    view: RunView
    now: dict[str, Any]
    share: float


class Watched:
    """A run whose events are read once. Several threads may look at it; one reads at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._told: Told | None = None
        self._key: Any = None
        self._look: Look | None = None
        self._parts: tuple[Any, dict[Any, Made]] = (None, {})
        #: Slow parts, with the number of scored trials that they were made of; and those under way.
        self._slow: dict[Any, tuple[int, Made]] = {}
        self._making: set[Any] = set()

    def look(self, patience: float | None = None) -> Look:
        """Read what is new, for at most so many seconds."""
        with self._lock:
            usual = FIRST if self._told is None else THEN
            return self._looked(usual if patience is None else patience)

    def _looked(self, patience: float) -> Look:
        refuse_links(self.path)
        with open_read(self.path) as run:
            try:
                if self._told is None:
                    self._told = Told(run.study["objective"])
                self._told.read(run.record, patience)
                key = self._told.events, run.record.last, run.status, run.record.get("status")
                if self._look is None or key != self._key:
                    view = view_of(run, self._told)
                    share = self._told.events / run.record.last if run.record.last else 1.0
                    self._look, self._key = Look(view, {}, min(share, 1.0)), key
                found = self._look
                return Look(found.view, now(run, self._told, found.view), found.share)
            except FedhpoError:
                raise
            except DAMAGE as error:
                raise InputError(
                    f"a file of the run is damaged, or not what fedhpo wrote ({error})"
                ) from error

    def sections(self, look: Look) -> tuple[list[Section], bool]:
        """The parts of the run's page, and whether a slow one is being made anew.

        A part that cannot be made says so, and the others are there.
        """
        with self._lock:
            if self._parts[0] is not look.view:
                self._parts = look.view, {one: _made(one, look.view) for one in SECTIONS if one not in _SLOW}
                if look.share >= 1:  # not while the first plot waits
                    self._make_slow(look.view)
            known = {**self._parts[1], **{one: part for one, (_, part) in self._slow.items()}}
            found = [part for one in SECTIONS for part in listed(known.get(one))]
            return found, bool(self._making)

    def _make_slow(self, view: RunView) -> None:
        """Begin what takes long, if there is more to say than last time: the page does not wait for it."""
        size = sum(trial["score"] is not None for trial in view.result["trials"])
        for section in _SLOW:
            then = self._slow[section][0] if section in self._slow else -1
            if section not in self._making and size != then and (size < then or size >= _GROWN * then):
                self._making.add(section)
                _WORKERS.submit(self._slow_made, section, view, size)

    def _slow_made(self, section: Any, view: RunView, size: int) -> None:
        part = _made(section, view)
        with self._lock:
            self._slow[section] = size, part
            self._making.discard(section)

    def trial(self, look: Look, number: int) -> list[Section]:
        """The parts of a trial's page."""
        with self._lock:
            return trial_sections(look.view, number)


def _made(section: Any, view: RunView) -> Made:
    try:
        found: Made = section(view)
        return found
    except (FedhpoError, *DAMAGE) as error:
        why = f"This part cannot be shown: {type(error).__name__}: {error}"[:300]
        return Section(section.__name__.capitalize(), f"<p class=note>{text(why)}</p>")


def told(sections: Sequence[Section], have: Sequence[str]) -> list[dict[str, str]]:
    """Sections for the browser; those that it has already, by their digests, without their content."""
    found = []
    for section in sections:
        digest = hashlib.blake2b(f"{section.title}\n{section.body}".encode(), digest_size=8).hexdigest()
        one = {"title": section.title, "digest": digest}
        found.append(one if digest in have else one | {"html": section.body})
    return found


def heading(look: Look) -> dict[str, Any]:
    """What stands above a run's page."""
    return {"title": look.view.name, "subtitle": subtitle(look.view), "share": look.share, "now": look.now}
