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

from fedhpo.core.canonical import canonical, first_difference
from fedhpo.core.digests import digest
from fedhpo.core.errors import Concerns, FedhpoError, InputError
from fedhpo.core.fingerprint import differences
from fedhpo.core.run_errors import (
    DamageError,
    NotBegunError,
    OtherVersionError,
    ReplayError,
    RunError,
    trouble_at,
)
from fedhpo.core.version import VERSION, way_back
from fedhpo.protocol.ledger import Budget, Ledger
from fedhpo.protocol.outcome import Outcome
from fedhpo.run.checkpoints import Checkpoints
from fedhpo.run.extension import Refusal, extend, totals, without_total
from fedhpo.run.history import history
from fedhpo.run.lock import Lock, is_held
from fedhpo.run.record import WITNESS, Record

RECORD, LOCK, CHECKPOINTS, RESULT, HISTORY = (
    "record.sqlite",
    "lock",
    "checkpoints",
    "result.json",
    "history.csv",
)
#: Differences that a message names.
_NAMED = 3
#: The numbers of a run that keeps none: see `fedhpo.core.version`.
_FIRST = 1
STUDY_TEXT, STUDY_FACTS = "study.toml", "study.json"
_OURS = {LOCK, CHECKPOINTS, RESULT, HISTORY, WITNESS, STUDY_TEXT, STUDY_FACTS, "clients.json"}


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
    fedhpo.InputError: run ...a holds another study (seed is 0 there, 1 here): choose another name
    >>> folder.cleanup()
    """

    def __init__(self, path: Path, record: Record, lock: Lock | None, budget: Budget | None = None) -> None:
        self.path = path
        self.record = record
        self.ledger = Ledger(budget)
        self._lock = lock
        #: Seconds that the run says to have taken; known once it has finished.
        self._wall_seconds: float | None = None

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
        fingerprint: Mapping[str, Any] | None = None,
        refusal: Refusal | None = None,
        numbers: Mapping[str, int] | None = None,
    ) -> Run:
        """Begin a run, or go on with it: then study, method, its number and the fingerprint must be the same.

        So must `numbers`, those of `fedhpo.core.version` that are this run's.

        Only the total may be larger, where `refusal`, asked with the old and the new one, gives no reason
        against it; see `fedhpo.run.extension`.
        """
        path = Path(path)
        if path.exists() and not path.is_dir():
            raise InputError(
                f"run = {str(path)!r}: is a file; a run needs a directory of its own", concerns=Concerns.RUN
            )
        with trouble_at(path, "cannot make the run's directory"):
            path.mkdir(parents=True, exist_ok=True)
            names = [file.name.removesuffix(".part") for file in path.iterdir()]
            foreign = sorted(name for name in names if name not in _OURS and RECORD not in name)
        if foreign and not (path / RECORD).exists():
            why = f"{path} is not a run (it holds {foreign[0]!r}): choose another name"
            raise InputError(why, concerns=Concerns.RUN)
        lock = Lock(path / LOCK)
        try:
            record = _open_to_write(path)
            try:
                run = cls(path, record, lock, budget)
                if record.get("study") is None:
                    run._create(study, method, method_number, study_text, fingerprint, numbers or {})
                else:
                    run._check_numbers(method, method_number, numbers or {})
                    run._check(study, fingerprint)
                    if extend(path, record, study, refusal):
                        run._note_total(study_text)
                    elif record.get("status") == "finished":
                        run._keep_time()
                run._check_written()
                run._check_checkpoints()
                record.set(status="running")
                return run
            except BaseException:
                record.close()
                raise
        except BaseException:
            lock.release()
            raise

    def _keep_time(self) -> None:
        """A finished run that is called again reports its original time, not the time to load it."""
        self.record.only_served()
        with contextlib.suppress(DamageError):  # the result is written again
            told = self.result()
            self._wall_seconds = (told.times or {}).get("wall_seconds") if told is not None else None

    def _note_total(self, text: str | None) -> None:
        """The study's file with the total that was raised; the record alone counts."""
        if text is None and self.study_text is not None:
            text = f"# The total was raised to {self.totals[-1]}.\n{self.study_text}"
        self.record.set(study_text=text)
        name, written = _study_file(self.study, text)
        _write(self.path / name, written)

    def _create(
        self,
        study: Mapping[str, Any],
        method: str,
        number: int,
        text: str | None,
        fingerprint: Mapping[str, Any] | None,
        numbers: Mapping[str, int],
    ) -> None:
        raised = {what: number for what, number in numbers.items() if number != _FIRST}
        name, written = _study_file(json.loads(canonical(study)), text)
        _write(self.path / name, written)
        # Last, and in one transaction: a directory without it counts as not yet begun.
        self.record.set(
            study=study,
            study_text=text,
            method=method,
            method_number=number,
            versions=versions(),
            created=time.time(),
            repeats=True,
            fingerprint=fingerprint,
            **({"numbers": raised} if raised else {}),
        )

    def _check(self, study: Mapping[str, Any], fingerprint: Mapping[str, Any] | None) -> None:
        difference = first_difference(without_total(self.record.get("study")), without_total(study))
        if difference:
            where, old, new = difference
            found = f"{where} is {old} there, {new} here"
            why = f"run {self.path} holds another study ({found}): {self._other_source()}choose another name"
            raise InputError(why, concerns=Concerns.RUN)
        if fingerprint is not None:
            self._check_fingerprint(json.loads(canonical(fingerprint)))
        then, now = self.record.get("versions"), versions()
        changed = [
            f"{name} {then[name]} (now {now[name]})" for name in ("numpy", "torch") if then[name] != now[name]
        ]
        if changed:
            warnings.warn(
                f"run {self.path} was begun with {', '.join(changed)}: it may not repeat bit for bit",
                stacklevel=3,
            )

    def _check_numbers(self, method: str, number: int, numbers: Mapping[str, int]) -> None:
        """Refuse another method, and a run whose results this source would not repeat; it reads it."""
        recorded = self.record.get("method")
        if method != recorded:
            why = f"run {self.path} holds method {recorded!r}, not {method!r}: choose another name"
            raise InputError(why, concerns=Concerns.RUN)
        kept, now = self.record.get("numbers", {}), {method: number, **numbers}
        then = {
            method: self.record.get("method_number"),
            **{what: kept.get(what, _FIRST) for what in numbers},
        }
        changed = {what: old for what, old in then.items() if old != now[what]}
        if changed:
            version = self.record.get("versions")["fedhpo"]
            told = ", ".join(f"number of {what} {old}, now {now[what]}" for what, old in changed.items())
            raise OtherVersionError(
                f"run {self.path} was begun with fedhpo {version} and would go on with other results here "
                f"({told}): {way_back(self.path, version, changed)}; or choose another name. Reports, "
                "exports and load_run read it here too"
            )

    def _other_source(self) -> str:
        """How to go on with the run where another version began it, whose source may be what differs."""
        version = self.record.get("versions")["fedhpo"]
        if version == VERSION:
            return ""
        return f"it was begun with fedhpo {version}: {way_back(self.path, version, {})}; or "

    def _check_fingerprint(self, now: Mapping[str, Any]) -> None:
        """Refuse data, a model or code that the run does not belong to."""
        then = self.record.get("fingerprint")
        if then is None:
            warnings.warn(
                f"run {self.path} was begun without a fingerprint of its data, model and code: fedhpo "
                "cannot check that they are the same",
                stacklevel=4,
            )
            return
        found = differences(then, now)
        if found:
            more = f"; and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
            raise InputError(
                f"run {self.path} does not belong to what it is called with now: "
                f"{'; '.join(found[:_NAMED])}{more}. Undo that to go on with the run, or "
                f"{self._other_source()}choose another name",
                concerns=Concerns.RUN,
            )

    def _check_written(self) -> None:
        """The record is authoritative: rewrite the study's copy and the outputs where they differ from it."""
        name, written = _study_file(self.study, self.study_text)
        if _digest_at(self.path / name) != digest(written.encode()).hex():
            warnings.warn(
                f"{self.path / name} is damaged or was changed: it is written again from the record, which "
                "holds what was asked when the run began",
                stacklevel=3,
            )
            _write(self.path / name, written)
        if self.record.get("status") == "finished":
            for name, written in self.record.get("outputs").items():
                if _digest_at(self.path / name) != written:
                    warnings.warn(
                        f"{self.path / name} is damaged, changed or missing: it is written again from the "
                        "record",
                        stacklevel=3,
                    )

    def _check_checkpoints(self) -> None:
        """Discard a checkpoint with a damaged or missing file; rounds are then repeated from the record."""
        checkpoints, files = Checkpoints(self.path / CHECKPOINTS), self.record.files()
        damaged = checkpoints.damaged(files.values())
        if damaged:
            found = ", ".join(f"{path} {what}" for path, what in damaged.items())
            if not self.record.get("repeatable", True):
                raise RunError(
                    f"run {self.path} cannot go on: {found}, and its federation cannot repeat what was "
                    "trained: restore the file from a copy, or begin again under another name"
                )
            warnings.warn(
                f"{found}: the rounds of run {self.path} are run again from its record", stacklevel=3
            )
            self.record.move_checkpoint(0, {})
            files = {}
        pinned = (self.record.get("searched") or {}).get("files", [])
        checkpoints.clear_strays({file.name for file in files.values()} | {name for _, name, *_ in pinned})

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

    @property
    def totals(self) -> list[int]:
        """Every total that the run had, the first one first."""
        return totals(self.record)

    @property
    def study_text(self) -> str | None:
        """The text of the study file, where the run was begun from one."""
        found: str | None = self.record.get("study_text")
        return found

    def facts(self) -> dict[str, Any]:
        """What is known of the run itself, JSON-able."""
        keys = ["method", "method_number", "versions", "created", "federation", "repeats", "checkpoint"]
        keys += ["search_rounds"]  # set when the search is over and only comparisons are left
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

    def result(self) -> Outcome | None:
        """What `finish` was given; None before."""
        path = self.path / RESULT
        if self.record.get("status") != "finished":
            return None
        with trouble_at(path, "cannot read the result"):
            content = path.read_bytes() if path.is_file() else b""
        if digest(content).hex() != self.record.get("outputs")[RESULT]:
            remedy = (
                f"`fedhpo resume {self.path}`, or the call of fedhpo.tune, writes it again from the record"
            )
            raise DamageError(path, "it is not as it was written" if content else "it is missing", remedy)
        return Outcome(json.loads(content))

    def so_far(self) -> Outcome | None:
        """What a run that was stopped had found; None where it has gone on since, or was killed."""
        kept = self.record.get("so_far")
        if not kept or self.status != "stopped" or kept["event"] != self.record.last:
            return None
        return Outcome(kept["result"])

    @property
    def wall_seconds(self) -> float:
        """How long the run took, all sessions together."""
        return round(self.record.active_seconds, 3) if self._wall_seconds is None else self._wall_seconds

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
        rows = self.history()
        outputs = {  # the result last: who waits for it finds the history too
            HISTORY: _table(rows),
            RESULT: json.dumps(_finite(json.loads(canonical(result))), indent=2) + "\n",
        }
        digests = {name: digest(text.encode()).hex() for name, text in outputs.items()}
        for name, text in outputs.items():
            if _digest_at(self.path / name) != digests[name]:
                _write(self.path / name, text)
        self.record.set(status="finished", outputs=digests)
        return rows

    def stop(self, reason: str) -> None:
        """Record that the run stops here, and why; the next call resumes it."""
        self.record.stop(reason)
        self.record.set(status="stopped")

    def fail(self, reason: str) -> None:
        """Note that the run failed here, and why; it may be resumed all the same."""
        self.record.stop(reason)
        self.record.set(status="failed")

    def close(self) -> None:
        """Close the record and release the lock."""
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


def _why_no_run(path: Path) -> str:
    """What was found at a path instead of a run, and what to do about it."""
    if not path.exists():
        return "there is no such directory; `fedhpo runs` lists runs"
    if not path.is_dir():
        return "it is a file; give the run's directory"
    held = sorted(file.parent.name for file in path.glob(f"*/{RECORD}"))
    if held:
        return f"it holds runs; give one of them, such as {path / held[0]}"
    return f"it has no {RECORD}"


def open_read(path: str | Path) -> Run:
    """A run to look at, also while another process works on it; nothing can be written."""
    path = Path(path)
    if not (path / RECORD).is_file():
        raise InputError(f"{path} is not a run: {_why_no_run(path)}", concerns=Concerns.RUN)
    record = Record(path / RECORD, read_only=True)
    try:
        if record.get("study") is None:
            raise NotBegunError(f"run {path} has not begun: nothing was recorded before it ended")
    except BaseException:
        record.close()
        raise
    return Run(path, record, None)


def has_begun(path: str | Path) -> bool:
    """Whether there is a run with at least one event; also True where its record cannot be read."""
    file = Path(path) / RECORD
    with trouble_at(file, "cannot read"):
        if not file.is_file():
            return False
    try:
        record = Record(file, read_only=True)
    except RunError:
        return True
    try:
        return record.last > 0
    finally:
        record.close()


def begun_study(path: str | Path | None) -> dict[str, Any] | None:
    """The study that a run was begun with, and the `version` that began it.

    None where there is no run, or its record cannot be read.
    """
    if path is None:
        return None
    try:
        with open_read(path) as run:
            return {**run.study, "version": run.record.get("versions")["fedhpo"]}
    except FedhpoError:  # whoever opens it to write says why
        return None


def list_runs(directory: str | Path) -> list[dict[str, Any]]:
    """The facts of each run in a directory, oldest first; of one that cannot be read its name and why."""
    found = []
    for file in sorted(Path(directory).glob(f"*/{RECORD}")):
        try:
            with open_read(file.parent) as run:
                facts = run.facts()
            if not isinstance(facts["created"], int | float):
                raise DamageError(file, "it does not say when it was begun")
            found.append(facts)
        except (RunError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            kinds: dict[type[Exception], str] = {
                NotBegunError: "not begun",
                OtherVersionError: "other version",
            }
            status = kinds.get(type(error), "damaged")
            found.append({"name": file.parent.name, "status": status, "created": None, "reason": str(error)})
    return sorted(found, key=lambda facts: facts["created"] or 0.0)


def _open_to_write(path: Path) -> Record:
    """The record, new where there is none, unless the run's other files say that there was one."""
    checkpoints = (path / CHECKPOINTS).glob("*.safetensors")
    left = [file for file in (path / RESULT, path / HISTORY, path / WITNESS, *checkpoints) if file.exists()]
    if left and not (path / RECORD).exists():
        raise DamageError(path / RECORD, f"it is missing, though there is {left[0]}")
    return Record(path / RECORD, must_exist=bool(left))


def versions() -> dict[str, str | None]:
    """The versions that this run is computed with; torch's is read without importing it."""
    found: dict[str, str | None] = {"python": platform.python_version(), "machine": platform.machine()}
    found["fedhpo"] = VERSION  # that of this source, whatever is installed beside it
    for package in ("numpy", "torch"):
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
    columns = list(dict.fromkeys(name for row in rows for name in row))  # only evaluations have all metrics
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _write(path: Path, text: str) -> None:
    """Write a temporary file, flush it to disk, rename it: a crash leaves the old or the new file."""
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


def _study_file(study: Mapping[str, Any], text: str | None) -> tuple[str, str]:
    """The file that shows what was asked, and its content."""
    return (STUDY_FACTS, json.dumps(study, indent=2) + "\n") if text is None else (STUDY_TEXT, text)


def _digest_at(path: Path) -> str | None:
    """The digest of a file's content; None if it cannot be read."""
    try:
        return digest(path.read_bytes()).hex()
    except OSError:
        return None
