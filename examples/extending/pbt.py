"""A whole method of one's own: population based training (Jaderberg et al., 2017). Used from pbt.toml.

A population trains side by side. After every `interval` rounds the worst members become copies of the best
(exploit), each under a config near that of the one it copied (explore).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import fedhpo as fh
from fedhpo.core.streams import stream
from fedhpo.policies import Fixed
from fedhpo.protocol.federation import FORK
from fedhpo.protocol.sections import section, table
from fedhpo.samplers import Random
from fedhpo.search.search import Search
from fedhpo.search.trial import Trial


@dataclass(frozen=True)
class PBT(fh.Method):
    """Train `population` members; every `interval` rounds the worst `share` of them copy the best `share`.

    A copy's hyperparameters move by at most `step` of their range, or are drawn anew with probability
    `resample`.
    """

    population: int = 6
    interval: int = 2
    share: float = 0.25
    step: float = 0.2
    resample: float = 0.1

    needs = frozenset({FORK})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.population < 2 or self.interval < 1 or not 0 < self.share <= 0.5:
            raise fh.InputError(f"population >= 2, interval >= 1 and 0 < share <= 0.5 must hold, not {self}")

    def rounds(self, search: Search) -> int:
        """The rounds it will spend."""
        planned = self.population * search.rounds
        if planned > search.total:
            raise fh.InputError(
                f"{self.population} members of {search.rounds} rounds need a total of {planned}, "
                f"not {search.total}"
            )
        return planned

    def run(self, search: Search) -> Trial:
        """Tune; the best member comes back."""
        members = search.start(self.population, Random(), Fixed())
        for until in range(self.interval, search.rounds, self.interval):
            search.train(members, until)
            search.evaluate(members)
            self._exchange(search, [member for member in members if member.training])
        search.train(members, search.rounds)
        search.evaluate(members)
        search.finish(members)
        return search.best()

    def _exchange(self, search: Search, members: Sequence[Trial]) -> None:
        """Exploit and explore. Choosing k of n is all that is asked, so that scores may be private."""
        count = max(1, round(self.share * len(members)))
        if len(members) < 2 * count:
            return
        best = search.choose(members, count)
        kept = search.choose(members, len(members) - count)
        for loser in members:
            if loser in kept or loser in best:
                continue
            key = {"trial": loser.number, "round": loser.round}
            found = search.session.decide("pbt", key, lambda loser=loser: self._copy(search, loser, best))
            source = search.trials[found["source"]]
            search.replace(loser, source, fh.Config.from_dict(found["config"]), None, None)

    def _copy(self, search: Search, loser: Trial, best: Sequence[Trial]) -> dict[str, Any]:
        rng = stream(search.seed, "pbt", loser.number, loser.round)
        source = best[int(rng.integers(len(best)))]
        config = search.space.perturb(source.config, self.step, self.resample, rng)
        return {"source": source.number, "config": config.to_dict()}

    def sections(self, search: Search) -> list[dict[str, Any]]:
        """What the report shows of it."""
        copies = [[copy.round, t.number, copy.source] for t in search.trials for copy in t.replacements]
        return [section("Exchanges", table(["round", "member", "became a copy of"], sorted(copies)))]
