"""The tools: those that read, and those that act, which refuse with what to change.

Descriptions are the docstrings: nothing from data or files is ever part of them.
"""

from __future__ import annotations

import json
from typing import Any

from fedhpo.agents.answers import seconds, total_rounds, whole
from fedhpo.agents.reading import HOW, MOST, WAIT, Reading
from fedhpo.core.errors import InputError
from fedhpo.referee.rules import Rules
from fedhpo.samplers.proposals import complete
from fedhpo.study import Study
from fedhpo.study.unchanged import digest_of


class Tools(Reading):
    """All tools of one session."""

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
            "total_rounds": total_rounds(found),
            "tuning_fits_the_limit": total_rounds(found) <= self._left,
        }

    def tune(self, study: str, name: str, wait: float = WAIT) -> dict[str, Any]:
        """Tune a study file in runs/NAME; waits at most `wait` seconds, then call `status`."""
        found, patience = self._limits.study(study), seconds(wait)
        if found.path is None:
            raise InputError("study: must be a file; `check` saves TOML text as one")
        if not found.space.names:
            raise InputError(
                "study: has nothing to tune; write, say, lr = { low = 1e-3, high = 1.0, log = true }"
            )
        name = self._limits.name(name)
        epsilon = self._limits.check_epsilon(found, self._epsilon)
        asked = total_rounds(found) + (found.file.budget.rounds if found.file.budget.baseline else 0)
        self._limits.check_rounds(asked, self._rounds, "tuning this study")
        self._limits.path(f"runs/{name}", "name", exists=False)
        arguments = ["tune", self._argument(study), "--name", name, "--runs", "runs"]
        job = self._started(f"tune {name}", [*arguments, "--checked", digest_of(found)], asked)
        self._epsilon += epsilon
        return self._waited(job, patience)

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
        sides, patience = [self._side(given) for given in (base, candidate)], seconds(wait)
        most = max(study.file.budget.rounds for study, _ in sides)
        rules = Rules(pairs=whole(pairs, "pairs", 1, 1_000))
        asked = self._pairs_cost(rules, most, whole(control, "control", 0, 10**9))
        self._limits.check_rounds(asked, self._rounds, "this comparison")
        name = self._limits.name(campaign, "campaign")
        self._limits.path(f"campaigns/{name}", "campaign", exists=False)
        arguments = ["verify", self._argument(base), self._argument(candidate)]
        arguments += ["--campaign", f"campaigns/{name}", "--pairs", str(rules.pairs)]
        arguments += [part for _, checked in sides for part in ("--checked", checked)]
        if proposals is not None:
            arguments += ["--proposals", str(whole(proposals, "proposals", 1, 10_000))]
        if control:
            arguments += ["--control", str(control)]
        if equal_bytes:
            arguments += ["--equal", "bytes"]
        return self._waited(self._started(f"verify {name}", arguments, asked, most), patience)

    def _proposed_to(self, given: str) -> Study:
        """The study of a run that has not finished, or of a file that is to be tuned."""
        if self._limits.path(given, "run").is_file():
            return self._limits.study(given)
        recorded = self._recorded(given)
        if recorded.status == "finished":
            raise InputError(f"run = {given[:80]!r}: has finished; propose to one that runs, or verify")
        return recorded.study()
