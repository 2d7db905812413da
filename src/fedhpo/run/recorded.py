"""The recorded session: a federation whose calls are kept, so that a run can be resumed by making them again.

As long as there are recorded events, each call is checked
against the record and answered from it. Up to the last checkpoint nothing else happens. From there on
the trials are brought back from their files, and what was recorded later is run once more, compared
with the record and not charged again. After that, calls are new: run, recorded, then answered.
"""

from __future__ import annotations

import hashlib
import json
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fedhpo.core.canonical import canonical
from fedhpo.core.errors import InputError
from fedhpo.core.run_errors import DamageError, RunError
from fedhpo.privacy.withheld import SealedFederation
from fedhpo.protocol.federation import (
    REPEATABLE,
    Answer,
    Cost,
    Federation,
    Ints,
    Query,
    RoundReport,
    Scores,
    SplitName,
    TrialError,
    TrialState,
    Work,
)
from fedhpo.protocol.ledger import Ledger
from fedhpo.protocol.session import COMPUTED, RELEASES, Charged, Each
from fedhpo.protocol.through import Through
from fedhpo.run.checkpoints import Checkpoints
from fedhpo.run.codec import Items, as_unpacked, by_sentence, pack, unpack
from fedhpo.run.record import Event, Record, StateFile
from fedhpo.space.config import Config

# Before anything was measured: a modest disk.
_SECONDS_PER_FILE, _SECONDS_PER_BYTE = 0.005, 1e-8
# Longer lists of clients go into a call as a digest; the result names the clients anyway.
_MANY = 256
# Calls that give the same result when they are made again; others are on disk before they are answered.
# Where rounds end in an order of their own, another order is as good if the crash took all that followed.
_REPEATED = ("round", "evaluate", "done", "decide ask", "decide ready", "decide starts")


@dataclass(frozen=True)
class Progress:
    """The argument of `on_event`: the event, its result, and whether it was replayed from the record."""

    number: int
    kind: str
    items: Sequence[Any]
    replayed: bool


@dataclass(frozen=True)
class Paid:
    """A payment for a release: facts for the record, kept with it, and whether it had been paid before."""

    facts: Mapping[str, Any]
    again: bool


@dataclass
class _Release:
    """A private release while it is drawn."""

    each: Each
    again: bool
    paid: bool = False
    facts: Mapping[str, Any] = field(default_factory=dict)


class RecordedSession(Through):
    """`inner`, with every call recorded; trials that `inner` still holds from before are stopped.

    Checkpoints are written as the run goes, only of trials that changed, and so rarely that they take
    at most `checkpoint_share` of the run's time. Where `inner` cannot repeat itself, the trials are
    written with every event instead. A trial that is trained through `submit` is copied in memory
    first, so that a checkpoint can be written while its round is under way.

    With `commit_every` rounds and evaluations of that many seconds share one transaction, where `inner`
    can repeat itself: a crash then costs these seconds, which are run again, and short rounds need not
    wait for the disk each time.

    `on_event` is called after each event, recorded or new, when all of it is on disk: an exception
    raised there stops the run cleanly. `kept` is False where the run's directory is a temporary one. `pay`
    charges a private release to a ledger outside of the run, before it is drawn.

    It is a `fedhpo.protocol.session.Session`, and a `Federation` too: it passes the same suite.
    """

    #: Clients train here, whether now or when the events were recorded.
    virtual = False

    def __init__(
        self,
        inner: Federation,
        record: Record,
        ledger: Ledger,
        *,
        on_event: Callable[[Progress], None] | None = None,
        checkpoint_share: float = 0.05,
        commit_every: float = 0.0,
        kept: bool = True,
        pay: Callable[[Each], Paid] | None = None,
    ) -> None:
        super().__init__(inner)
        self.record, self.ledger = record, ledger
        self.kept, self.directory = kept, Path(record.directory)
        self.on_event, self.checkpoint_share = on_event, checkpoint_share
        self.commit_every, self._pay = commit_every, pay
        self._release: _Release | None = None  # the one under way
        self._repeatable = record.repeatable = REPEATABLE in inner.capabilities
        self._checkpoints = Checkpoints(record.directory / "checkpoints")
        self._files = record.files()
        # Files of where the search ended: a larger total goes on from these.
        self._pinned = {name for _, name, *_ in (record.get("searched") or {}).get("files", [])}
        #: Whether the last answer came from the record; before the first, whether it will.
        self.replaying = record.position < record.last
        self._joined = False  # whether `inner` stands where the method stands
        self._in_one_piece = False  # whether what is being done must not be cut by a checkpoint
        self._whole = True  # False once a call was interrupted: the trials may then be anywhere
        self._trials: set[int] = set()
        self._changed: set[int] = set()  # since their file was written
        self._submitted: dict[int, Work] = {}
        self._held: dict[int, TrialState] = {}  # as they were before the round under way
        self._sizes: dict[int, int] = {}
        self._mark = self._committed = time.monotonic()
        if record.get("federation") is None:
            record.set(federation=inner.describe(), repeatable=self._repeatable, kinds=True)
        # Whether reasons have kinds; in a record of 0.2.0 the sentence stands for one.
        self._kinds = bool(record.get("kinds"))

    # The protocol

    def start(self, trial: int, model: Mapping[str, Any], seed: int) -> None:
        """A fresh model."""
        call = {"trial": trial, "model": dict(model), "seed": seed}
        self._tell("start", call, lambda: self.inner.start(trial, model, seed), lambda: self._changes(trial))

    def fork(self, source: int, target: int) -> None:
        """Make `target` a copy of `source`."""
        call = {"source": source, "target": target}
        self._tell("fork", call, lambda: self.inner.fork(source, target), lambda: self._changes(target))

    def mix(self, source: int, target: int, share: float) -> None:
        """Move `target` towards `source`."""
        call = {"source": source, "target": target, "share": share}
        self._tell("mix", call, lambda: self.inner.mix(source, target, share), lambda: self._changes(target))

    def _changes(self, trial: int) -> None:
        self._trials.add(trial)
        self._changed.add(trial)

    def stop(self, trial: int) -> None:
        """Free the trial."""

        def apply() -> None:
            self._trials.discard(trial)
            self._changed.discard(trial)
            self._submitted.pop(trial, None)
            self._held.pop(trial, None)

        self._tell("stop", {"trial": trial}, lambda: self.inner.stop(trial), apply)

    def restore(self, trial: int, state: TrialState) -> None:
        """Bring a trial back; the record holds a digest of the state, not the state."""
        call = {"trial": trial, "state": _state_digest(state)}
        self._tell("restore", call, lambda: self.inner.restore(trial, state), lambda: self._changes(trial))

    def submit(self, work: Work) -> None:
        """Begin a round."""

        def run() -> None:
            held = _copy(self.inner.state(work.trial)) if work.trial in self._changed else None
            self.inner.submit(work)
            if held is not None:
                self._held[work.trial] = held

        def apply() -> None:
            self._submitted[work.trial] = work

        self._tell("submit", _work_call(work), run, apply)

    def next_done(self, trial: int | None = None) -> RoundReport:
        """The report of a round that has ended; on replay they end in the recorded order."""

        def run(recorded: list[Any] | None) -> list[RoundReport]:
            return [self.inner.next_done(recorded[0].trial if recorded else trial)]

        def apply(items: list[Any]) -> None:
            done = items[0].trial
            self._submitted.pop(done, None)
            self._held.pop(done, None)
            self._changed.add(done)

        report: RoundReport = self._ask("done", {"trial": trial}, run, apply)[0]
        return report

    def ready(self) -> list[int]:
        """Trials whose round has ended; recorded, because it depends on how fast they were."""
        found: list[int] = self.decide("ready", sorted(self._submitted), self.inner.ready)
        return found

    def starts(self, cohort: Sequence[int], time: float, beside: Sequence[Work]) -> list[float]:
        """When each of a cohort can start; recorded, because it depends on the rounds under way."""
        key = {"cohort": list(cohort), "time": time}
        found: list[float] = self.decide("starts", key, lambda: self.inner.starts(cohort, time, beside))
        return found

    def round(self, work: Sequence[Work]) -> list[RoundReport]:
        """One round of each of several trials: one event."""

        def apply(items: list[Any]) -> None:
            self._changed.update(report.trial for report in items)

        return self._ask(
            "round", {"work": [_work_call(w) for w in work]}, lambda _: self.inner.round(work), apply
        )

    def evaluate(
        self, trials: Sequence[int], clients: Sequence[int] | Ints, split: SplitName = "validation"
    ) -> list[Scores]:
        """Scores without training; in a private run they are released by a channel, and refused here."""
        if isinstance(self.inner, SealedFederation):
            raise InputError("privacy: scores are private: use search.evaluate(trials)")
        call = {"trials": list(trials), "clients": _clients_call(clients), "split": split}
        return self._ask("evaluate", call, lambda _: self.inner.evaluate(trials, clients, split))

    def query(self, task: Query, clients: Sequence[int] | Ints) -> list[Answer]:
        """Work at the clients that is not a round."""
        call = {"name": task.name, "task": task.to_dict(), "clients": _clients_call(clients)}
        return self._ask("query", call, lambda _: self.inner.query(task, clients))

    def state(self, trial: int) -> TrialState:
        """The trial's present state; not available while recorded events are replayed."""
        if self.record.position < self.record.checkpoint:
            raise RunError(
                f"the state of trial {trial} at event {self.record.position} is gone: "
                f"the run is resumed from event {self.record.checkpoint}"
            )
        self._join()
        return self.inner.state(trial)

    def wake(self, trial: int) -> None:
        """Load the trials from their files if a resumed run has not needed them yet."""
        self.state(trial)

    def evaluate_beside(
        self, trials: Sequence[int], clients: Sequence[int] | Ints, split: SplitName = "validation"
    ) -> list[Scores]:
        """Scores beside the record, for a decision that keeps what is released of them."""
        if trials:
            self.wake(trials[0])
        return self.inner.evaluate(trials, clients, split)

    def withheld(self, trial: int, round: int) -> RoundReport | None:
        """The report of a trial's last round with its scores, where `inner` keeps these back."""
        self.wake(trial)
        return self.inner.unseal(trial, round) if isinstance(self.inner, SealedFederation) else None

    def advance(self, trials: Sequence[tuple[int, Config]]) -> list[str]:
        """Not here: rounds take place."""
        raise NotImplementedError("rounds of a recorded session take place: call `round`")

    @property
    def trials(self) -> Sequence[int]:
        """The trials started and not stopped."""
        return sorted(self._trials)

    def close(self) -> None:
        """Close `inner`; the record belongs to the run."""
        self.inner.close()

    # Decisions

    def decide(
        self,
        name: str,
        key: Any,
        function: Callable[[], Any],
        *,
        epsilon: float | None = None,
        each: Each = None,
        planned: Any = COMPUTED,
    ) -> Any:
        """What `function` returns, JSON-able: computed once, then served from the record for ever.

        A `function` that asks clients returns it as `Charged`, with what that cost. `key` is what the
        decision was asked with, and must be the same on replay. `function` is then not called: it must not
        draw from a generator that is used again later, but from one of its own. A private release states its
        `epsilon`: it is charged, on disk, before `function` draws anything, and is refused with a
        `BudgetError` if the budget does not hold it. `planned` is for sessions that only plan.
        """
        kind, call = f"decide {name}", canonical(key)
        event = self.record.expect(kind, call)
        if event is None:
            self._join()
            if epsilon or (epsilon is not None and name in RELEASES):
                self.ledger.require(epsilon=epsilon)
                number = self.record.append(kind, call, epsilon=epsilon)
                event = Event(number, kind, call, None, epsilon=epsilon)
            else:
                value, cost = _charged(function())
                self._append(kind, call, value, cost)
                return self._told(kind, [json.loads(value)], replayed=False)[0]
            replayed = False
        else:
            replayed = True
        self.ledger.charge(event.cost, seconds=event.seconds, epsilon=event.epsilon)
        found = event.result
        if found is None:  # charged, but never drawn, or lost since
            self._release = release = _Release(each, again=replayed)
            try:
                found, cost = _charged(function())
                self.drawing()  # a release for which nothing was drawn is paid all the same
            finally:
                self._release = None
            self.ledger.charge(cost)
            self.record.settle(event.number, found, cost, release.facts)
        return self._told(kind, [json.loads(found)], replayed=replayed)[0]

    def drawing(self) -> bool:
        """Pay once for the release in progress; return whether it may have been drawn earlier and lost."""
        release = self._release
        if release is None:
            return False
        if self._pay is not None and not release.paid:
            paid = self._pay(release.each)
            release.facts, release.again = paid.facts, release.again or paid.again
        release.paid = True
        return release.again

    # Checkpoints

    @contextmanager
    def in_one_piece(self) -> Iterator[None]:
        """Suspend checkpoints if rounds can be repeated: a run stopped inside repeats the whole block."""
        self._in_one_piece = True
        try:
            yield
        finally:
            self._in_one_piece = False
        self._checkpoint_if_due()

    def _checkpoint_if_due(self) -> None:
        if self._repeatable and self._joined and not self._in_one_piece and self._due():
            self.checkpoint()

    def checkpoint(self) -> bool:
        """Write all trials that changed, so that a resumed run goes on from here.

        Returns whether it does; not so in the middle of a replay, or after an interrupted call.
        """
        if self.record.position < self.record.checkpoint or not self._joined or not self._whole:
            return False
        self.record.flush()
        files = self._write(self.record.position)
        self.record.move_checkpoint(self.record.position, files)
        self._settle_files(files)
        return True

    def note_searched(self) -> None:
        """Store where the search ended and its trials' states, so that it can be extended later."""
        record = self.record
        known = record.get("searched")
        if known is not None and known["event"] == record.position:
            return
        if record.checkpoint < record.position:
            self._join()
            self.checkpoint()
        if record.checkpoint == record.position:
            self._pinned = {file.name for file in self._files.values()}
            files = [[trial, *astuple(file)] for trial, file in self._files.items()]
            record.set(searched={"event": record.position, "files": files})

    def _write(self, event: int) -> dict[int, StateFile]:
        """The files of all trials, those that changed written anew."""
        begun, size = time.monotonic(), 0
        files = {trial: file for trial, file in self._files.items() if trial in self._trials}
        for trial in sorted(self._changed):
            state = self._held.get(trial) or self.inner.state(trial)
            files[trial] = self._checkpoints.write(trial, event, state)
            self._sizes[trial] = files[trial].bytes
            size += files[trial].bytes
        self.record.charge_checkpoint(time.monotonic() - begun, size)
        return files

    def _settle_files(self, files: dict[int, StateFile]) -> None:
        """Delete the files that the record no longer names."""
        superseded = {file.name for file in self._files.values()} - {file.name for file in files.values()}
        self._checkpoints.delete(superseded - self._pinned)
        self._files = files
        for trial in self._changed:
            self._held.pop(trial, None)
        self._changed.clear()

    def _due(self) -> bool:
        """Whether checkpoints so far and the next one stay within their share of the run's time."""
        if not self._changed:
            return False
        for trial in self._changed - self._sizes.keys():
            state = self._held.get(trial) or self.inner.state(trial)
            self._sizes[trial] = sum(array.nbytes for array in state.arrays.values())
        size = sum(self._sizes[trial] for trial in self._changed)
        spent, written = self.record.checkpoint_seconds, self.record.checkpoint_bytes
        if written:
            predicted = size * spent / written
        else:
            predicted = _SECONDS_PER_FILE * len(self._changed) + _SECONDS_PER_BYTE * size
        return spent + predicted <= self.checkpoint_share * self.record.active_seconds

    # Events

    def _tell(self, kind: str, call: Any, run: Callable[[], None], apply: Callable[[], None]) -> None:
        """A call without a result: it may wait for the next one that has one, see `Record.append`."""
        encoded = canonical(call)
        event = self.record.expect(kind, encoded)
        if event is None or event.number > self.record.checkpoint:
            self._join()
            with self._uninterrupted():
                run()
        apply()
        if event is None:
            self.record.append(kind, encoded, commit=False)
        self._told(kind, [], replayed=event is not None)

    def _ask(
        self,
        kind: str,
        call: Any,
        run: Callable[[list[Any] | None], Items],
        apply: Callable[[list[Any]], None] = lambda _: None,
    ) -> list[Any]:
        """A call with a result: served from the record, run again and compared, or run and recorded."""
        encoded = canonical(call)
        event = self.record.expect(kind, encoded)
        recorded = None if event is None else self._items(event)
        if event is not None and recorded is not None and event.number <= self.record.checkpoint:
            apply(recorded)
            self.ledger.charge(event.cost, seconds=event.seconds)
            self.ledger.pass_time(recorded)
            return self._told(kind, recorded, replayed=True)
        self._join()
        with self._uninterrupted():
            live = run(recorded) if self._kinds else by_sentence(run(recorded))
            payload = pack(live)
            items = as_unpacked(live, payload)
            apply(items if recorded is None else recorded)
            if event is None:
                self._append(kind, encoded, payload, sum((item.cost for item in items), Cost()))
        if event is not None and recorded is not None:
            if payload != event.result:
                self._does_not_repeat(event)
            self.ledger.charge(event.cost, seconds=event.seconds)
            items = recorded
        self.ledger.pass_time(items)
        self._checkpoint_if_due()
        return self._told(kind, items, replayed=event is not None)

    def _append(self, kind: str, call: bytes, result: bytes, cost: Cost) -> None:
        """Record a new event and charge it."""
        now = time.monotonic()
        seconds, self._mark = now - self._mark, now
        self.ledger.charge(cost, seconds=seconds)
        if self._repeatable and kind in _REPEATED and now - self._committed < self.commit_every:
            self.record.append(kind, call, result, cost, seconds=seconds, commit=False)
            return
        self._committed = now
        # What has not changed is on disk already. What cannot be repeated must be there with the event.
        reached, files = not (self._changed and self._repeatable), None
        if reached and (self._changed or self._files.keys() != self._trials):
            files = self._write(self.record.last + 1)
        self.record.append(kind, call, result, cost, seconds=seconds, files=files, reached=reached)
        if files is not None:
            self._settle_files(files)

    def _items(self, event: Event) -> list[Any]:
        try:
            return unpack(event.result or b"")
        except Exception as error:
            raise DamageError(self.record.path, f"event {event.number}: {error}") from error

    def _told(self, kind: str, items: list[Any], *, replayed: bool) -> list[Any]:
        self.replaying = replayed
        if self.on_event is not None:
            self.on_event(Progress(self.record.position, kind, items, replayed))
        return items

    def _join(self) -> None:
        """Bring `inner` to the method's position: the last checkpoint, or the very beginning."""
        if self._joined:
            return
        with self._uninterrupted():
            for trial in list(self.inner.trials):
                self._discard(trial)
            if self.record.checkpoint:
                if self._files.keys() != self._trials:
                    raise DamageError(
                        self.record.path,
                        f"its checkpoint holds the trials {sorted(self._files)}, at event "
                        f"{self.record.checkpoint} there are {self.trials}",
                    )
                for trial in self.trials:
                    self.inner.restore(trial, self._checkpoints.read(self._files[trial]))
                for work in self._submitted.values():
                    self.inner.submit(work)
                self._changed.clear()
        self._joined = True
        self._mark = time.monotonic()

    def _discard(self, trial: int) -> None:
        """Stop a trial that `inner` holds from before, and wait for its round if one is under way."""
        try:
            self.inner.stop(trial)
        except TrialError:
            self.inner.next_done(trial)
            self.inner.stop(trial)

    def _does_not_repeat(self, event: Event) -> None:
        if self.record.get("repeats", True):
            self.record.set(repeats=False)
            warnings.warn(
                f"event {event.number} ({event.kind}) gave another result than the recorded one when it was "
                "repeated, as happens on another kind of CPU: the run continues from the recorded result, "
                "and is not repeated bit for bit",
                stacklevel=4,
            )

    @contextmanager
    def _uninterrupted(self) -> Iterator[None]:
        """After an exception inside, the trials' state is unknown: write no checkpoint of it."""
        try:
            yield
        except BaseException:
            self._whole = False
            raise


def _charged(computed: Any) -> tuple[bytes, Cost]:
    """A decision as it goes into the record, and its cost."""
    if isinstance(computed, Charged):
        return canonical(computed.value), computed.cost
    return canonical(computed), Cost()


def _work_call(work: Work) -> dict[str, Any]:
    return {**work.to_dict(), "cohort": _clients_call(work.cohort)}


def _clients_call(clients: Sequence[int] | Ints) -> Any:
    """The clients as they go into a call: a list, or for many their number and a digest."""
    if len(clients) <= _MANY:
        return [int(client) for client in clients]
    array = np.asarray(clients, dtype="<i8")
    return {"count": len(array), "digest": hashlib.blake2b(array.tobytes(), digest_size=16).hexdigest()}


def _state_digest(state: TrialState) -> str:
    digest = hashlib.blake2b(canonical(state.facts), digest_size=16)
    for name in sorted(state.arrays):
        array = np.ascontiguousarray(state.arrays[name])
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _copy(state: TrialState) -> TrialState:
    return TrialState({name: array.copy() for name, array in state.arrays.items()}, dict(state.facts))
