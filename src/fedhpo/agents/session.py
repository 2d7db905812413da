"""What the tools of one session share: its limits, what is left of them, its job, the studies it may read."""

from __future__ import annotations

from typing import Any

from fedhpo.agents.answers import shortened, used_rounds
from fedhpo.agents.jobs import Job, Jobs
from fedhpo.agents.limits import Limits
from fedhpo.core.errors import InputError
from fedhpo.referee.rules import Rules
from fedhpo.referee.sides.opened import FUNCTION, RUN, STUDY, kind_of
from fedhpo.run.run import has_begun
from fedhpo.study import Study
from fedhpo.study.recorded import RecordedStudy, recorded_study
from fedhpo.study.unchanged import digest_of
from fedhpo.tuning.load import load_run
from fedhpo.tuning.result import Result


class Session:
    """Nothing here, and no tool, changes `limits`."""

    def __init__(self, limits: Limits) -> None:
        self._limits, self._jobs = limits, Jobs(limits.root, limits.seconds)
        self._rounds, self._epsilon = 0, 0.0

    @property
    def _left(self) -> int:
        return self._limits.rounds - self._rounds

    def _argument(self, given: str) -> str:
        """A path as an argument of a command, never an option."""
        return f"./{self._limits.path(given).relative_to(self._limits.root)}"

    def _recorded(self, given: str) -> RecordedStudy:
        """What was asked of a run below the root, checked against the limits before anything is imported."""
        path = self._limits.path(given, "run")
        found = recorded_study(path) if has_begun(path) else None
        if found is None:
            raise InputError(f"run = {given[:80]!r}: no run was begun there; `runs` lists them")
        self._limits.check_tables({**(found.asked or {}), **found.beside.get("tables", {})})
        return found

    def _result(self, run: str) -> Result:
        path = self._limits.path(run, "run")
        if not has_begun(path):
            raise InputError(f"run = {run[:80]!r}: no run was begun there; `runs` lists them")
        return load_run(path)

    def _side(self, given: str) -> tuple[Study, str]:
        """A side of a comparison, a study file or a run below the root; and the digest of what is checked."""
        if isinstance(given, str) and ":" in given:
            raise InputError(f"{given[:80]!r}: names code; give a study file or a run")
        kind = kind_of(str(self._limits.path(given, "side")))
        if kind == STUDY:
            study = self._limits.study(given)
            return study, digest_of(study)
        if kind == RUN:
            recorded = self._recorded(given)
            return recorded.study(), digest_of(recorded)
        if not self._limits.code or kind == FUNCTION:
            raise InputError(
                f"{given[:80]!r}: is a {kind}, which runs code of its own: give a study file or a run"
            )
        raise InputError(f"{given[:80]!r}: is a {kind}: a person verifies it on the command line")

    def _pairs_cost(self, rules: Rules, rounds: int, control: int) -> int:
        """The most rounds that a comparison can take."""
        sides = 3 if control else 2
        return (rules.pairs + rules.after) * sides * rounds + (max(control, rounds) if control else 0)

    def _started(self, what: str, arguments: list[str], rounds: int, each: int = 1) -> Job:
        """Begin a job; its rounds are taken from what is left, and given back where it took fewer."""
        self._settle()
        job = self._jobs.start(what, [*arguments, "--workers", "0", "--json", "--quiet"], rounds, each)
        self._rounds += rounds
        return job

    def _settle(self) -> None:
        """Give back what the last job did not take."""
        job = self._jobs.current
        if job is None or job.running or not job.reserved:
            return
        used = used_rounds(job.answer(), job.each)
        self._rounds -= max(0, job.reserved - used) if used is not None else 0
        job.reserved = 0

    def _waited(self, job: Job, seconds: float) -> dict[str, Any]:
        if not self._jobs.wait(job, seconds):
            return {"status": "running", "job": job.what, "next": "call `status`; one job runs at a time"}
        answer = job.answer()
        self._settle()
        if "error" in answer:
            raise InputError(str(answer["error"])[:800])
        return {"status": "done", "job": job.what, **shortened(answer), "rounds_left": self._left}

    @property
    def _job(self) -> str | None:
        job = self._jobs.current
        return job.what if job is not None and job.running else None

    def close(self) -> None:
        """End what runs."""
        self._jobs.close()
