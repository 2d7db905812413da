"""An NVFlare job as it is: every training is a whole run in NVFlare's simulator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedhpo.core.canonical import canonical
from fedhpo.core.digests import digest
from fedhpo.core.errors import InputError
from fedhpo.federations.jobs.job_file import read_job
from fedhpo.federations.jobs.run import RECEIVED, TRAINED, JobRun, run_job
from fedhpo.protocol.objective import CLIENTS, Objective
from fedhpo.referee.sides.side import Terms, Training

NOTE = "its sites' scores are weighted alike, and bytes are those of their replies"


class JobSide:
    """A job with arguments of its own; all its sites train in every round, and all are asked.

    `trained` says that metrics in the replies of training are about the model that a site trained. Else they
    are about the one that it received, as NVFlare has it: the job then runs one round more, whose replies
    tell of the model after the rounds asked for.
    """

    def __init__(
        self,
        path: str,
        arguments: Sequence[str],
        objective: Objective,
        *,
        rounds: int | None = None,
        clients: int | None = None,
        setup: str | None = None,
        trained: bool = False,
    ) -> None:
        self._job, self._objective = read_job(path), objective
        self._scored = TRAINED if trained else RECEIVED
        name = " ".join([self._job.path.name, *arguments])
        self._options: dict[str, Any] = {"arguments": list(arguments), "clients": clients, "setup": setup}
        probe = run_job(self._job, probe=True, **self._options)
        if probe.failed or not probe.sites:
            raise InputError(f"{name}: cannot be judged: {probe.failed or 'it has no sites'}")
        rounds = rounds or probe.own_rounds
        if rounds is None:
            raise InputError(f"{name}: the job does not say how many rounds it trains: give --rounds")
        self._rounds, self._sites = rounds, list(probe.sites)
        code = [self._job.digest(), self._options, objective.to_dict(), self._scored]
        self.terms = Terms(
            name,
            "nvflare job",
            rounds,
            len(self._sites),
            objective.metric,
            objective.maximise,
            digest(canonical(code)).hex(),
            clients=list(range(len(self._sites))),
            note=NOTE,
        )

    def train(
        self, seed: int, clients: Sequence[int] | None, config: Mapping[str, Any] | None = None
    ) -> Training:
        """One run to its end; the random numbers of each of its processes follow the seed."""
        source = self._objective.from_
        more = source != CLIENTS and self._scored == RECEIVED
        run = run_job(
            self._job, rounds=self._rounds + more, seed=seed, final=source == CLIENTS, **self._options
        )
        if run.failed:
            return Training(None, failed=run.failed[:200])
        costs = self._costs(run, more)
        if costs["rounds"] not in (None, self._rounds):
            raise InputError(
                f"{self.terms.name}: was to train {self._rounds} rounds and trained {costs['rounds']}: it "
                "does not take their number from num_rounds"
            )
        told = run.scores(self._objective.metric, source, self._scored)
        if not told:
            names = ", ".join(run.metrics[source]) or "nothing"
            raise InputError(
                f"{self.terms.name}: its sites tell {names}, not {self._objective.metric!r}: give --metric"
            )
        asked = [self._sites[one] for one in (clients or range(len(self._sites)))]
        if silent := [site for site in asked if site not in told]:
            return Training(None, failed=f"{silent[0]} told no {self._objective.metric}", **costs)
        return Training.of_clients([told[site] for site in asked], self._objective.maximise, **costs)

    def _costs(self, run: JobRun, more: bool) -> dict[str, Any]:
        """What replies say of rounds and cohort, and how large they were; the round more is not counted."""
        replies = [one for one in run.replies if one.task != "validate"]
        numbers = sorted({one.round for one in replies if one.round is not None})
        counted = numbers[: len(numbers) - more]
        sites = [{one.site for one in replies if one.round == number} for number in counted]
        size = sum(one.bytes for one in replies if one.round in counted)
        return {
            "rounds": len(counted) or None,
            "cohort": max(map(len, sites), default=None),
            "bytes": size or None,
        }

    def tune(self, rounds: int, seed: int, clients: Sequence[int] | None) -> dict[str, Any]:
        """A job has no space."""
        raise InputError(f"control: {self.terms.name} is a job, of which nothing is named to be tuned")

    def close(self) -> None:
        """Nothing to free: a job's processes end with it."""
