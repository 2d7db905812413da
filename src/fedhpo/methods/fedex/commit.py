"""FedEx without knobs, and safe: it commits to an arm only after forks of the model have shown it.

The arms of a trial share one model, so that one round's outcome says little of an arm, and the arm with most
weight may have it from a handful of draws at clients with a few validation rows each. Committed to, it can
ruin a training that its own config would have ended well. So here weights only name contenders: forks of the
model train with each of them, and with the trial's own config, at the same cohorts, and are compared at the
same clients. Where no contender is clearly ahead, the trial goes on under its own config, as under halving.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fedhpo.core.errors import InputError
from fedhpo.core.settings import check_settings
from fedhpo.methods.fedex.auto import AUTO, UNTIL
from fedhpo.methods.fedex.policy import FedExPolicy
from fedhpo.methods.fedex.state import FedExState
from fedhpo.methods.fedpop.means import Means
from fedhpo.methods.preset import Preset
from fedhpo.methods.tuner import Tuner
from fedhpo.policies import Fixed
from fedhpo.protocol.federation import FORK, MIX
from fedhpo.protocol.sections import section, table
from fedhpo.schedules.halving import Halving, cost_of, halving_rungs, rung_sizes
from fedhpo.search.paired import gain_at_clients

if TYPE_CHECKING:
    from fedhpo.protocol.policy import ClientPolicy
    from fedhpo.protocol.sampler import Sampler
    from fedhpo.search.search import Search
    from fedhpo.search.trial import Trial

#: Validation rows that make a score count half: below about ten, one row moves an accuracy by more
#: than arms differ.
SHRINK = 10.0
#: The roles of forks: the two arms with most weight besides the trial's own config, and that.
LEADER, RUNNER_UP, OWN = "leader", "runner-up", "own config"


@dataclass(frozen=True)
class Commit:
    """Halving to `finalists` trials, each of which then commits to an arm, or to its own config.

    At the share `until` of a full training, or when the finalists are found, if that is later, each finalist
    is forked: into the two arms with most weight, and its own config. Forks train for the share
    `trial_length` of a full training at the same cohorts, and the best of the two arms is taken if it is
    ahead of the own config by more than `clear` standard errors of their paired difference. The last `tail`
    of the training gives each finalist the mean of its models as a further candidate.
    """

    trials: int | None = None
    rate: int = 3
    finalists: int = 3
    until: float = UNTIL
    trial_length: float = 0.1
    clear: float = 2.0
    tail: float = 0.2

    def __post_init__(self) -> None:
        check_settings(self)
        _ = self._halving
        for name in ("until", "trial_length", "tail"):
            if not 0 < getattr(self, name) < 1:
                raise InputError(f"{name} must be a share in (0, 1), not {getattr(self, name)!r}")

    @property
    def _halving(self) -> Halving:
        return Halving(self.trials, self.rate, finalists=self.finalists)

    def _length(self, rounds: int) -> int:
        return max(1, round(self.trial_length * rounds))

    def run(self, search: Search, sampler: Sampler, policy: ClientPolicy) -> Trial:
        """Narrow down to finalists, let each commit, and train them to the end."""
        sizes, ends = self._planned(search, sampler)
        rung = self._halving.narrow(search, search.start(sizes[0], sampler, policy), sizes, ends)
        begin, length = self._forks(search.rounds, ends)
        search.train(rung, begin)
        rung = self._committed(search, [trial for trial in rung if trial.training], begin + length)
        last = max(begin + length, search.rounds - max(1, round(self.tail * search.rounds)))
        search.train(rung, last)
        means = Means()
        means.train(search, rung, search.rounds)
        candidates = [*rung, *means.candidates(search)]
        search.evaluate(candidates)
        search.finish(candidates)
        return search.best(candidates)

    def _committed(self, search: Search, finalists: Sequence[Trial], until: int) -> list[Trial]:
        """Of each finalist, the fork that goes on."""
        forks = [self._forked(search, trial) for trial in finalists]
        together = search.shared_cohorts
        search.shared_cohorts = True
        search.train([fork for roles in forks for fork in roles.values()], until)
        search.shared_cohorts = together
        search.evaluate([fork for roles in forks for fork in roles.values()])
        chosen = []
        for trial, roles in zip(finalists, forks, strict=True):
            role, facts = self._chosen(search, roles)
            chosen.append(roles[role])
            search.facts.setdefault("commits", []).append(
                {"trial": trial.number, "fork": roles[role].number, "role": role, **facts}
            )
            search.eliminate([trial, *(fork for other, fork in roles.items() if other != role)])
        return chosen

    def _forked(self, search: Search, trial: Trial) -> dict[str, Trial]:
        """A fork for each role: the trial's own config, and the two arms with most weight besides it."""
        state = trial.policy
        assert isinstance(state, FedExState)
        heaviest = [state.arms[arm] for arm in np.argsort(-state.weights, kind="stable")]
        rivals = [arm for arm in heaviest if arm != trial.config.client]
        arms = {**dict(zip((LEADER, RUNNER_UP), rivals, strict=False)), OWN: trial.config.client}
        return {
            role: search.snapshot(trial, config=trial.config.replace(client=arm), policy=Fixed())
            for role, arm in arms.items()
        }

    def _chosen(self, search: Search, roles: dict[str, Trial]) -> tuple[str, dict[str, Any]]:
        """The role that goes on, and what its lead over the own config is."""
        able = {role: fork for role, fork in roles.items() if fork.training and fork.evaluations}
        rivals = search.rank([fork for role, fork in able.items() if role != OWN])
        if not rivals:
            return OWN, {"gain": None, "standard_error": None}
        role = next(name for name, fork in able.items() if fork is rivals[0])
        if OWN not in able:
            return role, {"gain": None, "standard_error": None}
        gain, error, _ = gain_at_clients(
            search.objective,
            search.evaluator,
            rivals[0].evaluations[-1].scores,
            able[OWN].evaluations[-1].scores,
        )
        ahead = gain > 0 and gain > self.clear * error  # an error that is not known is never clear
        return role if ahead else OWN, {"gain": _known(gain), "standard_error": _known(error)}

    def _forks(self, rounds: int, ends: Sequence[int]) -> tuple[int, int]:
        """The round at which finalists are forked, and for how many rounds forks train."""
        found = ends[-2] if len(ends) > 1 else 0
        length = self._length(rounds)
        begin = max(found, min(round(self.until * rounds), rounds - length), 1)
        return begin, max(0, min(length, rounds - begin))

    def _planned(self, search: Search, sampler: Sampler) -> tuple[list[int], list[int]]:
        """Sizes and ends of the rungs of halving, within what forks leave of the total.

        Forks are paid for by fewer trials, not by shorter rungs, as long as `trials` is left out.
        """
        sizes, ends = self._halving.planned(search, sampler)
        least, most = (ends[0], sizes[0]) if self.trials is None else (1, sizes[0])
        for finalists in range(sizes[-1], 0, -1):
            left = search.total - 2 * finalists * self._length(search.rounds)
            for trials in range(most, finalists - 1 if self.trials is None else most - 1, -1):
                fewer = rung_sizes(trials, self.rate, len(sizes) - 1, finalists)
                with contextlib.suppress(InputError):
                    shorter = halving_rungs(search.rounds, left, fewer)
                    if shorter[0] >= least or (finalists == trials == 1):
                        return fewer, shorter
        raise InputError(
            f"fedex-auto trains {2 * self._length(search.rounds)} rounds of forks besides "
            f"{' -> '.join(map(str, sizes))} trials: a total of {search.total} rounds does not pay for that; "
            "fewer trials need less"
        )

    def rounds(self, search: Search, sampler: Sampler) -> int:
        """What the rungs and forks spend together; refuses privacy, under which forks cannot be compared."""
        if search.evaluator.privacy is not None:
            raise InputError(
                "privacy: fedex-auto compares forks client by client, and such scores are not released: use "
                "method = 'fedex' with metric = 'error', or method = 'auto'"
            )
        sizes, ends = self._planned(search, sampler)
        return cost_of(ends, sizes) + 2 * sizes[-1] * self._forks(search.rounds, ends)[1]

    def refuses_more(self, old: int, new: int, rounds: int) -> str:
        """Why a total cannot be raised."""
        return self._halving.refuses_more(old, new, rounds)

    def sections(self, search: Search) -> list[Any]:
        """What each finalist committed to, for the report."""
        return commit_sections(search.facts.get("commits") or [])

    def to_dict(self) -> dict[str, Any]:
        """Its settings."""
        return {"name": "commit", **asdict(self)}


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def commit_sections(commits: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """What each finalist committed to, and how many fell back to their own config."""
    if not commits:
        return []
    back = sum(one["role"] == OWN for one in commits)
    note = (
        f"{back} of {len(commits)} finalists fell back to their own config: no arm was clearly ahead of it."
    )
    columns = ["trial", "goes on as trial", "with", "lead over its own config", "standard error"]
    rows = [[one[key] for key in ("trial", "fork", "role", "gain", "standard_error")] for one in commits]
    return [section("Commits", note, table(columns, rows))]


@dataclass(frozen=True)
class FedExAuto(Preset):
    """FedEx without knobs: it commits to an arm only where forks of the model have shown that it is better.

    `trials` random configs (left out: as many as halving takes), of which `1/rate` survive each elimination,
    until three are left; `arms` and `eps` as in FedEx. See `fedhpo.methods.fedex.commit` for what follows,
    and `fedhpo.methods.fedex.auto` for how arms are weighed.

    >>> FedExAuto(arms=9).tuner().policy.explore
    'auto'
    """

    trials: int | None = None
    rate: int = 3
    arms: int = 27
    eps: float = 0.1

    name: ClassVar[str] = "fedex-auto"

    def tuner(self) -> Tuner:
        """Random configs, with FedEx at the clients until finalists commit."""
        policy = FedExPolicy(**{**AUTO, "until": 1.0, "shrink": SHRINK, "arms": self.arms, "eps": self.eps})
        return Tuner(Commit(self.trials, self.rate), policy=policy)

    @property
    def needs(self) -> frozenset[str]:
        """Copies and means of trials besides."""
        return super().needs | {FORK, MIX}
