"""How a run goes, while it goes: a live display on a terminal, an occasional line otherwise."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from importlib import import_module
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedhpo.pages.numbers import duration

if TYPE_CHECKING:
    from fedhpo.search.events import Event
    from fedhpo.search.search import Search

#: Seconds between two plain lines, evaluations aside.
_PAUSE = 20.0


class Pace:
    """Time left, from the rounds of this session; replayed rounds take no time."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._start: tuple[float, float] | None = None

    def left(self, done: float, total: float) -> float | None:
        """Seconds left if it goes on like this; None while nothing is known.

        >>> pace = Pace(iter([0.0, 10.0]).__next__)
        >>> pace.left(5, 30), pace.left(10, 30)
        (None, 40.0)
        """
        now = self._clock()
        if done <= 0:  # the first round waits for workers to start: it says nothing of the others
            return None
        if self._start is None:
            self._start = now, done
        then, first = self._start
        return (now - then) / (done - first) * max(0.0, total - done) if done > first else None


def where(done: float, total: float) -> str:
    """How far a search is in its budget.

    Trials train side by side: until all of them have ended a round, none is counted.

    >>> where(0, 400), where(27, 400)
    ('first rounds under way', 'round 27 of 400')
    """
    return f"round {done:.0f} of {max(total, done):.0f}" if done else "first rounds under way"


def state(search: Search) -> str:
    """Trials by status, and the leader: of the trials that were trained longest, the best."""
    counts = Counter(trial.status for trial in search.trials)
    parts = [f"{counts[status]} {status}" for status in ("training", "eliminated", "finished", "failed")]
    text = ", ".join(part for part in parts if not part.startswith("0 "))
    leader = search.leader()
    if leader is not None and leader.score is not None:
        metric = search.objective.metric
        known = search.evaluator.shown(leader.score.value)
        value = "kept private" if isnan(known) else f"{known:.4f}"
        text += f"; leading: trial {leader.number}, {metric} {value} at its round {leader.score.round}"
    return text


class PlainLines:
    """A line for every evaluation, and one now and then between."""

    def __init__(self) -> None:
        self._pace = Pace()
        self._last = 0.0
        self._replayed = False

    def __call__(self, event: Event) -> None:
        """Say where the search stands, if it is time to."""
        if event.replayed:
            self._replayed = True
            return
        done, total = event.search.ledger.spent["rounds"], event.search.total
        if self._replayed:
            self._replayed = False
            print(f"served from the record up to round {done:g} of {total}", file=sys.stderr)
        left = self._pace.left(done, total)
        now = time.monotonic()
        if event.kind != "evaluate" and now - self._last < _PAUSE:
            return
        if event.kind in ("round", "evaluate"):
            self._last = now
            ahead = f"; about {duration(left)} left" if left else ""
            spent = f"round {done:g} of {total}" if done <= total else f"{done - total:g} rounds more"
            if not done and event.kind != "evaluate":
                return  # nothing has ended yet that would be worth a line
            print(f"{spent}: {state(event.search)}{ahead}", file=sys.stderr, flush=True)


class LiveDisplay:
    """A bar over the budget, and the state of the trials below it."""

    def __init__(self, live: Any, name: str) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        self._live = live
        self._pace = Pace()
        self._bar = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=32),
            TextColumn("{task.fields[where]}"),
            TimeElapsedColumn(),
            TextColumn("[dim]{task.fields[left]}"),
        )
        self._task = self._bar.add_task(name, total=None, left="", where="")

    def __call__(self, event: Event) -> None:
        """Draw anew."""
        from rich.console import Group
        from rich.text import Text

        done, total = event.search.ledger.spent["rounds"], event.search.total
        left = None if event.replayed else self._pace.left(done, total)
        self._bar.update(
            self._task,
            completed=done,
            total=max(total, done),
            where=where(done, total),
            left="replaying" if event.replayed else f"about {duration(left)} left" if left else "",
        )
        self._live.update(Group(self._bar, Text(f"  {state(event.search)}", style="dim")))


@contextmanager
def progress(path: Path, *, quiet: bool) -> Iterator[Callable[[Event], None]]:
    """A callback that shows the progress of the run at `path` on standard error."""
    if quiet:
        yield lambda event: None
    elif not sys.stderr.isatty():
        yield PlainLines()
    else:
        from rich.console import Console
        from rich.live import Live

        with Live(console=Console(stderr=True), refresh_per_second=8, transient=True) as live:
            yield LiveDisplay(live, path.name)


class NotebookLine:
    """One line in a notebook's cell, drawn anew as the search goes on."""

    def __init__(self) -> None:
        self._pace = Pace()
        self._handle: Any = None

    def __call__(self, event: Event) -> None:
        """Draw the line."""
        show: Any = import_module("IPython.display")
        done, total = event.search.ledger.spent["rounds"], event.search.total
        left = None if event.replayed else self._pace.left(done, total)
        bar = f"<progress value={done:g} max={max(total, done):g}></progress> {where(done, total)}"
        said = f"{state(event.search)}{f'; about {duration(left)} left' if left else ''}"
        shown = show.HTML(f"{bar}<br><small>{escape(said)}</small>")
        if self._handle is None:
            self._handle = show.display(shown, display_id=True)
        else:
            self._handle.update(shown)


class OwnDisplay:
    """A terminal's display for a call from Python: opens with the first event, closes with the last."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._live: Any = None
        self._display: LiveDisplay | None = None

    def __call__(self, event: Event) -> None:
        """Draw anew."""
        if self._display is None:
            from rich.console import Console
            from rich.live import Live

            self._live = Live(console=Console(stderr=True), refresh_per_second=8, transient=True)
            self._live.start()
            self._display = LiveDisplay(self._live, self._name)
        self._display(event)
        if event.kind in ("finish", "stop") and self._live is not None:
            self._live.stop()
            self._live = self._display = None


def shown_progress(wanted: bool, run: Path | None) -> list[Callable[[Event], None]]:
    """The callback that shows progress, where that is wanted: in a notebook, a terminal, or elsewhere."""
    if not wanted:
        return []
    kernel = sys.modules.get("ipykernel.kernelapp")
    if kernel is not None and kernel.IPKernelApp.initialized():
        return [NotebookLine()]
    if sys.stderr.isatty():
        return [OwnDisplay("tuning" if run is None else run.name)]
    return [PlainLines()]
