"""Flips: bytes of a file are changed, the run is carried on. Identical and refused are right answers."""

from __future__ import annotations

import random
import shutil
import signal
from pathlib import Path
from typing import Any

from chaos_parts import starts
from chaos_parts.chains import HANG, RUN, Reference, command, compared
from chaos_parts.damage import damage

#: Files that can be made again from the record, or hold nothing that matters: no reason to refuse a run.
HARMLESS = ("lock", "record-shm", "result", "history", "report")

#: What carries a run on in which state; where nothing was begun, `resume` rightly says so.
COMMANDS = {
    "not begun": ("tune",),
    "killed": ("tune", "resume"),
    "stopped": ("tune", "resume"),
    "finished": ("tune", "resume", "report"),
}


class Flips:
    """Damages snapshots of one run, one file each, and carries on where the run was begun."""

    def __init__(self, seed: int, uncut: Reference, snapshots: dict[str, Path], folder: Path) -> None:
        self.rng = random.Random(f"flips {seed}")
        self.uncut, self.snapshots, self.folder = uncut, snapshots, folder
        self._pages: dict[str, bytes] = {}

    def one(self, real: float) -> dict[str, Any]:
        """One flip, and what came of it."""
        rng = self.rng
        state = rng.choice(sorted(self.snapshots))
        name = rng.choice(COMMANDS[state])
        expected = self._page(state) if name == "report" else b""
        self._lay_out(state)
        found: dict[str, Any] = {"state": state, "command": name, **damage(self.folder / RUN, rng)}
        process = starts.start(command(name, 0), self.folder, real=rng.random() < real)
        code = process.wait(HANG)
        if code is None:
            process.shoot(signal.SIGKILL, group=True)
            process.wait(20.0)
        said = process.said
        found["outcome"], found["note"] = self._judge(name, code, said, expected)
        if found["outcome"] == "refused" and found["class"] in HARMLESS and name != "report":
            found["outcome"] = "needless"
        if found["outcome"] == "identical" and "warning:" in said:
            found["warned"] = True
        return found

    def _judge(self, name: str, code: int | None, said: str, expected: bytes) -> tuple[str, str]:
        if code is None:
            return "stuck", "hangs"
        if "Traceback" in said or "unexpected" in said or code not in (0, 2):
            return "traceback", f"exit {code}: {said[-600:]}"
        if code == 2:
            clear = str(RUN) in said and len(said.strip()) > 20
            return ("refused", said.strip()[-300:]) if clear else ("unclear", said[-300:])
        if name == "report":
            page = (self.folder / RUN / "report.html").read_bytes()
            return ("identical", "") if page == expected else ("different", "the report shows something else")
        elsewhere = self.folder / "runs" / "run-2"
        if elsewhere.exists():
            return "elsewhere", compared(self.uncut, elsewhere)
        different = compared(self.uncut, self.folder / RUN)
        return ("different", different) if different else ("identical", "")

    def _page(self, state: str) -> bytes:
        """The report of the undamaged run."""
        if state not in self._pages:
            self._lay_out(state)
            starts.start(command("report", 0), self.folder, real=False).wait(HANG)
            self._pages[state] = (self.folder / RUN / "report.html").read_bytes()
        return self._pages[state]

    def _lay_out(self, state: str) -> None:
        shutil.rmtree(self.folder / "runs", ignore_errors=True)
        shutil.copytree(self.snapshots[state], self.folder / RUN)
        (self.folder / "study.toml").write_text(self.uncut.text + "\n")
