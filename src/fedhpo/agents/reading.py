"""The tools that only read: each returns a small JSON object, with units and uncertainty."""

from __future__ import annotations

from typing import Any

from fedhpo.agents.answers import seconds, total_rounds, verdict_shown, whole
from fedhpo.agents.session import Session
from fedhpo.core.errors import FedhpoError, InputError
from fedhpo.methods.auto import Case, choose
from fedhpo.methods.registry import METHODS, SAMPLERS, SCHEDULES
from fedhpo.referee.campaign import read_lines
from fedhpo.referee.rules import Rules
from fedhpo.run import list_runs
from fedhpo.study.schema import schema as study_schema

#: The longest list that an answer holds.
MOST = 50
#: Seconds that a call waits for a job.
WAIT = 50.0
PROPOSALS = "proposals.jsonl"
HOW = (
    'write [method.schedule] name = "robust" and [method.sampler] name = "proposals", '
    f'file = "{PROPOSALS}", share = 0.3, sampler = "bohb"'
)
EXAMPLE = """[data]
name = "digits"
clients = 40

[model]
name = "mlp"

[space.client]
lr = { low = 1e-3, high = 1.0, log = true, default = 0.02 }

[budget]
rounds = 9          # one full training
total = 81          # over all trials
cohort = 5
"""


class Reading(Session):
    """What an agent may look at; the docstrings are the tools' descriptions."""

    def limits(self) -> dict[str, Any]:
        """The limits that the person set, and what is left: rounds, epsilon, whether code may be named."""
        known = self._limits
        return {
            "rounds": {
                "allowed": known.rounds,
                "left": self._left,
                "unit": "communication rounds",
            },
            "epsilon": {"allowed": known.epsilon, "left": known.epsilon - self._epsilon},
            "code": known.code,
            "jobs": "one at a time",
            "seconds_a_job": known.seconds,
            "test_scores": "not shown: a person reads them in a run's report",
        }

    def schema(self, section: str = "") -> dict[str, Any]:
        """The study file: an example and its sections, or the keys of one section, such as "budget"."""
        whole = study_schema()
        if not section:
            return {
                "example": EXAMPLE,
                "sections": sorted(whole["properties"]),
                "more": "call with one section",
            }
        name = self._limits.name(section, "section")
        if name not in whole["properties"]:
            raise InputError(f"section = {name!r}: must be one of {', '.join(sorted(whole['properties']))}")
        if name == "method":
            raise InputError("section = 'method': call `methods`, which lists names and settings")
        found = whole["properties"][name]
        ref = next(
            (one.get("$ref", "") for one in [found, *found.get("anyOf", ()), *found.get("allOf", ())] if one),
            "",
        )
        definition = whole["$defs"].get(ref.rpartition("/")[2], found)
        keys = {
            key: {"about": one.get("description", ""), "default": one.get("default")}
            for key, one in definition.get("properties", {}).items()
        }
        return {"section": name, "about": str(definition.get("description", ""))[:600], "keys": keys}

    def methods(self) -> dict[str, Any]:
        """Methods by name, and the parts of a tuner of your own; the default, `auto`, chooses by rule."""
        about = {name: (kind.__doc__ or "").strip().splitlines()[0] for name, kind in METHODS.items()}
        return {
            "methods": about,
            "schedules": sorted(SCHEDULES),
            "samplers": sorted(SAMPLERS),
            "proposals": HOW,
        }

    def advice(self, study: str) -> dict[str, Any]:
        """Which method suits a study's budget, clients and privacy, and why; trains nothing."""
        found = self._limits.study(study)
        clients = int((found.load_data().validation.sizes > 0).sum())
        privacy, budget = found.evaluator.privacy, found.file.budget
        choice = choose(
            Case(
                budget.rounds,
                budget.total or 10 * budget.rounds,
                clients,
                found.evaluator.count(clients),
                None if privacy is None else privacy.epsilon,
                privacy is not None and privacy.rotates,
                several=bool(found.criteria),
                values=None if privacy is None or privacy.mechanism is None else privacy.releases_values,
                gap=None if privacy is None else privacy.gap,
            )
        )
        return {
            "method": choice.method.name,
            "mechanism": choice.mechanism,
            "why": choice.why,
            "validation_clients": clients,
            "seeds": "one training of each config says little: judge a change with `verify`",
        }

    def plan(self, study: str, verify_pairs: int = 24) -> dict[str, Any]:
        """What tuning a study, and verifying a change of it, may cost in rounds, before anything is run."""
        found = self._limits.study(study)
        rounds, total = found.file.budget.rounds, total_rounds(found)
        rules = Rules(pairs=whole(verify_pairs, "verify_pairs", 1, 1_000))
        return {
            "tune": {"rounds": total, "full_trainings": round(total / rounds, 1)},
            "verify": {
                "rounds_at_most": self._pairs_cost(rules, rounds, control=0),
                "pairs_at_least": rules.least_pairs(1),
                "pairs_at_most": rules.pairs,
            },
            "rounds_left": self._left,
        }

    def runs(self) -> dict[str, Any]:
        """The runs below the root: name, status, rounds spent. At most 50, the newest last."""
        place = self._limits.root / "runs"
        found = list_runs(place) if place.is_dir() else []
        rows = [
            {
                "run": f"runs/{one['name']}",
                "status": one.get("status"),
                "rounds": one.get("spent", {}).get("rounds"),
            }
            for one in found
        ]
        return {"runs": rows[-MOST:], "more": max(0, len(rows) - MOST), "job": self._job}

    def results(self, run: str) -> dict[str, Any]:
        """What a finished run found: config, validation score with its error, gain over your own config."""
        result = self._result(run)
        gain: dict[str, Any] = result.facts.get("gain") or {}
        return {
            "config": result.best_config.to_dict(),
            "score": {
                "metric": result.facts["objective"]["metric"],
                "value": result.best_score,
                "standard_error": (result.facts["best"] or {}).get("validation", {}).get("standard_error"),
                "on": "validation clients",
            },
            "gain_over_own_config": {
                "value": gain.get("value"),
                "standard_error": gain.get("standard_error"),
                "p_value": gain.get("p_value"),
            },
            "verdict": result.verdict,
            "trials": len(result.trials),
            "rounds": result.cost["rounds"],
            "next": "the best of many scores is too high on average: call `verify` before you rely on it",
        }

    def curves(self, run: str, trial: int | None = None) -> dict[str, Any]:
        """Learning curves of a run: for each trial its validation scores by round, at most 50 trials."""
        result = self._result(run)
        metric = result.facts["objective"]["metric"]
        found: dict[int, list[list[float]]] = {}
        for row in result.history:
            if row["kind"] != "evaluate" or row.get("split") != "validation":
                continue
            if trial is None or row["trial"] == trial:
                value = row.get(metric, row.get("accuracy"))
                found.setdefault(row["trial"], []).append([row["round"], value])
        curves = [{"trial": one, "points": points[-MOST:]} for one, points in list(found.items())[:MOST]]
        return {"metric": metric, "points_are": ["round", metric], "curves": curves}

    def comparison(self, campaign: str) -> dict[str, Any]:
        """A campaign so far: its rules, and of each proposal verdict, difference, interval and evidence."""
        path = self._limits.path(campaign, "campaign")
        if not path.is_file():
            raise InputError(f"campaign = {campaign[:80]!r}: must be a campaign's file")
        try:
            lines = read_lines(path)
        except (OSError, ValueError, FedhpoError) as error:
            raise InputError(f"campaign: cannot be read: {error}") from None
        if not lines or "campaign" not in lines[0]:
            raise InputError(f"campaign = {campaign[:80]!r}: is no campaign's file")
        verdicts = [one["facts"] for one in lines if one.get("event") == "verdict"]
        rows = [verdict_shown(one) for one in verdicts]
        return {"rules": lines[0]["rules"], "metric": lines[0]["metric"], "proposals": rows[-MOST:]}

    def status(self, wait: float = WAIT) -> dict[str, Any]:
        """Wait for the job under way, at most so many seconds; its answer if it has ended."""
        job, patience = self._jobs.current, seconds(wait)
        return {"status": "no job was started"} if job is None else self._waited(job, patience)
