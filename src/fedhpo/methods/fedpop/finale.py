"""The schedule of `FedPop.auto()`: halving to a few finalists, and an exchange among these alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fedhpo.core.errors import InputError
from fedhpo.core.settings import check_settings
from fedhpo.core.streams import stream
from fedhpo.methods.fedpop.means import Means
from fedhpo.schedules.halving import Halving
from fedhpo.search.paired import gain_at_clients
from fedhpo.space import Float, Space
from fedhpo.space.config import Config

if TYPE_CHECKING:
    from fedhpo.protocol.policy import ClientPolicy
    from fedhpo.protocol.sampler import Sampler
    from fedhpo.search.search import Search
    from fedhpo.search.trial import Trial

_SCOPES = ("client", "server")
#: The learning rates that a calmer copy may have less of.
_RATES = ("client.lr", "server.lr")


@dataclass(frozen=True)
class Finale:
    """Halving to `finalists` trials, which are of different lineages as nobody was copied before.

    The rest of the training is cut into windows of `interval` (a share of a full training), the last one of
    `tail`. At the end of each the mean of a finalist's models after the window's rounds is scored, all at the
    same clients: a last model says little of a config near instability. From the share `since` of the
    training on, if the mean of the worst is behind that of the best by more than `clear` standard errors of
    their paired difference, the worst goes on from the mean of the best, under another config: one learning
    rate times `calmer`, with probability `calming`, or all values moved by at most `eps` of their range,
    never drawn from the prior. The best goes on as it is: no parent is ever lost. Candidates in the end are
    the finalists, their means over the last window, the mean of those of one lineage, and the mean with the
    best score before (the elite). Without `exchange` nobody is copied.
    """

    trials: int | None = 27
    rate: int = 3
    finalists: int = 3
    interval: float = 0.1
    clear: float = 2.0
    eps: float = 0.03
    calmer: float = 0.5
    calming: float = 0.5
    tail: float = 0.2
    since: float = 0.5
    exchange: bool = True

    def __post_init__(self) -> None:
        check_settings(self)
        _ = self._halving
        if not 0 < self.interval <= 1:
            raise InputError(f"interval must be a share in (0, 1], not {self.interval!r}")
        if not 0 < self.tail < 1:
            raise InputError(f"tail must be a share in (0, 1), not {self.tail!r}")

    @property
    def _halving(self) -> Halving:
        return Halving(self.trials, self.rate, finalists=self.finalists)

    def run(self, search: Search, sampler: Sampler, policy: ClientPolicy) -> Trial:
        """Rung by rung: train, score, keep the best; in the last rung exchange on the way."""
        sizes, ends = self._halving.planned(search, sampler)
        rung = self._halving.narrow(search, search.start(sizes[0], sampler, policy), sizes, ends)
        elite: tuple[Trial, float] | None = None
        means = Means()
        for end in self._stops(ends[-2] if len(ends) > 1 else 0, search.rounds):
            means.train(search, rung, end)
            if end == search.rounds:
                break
            search.evaluate(means.trials)
            elite = self._kept(search, means, elite)
            if self.exchange and end >= self.since * search.rounds:
                self._exchange(search, rung, means)
        rung = [*rung, *means.candidates(search), *([] if elite is None else [elite[0]])]
        search.evaluate(rung)
        search.finish(rung)
        return search.best(rung)

    def _stops(self, begin: int, rounds: int) -> list[int]:
        """The rounds at which windows end."""
        every = max(1, round(self.interval * rounds))
        last = max(1, round(self.tail * rounds))
        return [*range(begin + every, rounds - last, every), max(begin, rounds - last), rounds]

    def _kept(
        self, search: Search, means: Means, elite: tuple[Trial, float] | None
    ) -> tuple[Trial, float] | None:
        """A copy of the mean with the best score so far, and that score."""
        if not means.trials:
            return elite
        best = search.rank(means.trials)[0]
        value = best.rank_value
        if not math.isfinite(value) or (elite is not None and value >= elite[1]):
            return elite
        return search.snapshot(best, None if elite is None else elite[0]), value

    def _exchange(self, search: Search, rung: Sequence[Trial], means: Means) -> None:
        """The worst goes on from the mean of the best, where it is clearly behind."""
        order = search.rank(means.trials)
        if not order or not math.isfinite(order[0].rank_value):
            return
        best, lost = order[0], [trial for trial in rung if trial.failed]
        worst = lost[0] if lost else means.trial_of(order[-1])
        if not lost and not self._behind(search, order[-1], best):
            return

        def choose() -> list[dict[str, Any]]:  # in the form of FedPop's own exchange, for the report
            rng = stream(search.seed, "finale", worst.number, len(worst.replacements))
            scores = [None if one.score is None else one.score.value for one in (order[-1], best)]
            return [
                {
                    "trial": worst.number,
                    "source": best.number,
                    "source_step": len(best.replacements),
                    "round": best.round,
                    "left": worst.round,
                    "reason": worst.reason,
                    "score": scores[0],
                    "source_score": scores[1],
                    "config": self._child(best.config, search.space, rng).to_dict(),
                }
            ]

        [copy] = search.session.decide("exchange", {"trial": worst.number, "round": best.round}, choose)
        search.replace(worst, best, Config.from_dict(copy["config"]), copy["score"], copy["source_score"])

    def _behind(self, search: Search, worst: Trial, best: Trial) -> bool:
        """Whether a mean is behind another beyond doubt, by their paired scores."""
        if not math.isfinite(worst.rank_value):
            return True
        if not (worst.evaluations and best.evaluations):
            return False
        gain, error, _ = gain_at_clients(
            search.objective, search.evaluator, best.evaluations[-1].scores, worst.evaluations[-1].scores
        )
        return gain > 0 and gain > self.clear * error  # an error that is not known is never clear

    def _child(self, config: Config, space: Space, rng: np.random.Generator) -> Config:
        """Another config for a copy: calmer in one learning rate, or a little off in all values."""
        known = space.hyperparameters
        tuned = [n for n in _RATES if isinstance(known.get(n), Float) and n in config.flat()]
        if tuned and rng.random() < self.calming:
            name = tuned[int(rng.integers(len(tuned)))]
            return _scaled(config, space, name, self.calmer)
        return space.perturb(config, self.eps, 0.0, rng, _SCOPES)

    def rounds(self, search: Search, sampler: Sampler) -> int:
        """What the rungs spend together; refuses privacy, under which clients are not compared one by one."""
        if search.evaluator.privacy is not None:
            raise InputError(
                "privacy: fedpop-auto compares finalists client by client, and such scores are not released: "
                "use method = 'sha'"
            )
        return self._halving.rounds(search, sampler)

    def refuses_more(self, old: int, new: int, rounds: int) -> str:
        """Why a total cannot be raised: trials that a longer rung would have kept are gone."""
        return self._halving.refuses_more(old, new, rounds)

    def to_dict(self) -> dict[str, Any]:
        """Its settings."""
        return {"name": "finale", **asdict(self)}


def _scaled(config: Config, space: Space, name: str, factor: float) -> Config:
    """The config with one value times a factor, inside its range."""
    scope, key = name.split(".", 1)
    hyperparameter = space.hyperparameters[name]
    assert isinstance(hyperparameter, Float)
    values = dict(getattr(config, scope))
    values[key] = hyperparameter.check(max(hyperparameter.low, values[key] * factor))
    return config.replace(**{scope: values})
