"""A chain: one study, killed and carried on until it ends, and compared with the same study left alone."""

from __future__ import annotations

import json
import random
import shutil
import signal
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chaos_parts import moments, starts
from chaos_parts.looks import Look, changed, difference, look, outcome, released_twice, torn, untimed
from chaos_parts.starts import Process
from chaos_parts.studies import Study, is_exact, is_private, random_study, to_toml

#: Seconds after which a process counts as hung, and after which one that lost its parent is an orphan.
HANG, ORPHAN = 180.0, 15.0
#: Exit codes after a signal that asks to stop; killed by it is what happens before the handler is there.
STOPPED = (0, 130, 143, -signal.SIGINT, -signal.SIGTERM)
RUN = Path("runs") / "run"


class Broken(Exception):
    """A limit is broken: the outcome (`different`, `stuck` or `traceback`), and what was seen."""

    def __init__(self, outcome: str, note: str) -> None:
        super().__init__(note)
        self.outcome = outcome


@dataclass(frozen=True)
class Shares:
    """How often a process is `python -m fedhpo`, has workers, is asked to stop in place of killed."""

    real: float = 0.15
    workers: float = 0.2
    asked: float = 0.06


@dataclass
class Reference:
    """The study left alone: what came of it, and how long it took."""

    study: Study
    text: str
    outcome: dict[str, Any]
    seconds: float


@dataclass
class Tally:
    """What happened in a chain, for the log."""

    kills: int = 0
    asked: int = 0
    real: int = 0
    warnings: int = 0
    orphans: int = 0
    torn: int = 0
    temporary: int = 0
    moments: Counter[str] = field(default_factory=Counter)
    targets: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)


def reference(seed: int, kind: str, folder: Path) -> Reference:
    """The first valid study of this seed, run to its end in one piece."""
    for attempt in range(30):
        study = random_study(seed * 100 + attempt, kind)
        text = to_toml(study, random.Random(f"order {seed}"))
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / "study.toml").write_text(text + "\n")
        process = starts.start(command("tune", 0), folder, real=False)
        code = process.wait(HANG)
        if code == 0:
            return Reference(study, text, outcome(folder / RUN), time.monotonic() - process.began)
        if code != 2:
            process.shoot(signal.SIGKILL, group=True)
            raise Broken("stuck", f"uncut, the study ends with {code}: {process.said[-500:]}")
    raise Broken("stuck", f"no valid study of kind {kind}: {process.said[-500:]}")


def command(name: str, workers: int) -> list[str]:
    """The arguments of `tune`, `resume` or `report` in a folder of ours."""
    if name == "report":
        return ["report", str(RUN)]
    what = ["study.toml", "--runs", "runs", "--name", "run"] if name == "tune" else [str(RUN)]
    return [name, *what, "--workers", str(workers), "--quiet", "--json"]


class Chain:
    """Kills and carries on; `tally` says what happened, `snapshots` are states of the run worth damaging."""

    def __init__(self, seed: int, uncut: Reference, folder: Path, shares: Shares, verbose: bool) -> None:
        self.rng = random.Random(f"chain {seed}")
        self.uncut, self.folder, self.shares, self.verbose = uncut, folder, shares, verbose
        self.run = folder / RUN
        self.tally = Tally()
        self.snapshots: dict[str, Path] = {}
        self._seen, self._torn = Look(), ""
        self._watched: dict[int, float] = {}  # sessions that may have processes left, and since when
        folder.mkdir(parents=True)

    def go(self, kills: int) -> None:
        """Kill so many times or until the run ends first, let it end, compare; raises what is `Broken`."""
        try:
            ended = False
            while not ended and self.tally.kills < kills:
                ended = self._piece(kill=True)
            while not ended:
                ended = self._piece(kill=False)
            self.compare()
            self._snapshot("finished")
            if self.rng.random() < 0.4:
                self._piece(kill=True, finished=True)
                while not self._piece(kill=False, finished=True):
                    pass
                self.compare()
        finally:
            self._count_orphans()
            self.tally.temporary = sum(1 for _ in (self.folder / "tmp").glob("*"))

    def _piece(self, *, kill: bool, finished: bool = False) -> bool:
        """One process, perhaps killed; whether it ended by itself, with the run finished."""
        rng, tally = self.rng, self.tally
        name = rng.choice(["tune", "resume"]) if self._seen.begun or rng.random() < 0.2 else "tune"
        if finished and kill and rng.random() < 0.3:
            name = "report"
        real = rng.random() < self.shares.real
        workers = rng.choice([1, 2]) if rng.random() < self.shares.workers else 0
        self._write_study(reshuffle=rng.random() < 0.4)
        process = starts.start(command(name, workers), self.folder, real=real)
        shot = self._shoot(process, real, workers) if kill else ""
        said = f"{name} {'real' if real else 'warm'} workers={workers} {shot or 'to its end'}"
        code = process.wait(20.0 if shot.startswith("SIGKILL") else HANG)
        if code is None:
            process.shoot(signal.SIGKILL, group=True)
            raise Broken("stuck", f"{said}: hangs: {process.said[-500:]}")
        self._watched[process.pid] = time.monotonic()
        tally.real += real
        self._note(f"{said} -> {code}")
        self._look()
        tally.warnings += "warning:" in process.said
        if shot.startswith("SIGKILL"):
            if rng.random() < 0.25:
                self._snapshot("killed")
            return False
        return self._judge(process, name, said, shot)

    def _judge(self, process: Process, name: str, said: str, shot: str) -> bool:
        """Whether a process that was not killed finished the run; raises if it should not end like this."""
        code = process.code
        if "Traceback" in process.said or "unexpected" in process.said:
            raise Broken("traceback", f"{said}: exit {code}: {process.said[-900:]}")
        if shot and code in STOPPED and code:
            self._snapshot("stopped")
            return False
        if code == 0:
            if shot and '"status": "finished"' not in process.told:
                return False
            if name != "report":
                self._check_told(process.told)
            return True
        if code == 2 and name == "resume" and not self._seen.begun:
            return False  # nothing was begun, as it says
        refusal = f"{said}: exit {code}: {process.said[-400:]}"  # the next process writes to the same files
        other = "tune" if name == "resume" else "resume"
        again = starts.start(command(other, 0), self.folder, real=False)
        then = again.wait(HANG)
        again.shoot(signal.SIGKILL, group=True)
        raise Broken("stuck", f"{refusal} | then {other}: exit {then}: {again.said[-400:]}")

    def _shoot(self, process: Process, real: bool, workers: int) -> str:
        """Wait for a random moment and send a signal: which, "" if the process ended first."""
        rng, tally = self.rng, self.tally
        moment = moments.draw(rng, self.uncut.seconds + 4.0 * real + 3.0 * bool(workers))
        group = rng.random() < 0.5
        number = signal.SIGKILL
        if rng.random() < self.shares.asked and moment.kind in ("record", "checkpoint"):
            number = rng.choice([signal.SIGINT, signal.SIGTERM])
        if not moments.wait_for(moment, process, self.run, HANG) or not process.shoot(number, group):
            return ""
        if number == signal.SIGKILL:
            tally.kills += 1
            tally.moments[moment.kind] += 1
            tally.targets["group" if group else "parent"] += 1
        else:
            tally.asked += 1
        return f"{number.name} to the {'group' if group else 'parent'} at {moment}"

    def _write_study(self, *, reshuffle: bool) -> None:
        """The study file, sometimes with its keys in another order: it is the same study."""
        text = to_toml(self.uncut.study, self.rng) if reshuffle else self.uncut.text
        (self.folder / "study.toml").write_text(text + "\n")

    def _look(self) -> None:
        """What was recorded before must still be there."""
        now = look(self.run, self.folder / "look")
        found = changed(self._seen.events, now.events) or released_twice(now.events)
        if found:
            raise Broken("different", found)
        half = torn(self.run)
        if half and half != self._torn:
            self.tally.torn += 1
            self._note(half)
        self._seen, self._torn = now, half

    def _check_told(self, told: str) -> None:
        answer = untimed(json.loads(told))
        shown = {key: value for key, value in answer.items() if key not in ("run", "report")}
        if found := difference(outcome(self.run)["result"], shown):
            raise Broken("different", f"printed is another result than written: {found}")

    def compare(self) -> None:
        """The run's result and history must be those of the study left alone."""
        found = compared(self.uncut, self.run)
        if found:
            raise Broken("different", found)
        if (self.folder / "runs" / "run-2").exists():
            raise Broken("different", "a second run was begun")
        if torn(self.run):
            raise Broken("different", torn(self.run))

    def _snapshot(self, state: str) -> None:
        state = state if self._seen.begun else "not begun"
        if (self.run / "record.sqlite").is_file():
            target = self.folder.with_name("snapshots") / state
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(self.run, target)
            self.snapshots[state] = target

    def _count_orphans(self) -> None:
        """Wait for processes that lost their parent to end; those that do not are ended here."""
        for session, since in self._watched.items():
            while (left := starts.left_of(session)) and time.monotonic() < since + ORPHAN:
                time.sleep(0.05)
            if left:
                self.tally.orphans += len(left)
                self._note(f"processes {left} of session {session} were left")
                starts.end(left)

    def _note(self, text: str) -> None:
        self.tally.notes.append(text)
        if self.verbose:
            print(f"  {text}", flush=True)


def compared(uncut: Reference, run: Path) -> str:
    """How a finished run differs from the study left alone, "" if it does not."""
    now = outcome(run)
    if not is_exact(uncut.study):
        return difference(uncut.outcome, now)
    # Noise that nobody can repeat: then at least what was spent is the same.
    then = uncut.outcome["result"]
    if not isinstance(now["result"], dict):
        return str(now["result"])
    return difference(
        {key: then[key] for key in ("privacy", "seed", "method")},
        {key: now["result"].get(key) for key in ("privacy", "seed", "method")},
    )


def described(study: Study, kind: str) -> dict[str, Any]:
    """What the log says of a study."""
    return {"kind": kind, "private": is_private(study), "exact": is_exact(study)}
