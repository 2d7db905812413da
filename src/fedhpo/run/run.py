"""A run: a directory with what was asked, every event, checkpoints and the result."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import math
import os
import platform
import time
import warnings
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from fedhpo.errors import InputError
from fedhpo.run.canonical import canonical, first_difference
from fedhpo.run.checkpoints import Checkpoints
from fedhpo.run.errors import ReplayError, RunError, trouble_at
from fedhpo.run.history import history
from fedhpo.run.ledger import Budget, Ledger
from fedhpo.run.lock import Lock, is_held
from fedhpo.run.record import Record

RECORD, LOCK, CHECKPOINTS, RESULT, HISTORY = (
    "record.sqlite",
    "lock",
    "checkpoints",
    "result.json",
    "history.csv",
)
_OURS = {LOCK, CHECKPOINTS, RESULT, HISTORY, "study.toml", "study.json", "clients.json"}


class Run:
    """One run; only one process at a time holds it, others may read it with `open_read`.

    As a context manager it notes how the block was left: an exception is recorded as a failure,
    Ctrl-C as a stop.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> with Run.create_or_open(folder.name + "/a", {"seed": 0}, "sha", 1) as run:
    ...     rows = run.finish({"best": 3})
    >>> open_read(folder.name + "/a").status
    'finished'
    >>> Run.create_or_open(folder.name + "/a", {"seed": 1}, "sha", 1)
    Traceback (most recent call last):
    ...
    fedhpo.errors.InputError: run ...a holds another study (seed is 0 there, 1 here): choose another name
    >>> folder.cleanup()
    """

    def __init__(self, path: Path, record: Record, lock: Lock | None, budget: Budget | None = None) -> None:
        self.path = path
        self.record = record
        self.ledger = Ledger(budget)
        self._lock = lock

    @classmethod
    def create_or_open(
        cls,
        path: str | Path,
        study: Mapping[str, Any],
        method: str,
        method_number: int,
        study_text: str | None = None,
        *,
        budget: Budget | None = None,
    ) -> Run:
        """Begin a run, or go on with it: then study, method and its number must be the same."""
        path = Path(path)
        with trouble_at(path, "cannot make the run's directory"):
            path.mkdir(parents=True, exist_ok=True)
            foreign = sorted(f.name for f in path.iterdir() if f.name not in _OURS and RECORD not in f.name)
        if foreign and not (path / RECORD).exists():
            raise InputError(f"{path} is not a run (it holds {foreign[0]!r}): choose another name")
        lock = Lock(path / LOCK)
        try:
            record = Record(path / RECORD)
            try:
                run = cls(path, record, lock, budget)
                if record.get("study") is None:
                    run._create(study, method, method_number, study_text)
                else:
                    run._check(study, method, method_number)
                run._check_files()
                record.set(status="running")
                return run
            except BaseException:
                record.close()
                raise
        except BaseException:
            lock.release()
            raise

    def _create(self, study: Mapping[str, Any], method: str, number: int, text: str | None) -> None:
        if text is not None:
            _write(self.path / "study.toml", text)
        else:
            _write(self.path / "study.json", json.dumps(json.loads(canonical(study)), indent=2) + "\n")
        # Last, and in one transaction: a directory without it counts as not yet begun.
        self.record.set(
            study=study,
            method=method,
            method_number=number,
            versions=versions(),
            created=time.time(),
            repeats=True,
        )

    def _check(self, study: Mapping[str, Any], method: str, number: int) -> None:
        recorded = self.record.get("method")
        if method != recorded:
            raise InputError(
                f"run {self.path} holds method {recorded!r}, not {method!r}: choose another name"
            )
        difference = first_difference(self.record.get("study"), json.loads(canonical(study)))
        if difference:
            where, old, new = difference
            found = f"{where} is {old} there, {new} here"
            raise InputError(f"run {self.path} holds another study ({found}): choose another name")
        then, now = self.record.get("versions"), versions()
        old_number = self.record.get("method_number")
        if number != old_number:
            raise RunError(
                f"run {self.path} was begun with fedhpo {then['fedhpo']}, whose {method} makes other calls "
                f"than that of fedhpo {now['fedhpo']} (number {old_number}, now {number}): "
                f"pip install fedhpo=={then['fedhpo']} to resume it, or choose another name"
            )
        changed = [
            f"{name} {then[name]} (now {now[name]})" for name in ("numpy", "torch") if then[name] != now[name]
        ]
        if changed:
            warnings.warn(
                f"run {self.path} was begun with {', '.join(changed)}: it may not repeat bit for bit",
                stacklevel=3,
            )

    def _check_files(self) -> None:
        """Without all of its files a checkpoint is of no use: then everything is run again."""
        checkpoints, files = Checkpoints(self.path / CHECKPOINTS), self.record.files()
        if not all(checkpoints.whole(file.name, file.bytes) for file in files.values()):
            if not self.record.get("repeatable", True):
                raise RunError(
                    f"run {self.path} cannot go on: a file is missing in {checkpoints.directory}, "
                    "and its federation cannot repeat what was trained"
                )
            warnings.warn(
                f"a checkpoint of run {self.path} is missing: its rounds are run again", stacklevel=3
            )
            self.record.move_checkpoint(0, {})
            files = {}
        checkpoints.clear_strays({file.name for file in files.values()})

    # What the run knows

    @property
    def status(self) -> str:
        """`running`, `stopped`, `finished` or `failed`; killed while it ran is `stopped`."""
        status = str(self.record.get("status", "stopped"))
        return "stopped" if status == "running" and not is_held(self.path / LOCK) else status

    @property
    def study(self) -> dict[str, Any]:
        """The study as given."""
        found: dict[str, Any] = self.record.get("study")
        return found

    def facts(self) -> dict[str, Any]:
        """What is known of the run itself, JSON-able."""
        keys = ("method", "method_number", "versions", "created", "federation", "repeats", "checkpoint")
        active, spent = self.record.active_seconds, self.record.checkpoint_seconds
        return {
            "name": self.path.name,
            "status": self.status,
            **{key: self.record.get(key) for key in keys},
            "events": self.record.last,
            "spent": self.record.spent(),
            "stops": self.record.stops(),
            "active_seconds": active,
            "checkpoint_seconds": spent,
            "checkpoint_share": spent / active if active else 0.0,
        }

    def history(self) -> list[dict[str, Any]]:
        """One row per trial and round, or evaluation: see `fedhpo.run.history.history`."""
        return history(self.record)

    def result(self) -> dict[str, Any] | None:
        """What `finish` was given; None before."""
        path = self.path / RESULT
        if self.record.get("status") != "finished":
            return None
        with trouble_at(path, "cannot read the result"):
            found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            return found

    # How it ends

    def finish(self, result: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Write `result.json` (what is not finite as null) and `history.csv`, then call it finished.

        The rows of the history come back.
        """
        if self.record.position < self.record.last:
            raise ReplayError(
                f"the method ended after event {self.record.position}, the record goes on to event "
                f"{self.record.last}: the method or its inputs changed since this run began: undo that, "
                "or start a new run"
            )
        self.record.flush()
        _write(self.path / RESULT, json.dumps(_finite(json.loads(canonical(result))), indent=2) + "\n")
        rows = self.history()
        _write(self.path / HISTORY, _table(rows))
        self.record.set(status="finished")
        return rows

    def stop(self, reason: str) -> None:
        """Note that the run stops here, and why; called again, it goes on as though it had not."""
        self.record.stop(reason)
        self.record.set(status="stopped")

    def fail(self, reason: str) -> None:
        """Note that the run failed here, and why; it may be resumed all the same."""
        self.record.stop(reason)
        self.record.set(status="failed")

    def close(self) -> None:
        """Let go of the record and of the lock."""
        try:
            self.record.close()
        finally:
            if self._lock is not None:
                self._lock.release()
                self._lock = None

    def __enter__(self) -> Run:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        try:
            # Where the disk is full these fail too; the error on its way out says so already.
            with contextlib.suppress(RunError):
                if self._lock is not None and self.record.get("status") == "running":
                    if kind is None or issubclass(kind, KeyboardInterrupt):
                        self.stop("interrupted" if kind else "left unfinished")
                    else:
                        self.fail(f"{kind.__name__}: {error}")
        finally:
            with contextlib.suppress(RunError) if kind else contextlib.nullcontext():
                self.close()


def open_read(path: str | Path) -> Run:
    """A run to look at, also while another process works on it; nothing can be written."""
    path = Path(path)
    if not (path / RECORD).is_file():
        raise InputError(f"{path} is not a run: it has no {RECORD}")
    record = Record(path / RECORD, read_only=True)
    if record.get("study") is None:
        record.close()
        raise RunError(f"run {path} was never begun: its record is empty")
    return Run(path, record, None)


def list_runs(directory: str | Path) -> list[dict[str, Any]]:
    """The facts of each run in a directory, oldest first; of a damaged one its name and the reason."""
    found = []
    for file in sorted(Path(directory).glob(f"*/{RECORD}")):
        try:
            with open_read(file.parent) as run:
                facts = run.facts()
            if not isinstance(facts["created"], int | float):
                raise RunError(f"the record {file} is damaged: it does not say when it was begun")
            found.append(facts)
        except (RunError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            found.append(
                {"name": file.parent.name, "status": "damaged", "created": 0.0, "reason": str(error)}
            )
    return sorted(found, key=lambda facts: facts["created"])


def versions() -> dict[str, str | None]:
    """What this run is computed with; torch is asked without importing it."""
    found: dict[str, str | None] = {"python": platform.python_version(), "machine": platform.machine()}
    for package in ("fedhpo", "numpy", "torch"):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = None
    return found


def _finite(value: Any) -> Any:
    """JSON proper knows neither NaN nor infinity."""
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _table(rows: list[dict[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _write(path: Path, text: str) -> None:
    """Write aside, force to disk, rename: the file is whole or as it was."""
    aside = path.with_name(path.name + ".part")
    with trouble_at(path, "cannot write"):
        try:
            with aside.open("w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            aside.replace(path)
        except BaseException:
            aside.unlink(missing_ok=True)
            raise
