"""When to shoot: soon after the start, when a file of the run appears or grows, or at any time."""

from __future__ import annotations

import contextlib
import os
import random
import time
from dataclasses import dataclass
from pathlib import Path

from chaos_parts.starts import Process

#: How often each moment is drawn.
WEIGHTS = {"first 50 ms": 14, "begin": 12, "any": 22, "record": 20, "checkpoint": 18, "end": 14}


@dataclass(frozen=True)
class Moment:
    """A kind of moment; after `changes` of what is watched, and then `delay` seconds."""

    kind: str
    delay: float
    changes: int = 0
    watched: str = ""


def draw(rng: random.Random, seconds: float) -> Moment:
    """A moment in the life of a process that would take so long."""
    kind = rng.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
    if kind == "first 50 ms":
        return Moment(kind, rng.uniform(0.0, 0.05))
    if kind == "any":
        return Moment(kind, rng.uniform(0.0, 1.1 * seconds))
    short = 10 ** rng.uniform(-4.0, -1.5)  # 0.1 to 32 ms: what happens there is over in a few of them
    if kind == "begin":
        return Moment(kind, short, 1, rng.choice(["lock", "record.sqlite", "record.sqlite-wal"]))
    if kind == "record":
        return Moment(kind, short, rng.randint(1, 8), "record.sqlite-wal")
    if kind == "checkpoint":
        return Moment(kind, short, rng.randint(1, 4), "checkpoints")
    names = ["result.json", "result.json.part", "history.csv", "history.csv.part", "report.html"]
    return Moment(kind, short if rng.random() < 0.5 else rng.uniform(0, 0.2), 1, rng.choice(names))


def wait_for(moment: Moment, process: Process, run: Path, limit: float) -> bool:
    """Wait until the moment has come; False if the process ended before, or took longer than the limit."""
    end = time.monotonic() + limit
    path = run / moment.watched
    seen, changes = _state(path), 0
    while changes < moment.changes:
        if process.poll() is not None or time.monotonic() > end:
            return False
        now = _state(path)
        if now != seen:
            seen, changes = now, changes + 1
        else:
            time.sleep(0.0003)
    # What is watched was there before the start in a run that goes on; the delay counts from its change.
    due = (process.began if not moment.changes else time.monotonic()) + moment.delay
    while (left := due - time.monotonic()) > 0:
        if process.poll() is not None:
            return False
        time.sleep(min(left, 0.002))
    return process.poll() is None


def _state(path: Path) -> object:
    """What changes when a file is written, or a directory gets another entry."""
    with contextlib.suppress(OSError):
        found = os.stat(path)
        return found.st_mtime_ns, found.st_size, found.st_ino
    return None
