"""The record of a run: every call and its result, in SQLite, one transaction per event.

The tables: `meta` (facts as JSON), `events` (calls and results, numbered from 1), `checkpoints`
(which file holds which trial, as of the event `meta.checkpoint`), `stops` (when and why the run
stopped), `sessions` (one line per process that worked on the run, and its time).

Every row carries a digest, which is checked when it is read. That of an event covers the event before it,
too; the fact `head` holds the number and digest of the last one, what all of them cost, and which facts
there are. So nothing can be changed, left out or cut off without being noticed.
"""

from __future__ import annotations

import functools
import json
import os
import secrets
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast

from fedhpo.core.canonical import canonical, first_difference
from fedhpo.core.digests import digest, event_digest, row_digest
from fedhpo.core.run_errors import DamageError, OtherVersionError, ReplayError, RunError, trouble_at
from fedhpo.core.version import way_back
from fedhpo.protocol.federation import Cost
from fedhpo.protocol.session import RELEASES
from fedhpo.run.codec import expand, squeeze
from fedhpo.run.database import (
    COSTS,
    EVENT_COLUMNS,
    TABLES,
    check_structure,
    connect_to_read,
    connect_to_write,
    create_tables,
    tables_of,
)
from fedhpo.run.witness import Witness

#: Raised when the tables or the payloads change: see `fedhpo.core.version`.
FORMAT = 2
#: Formats that can be read, all that a version wrote from 0.2.0 on; only the newest is written.
READABLE = frozenset({2})
#: The file beside the record that knows of what must not be lost.
WITNESS = "witness"

_SPENT = [*COSTS, "seconds", "epsilon"]

Method = TypeVar("Method", bound=Callable[..., Any])


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
    digest: bytes = b""


@dataclass(frozen=True)
class StateFile:
    """A checkpoint file: its name in the run's directory of checkpoints, its size and its digest."""

    name: str
    bytes: int
    digest: str


def _in_one_go(method: Method) -> Method:
    """Decorate a method that writes: once interrupted in the middle, the record writes nothing more.

    Ctrl-C may come between any two steps. What is then in memory may not be what is on disk, and must not be
    written: the file is left as a kill would leave it.
    """

    @functools.wraps(method)
    def run(self: Record, *values: Any, **named: Any) -> Any:
        if self.interrupted:
            raise RunError(
                f"the record {self.path} was interrupted while it was written: nothing more is written to it"
            )
        self.interrupted = True
        try:
            value = method(self, *values, **named)
        except Exception:
            self.interrupted = False
            raise
        self.interrupted = False
        return value

    return cast(Method, run)


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
    fedhpo.errors.ReplayError: event 1 (round) differs from the record: trial was 0, now it is 1; ...
    >>> record.expect("round", canonical({"trial": 0})).result
    b'report'
    >>> record.expect("round", canonical({"trial": 0})) is None  # caught up: this one is new
    True
    >>> record.close(); folder.cleanup()
    """

    def __init__(self, path: Path, *, read_only: bool = False, must_exist: bool = False) -> None:
        self.path = path
        self.directory = path.parent
        self.read_only = read_only
        #: Whether calls can be made again; those that cannot are noted in a second file as well.
        self.repeatable = True
        self._witness = Witness(self.directory / WITNESS)
        self._settled = 0
        self._note = False  # whether the transaction holds what must not be lost
        self._waiting: list[tuple[Any, ...]] = []
        self._ahead: Iterator[Event] | None = None
        # The digests of the last event recorded, and of the last one that the method has seen.
        self._chain = self._seen = self._origin = b""
        self._begun: float | None = time.monotonic()
        self._session: tuple[Any, ...] | None = None
        #: Whether a write is under way; if nothing runs any more, one was interrupted.
        self.interrupted = False
        with trouble_at(path, "cannot open the record"):
            self._database = connect_to_read(path) if read_only else connect_to_write(path)
        try:
            with self._trouble("cannot read the record"):
                self._open(must_exist)
        except BaseException:
            self._database.close()
            raise

    def _open(self, must_exist: bool) -> None:
        #: Number of the last event recorded, and of the last one that the method has seen.
        self.last = self.position = 0
        #: The event after which the checkpoint files were written; 0 is the very beginning.
        self.checkpoint = 0
        self._keys: set[str] = set()
        self._spent: dict[str, float] = dict.fromkeys(_SPENT, 0)
        self._active_before, self._checkpoint_before, self._bytes_before = 0.0, 0.0, 0
        self._checkpoint_seconds, self._checkpoint_bytes = 0.0, 0
        tables = tables_of(self._database, self.path)
        #: Whether there is nothing at all in the file: a run that was killed before it began.
        self.empty = not tables
        if self.empty:
            if must_exist:
                raise DamageError(self.path, "it is empty")
            if self.read_only:
                return
            with self._transaction():
                create_tables(self._database)
                self._set({"format": FORMAT, "id": secrets.token_hex(8), "checkpoint": 0})
            self.empty = False
        elif not set(TABLES) <= tables:
            raise RunError(f"cannot read the record {self.path}: it is not a record of fedhpo")
        elif not self.read_only:
            check_structure(self._database, self.path)
        self._load()
        if not self.read_only:
            self._check_witness()
            with self._transaction():
                session = self._database.execute(
                    "INSERT INTO sessions VALUES (NULL, 0, 0, 0, 0, 0, x'')"
                ).lastrowid
                self._session = (session, time.time(), os.getpid())

    def _load(self) -> None:
        """Read the facts and check that they are consistent."""
        columns = [row[1] for row in self._rows("PRAGMA table_info(meta)")]
        if columns == ["key", "value"]:
            raise self._other_version(dict(self._rows("SELECT key, value FROM meta")))
        rows = self._rows("SELECT key, value, digest, (SELECT max(number) FROM events) FROM meta")
        facts = {key: self._checked("meta", (key, value), stated)[1] for key, value, stated, _ in rows}
        if "format" in facts and not self._understood(facts["format"]):
            raise self._other_version(facts)
        head: dict[str, Any] = json.loads(facts["head"]) if "head" in facts else {"keys": None}
        if head["keys"] != sorted(facts):
            raise DamageError(self.path, "facts of the run are missing")
        if (rows[0][3] or 0) != head["events"]:
            raise DamageError(self.path, f"it ends at event {rows[0][3] or 0}, not {head['events']}")
        self._keys = set(facts)
        self._origin = self._seen = digest(json.loads(facts["id"]).encode())
        self._chain = bytes.fromhex(head["digest"]) if head["events"] else self._origin
        self.last, self._spent = head["events"], head["spent"]
        self.checkpoint = json.loads(facts["checkpoint"])
        for row in self._rows("SELECT * FROM sessions"):
            _, _, _, active, seconds, size = self._checked("sessions", row[:-1], row[-1])
            self._active_before += active
            self._checkpoint_before += seconds
            self._bytes_before += size

    def _understood(self, form: str) -> bool:
        """Whether the record has a format that can be read; one that is written must have the newest."""
        return form in {str(FORMAT), *(map(str, READABLE) if self.read_only else ())}

    def _other_version(self, facts: Mapping[str, str]) -> RunError:
        try:
            form = json.loads(facts["format"])
            version = json.loads(facts["versions"])["fedhpo"] if "versions" in facts else None
        except (KeyError, TypeError, ValueError) as error:
            return DamageError(self.path, f"its format cannot be read ({error})")
        whose = f"fedhpo {version}" if version else "another version of fedhpo"
        back = way_back(self.directory, version, {"record": form})
        read = ", which this version reads but does not continue" if form in READABLE else ""
        return OtherVersionError(
            f"run {self.directory} was begun with {whose} (its record has format {form}{read}; this version "
            f"writes {FORMAT}): {back}; or choose another name"
        )

    def _checked(self, table: str, row: Sequence[Any], stated: Any) -> Sequence[Any]:
        """The row; raise if it has changed since it was written."""
        if row_digest(table, row) != stated:
            raise DamageError(self.path, f"a row of {table} ({str(row[0])[:40]}) is not as it was written")
        return row

    def _check_witness(self) -> None:
        """Check that no event is lost which must not happen twice."""
        if self._spent["epsilon"]:
            names = ", ".join(f"'decide {name}'" for name in RELEASES)
            released = f"(epsilon > 0 OR kind IN ({names}))"
            drawn = f"SELECT coalesce(max(number), 0) FROM events WHERE {released} AND result IS NOT NULL"
            self._settled = self._rows(drawn)[0][0]
        # A record put back from a backup is whole, but forgets releases; the witness beside it does not.
        self._witness.check(self.last, self._settled)
        if self._spent["epsilon"] or (self.last and not self.get("repeatable", True)):
            self._witness.note(self.last, self._settled)

    # Facts

    def get(self, key: str, default: Any = None) -> Any:
        """A fact of the run."""
        if self.empty:
            return default
        with self._trouble("cannot read the record"):
            rows = self._rows("SELECT key, value, digest FROM meta WHERE key = ?", (key,))
        if not rows:
            if key in self._keys:
                raise DamageError(self.path, f"the fact {key!r} is gone")
            return default
        return json.loads(self._checked("meta", rows[0][:2], rows[0][2])[1])

    @_in_one_go
    def set(self, **facts: Any) -> None:
        """Keep facts of the run, all of them or none."""
        with self._trouble("cannot write the record"), self._transaction():
            self._set(facts)

    def _set(self, facts: Mapping[str, Any]) -> None:
        rows = [(key, canonical(value).decode()) for key, value in facts.items()]
        self._keys |= facts.keys()
        self._database.executemany(
            "INSERT OR REPLACE INTO meta VALUES (?, ?, ?)", [(*row, row_digest("meta", row)) for row in rows]
        )

    # Writing

    @_in_one_go
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
        costs = [int(value) for value in vars(cost or Cost()).values()]
        # The digest covers the stored bytes and the digest before it, so that neither a changed byte nor an
        # event that was removed or moved goes unnoticed.
        stored = squeeze(call), None if result is None else squeeze(result)
        row = (number, kind, *stored, *costs, float(epsilon), float(seconds))
        self._chain = self._seen = event_digest(self._chain, row)
        self._waiting.append((*row, self._chain))
        self.last = self.position = number
        self._charge(costs, seconds, epsilon)
        self._note |= bool(epsilon) or not self.repeatable
        if commit:
            self._commit(number if reached else None, files)
        return number

    @_in_one_go
    def settle(
        self,
        number: int,
        result: bytes,
        cost: Cost | None = None,
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        """Give an event its result and cost, where it was recorded before they were known.

        `facts` of the run that go with the result are kept in the same transaction.
        """
        # A private release is charged before it is drawn: a crash between the two wastes epsilon, the other
        # order would spend it unrecorded.
        columns = ", ".join(f"{name} = ?" for name in ("result", *COSTS))
        costs = [int(value) for value in vars(cost or Cost()).values()]
        self._charge(costs, 0.0, 0.0)
        with self._trouble("cannot write the record"), self._transaction():
            statement = f"UPDATE events SET {columns} WHERE number = ?"
            self._database.execute(statement, (squeeze(result), *costs, number))
            self._chain_again(number)
            self._set(facts or {})
            self._note, self._settled = True, max(self._settled, number)

    def _charge(self, costs: Sequence[int], seconds: float, epsilon: float) -> None:
        for name, value in zip(_SPENT, (*costs, seconds, epsilon), strict=True):
            self._spent[name] += value

    def _chain_again(self, number: int) -> None:
        """Recompute digests from an event whose result was added later; usually it is the last event."""
        before = self._rows("SELECT digest FROM events WHERE number = ?", (number - 1,))
        chain = before[0][0] if before else self._origin
        columns = ", ".join(EVENT_COLUMNS[:-1])
        for row in self._rows(f"SELECT {columns} FROM events WHERE number >= ? ORDER BY number", (number,)):
            chain = event_digest(chain, row)
            self._database.execute("UPDATE events SET digest = ? WHERE number = ?", (chain, row[0]))
            if row[0] == self.position:
                self._seen = chain
        self._chain = chain

    @_in_one_go
    def move_checkpoint(self, event: int, files: Mapping[int, StateFile]) -> None:
        """Let a resumed run start after `event`, with these files of all trials."""
        self._commit(event, files)

    @_in_one_go
    def cut(self, event: int, files: Mapping[int, StateFile], facts: Mapping[str, Any]) -> None:
        """Forget all after `event`, where the trials stood as in `files`, and keep facts: all or nothing.

        What the forgotten events cost stays on the account: see `earlier`.
        """
        self._flush()
        sums = ", ".join(f"coalesce(sum({name}), 0)" for name in _SPENT)
        with self._trouble("cannot read the record"):
            lost = dict(
                zip(
                    _SPENT,
                    self._rows(f"SELECT {sums} FROM events WHERE number > ?", (event,))[0],
                    strict=True,
                )
            )
            found = self._rows("SELECT digest FROM events WHERE number = ?", (event,))
        chain = found[0][0] if found else self._origin
        if self._witness.noted() is not None:
            # Before the events go: a kill in between leaves more of them than are noted, which is no loss.
            self._settled = min(self._settled, event)
            self._witness.note(event, self._settled)
        kept = self.last, self.position, self._seen, self._spent
        self.last, self._spent = event, _sum(self._spent, lost, -1)
        if self.position > event:
            self.position, self._seen = event, chain
        try:
            with self._trouble("cannot write the record"), self._transaction():
                self._chain = chain
                self._database.execute("DELETE FROM events WHERE number > ?", (event,))
                self._put_files(files)
                self._set({**facts, "earlier": _sum(self.earlier, lost), "checkpoint": event})
        except BaseException:
            self.last, self.position, self._seen, self._spent = kept
            raise
        self.checkpoint = event

    def charge_checkpoint(self, seconds: float, size: int) -> None:
        """Count time and bytes of a checkpoint; stored with the next transaction."""
        self._checkpoint_seconds += seconds
        self._checkpoint_bytes += size

    @_in_one_go
    def stop(self, reason: str) -> None:
        """Note that the run stopped here. Not a call: a resumed run does not meet it."""
        with self._trouble("cannot write the record"), self._transaction():
            row = (self.position, reason, time.time())
            self._database.execute("INSERT INTO stops VALUES (?, ?, ?, ?)", (*row, row_digest("stops", row)))

    @_in_one_go
    def flush(self) -> None:
        """Write down the events that wait for the next transaction."""
        self._flush()

    def _flush(self) -> None:
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
        rows = [(trial, file.name, file.bytes, file.digest) for trial, file in files.items()]
        with_digests = [(*row, row_digest("checkpoints", row)) for row in rows]
        self._database.executemany("INSERT INTO checkpoints VALUES (?, ?, ?, ?, ?)", with_digests)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """All of it or nothing, with the events that wait and this session's time."""
        self._ahead = None  # or its snapshot would keep the write-ahead log from being emptied
        chain, keys = self._chain, set(self._keys)
        self._database.execute("BEGIN IMMEDIATE")
        try:
            waiting = len(self._waiting)
            if waiting:
                places = ", ".join("?" * len(EVENT_COLUMNS))
                self._database.executemany(f"INSERT INTO events VALUES ({places})", self._waiting)
            yield
            self._set_head()
            self._database.execute("COMMIT")
            del self._waiting[:waiting]
        except BaseException:
            self._chain, self._keys = chain, keys
            # On a full disk SQLite may have rolled back already; a second time is an error.
            with suppress(sqlite3.Error):
                self._database.execute("ROLLBACK")
            raise
        if self._note:
            self._witness.note(self.last, self._settled)
            self._note = False

    def _set_head(self) -> None:
        """What goes along with every transaction: where the events end, and how long this session took."""
        head = {"events": self.last, "digest": self._chain.hex(), "spent": self._spent}
        self._set({"head": head | {"keys": sorted(self._keys | {"head"})}})
        if self._session is not None:
            active = self._active
            row = (*self._session, active, self._checkpoint_seconds, self._checkpoint_bytes)
            statement = "INSERT OR REPLACE INTO sessions VALUES (?, ?, ?, ?, ?, ?, ?)"
            self._database.execute(statement, (*row, row_digest("sessions", row)))

    # Reading

    def expect(self, kind: str, call: bytes) -> Event | None:
        """The next recorded event, which must be this call; None at the end of the record."""
        if self.position >= self.last:
            return None
        if self._ahead is None:
            self._ahead = self._stream(self.position + 1, self._seen)
        event = next(self._ahead, None)
        if event is None:
            raise DamageError(self.path, f"event {self.position + 1} is not there")
        if event.kind != kind:
            raise self._differs(event, "the call", repr(event.kind), repr(kind))
        if event.call != call:
            found = first_difference(json.loads(event.call), json.loads(call))
            raise self._differs(event, *(found or ("the call", "written otherwise", "this")))
        self.position += 1
        self._seen = event.digest
        return event

    def _differs(self, event: Event, where: str, old: str, new: str) -> ReplayError:
        self._ahead = None  # it is one event further
        return ReplayError(
            f"event {event.number} ({event.kind}) differs from the record: {where} was {_short(old)}, now it "
            f"is {_short(new)}; the method or its inputs changed since this run began: undo that, or start a "
            "new run"
        )

    def events(self, after: Event | None = None) -> Iterator[Event]:
        """The events on disk, in order: one query. With `after`, only those behind that event."""
        if self.empty:
            return iter(())
        return (
            self._stream(1, self._origin) if after is None else self._stream(after.number + 1, after.digest)
        )

    def _stream(self, number: int, chain: bytes) -> Iterator[Event]:
        """The events on disk from `number` on, each checked; `chain` is the digest of the one before."""
        columns, head = ", ".join(EVENT_COLUMNS), "(SELECT value FROM meta WHERE key = 'head')"
        statement = f"SELECT {head}, {columns} FROM events WHERE number >= ? ORDER BY number"
        end = None
        with self._trouble("cannot read the record"):
            for text, *row, stated in self._database.execute(statement, (number,)):
                # Of the same snapshot: another process may write on.
                end = end or json.loads(text)
                event = self._to_event(row, number, chain, stated)
                chain = stated
                if number == end["events"] and chain.hex() != end["digest"]:
                    raise DamageError(self.path, f"event {number} is not the last one that was written")
                yield event
                if number == end["events"]:
                    return
                number += 1
        if end is not None:
            raise DamageError(self.path, f"event {number} is not there")

    def _to_event(self, row: Sequence[Any], expected: int, chain: bytes, stated: Any) -> Event:
        number, kind, call, result, *costs, epsilon, seconds = row
        if number != expected:
            raise DamageError(self.path, f"event {expected} is not there")
        try:
            whole = event_digest(chain, row) == stated
        except (TypeError, ValueError):  # not even of the right types
            whole = False
        if not whole:
            raise DamageError(self.path, f"event {number} is not as it was written")
        call, result = expand(call), None if result is None else expand(result)
        return Event(number, kind, call, result, Cost(*costs), epsilon, seconds, stated)

    def files(self) -> dict[int, StateFile]:
        """The checkpoint file of each trial that was alive then."""
        found = self._checked_rows("checkpoints", "trial, file, bytes, content")
        return {trial: StateFile(*file) for trial, *file in found}

    def stops(self) -> list[dict[str, Any]]:
        """When and why the run stopped: after which event, the reason, the time."""
        found = self._checked_rows("stops", "event, reason, time")
        return [{"event": event, "reason": reason, "time": when} for event, reason, when in found]

    def _checked_rows(self, table: str, columns: str) -> list[Sequence[Any]]:
        """All rows of a table, in the order in which they were written, each checked."""
        if self.empty:
            return []
        with self._trouble("cannot read the record"):
            rows = self._rows(f"SELECT {columns}, digest FROM {table} ORDER BY rowid")
        return [self._checked(table, row[:-1], row[-1]) for row in rows]

    def spent(self) -> dict[str, float]:
        """The sums over all events on disk, those that were cut off too, by the names of the ledger."""
        head = self.get("head")
        return _sum(head["spent"] if head else self._spent, self.earlier)

    @property
    def earlier(self) -> dict[str, float]:
        """What was spent on events that were cut off when the total was raised; empty if none were."""
        found: dict[str, float] = self.get("earlier", {})
        return found

    @property
    def active_seconds(self) -> float:
        """Time that processes spent on this run, all sessions together."""
        return self._active_before + self._active

    @property
    def _active(self) -> float:
        return 0.0 if self._begun is None or self.read_only else time.monotonic() - self._begun

    def only_served(self) -> None:
        """Stop counting time: a finished run that is only loaded takes none."""
        self._begun = None

    @property
    def checkpoint_seconds(self) -> float:
        """Time spent on checkpoints, all sessions together."""
        return self._checkpoint_before + self._checkpoint_seconds

    @property
    def checkpoint_bytes(self) -> int:
        """Bytes written as checkpoints, all sessions together."""
        return self._bytes_before + self._checkpoint_bytes

    def close(self) -> None:
        """Write pending events, unless a write was interrupted, and close the file."""
        try:
            self._ahead = None
            if not self.interrupted:
                self.flush()
        finally:
            self._database.close()
            self._witness.close()

    def _rows(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        return self._database.execute(statement, values).fetchall()

    @contextmanager
    def _trouble(self, doing: str) -> Iterator[None]:
        with trouble_at(self.path, doing):
            yield


def _sum(one: Mapping[str, float], other: Mapping[str, float], sign: int = 1) -> dict[str, float]:
    return {name: one.get(name, 0) + sign * other.get(name, 0) for name in _SPENT}


def _short(text: str) -> str:
    return text if len(text) <= 200 else text[:197] + "..."
