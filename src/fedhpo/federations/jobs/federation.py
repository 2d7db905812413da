"""A federation that is an NVFlare job as it is: a trial's training is a whole run in NVFlare's simulator.

`JobFederation("path/of/the/job", Objective("accuracy", from_="training"))` goes to `fedhpo.tune` with a space
whose names are options of the job's scripts or arguments in its code (`client:SGD.lr`), and a cohort of all
its sites.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fedhpo.core.errors import InputError, unknown_name
from fedhpo.federations.jobs.job_file import read_job
from fedhpo.federations.jobs.run import RECEIVED, SCORED, JobRun, run_job
from fedhpo.federations.trial_table import HoldsTable, TrialTable
from fedhpo.protocol.federation import (
    Answer,
    Cost,
    Federation,
    Floats,
    Ints,
    Query,
    RoundReport,
    Scores,
    SplitName,
    Status,
    TrialState,
    Work,
)
from fedhpo.protocol.metrics import Metric
from fedhpo.protocol.objective import CLIENTS, SERVER, Objective
from fedhpo.protocol.reasons import Reason, Why
from fedhpo.space import Space
from fedhpo.space.config import Config


@dataclass
class _Trial:
    model: dict[str, Any]
    seed: int
    round: int = 0
    values: dict[str, Any] = field(default_factory=dict)
    #: In which part of the space each value is.
    scopes: dict[str, str] = field(default_factory=dict)
    #: What the run of so many rounds said.
    ran: tuple[int, JobRun] | None = None


class JobFederation(HoldsTable, Federation):
    """The sites of a job; nothing is trained before a trial is scored.

    A job cannot be continued: a trial that goes on to more rounds is trained again from its start, and is
    then on the schedule of that many rounds. `scored` says what the metrics in the replies of training are
    about: the model that a site "received" (NVFlare's convention: the job is then run for one more round,
    whose replies tell of the model after the rounds asked for), or the one that it "trained".
    """

    own_metrics, fine_tunes, place = True, False, "nvflare"

    def __init__(
        self,
        path: str | Path,
        objective: Objective,
        *,
        arguments: Sequence[str] = (),
        scored: str = RECEIVED,
        clients: int | None = None,
        setup: str | None = None,
        timeout: float = 3600.0,
    ) -> None:
        if objective.from_ == SERVER:
            raise InputError(
                "objective.from = 'server': the server of an NVFlare job scores nothing; choose 'clients' "
                "(NVFlare lets sites validate the final model) or 'training' (what their replies hold)"
            )
        if objective.at_zero:
            raise InputError(
                f"objective.at_zero = {list(objective.at_zero)}: is for Flower apps; an NVFlare job is not "
                "trained at rate 0: leave it out"
            )
        if scored not in SCORED:
            raise unknown_name("scored", scored, SCORED)
        if scored != RECEIVED and objective.from_ == CLIENTS:
            raise InputError(
                f"scored = {scored!r}: has no effect with objective.from = 'clients': leave it out"
            )
        self._job, self._objective, self._scored = read_job(path), objective, scored
        self._job.check_sites(arguments, clients)
        self._options: dict[str, Any] = {
            "arguments": [str(one) for one in arguments],
            "final": objective.from_ == CLIENTS,
            "clients": clients,
            "setup": setup,
            "timeout": timeout,
        }
        probe = run_job(self._job, probe=True, **{**self._options, "final": False})
        if probe.failed or not probe.sites:
            raise InputError(f"the job at {path} cannot be tuned: {probe.failed or 'it has no sites'}")
        self._sites = list(probe.sites)
        # One score for all sites is that of one more, which is no site.
        self.client_names = self._sites if objective.by_client else [*self._sites, "all sites"]
        self.train_clients: Ints = np.arange(len(probe.sites))
        self.validation_clients: Ints = (
            self.train_clients if objective.by_client else np.array([len(probe.sites)], np.int64)
        )
        self.test_clients: Ints = np.array([], np.int64)
        self.capabilities = frozenset()
        self._trials: TrialTable[_Trial, Work] = TrialTable()
        #: Further metrics that sites do not tell, as was said.
        self._lacking: set[str] = set()
        #: Rounds that were trained again, because a job cannot be continued.
        self.repeated = 0

    # Trials

    def start(self, trial: int, model: Mapping[str, Any], seed: int) -> None:
        self._trials.add(trial, _Trial(dict(model), seed))

    def fork(self, source: int, target: int) -> None:
        raise InputError("an NVFlare job cannot be copied in the middle of its training: use another method")

    def state(self, trial: int) -> TrialState:
        one = self._trials[trial]
        facts = {"model": one.model, "seed": one.seed, "round": one.round, "values": one.values}
        return TrialState({"none": np.zeros(1)}, facts)

    def restore(self, trial: int, state: TrialState) -> None:
        self._trials.idle(trial)
        self._trials[trial] = _Trial(**state.facts)

    # Rounds

    def submit(self, work: Work) -> None:
        self._trials.idle(work.trial)
        if not isinstance(work.client, Mapping):
            raise InputError("all sites of an NVFlare job have the same config: use another method")
        if sorted(work.cohort) != self.train_clients.tolist():
            raise InputError(
                f"cohort = {len(work.cohort)}: an NVFlare job trains its {len(self.train_clients)} sites in "
                "every round: set cohort to that"
            )
        trial = self._trials[work.trial]
        parts = {"model": trial.model, "client": work.client, "server": work.server}
        values = {name: value for part in parts.values() for name, value in part.items()}
        trial.scopes = {name: scope for scope, part in parts.items() for name in part}
        if trial.round and values != trial.values:
            raise InputError("an NVFlare job has one config from its first round on: use another method")
        trial.values = values
        self._trials.rounds[work.trial] = work

    def next_done(self, trial: int | None = None) -> RoundReport:
        self._trials.submitted(trial)
        work = self._trials.rounds.pop(next(iter(self._trials.rounds)) if trial is None else trial)
        one, members = self._trials[work.trial], len(work.cohort)
        one.round += 1
        status, sizes = np.zeros(members, np.int8), np.zeros(members, np.int64)
        cost = Cost(rounds=1, client_rounds=members)
        return RoundReport.unscored(work, one.round, True, status, sizes, sizes, cost=cost)

    def ready(self) -> list[int]:
        return list(self._trials.rounds)

    # Scores

    def _run(self, number: int) -> JobRun:
        """The trial's run of as many rounds as it has behind it."""
        trial = self._trials[number]
        self._trials.idle(number)
        if trial.ran is not None and trial.ran[0] == trial.round:
            return trial.ran[1]
        if trial.ran is not None:
            self.repeated += trial.ran[0]
            warnings.warn(
                f"an NVFlare job cannot be continued: trial {number} is trained again from its start "
                f"({trial.ran[0]} rounds more than the budget counts)",
                stacklevel=2,
            )
        more = self._objective.from_ != CLIENTS and self._scored == RECEIVED
        found = run_job(self._job, trial.values, rounds=trial.round + more, seed=trial.seed, **self._options)
        missed = sorted(set(trial.values) - found.bound)
        if missed and not found.failed:
            scope = trial.scopes.get(missed[0])
            raise InputError(
                f"space{f'.{scope}' if scope else ''}: {missed[0]}: the job has no such option, and never "
                "comes by such a call, so that tuning it changes nothing: leave it out"
            )
        trial.ran = trial.round, found
        return found

    def evaluate(
        self, trials: Sequence[int], clients: Sequence[int] | Ints, split: SplitName = "validation"
    ) -> list[Scores]:
        if split != "validation":
            raise InputError(f"{split}: an NVFlare job has one score, which is called validation")
        return [self._scores(number, np.asarray(clients, np.int64)) for number in trials]

    def _scores(self, number: int, clients: Ints) -> Scores:
        run, objective = self._run(number), self._objective
        told = {} if run.failed else run.scores(objective.metric, objective.from_, self._scored)
        if not run.failed and not told:
            names = ", ".join(run.metrics[objective.from_]) or "nothing"
            raise InputError(
                f"objective.metric = {objective.metric!r}: the job's sites tell {names}; name one of these"
            )
        values = self._told(run, objective.metric, clients)
        ok = ~np.isnan(values)
        why = Reason(Why.RAISED, run.failed or "told no such metric")
        share = np.where((values >= 0) & (values <= 1) & objective.maximise, values, math.nan)
        return Scores(
            number,
            "validation",
            clients,
            np.where(ok, Status.OK, Status.FAILED).astype(np.int8),
            ok.astype(np.int64),
            1 - values if objective.maximise else values,
            share,
            dict.fromkeys(np.flatnonzero(~ok).tolist(), why),
            Cost(evaluations=len(clients)),
            {objective.metric: values} | {name: self._told(run, name, clients) for name in objective.also},
        )

    def _told(self, run: JobRun, metric: str, clients: Ints) -> Floats:
        """A metric at these clients, or of all sites; not a number where it was not told."""
        told = {} if run.failed else run.scores(metric, self._objective.from_, self._scored)
        if not told and not run.failed and metric not in self._lacking:
            self._lacking.add(metric)
            names = ", ".join(run.metrics[self._objective.from_]) or "nothing"
            warnings.warn(
                f"objective.also: the job's sites have no {metric}; they tell {names}", stacklevel=2
            )
        if self._objective.by_client:
            return np.array([told.get(self._sites[one], math.nan) for one in clients])
        return np.array([np.mean(list(told.values())) if told else math.nan])

    def measure(self, metrics: Sequence[Metric]) -> None:
        if metrics:
            names = ", ".join(metric.name for metric in metrics)
            raise InputError(f"metrics {names}: an NVFlare job scores by its own")

    def why_no_horizon(self, space: Space) -> str:
        return "an NVFlare job is always trained anew for more rounds, on the schedule of these"

    def preflight(self, config: Config, metric: str) -> None:
        self._job.plan({**config.client, **config.server, **config.model})

    def query(self, task: Query, clients: Sequence[int] | Ints) -> list[Answer]:
        raise InputError(f"an NVFlare job answers no queries ({task.name}): use another method")

    # The federation itself

    def fingerprint(self, model: Mapping[str, Any]) -> dict[str, Any]:
        settings = {key: value for key, value in self._options.items() if key != "timeout"}
        return super().fingerprint(model) | {
            "job": self._job.digest(),
            "settings": settings | {"scored": self._scored, "from": self._objective.from_},
        }

    def describe(self) -> dict[str, Any]:
        return {
            "runtime": "nvflare job",
            "job": self._job.path.name,
            "clients": len(self.train_clients),
            "repeated_rounds": self.repeated,
        }
