"""A ledger, a run and a state directory of their own; and an oracle that sees every draw from outside.

Whatever is done to a world happens in a process of its own, so that it can be killed, or run out of disk.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import signal
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fedhpo as fh
import fedhpo.search.private as private_module
from fedhpo.core.errors import FedhpoError
from fedhpo.testing import ToyFederation
from fedhpo.tuning.tune import tune

#: Releases of a run, its epsilon, and what one client may spend in all runs.
RELEASES, EPSILON, TOTAL = 4, 1.0, 50.0
#: How a process ended.
FINISHED, STOPPED, REFUSED, BARE, KILLED = "finished", "stopped", "refused", "bare exception", "killed"
_CODES = {10: FINISHED, 11: STOPPED, 12: REFUSED, 13: BARE}


#: Who was asked about each trial that is drawn next. A run remembers the federation's code: it knows no more.
ASKED: list[list[int]] = []
#: What else happens right after a draw.
AFTER_DRAW: list[Callable[[], None]] = []


class Federation(ToyFederation):
    """Tells the oracle who is asked about each trial."""

    def evaluate(self, trials: Any, clients: Any, split: Any = "validation") -> Any:
        """The scores; who gave them is drawn from next."""
        ASKED.extend([[int(client) for client in clients]] * len(trials))
        return super().evaluate(trials, clients, split)


class Oracle:
    """Writes every noisy mean that is drawn into a file outside of the world, right when it is drawn."""

    path: Path | None = None

    @classmethod
    def watch(cls) -> None:
        """From now on, in this process and those that it starts."""
        drawn = private_module.noisy_mean

        def watched(scores: Any, epsilon: float, noise: Any) -> Any:
            assert cls.path is not None
            line = json.dumps({"clients": ASKED.pop(0), "epsilon": epsilon}) + "\n"
            descriptor = os.open(cls.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.write(descriptor, line.encode())
            os.close(descriptor)
            found = drawn(scores, epsilon, noise)
            for do in AFTER_DRAW:
                do()
            return found

        private_module.noisy_mean = watched


@dataclass
class World:
    """The place, and the draws that were seen."""

    folder: Path
    draws: Path
    total: float = TOTAL

    @property
    def ledger(self) -> Path:
        """The file that all runs draw on."""
        return self.folder / "ledger"

    @property
    def state(self) -> Path:
        """Where the second witness is."""
        return self.folder.with_name(self.folder.name + "-state")

    def tune(self, name: str = "run", stop: int | None = None, seed: int = 0) -> str:
        """Begin a run or go on with it, to the end or until so many releases are in its record."""
        seen: list[str] = []

        def callback(event: Any) -> bool:
            seen.extend([event.kind] if event.kind == "evaluate" else [])
            return stop is not None and event.kind in ("round", "evaluate") and len(seen) >= stop

        privacy = fh.Privacy(EPSILON, budget=str(self.ledger), total=self.total)
        result = tune(
            Federation(),
            fh.Space(client={"lr": fh.Float(1e-3, 10.0, log=True)}),
            fh.TPE(trials=RELEASES),
            rounds=1,
            total=RELEASES,
            cohort=2,
            seed=seed,
            evaluation=fh.Evaluator(clients=10, privacy=privacy),
            run=self.folder / name,
            callbacks=[callback],
        )
        return result.status

    def begin(
        self, name: str = "run", *, before: Callable[[], None] | None = None, **options: Any
    ) -> Process:
        """The same in a process of its own, which `before` prepares."""
        self.draws.touch()
        process = os.fork()
        if process:
            return Process(process, self.folder.with_name(self.folder.name + f"-{process}.txt"))
        code = 13
        try:
            warnings.simplefilter("ignore")
            Oracle.path = self.draws
            os.environ["FEDHPO_STATE"] = str(self.state)
            try:
                if before is not None:
                    before()
                code = 10 if self.tune(name, **options) == FINISHED else 11
            except FedhpoError as error:
                code = 12
                _leave(self.folder.with_name(self.folder.name + f"-{os.getpid()}.txt"), str(error))
            except BaseException:
                _leave(
                    self.folder.with_name(self.folder.name + f"-{os.getpid()}.txt"), traceback.format_exc()
                )
        finally:
            os._exit(code)

    def run(self, name: str = "run", **options: Any) -> Process:
        """`begin`, and wait for its end."""
        process = self.begin(name, **options)
        process.wait()
        return process

    def copy(self, folder: Path) -> World:
        """The world as it is now, elsewhere, with its witness and its draws."""
        shutil.copytree(self.folder, folder)
        draws = folder.with_name(folder.name + "-draws.jsonl")
        other = World(folder, draws, self.total)
        if self.draws.exists():
            shutil.copy(self.draws, draws)
        if self.state.exists():
            shutil.copytree(self.state, other.state)
        return other

    def lines(self) -> list[Any]:
        """What the ledger's lines hold."""
        if not self.ledger.exists():
            return []
        *whole, _cut_short = self.ledger.read_bytes().split(b"\n")
        return [json.loads(line)[0] for line in whole]

    def paid_again(self) -> int:
        """How many releases were paid on top of what runs took."""
        return sum("again" in line for line in self.lines())

    def drawn(self) -> int:
        """How many releases were drawn, by the oracle."""
        return len(self.draws.read_text().splitlines()) if self.draws.exists() else 0

    def uncharged(self) -> list[str]:
        """What is wrong: draws without a line, or clients that gave more than the ledger says."""
        os.environ["FEDHPO_STATE"] = str(self.state)
        if not self.drawn():
            return []
        releases = sum("release" in line for line in self.lines())
        found = [] if self.drawn() <= releases else [f"{self.drawn()} drawn, {releases} charged"]
        given: Counter[str] = Counter()
        for line in self.draws.read_text().splitlines():
            draw = json.loads(line)
            given.update({str(client): draw["epsilon"] for client in draw["clients"]})
        spent = fh.PrivacyLedger(self.ledger).spent
        for client, epsilon in sorted(given.items()):
            if epsilon > spent.get(client, 0.0) + 1e-9:
                found.append(f"client {client} gave {epsilon:g}, charged {spent.get(client, 0.0):g}")
        if max(spent.values(), default=0.0) > self.total + 1e-9:
            found.append(f"spent {max(spent.values()):g} of {self.total:g}")
        return found

    def remove(self) -> None:
        """Delete all of it."""
        for path in self.folder.parent.glob(f"{self.folder.name}*"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


class Process:
    """A process at work on a world."""

    def __init__(self, number: int, left: Path) -> None:
        self._number, self._left = number, left
        self.end = ""

    def wait(self) -> str:
        """How it ended."""
        if not self.end:
            _, status = os.waitpid(self._number, 0)
            self.end = KILLED if os.WIFSIGNALED(status) else _CODES.get(os.WEXITSTATUS(status), BARE)
        return self.end

    def kill(self, after: float) -> str:
        """SIGKILL after so many seconds, unless it has ended."""
        until = time.monotonic() + after
        while time.monotonic() < until:
            done, status = os.waitpid(self._number, os.WNOHANG)
            if done:
                self.end = KILLED if os.WIFSIGNALED(status) else _CODES.get(os.WEXITSTATUS(status), BARE)
                return self.end
            time.sleep(0.001)
        os.kill(self._number, signal.SIGKILL)
        return self.wait()

    @property
    def said(self) -> str:
        """The error that it ended with."""
        with contextlib.suppress(FileNotFoundError):
            return self._left.read_text()
        return ""


def _leave(path: Path, text: str) -> None:
    with contextlib.suppress(OSError):
        path.write_text(text)


@contextlib.contextmanager
def place() -> Iterator[Path]:
    """A directory in memory, where there is one: syncs of thousands of files take no time there."""
    import tempfile

    memory = Path("/dev/shm")
    within = memory if memory.is_dir() and os.access(memory, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="fedhpo-ledger-", dir=within) as folder:
        yield Path(folder)


def started(folder: Path) -> list[World]:
    """Worlds whose run has 0, 1, ... releases in its record; the first one has no run at all."""
    worlds = []
    for releases in (None, *range(RELEASES)):
        name = "new" if releases is None else f"after{releases}"
        (folder / name).mkdir()
        world = World(folder / name, folder / f"{name}-draws.jsonl")
        if releases is not None:
            found = world.run(stop=releases)
            if found.end != STOPPED or not math.isclose(world.drawn(), releases):
                sys.exit(f"cannot begin: {found.end}, {world.drawn()} drawn; {found.said}")
        worlds.append(world)
    return worlds
