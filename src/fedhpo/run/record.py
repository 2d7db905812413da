"""The record of a run: every call and its result, in SQLite, one transaction per event.

The tables: `meta` (facts as JSON), `events` (calls and results, numbered from 1), `checkpoints`
(which file holds which trial, as of the event `meta.checkpoint`), `stops` (when and why the run
stopped), `sessions` (one line per process that worked on the run, and its time).
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import astuple, dataclass, field, fields
from pathlib import Path
from typing import Any

from fedhpo.federation.protocol import Cost
from fedhpo.run.canonical import canonical, first_difference
from fedhpo.run.codec import expand, squeeze
from fedhpo.run.errors import ReplayError, RunError, trouble_at

#: Raised when the tables or the payloads change.
FORMAT = 1

_COSTS = [f.name for f in fields(Cost)]
_EVENT_COLUMNS = ["number", "kind", "call", "result", *_COSTS, "epsilon", "seconds"]
_TABLES = f"""
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE events (number INTEGER PRIMARY KEY, kind TEXT NOT NULL, call BLOB NOT NULL, result BLOB,
    {", ".join(f"{name} INTEGER NOT NULL" for name in _COSTS)}, epsilon REAL NOT NULL, seconds REAL NOT NULL);
CREATE TABLE checkpoints (trial INTEGER PRIMARY KEY, file TEXT NOT NULL, bytes INTEGER NOT NULL);
CREATE TABLE stops (event INTEGER NOT NULL, reason TEXT NOT NULL, time REAL NOT NULL);
CREATE TABLE sessions (number INTEGER PRIMARY KEY, began REAL NOT NULL, pid INTEGER NOT NULL,
    active REAL NOT NULL, checkpoint_seconds REAL NOT NULL, checkpoint_bytes INTEGER NOT NULL);
"""


@dataclass(frozen=True)
class Event:
    """One line of the record. `call` is canonical JSON, `result` a payload of the codec or JSON."""

    number: int
    kind: str
    call: bytes
    result: bytes | None
    cost: Cost = field(default_factory=Cost)
    epsilon: float = 0.0
    seconds: float = 0.0


@dataclass(frozen=True)
class StateFile:
    """A checkpoint file: its name in the run's directory of checkpoints, and its size."""

    name: str
    bytes: int


class Record:
    """The event log of one run.

    A reader may open it with `read_only` while another process writes. For replay, `expect` gives
    one recorded event after the other, each checked against the call that is made now.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> record = Record(Path(folder.name) / "record.sqlite")
    >>> record.append("round", canonical({"trial": 0}), b"report", Cost(rounds=1))
    1
    >>> record.close()
    >>> record = Record(Path(folder.name) / "record.sqlite")
    >>> record.expect("round", canonical({"trial": 1}))
    Traceback (most recent call last):
    ...
    fedhpo.run.errors.ReplayError: event 1 (round) differs from the record: trial was 0, now it is 1; ...
    >>> record.expect("round", canonical({"trial": 0})).result
    b'report'
    >>> record.expect("round", canonical({"trial": 0})) is None  # caught up: this one is new
    True
    >>> record.close(); folder.cleanup()
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path = path
        self.directory = path.parent
        self.read_only = read_only
        self._waiting: list[tuple[Any, ...]] = []
        self._begun = time.monotonic()
        self._session: int | None = None
        with trouble_at(path, "cannot open the record"):
            self._database = _connect_to_read(path) if read_only else _connect_to_write(path)
        try:
            with self._trouble("cannot read the record"):
                self._open()
        except BaseException:
            self._database.close()
            raise

    def _open(self) -> None:
        tables = {name for (name,) in self._rows("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if not tables and not self.read_only:
            with self._transaction():
                for statement in _TABLES.split(";")[:-1]:
                    self._database.execute(statement)
                self._set({"format": FORMAT, "checkpoint": 0})
        elif not {"meta", "events", "checkpoints", "stops", "sessions"} <= tables:
            raise RunError(f"cannot read the record {self.path}: it is not a record of fedhpo")
        form = self.get("format")
        if form != FORMAT:
            raise RunError(f"cannot read the record {self.path}: its format is {form}, not {FORMAT}")
        #: Number of the last event recorded, and of the last one that the method has seen.
        self.last: int = self._rows("SELECT coalesce(max(number), 0) FROM events")[0][0]
        self.position = 0
        #: The event after which the checkpoint files were written; 0 is the very beginning.
        self.checkpoint: int = self.get("checkpoint")
        sums = "SELECT sum(active), sum(checkpoint_seconds), sum(checkpoint_bytes) FROM sessions"
        active, seconds, size = self._rows(sums)[0]
        self._active_before = active or 0.0
        self._checkpoint_before = seconds or 0.0
        self._bytes_before = size or 0
        self._checkpoint_seconds, self._checkpoint_bytes = 0.0, 0
        if not self.read_only:
            with self._transaction():
                session = self._database.execute(
                    "INSERT INTO sessions VALUES (NULL, ?, ?, 0, 0, 0)", (time.time(), os.getpid())
                )
                self._session = session.lastrowid

    # Facts

    def get(self, key: str, default: Any = None) -> Any:
        """A fact of the run."""
        with self._trouble("cannot read the record"):
            rows = self._rows("SELECT value FROM meta WHERE key = ?", (key,))
        return json.loads(rows[0][0]) if rows else default

    def set(self, **facts: Any) -> None:
        """Keep facts of the run, all of them or none."""
        with self._trouble("cannot write the record"), self._transaction():
            self._set(facts)

    def _set(self, facts: Mapping[str, Any]) -> None:
        rows = [(key, canonical(value).decode()) for key, value in facts.items()]
        self._database.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", rows)

    # Writing

    def append(
        self,
        kind: str,
        call: bytes,
        result: bytes | None = None,
        cost: Cost | None = None,
        *,
        epsilon: float = 0.0,
        seconds: float = 0.0,
        files: Mapping[int, StateFile] | None = None,
        reached: bool = False,
        commit: bool = True,
    ) -> int:
        """Add an event and return its number.

        `reached` moves the checkpoint to this event, in the same transaction; `files` are then the
        files of all trials (None: as before). With `commit=False` the event waits for the next one:
        enough for calls that bring no result, since a crash before then only makes them again.
        """
        number = self.last + 1
        row = (number, kind, squeeze(call), None if result is None else squeeze(result))
        self._waiting.append((*row, *vars(cost or Cost()).values(), epsilon, seconds))
        self.last = self.position = number
        if commit:
            self._commit(number if reached else None, files)
        return number

    def settle(self, number: int, result: bytes, cost: Cost | None = None) -> None:
        """Give an event its result and cost, where it was recorded before they were known."""
        columns = ", ".join(f"{name} = ?" for name in ("result", *_COSTS))
        values = (squeeze(result), *vars(cost or Cost()).values(), number)
        with self._trouble("cannot write the record"), self._transaction():
            self._database.execute(f"UPDATE events SET {columns} WHERE number = ?", values)

    def move_checkpoint(self, event: int, files: Mapping[int, StateFile]) -> None:
        """From now on a resumed run starts after `event`, with these files of all its trials."""
        self._commit(event, files)

    def cut(self, event: int, files: Mapping[int, StateFile], facts: Mapping[str, Any]) -> None:
        """Forget all after `event`, where the trials stood as in `files`, and keep facts: all or nothing.

        What the forgotten events cost stays on the account: see `earlier`.
        """
        with self._trouble("cannot write the record"), self._transaction():
            self._set({"earlier": _sum(self.earlier, self._sums("WHERE number > ?", (event,)))})
            self._database.execute("DELETE FROM events WHERE number > ?", (event,))
            self._put_files(files)
            self._set({**facts, "checkpoint": event})
            self.last, self.position, self.checkpoint = event, min(self.position, event), event

    def charge_checkpoint(self, seconds: float, size: int) -> None:
        """Count time and bytes of a checkpoint; stored with the next transaction."""
        self._checkpoint_seconds += seconds
        self._checkpoint_bytes += size

    def stop(self, reason: str) -> None:
        """Note that the run stopped here. Not a call: a resumed run does not meet it."""
        with self._trouble("cannot write the record"), self._transaction():
            self._database.execute("INSERT INTO stops VALUES (?, ?, ?)", (self.position, reason, time.time()))

    def flush(self) -> None:
        """Write down the events that wait for the next transaction."""
        if self._waiting:
            self._commit(None, None)

    def _commit(self, checkpoint: int | None, files: Mapping[int, StateFile] | None) -> None:
        with self._trouble("cannot write the record"), self._transaction():
            if files is not None:
                self._put_files(files)
            if checkpoint is not None:
                self._set({"checkpoint": checkpoint})
        if checkpoint is not None:
            self.checkpoint = checkpoint

    def _put_files(self, files: Mapping[int, StateFile]) -> None:
        self._database.execute("DELETE FROM checkpoints")
        rows = [(trial, *astuple(file)) for trial, file in files.items()]
        places = ", ".join("?" * (1 + len(fields(StateFile))))
        self._database.executemany(f"INSERT INTO checkpoints VALUES ({places})", rows)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """All of it or nothing, with the events that wait and this session's time."""
        self._database.execute("BEGIN IMMEDIATE")
        try:
            waiting = len(self._waiting)
            if waiting:
                places = ", ".join("?" * len(_EVENT_COLUMNS))
                self._database.executemany(f"INSERT INTO events VALUES ({places})", self._waiting)
            yield
            if self._session is not None:
                times = "active = ?, checkpoint_seconds = ?, checkpoint_bytes = ?"
                spent = (time.monotonic() - self._begun, self._checkpoint_seconds, self._checkpoint_bytes)
                self._database.execute(
                    f"UPDATE sessions SET {times} WHERE number = ?", (*spent, self._session)
                )
            self._database.execute("COMMIT")
            del self._waiting[:waiting]
        except BaseException:
            # On a full disk SQLite may have rolled back already; a second time is an error.
            with suppress(sqlite3.Error):
                self._database.execute("ROLLBACK")
            raise

    # Reading

    def expect(self, kind: str, call: bytes) -> Event | None:
        """The next recorded event, if it is this very call; None once the record is at its end."""
        if self.position >= self.last:
            return None
        event = self._event(self.position + 1)
        if event.kind != kind:
            raise _differs(event, "the call", repr(event.kind), repr(kind))
        if event.call != call:
            found = first_difference(json.loads(event.call), json.loads(call))
            raise _differs(event, *(found or ("the call", "written otherwise", "this")))
        self.position += 1
        return event

    def _event(self, number: int) -> Event:
        with self._trouble("cannot read the record"):
            rows = self._rows(f"SELECT {', '.join(_EVENT_COLUMNS)} FROM events WHERE number = ?", (number,))
        if not rows:
            raise RunError(f"the record {self.path} is damaged: event {number} is not there")
        return self._to_event(rows[0])

    def _to_event(self, row: Sequence[Any]) -> Event:
        number, kind, call, result, *costs, epsilon, seconds = row
        try:
            call, result = expand(call), None if result is None else expand(result)
        except Exception as error:
            raise RunError(f"the record {self.path} is damaged: event {number}: {error}") from error
        return Event(number, kind, call, result, Cost(*costs), epsilon, seconds)

    def events(self) -> Iterator[Event]:
        """All events on disk, in order."""
        with self._trouble("cannot read the record"):
            last = self._rows("SELECT coalesce(max(number), 0) FROM events")[0][0]
        for number in range(1, last + 1):
            yield self._event(number)

    def files(self) -> dict[int, StateFile]:
        """The checkpoint file of each trial that was alive then."""
        with self._trouble("cannot read the record"):
            return {
                t: StateFile(*file) for t, *file in self._rows("SELECT trial, file, bytes FROM checkpoints")
            }

    def stops(self) -> list[dict[str, Any]]:
        """When and why the run stopped: after which event, the reason, the time."""
        with self._trouble("cannot read the record"):
            rows = self._rows("SELECT event, reason, time FROM stops ORDER BY rowid")
        return [{"event": event, "reason": reason, "time": when} for event, reason, when in rows]

    def spent(self) -> dict[str, float]:
        """The sums over all events, those that were cut off too, by the names of the ledger."""
        with self._trouble("cannot read the record"):
            return _sum(self._sums(), self.earlier)

    @property
    def earlier(self) -> dict[str, float]:
        """What was spent on events that were cut off when the total was raised; empty if none were."""
        found: dict[str, float] = self.get("earlier", {})
        return found

    def _sums(self, where: str = "", values: Sequence[Any] = ()) -> dict[str, float]:
        names = [*_COSTS, "seconds", "epsilon"]
        sums = ", ".join(f"coalesce(sum({name}), 0)" for name in names)
        return dict(zip(names, self._rows(f"SELECT {sums} FROM events {where}", values)[0], strict=True))

    @property
    def active_seconds(self) -> float:
        """Time that processes spent on this run, all sessions together."""
        return self._active_before + (0.0 if self.read_only else time.monotonic() - self._begun)

    @property
    def checkpoint_seconds(self) -> float:
        """Time spent on checkpoints, all sessions together."""
        return self._checkpoint_before + self._checkpoint_seconds

    @property
    def checkpoint_bytes(self) -> int:
        """Bytes written as checkpoints, all sessions together."""
        return self._bytes_before + self._checkpoint_bytes

    def close(self) -> None:
        """Write down what waits, and let go of the file."""
        try:
            self.flush()
        finally:
            self._database.close()

    def _rows(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        return self._database.execute(statement, values).fetchall()

    @contextmanager
    def _trouble(self, doing: str) -> Iterator[None]:
        with trouble_at(self.path, doing):
            yield


def _sum(one: Mapping[str, float], other: Mapping[str, float]) -> dict[str, float]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in {**one, **other}}


def _differs(event: Event, where: str, old: str, new: str) -> ReplayError:
    return ReplayError(
        f"event {event.number} ({event.kind}) differs from the record: {where} was {_short(old)}, now it is "
        f"{_short(new)}; the method or its inputs changed since this run began: undo that, or start a new run"
    )


def _short(text: str) -> str:
    return text if len(text) <= 200 else text[:197] + "..."


def _connect_to_write(path: Path) -> sqlite3.Connection:
    database = _connect(path)
    try:
        if not _can_wal(database):  # memory cannot be shared here, as on network file systems
            database.close()
            database = _connect(path)
            # A record that is in WAL mode already opens without shared memory if nobody else may.
            database.execute("PRAGMA locking_mode = EXCLUSIVE")
            database.execute("PRAGMA journal_mode = DELETE")
            database.execute("PRAGMA locking_mode = NORMAL")
        database.execute("PRAGMA synchronous = FULL")
    except BaseException:
        database.close()
        raise
    return database


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=10.0)


def _can_wal(database: sqlite3.Connection) -> bool:
    """Turn the write-ahead log on, and see whether that works."""
    try:
        if database.execute("PRAGMA journal_mode = WAL").fetchone()[0] != "wal":
            return False
        database.execute("BEGIN IMMEDIATE")
        database.execute("ROLLBACK")
    except sqlite3.OperationalError:
        return False
    return True


def _connect_to_read(path: Path) -> sqlite3.Connection:
    if not path.is_file():
        raise FileNotFoundError(2, "no such file")
    for options in ("mode=ro", "immutable=1"):  # the latter where not even a reader's files can be made
        database = sqlite3.connect(f"{path.resolve().as_uri()}?{options}", uri=True, check_same_thread=False)
        try:
            database.execute("SELECT count(*) FROM sqlite_master")
            return database
        except sqlite3.OperationalError as error:
            database.close()
            trouble = error
    raise trouble
