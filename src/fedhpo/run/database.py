"""The SQLite file of a record: its tables, and how it is opened."""

from __future__ import annotations

import os
import sqlite3
import stat
from dataclasses import fields
from pathlib import Path

from fedhpo.core.run_errors import DamageError
from fedhpo.protocol.federation import Cost

#: The parts of a cost, each a column of the events.
COSTS = [f.name for f in fields(Cost)]
EVENT_COLUMNS = ["number", "kind", "call", "result", *COSTS, "epsilon", "seconds", "digest"]
TABLES = ("meta", "events", "checkpoints", "stops", "sessions")
_SCHEMA = f"""
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL, digest BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE events (number INTEGER PRIMARY KEY, kind TEXT NOT NULL, call BLOB NOT NULL, result BLOB,
    {", ".join(f"{name} INTEGER NOT NULL" for name in COSTS)}, epsilon REAL NOT NULL, seconds REAL NOT NULL,
    digest BLOB NOT NULL);
CREATE TABLE checkpoints (trial INTEGER PRIMARY KEY, file TEXT NOT NULL, bytes INTEGER NOT NULL,
    content TEXT NOT NULL, digest BLOB NOT NULL);
CREATE TABLE stops (event INTEGER NOT NULL, reason TEXT NOT NULL, time REAL NOT NULL, digest BLOB NOT NULL);
CREATE TABLE sessions (number INTEGER PRIMARY KEY, began REAL NOT NULL, pid INTEGER NOT NULL,
    active REAL NOT NULL, checkpoint_seconds REAL NOT NULL, checkpoint_bytes INTEGER NOT NULL,
    digest BLOB NOT NULL);
"""


def create_tables(database: sqlite3.Connection) -> None:
    """Make the tables; all of them or none, inside the caller's transaction."""
    for statement in _SCHEMA.split(";")[:-1]:
        database.execute(statement)


def tables_of(database: sqlite3.Connection, path: Path) -> set[str]:
    """The names of the tables. A file without tables is empty or damaged."""
    found = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not found and database.execute("PRAGMA page_count").fetchone()[0] > 1:
        raise DamageError(path, "its tables are gone")
    return found


def check_structure(database: sqlite3.Connection, path: Path) -> None:
    """Refuse a file with inconsistent pages: writing to it could damage the intact ones."""
    found = database.execute("PRAGMA quick_check(1)").fetchall()
    if found != [("ok",)]:
        lines = str(found[0][0]).splitlines() if found else []
        raise DamageError(path, lines[-1] if lines else "SQLite finds its pages out of order")


def _refuse_others(path: Path) -> None:
    """Refuse a directory with a named pipe, a device or a socket: opening one could wait for ever."""
    for entry in os.scandir(path.parent):
        mode = entry.stat(follow_symlinks=False).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)):
            kind = (
                "a named pipe" if stat.S_ISFIFO(mode) else "a socket" if stat.S_ISSOCK(mode) else "a device"
            )
            raise DamageError(path.parent / entry.name, f"it is {kind}, where a run has files", "remove it")


def connect_to_write(path: Path) -> sqlite3.Connection:
    """The file for the one process that writes, made if it is not there."""
    _refuse_others(path)
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


def connect_to_read(path: Path) -> sqlite3.Connection:
    """The file for a reader, also while another process writes."""
    if not path.is_file():
        raise FileNotFoundError(2, "no such file")
    _refuse_others(path)
    for options in ("mode=ro", "immutable=1"):  # the latter where not even a reader's files can be made
        database = sqlite3.connect(f"{path.resolve().as_uri()}?{options}", uri=True, check_same_thread=False)
        try:
            database.execute("SELECT count(*) FROM sqlite_master")
            return database
        except sqlite3.OperationalError as error:
            database.close()
            trouble = error
        except BaseException:
            database.close()
            raise
    raise trouble


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=10.0)


def _can_wal(database: sqlite3.Connection) -> bool:
    """Turn on the write-ahead log and check that it works."""
    try:
        if database.execute("PRAGMA journal_mode = WAL").fetchone()[0] != "wal":
            return False
        database.execute("BEGIN IMMEDIATE")
        database.execute("ROLLBACK")
    except sqlite3.OperationalError:
        return False
    return True
