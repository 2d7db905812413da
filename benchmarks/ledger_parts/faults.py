"""What is done to a world: disks that are full or fail, kills, changed files, copies, several processes.

Each fault gets a world of its own and leaves it so that its draws and its ledger can be compared. It returns
how it ended: "went on" (with nothing paid twice), "repaid", or "refused". A fault that an honest user may
meet (a full disk, a kill, a move) must not leave a run that cannot go on: that is "stuck".
"""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import fedhpo.privacy.journal as journal_module
from fedhpo.core.journal import chained_lines
from fedhpo.privacy import witness
from fedhpo.privacy.budget import PrivacyLedger, Share
from fedhpo.run.record import Record
from fedhpo.search.private import PrivateChannel
from ledger_parts.world import AFTER_DRAW, BARE, EPSILON, FINISHED, KILLED, REFUSED, RELEASES, Process, World

WENT_ON, REPAID, STUCK = "went on", "repaid", "stuck"

Fault = Callable[[World, Random, int], str]


class Broken(Exception):
    """A process ended as none may."""


def _end(process: Process) -> str:
    end = process.wait()
    if end == BARE:
        raise Broken(process.said)
    return end


def _goes_on(world: World, name: str = "run") -> str:
    """Go on after something that an honest user may meet."""
    before = world.paid_again()
    process = world.run(name)
    if _end(process) != FINISHED:
        return f"{STUCK}: {process.said}"
    return REPAID if world.paid_again() > before else WENT_ON


def _judged(world: World, *processes: Process) -> str:
    """After something that only a copy or a changed file can explain: refused, or paid again."""
    ends = [_end(process) for process in processes]
    if REFUSED in ends:
        return REFUSED
    return REPAID if world.paid_again() else WENT_ON


# Disks


def _at(descriptor: int, path: Path) -> bool:
    return os.path.realpath(f"/proc/self/fd/{descriptor}").startswith(os.path.realpath(path))


def _limited(world: World, room: int) -> None:
    """The ledger's disk takes so many bytes more."""
    pwrite, end = os.pwrite, (world.ledger.stat().st_size if world.ledger.exists() else 0) + room

    def full(descriptor: int, data: bytes, offset: int) -> int:
        if not _at(descriptor, world.ledger):
            return pwrite(descriptor, data, offset)
        if offset >= end:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return pwrite(descriptor, data[: end - offset], offset)

    os.pwrite = full


def full_ledger(world: World, rng: Random, number: int) -> str:
    """ENOSPC at byte after byte of what is written next."""
    room = number // 5 % 110 if world.ledger.exists() else number // 5 * 7 % 900  # by turns in 5 worlds
    for _ in range(2):  # and again, while the disk is still full
        process = world.run(before=lambda: _limited(world, room))
        if _end(process) == FINISHED:
            return WENT_ON  # there was room enough
    drawn = world.drawn()
    found = _goes_on(world)
    return found if world.drawn() > drawn else f"{STUCK}: nothing was left to draw"


def failing_sync(world: World, rng: Random, number: int) -> str:
    """EIO or ENOSPC when the ledger or its witness is put on disk."""
    what = rng.choice([world.ledger, world.state])
    left, code = rng.randrange(3), rng.choice([errno.EIO, errno.ENOSPC])

    def break_sync() -> None:
        fsync, count = os.fsync, [left]

        def failing(descriptor: int) -> None:
            if _at(descriptor, what):
                count[0] -= 1
                if count[0] < 0:
                    raise OSError(code, os.strerror(code))
            fsync(descriptor)

        os.fsync = failing

    _end(world.run(before=break_sync))
    return _goes_on(world)


def _no_larger(size: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def full_record(world: World, rng: Random, number: int) -> str:
    """The record cannot be written: at any time, or right after a draw."""
    if rng.random() < 0.5:
        size = rng.randrange(200_000)
        _end(world.run(before=lambda: _no_larger(size)))
    else:

        def later() -> None:
            left = [rng.randrange(RELEASES)]

            def full() -> None:
                left[0] -= 1
                if left[0] < 0:
                    _no_larger(100 + rng.randrange(4000))

            AFTER_DRAW.append(full)

        _end(world.run(before=later))
    return _goes_on(world)


def tiny_disk(world: World, rng: Random, number: int) -> str:
    """A real file system of some kilobytes, which is made larger afterwards."""
    disk = world.folder.with_name(world.folder.name + "-disk")
    disk.mkdir()
    size = f"size={rng.randrange(4, 800)}k"
    mount = ["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(disk)]
    if os.geteuid() or subprocess.run(mount, capture_output=True).returncode:
        return "not permitted here"
    try:
        world.draws.unlink(missing_ok=True)  # a new world
        inside = World(disk / "world", world.draws)
        shutil.rmtree(world.state, ignore_errors=True)
        inside.folder.mkdir()
        _end(inside.run())
        _end(inside.run())
        subprocess.run(["mount", "-o", "remount,size=4m", str(disk)], check=True)
        found = _goes_on(inside)
        world.draws.touch()
        shutil.copy(inside.ledger, world.ledger)
        shutil.copytree(inside.state, world.state)
        return found
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


# Kills


def _die(*_: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _kill_points(left: int, part: int) -> dict[str, Callable[[], None]]:
    """Ways to be killed at the next such moment but `left`; `part` of 100 of a line is then written."""
    count = [left]

    def now() -> bool:
        count[0] -= 1
        return count[0] < 0

    def around(owner: Any, name: str, *, first: bool) -> None:
        inner = getattr(owner, name)

        def killed(*values: Any, **named: Any) -> Any:
            if first and now():
                _die()
            found = inner(*values, **named)
            if not first and now():
                _die()
            return found

        setattr(owner, name, killed)

    def torn() -> None:
        inner = journal_module.write_at

        def killed(descriptor: int, data: bytes, end: int, torn: bytes = b"") -> None:
            if now():
                os.pwrite(descriptor, data[: len(data) * part // 100], end)
                _die()
            inner(descriptor, data, end, torn)

        journal_module.write_at = killed

    return {
        "in the middle of a line": torn,
        "before the witness": lambda: around(witness, "note", first=True),
        "after the witness": lambda: around(witness, "note", first=False),
        "before the draw": lambda: around(PrivateChannel, "noise", first=False),
        "after the draw": lambda: AFTER_DRAW.append(lambda: _die() if now() else None),
        "before the record": lambda: around(Record, "settle", first=True),
        "after the record": lambda: around(Record, "settle", first=False),
        "at a fact": lambda: around(Record, "set", first=part < 50),
    }


def killed_at(world: World, rng: Random, number: int) -> str:
    """SIGKILL at a chosen point of a release, up to three times in a row."""
    for _ in range(rng.randint(1, 3)):
        points = _kill_points(rng.randrange(3), rng.randrange(100))
        process = world.run(before=points[rng.choice(sorted(points))])
        if _end(process) != KILLED:
            break
    return _goes_on(world)


def killed_anywhere(world: World, rng: Random, number: int) -> str:
    """SIGKILL at any moment, up to three times in a row."""
    for _ in range(rng.randint(1, 3)):
        process = world.begin()
        process.kill(rng.uniform(0, 0.25))
        if _end(process) == FINISHED:
            break
    return _goes_on(world)


# Changed files


def _changes(world: World, rng: Random, older: bytes) -> dict[str, Callable[[bytes], bytes | None]]:
    def edited(data: bytes) -> bytes:
        place = rng.randrange(len(data))
        return data[:place] + bytes([data[place] ^ (1 << rng.randrange(8))]) + data[place + 1 :]

    def forged(data: bytes) -> bytes:
        lines = [json.loads(line)[0] for line in data.splitlines()]
        for line in lines:
            line.update({"clients": dict.fromkeys(line["clients"], 0.0)} if "clients" in line else {})
        return chained_lines("", lines)[0]

    def other(data: bytes) -> bytes:
        """A new ledger, which its own witness vouches for."""
        os.environ["FEDHPO_STATE"] = str(world.state)
        elsewhere = world.folder / "elsewhere"
        PrivacyLedger(elsewhere, total=world.total).take("x", lambda _: Share({"somebody": 0.1}))
        return elsewhere.read_bytes()

    return {
        "cut": lambda data: data[: rng.randrange(1, len(data))],
        "edited": edited,
        "forged with new digests": forged,
        "emptied": lambda data: b"",
        "deleted": lambda data: None,
        "an older state": lambda data: older,
        "another ledger": other,
    }


def changed_ledger(world: World, rng: Random, number: int) -> str:
    """The file is changed between two runs; then the run goes on, and a new one begins."""
    if not world.ledger.exists():
        _end(world.run(stop=0))
    older = world.ledger.read_bytes()
    _end(world.run(stop=RELEASES - 1))
    _end(world.run("second", seed=2))
    honest, drawn = world.ledger.read_bytes(), world.drawn()
    changes = _changes(world, rng, older)
    changed = changes[rng.choice(sorted(changes))](honest)
    world.ledger.unlink()
    if changed is not None:
        world.ledger.write_bytes(changed)
    ends = [_end(world.run()), _end(world.run("third", seed=3))]
    if world.drawn() > drawn or FINISHED in ends:
        return f"{STUCK}: a changed ledger was accepted"
    world.ledger.write_bytes(honest)  # the very file again: nothing was lost
    return REFUSED if _goes_on(world) == WENT_ON else f"{STUCK}: the honest ledger was refused"


# Copies


def copied(world: World, rng: Random, number: int) -> str:
    """A run goes on; then a copy of it from before, in its own place or in place of the run."""
    if not (world.folder / "run").exists():
        _end(world.run(stop=0))
    shutil.copytree(world.folder / "run", world.folder / "copy")
    more = rng.randrange(1, RELEASES + 1)
    _end(world.run(stop=None if rng.random() < 0.5 else more))
    if rng.random() < 0.5:
        shutil.rmtree(world.folder / "run")
        (world.folder / "copy").rename(world.folder / "run")
        return _judged(world, world.run())
    first = world.run("copy", stop=rng.choice([None, more]))
    return _judged(world, first, world.run(), world.run("copy"))


def moved(world: World, rng: Random, number: int) -> str:
    """Run and ledger go elsewhere; finished copies are read where there is no ledger."""
    if not (world.folder / "run").exists():
        _end(world.run(stop=1))
    (world.folder / "run").rename(world.folder / "renamed")
    if rng.random() < 0.5:
        world.ledger.rename(world.folder / "aside")
        refused = world.run("renamed")
        if _end(refused) != REFUSED:
            return f"{STUCK}: it went on without its ledger"
        (world.folder / "aside").rename(world.ledger)
    found = _goes_on(world, "renamed")
    drawn = world.drawn()
    ledger = world.ledger.read_bytes()
    world.ledger.unlink()
    reading = world.run("renamed")
    if _end(reading) != FINISHED or world.drawn() != drawn or world.ledger.exists():
        return f"{STUCK}: a finished run needs its ledger: {reading.said}"
    world.ledger.write_bytes(ledger)
    return found


def together(world: World, rng: Random, number: int) -> str:
    """Two processes at the same time: on one run, on a run and its copy, or on the rest of a budget."""
    kind = rng.randrange(3) if world.ledger.exists() else 2
    names = ["run", "run"]
    if kind == 1:
        shutil.copytree(world.folder / "run", world.folder / "copy")
        names = ["run", "copy"]
    elif kind == 2:
        names = ["a", "b"]
        if not world.ledger.exists():
            world.total = 1.5 * EPSILON  # room for one of them
    return _judged(world, *[world.begin(name) for name in names])


FAULTS: dict[str, tuple[Fault, int]] = {
    "the ledger's disk is full, byte by byte": (full_ledger, 5),
    "the ledger or its witness cannot be synced": (failing_sync, 2),
    "the record's disk is full": (full_record, 2),
    "a file system of some kilobytes": (tiny_disk, 1),
    "killed at a point of a release": (killed_at, 4),
    "killed at any moment": (killed_anywhere, 2),
    "the ledger is cut, edited, emptied, deleted, replaced": (changed_ledger, 3),
    "a run is copied or put back": (copied, 3),
    "moved, and read without a ledger": (moved, 1),
    "two processes": (together, 2),
}
