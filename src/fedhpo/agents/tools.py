"""The tools: each returns a small JSON object, with units and uncertainty, or refuses with what to change.

Descriptions are these docstrings: nothing from data or files is ever part of them.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from fedhpo.agents.jobs import Job, Jobs
from fedhpo.agents.limits import Limits
from fedhpo.core.errors import FedhpoError, InputError
from fedhpo.methods.auto import Case, choose
from fedhpo.methods.registry import METHODS, SAMPLERS, SCHEDULES
from fedhpo.referee.campaign import read_lines
from fedhpo.referee.rules import Rules
from fedhpo.referee.sides.opened import FUNCTION, kind_of
from fedhpo.run import list_runs
from fedhpo.run.run import has_begun
from fedhpo.samplers.proposals import complete
from fedhpo.study import Study
from fedhpo.study.recorded import recorded_study
from fedhpo.study.schema import schema as study_schema
from fedhpo.tuning.load import load_run
from fedhpo.tuning.result import Result

#: The longest list that an answer holds.
MOST = 50
#: Seconds that a call waits for a job.
WAIT = 50.0
PROPOSALS = "proposals.jsonl"


class Tools:
    """All tools of one session; `limits` cannot be changed by any of them."""

    def __init__(self, limits: Limits) -> None:
        self._limits, self._jobs = limits, Jobs(limits.root, limits.seconds)
        self._rounds, self._epsilon = 0, 0.0

    @property
    def _runs(self) -> Path:
        return self._limits.root / "runs"

    # To read

    def limits(self) -> dict[str, Any]:
        """The limits that the person set, and what is left: rounds, epsilon, whether code may be named."""
        known = self._limits
        return {
            "rounds": {
                "allowed": known.rounds,
                "left": known.rounds - self._rounds,
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
        if found.file.app is not None:
            raise InputError("study: advice needs data that fedhpo reads, and [app] brings its own")
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
                values=None if privacy is None else privacy.releases_values,
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
        rounds, total = found.file.budget.rounds, _total(found)
        rules = Rules(pairs=_whole(verify_pairs, "verify_pairs", 1, 1_000))
        return {
            "tune": {"rounds": total, "full_trainings": round(total / rounds, 1)},
            "verify": {
                "rounds_at_most": self._pairs_cost(rules, rounds, control=0),
                "pairs_at_least": rules.least_pairs(1),
                "pairs_at_most": rules.pairs,
            },
            "rounds_left": self._limits.rounds - self._rounds,
        }

    def runs(self) -> dict[str, Any]:
        """The runs below the root: name, status, rounds spent. At most 50, the newest last."""
        found = list_runs(self._runs) if self._runs.is_dir() else []
        rows = [
            {
                "run": f"runs/{one['name']}",
                "status": one.get("status"),
                "rounds": one.get("spent", {}).get("rounds"),
            }
            for one in found
        ]
        return {"runs": rows[-MOST:], "more": max(0, len(rows) - MOST), "job": self._job()}

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
        rows = [_shown(one) for one in verdicts]
        return {"rules": lines[0]["rules"], "metric": lines[0]["metric"], "proposals": rows[-MOST:]}

    def status(self, wait: float = WAIT) -> dict[str, Any]:
        """Wait for the job under way, at most so many seconds; its answer if it has ended."""
        job = self._jobs.current
        if job is None:
            return {"status": "no job was started"}
        return self._waited(job, _seconds(wait))

    # To act

    def check(self, study: str, save: str = "") -> dict[str, Any]:
        """Check a study, a file or TOML text; `save` writes the text to a file below the root."""
        found = self._limits.study(study)
        self._limits.check_epsilon(found, self._epsilon)
        written = None
        if save:
            name = self._limits.name(save, "save")
            if not name.endswith(".toml"):
                raise InputError("save: must end in .toml")
            if found.path is not None:
                raise InputError("save: goes with TOML text, not with a file")
            target = self._limits.path(name, "save", exists=False)
            if target.exists() and target.read_text(encoding="utf-8") != found.text:
                raise InputError(f"save = {name!r}: is there already with another content; take another name")
            target.write_text(found.text or "", encoding="utf-8")
            written = name
        return {
            "ok": True,
            "saved": written,
            "tuned": list(found.space.names),
            "method": found.method.name,
            "metric": found.objective.metric,
            "rounds": found.file.budget.rounds,
            "total_rounds": _total(found),
            "tuning_fits_the_limit": _total(found) <= self._limits.rounds - self._rounds,
        }

    def tune(self, study: str, name: str, wait: float = WAIT) -> dict[str, Any]:
        """Tune a study file in runs/NAME; waits at most `wait` seconds, then call `status`."""
        found = self._file_study(study)
        if not found.space.names:
            raise InputError(
                "study: has nothing to tune; write, say, lr = { low = 1e-3, high = 1.0, log = true }"
            )
        name = self._limits.name(name)
        epsilon = self._limits.check_epsilon(found, self._epsilon)
        asked = _total(found) + (found.file.budget.rounds if found.file.budget.baseline else 0)
        self._limits.check_rounds(asked, self._rounds, "tuning this study")
        arguments = ["tune", self._argument(study), "--name", name, "--runs", "runs"]
        arguments += ["--workers", "0", "--json", "--quiet"]
        job = self._started(f"tune {name}", arguments, asked)
        self._epsilon += epsilon
        return self._waited(job, _seconds(wait))

    def propose(self, run: str, configs: list[dict[str, Any]]) -> dict[str, Any]:
        """Propose configs to a run under way, or a study file, whose sampler is "proposals"."""
        if len(configs) > MOST:
            raise InputError(f"configs: at most {MOST} in a call, not {len(configs)}")
        study = self._proposed_to(run)
        sampler = study.given.get("method", {}).get("sampler", {})
        if not isinstance(sampler, dict) or sampler.get("name") != "proposals" or not sampler.get("file"):
            raise InputError(f"run = {run[:80]!r}: takes no proposals; {HOW}")
        file = self._limits.path(sampler["file"], "method.sampler.file", exists=False)
        lines = []
        for place, config in enumerate(configs):
            try:
                found = complete(study.space, config)
            except (InputError, TypeError, AttributeError, ValueError) as error:
                raise InputError(f"configs[{place}]: {str(error)[:300]}") from None
            if found is not None:
                lines.append(json.dumps(found.to_dict()) + "\n")
        with file.open("a", encoding="utf-8") as out:
            out.writelines(lines)
        return {"proposed": len(lines), "share_at_most": sampler.get("share", 0.3), "file": sampler["file"]}

    def verify(
        self,
        base: str,
        candidate: str,
        campaign: str = "campaign",
        proposals: int | None = None,
        pairs: int = 24,
        control: int = 0,
        equal_bytes: bool = False,
        wait: float = WAIT,
    ) -> dict[str, Any]:
        """Train base and candidate (study files or runs) in pairs: keep, drop or undecided."""
        most = self._most_rounds([base, candidate])
        rules = Rules(pairs=_whole(pairs, "pairs", 1, 1_000))
        asked = self._pairs_cost(rules, most, _whole(control, "control", 0, 10**9))
        self._limits.check_rounds(asked, self._rounds, "this comparison")
        name = self._limits.name(campaign, "campaign")
        arguments = [
            "verify",
            base,
            candidate,
            "--campaign",
            f"campaigns/{name}",
            "--pairs",
            str(rules.pairs),
        ]
        if proposals is not None:
            arguments += ["--proposals", str(_whole(proposals, "proposals", 1, 10_000))]
        if control:
            arguments += ["--control", str(control)]
        if equal_bytes:
            arguments += ["--equal", "bytes"]
        arguments += ["--workers", "0", "--json", "--quiet"]
        job = self._started(f"verify {name}", arguments, asked, most)
        return self._waited(job, _seconds(wait))

    # Inside

    def _proposed_to(self, given: str) -> Study:
        """The study of a run that has not finished, or of a file that is to be tuned."""
        path = self._limits.path(given, "run")
        if path.is_file():
            return self._limits.study(given)
        recorded = recorded_study(path) if has_begun(path) else None
        if recorded is None:
            raise InputError(f"run = {given[:80]!r}: no run was begun there")
        if recorded.status == "finished":
            raise InputError(f"run = {given[:80]!r}: has finished; propose to one that runs, or verify")
        self._limits.check_tables(recorded.asked or {})
        return recorded.study()

    def _argument(self, given: str) -> str:
        """A path as an argument of a command, never an option."""
        return f"./{self._limits.path(given).relative_to(self._limits.root)}"

    def _most_rounds(self, sides: list[str]) -> int:
        """The rounds of one training; sides are study files and runs below the root that pass the limits."""
        most = 1
        for given in sides:
            if isinstance(given, str) and ":" in given:
                raise InputError(f"{given[:80]!r}: names code; give a study file or a run")
            path = self._limits.path(given, "side")
            kind = kind_of(str(path))
            if kind == "study":
                study = self._limits.study(given)
            elif kind == "run":
                recorded = recorded_study(path)
                assert recorded is not None
                self._limits.check_tables(recorded.asked or {})
                study = recorded.study()
            elif not self._limits.code or kind == FUNCTION:
                raise InputError(
                    f"{given[:80]!r}: is a {kind}, which runs code of its own: give a study file or a run"
                )
            else:
                raise InputError(f"{given[:80]!r}: is a {kind}: a person verifies it on the command line")
            most = max(most, study.file.budget.rounds)
        return most

    def _pairs_cost(self, rules: Rules, rounds: int, control: int) -> int:
        """The most rounds that a comparison can take."""
        sides = 3 if control else 2
        return (rules.pairs + rules.after) * sides * rounds + control

    def _file_study(self, study: str) -> Study:
        found = self._limits.study(study)
        if found.path is None:
            raise InputError("study: must be a file; `check` saves TOML text as one")
        return found

    def _started(self, what: str, arguments: list[str], rounds: int, each: int = 1) -> Job:
        """Begin a job; its rounds are taken from what is left, and given back where it took fewer."""
        self._settle()
        job = self._jobs.start(what, arguments, rounds, each)
        self._rounds += rounds
        return job

    def _settle(self) -> None:
        """Give back what the last job did not take."""
        job = self._jobs.current
        if job is None or job.running or not job.reserved:
            return
        used = _used_rounds(job.answer(), job.each)
        self._rounds -= max(0, job.reserved - used) if used is not None else 0
        job.reserved = 0

    def _waited(self, job: Job, seconds: float) -> dict[str, Any]:
        if not self._jobs.wait(job, seconds):
            return {"status": "running", "job": job.what, "next": "call `status`; one job runs at a time"}
        answer = job.answer()
        self._settle()
        if "error" in answer:
            raise InputError(str(answer["error"])[:800])
        return {
            "status": "done",
            "job": job.what,
            **_short(answer),
            "rounds_left": self._limits.rounds - self._rounds,
        }

    def _job(self) -> str | None:
        job = self._jobs.current
        return job.what if job is not None and job.running else None

    def _result(self, run: str) -> Result:
        path = self._limits.path(run, "run")
        if not has_begun(path):
            raise InputError(f"run = {run[:80]!r}: no run was begun there; `runs` lists them")
        return load_run(path)

    def close(self) -> None:
        """End what runs."""
        self._jobs.close()


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


def _total(study: Study) -> int:
    return study.file.budget.total or 10 * study.file.budget.rounds


def _whole(value: Any, what: str, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InputError(f"{what} must be a whole number from {least} to {most}")
    return value


def _seconds(wait: Any) -> float:
    if (
        isinstance(wait, bool)
        or not isinstance(wait, int | float)
        or not math.isfinite(wait)
        or not 0 <= wait <= 600
    ):
        raise InputError("wait must be 0 to 600 seconds")
    return float(wait)


def _used_rounds(answer: dict[str, Any], each: int) -> int | None:
    """The rounds that a job spent, as far as it says them."""
    if "verdicts" in answer:
        trained = sum(one["trainings"] for one in answer["verdicts"])
        tuned = sum((one["control"] or {}).get("rounds", 0) for one in answer["verdicts"])
        return int(trained * each + tuned)
    cost = answer.get("cost")
    return int(cost["all_rounds"]) if isinstance(cost, dict) and "all_rounds" in cost else None


def _short(answer: dict[str, Any]) -> dict[str, Any]:
    """What a command's object says, without test scores and what is long."""
    if "verdicts" in answer:
        return {"campaign": answer["campaign"], "verdicts": [_shown(one) for one in answer["verdicts"]]}
    best = answer.get("best") or {}
    return {
        "run_status": answer.get("status"),
        "score": (best.get("validation") or {}).get("value"),
        "trials": len(answer.get("trials", ())),
        "next": "call `results`",
    }


def _shown(facts: dict[str, Any]) -> dict[str, Any]:
    """A verdict, small."""
    tail = facts.get("tail")
    return {
        "proposal": facts["proposal"],
        "candidate": facts["candidate"]["name"],
        "base": facts["base"]["name"],
        "verdict": facts["verdict"],
        "difference": {
            "metric": facts["metric"],
            "mean": facts["difference"]["mean"],
            "interval_95": facts["difference"]["interval"],
            "from": facts["difference"]["from"],
        },
        "worst_tenth_of_clients": None if tail is None else tail["mean"],
        "evidence": facts["evidence"],
        "kept_at": facts["threshold"],
        "pairs": facts["pairs"],
        "trainings": facts["trainings"],
        "bytes_ratio": facts["cost"]["bytes"]["ratio"],
        "notes": facts["notes"],
    }
