"""FedPop-G: an exchange between trials while they train (Chen et al., 2025, Algorithm 1).

Every `interval` rounds (T_g) the trials with the worst losses are replaced by copies of those with the best,
weights and server state included, whose client and server hyperparameters are perturbed by Evo. An exchange
that is due is made just before the next round: there is none after the last one, and where a schedule
drops trials at the same round, it does so first.

Asynchronously no trial waits for a slower one: whoever has ended its interval is compared with the latest
losses of the others, and copies a better one as it was before the round that this one is in. Trials that
end a round at the same time decide together, so that trials that are equally fast do the same as if they
waited for each other. The record holds who had ended when, and a resumed run follows it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from fedhpo.core.claims import setting
from fedhpo.core.errors import InputError, unknown_name
from fedhpo.core.settings import check_settings, whole_number
from fedhpo.core.streams import stream
from fedhpo.methods.fedpop.evolution import Evolution, ResampleBy, bottom_and_top
from fedhpo.methods.fedpop.private import affordable, check_private, private_scores
from fedhpo.methods.fedpop.score import discounted
from fedhpo.methods.fedpop.section import lineage_sections, trials_of
from fedhpo.protocol.federation import AFTER, FORK, SCORES_IN_ROUND
from fedhpo.schedules.annealing import Annealing
from fedhpo.search.channel import rank_values
from fedhpo.space.config import Config

if TYPE_CHECKING:
    from fedhpo.privacy.privacy import Privacy
    from fedhpo.search.search import Search
    from fedhpo.search.trial import Trial

_SCOPES = ("client", "server")
JUDGES = ("losses", "evaluation")


@dataclass(frozen=True)
class Exchange:
    """FedPop-G.

    Parameters
    ----------
    interval
        Rounds between two exchanges, or their share of a full training.
    quantile
        The worst 1/quantile of the trials are replaced by copies of the best; so are all whose loss is not
        finite, or that failed.
    eps, resample, annealing, resample_by
        How much the copies' configs are perturbed; see `fedhpo.methods.fedpop.local.FedPopLocal`.
    discount
        A round's weight in the score of a trial, compared with the next round's.
    asynchronous
        Whether trials exchange without waiting for each other.
    judge
        What trials are compared by: "losses", those of the clients' own models after local training, as in
        the paper, or "evaluation", a fresh one of each trial's model before every exchange. With privacy
        always the latter.

    Examples
    --------
    >>> Exchange().every(800), Exchange(interval=5).every(800), Exchange().every(3)
    (80, 5, 1)
    """

    interval: int | float = 0.1
    quantile: int = 3
    eps: float = 0.1
    resample: float = 0.1
    annealing: Annealing = "cosine"
    discount: float = setting(0.9, judge="losses")
    asynchronous: bool = False
    judge: Literal["losses", "evaluation"] = "losses"
    resample_by: ResampleBy = "coordinate"

    def __post_init__(self) -> None:
        check_settings(self)
        length = self.interval
        whole = isinstance(length, int) and not isinstance(length, bool) and length >= 1
        if not whole and not (isinstance(length, float) and 0 < length <= 1):
            raise InputError(f"interval must be rounds (1 or more) or a share in (0, 1], not {length!r}")
        if not 0 <= self.discount <= 1:
            raise InputError(f"discount must lie in [0, 1], not {self.discount!r}")
        if self.judge not in JUDGES:
            raise unknown_name("judge", self.judge, JUDGES)
        whole_number("quantile", self.quantile, least=2)
        _ = self.evolution

    @property
    def evolution(self) -> Evolution:
        """How configs are perturbed."""
        return Evolution(self.eps, self.resample, self.annealing, self.resample_by)

    @property
    def needs(self) -> frozenset[str]:
        """Copies of trials, and scores inside a round."""
        return frozenset({FORK, SCORES_IN_ROUND})

    @property
    def scores(self) -> tuple[str, ...]:
        """Which scores clients take inside a round."""
        return (AFTER,)

    def every(self, rounds: int) -> int:
        """Rounds between two exchanges of a training of `rounds`."""
        if isinstance(self.interval, int):
            return self.interval
        return max(1, math.floor(self.interval * rounds + 0.5))

    def check_private(self, privacy: Privacy) -> None:
        """Refuse a privacy that it cannot work with: see `fedhpo.methods.fedpop.private`."""
        check_private(privacy)

    def short(self, rounds: int, ends: Sequence[int]) -> list[tuple[int, int]]:
        """Exchanges with fewer rounds than `interval` before trials are dropped next: (round, rounds left).

        `ends` are the rounds at which trials are dropped. A copy has little time there to show what its own
        config is worth: it is kept for the weights that it was given.

        >>> Exchange().short(30, [3, 7, 12])
        [(6, 1)]
        >>> Exchange().short(100, [11, 22, 35])
        [(10, 1), (20, 2), (30, 5)]
        """
        every = self.every(rounds)
        # Where both are due, trials are dropped first.
        gaps = [(r, min(e for e in ends if e > r) - r) for r in range(every, max(ends, default=0), every)]
        return [(round, left) for round, left in gaps if left < every]

    def sections(self, search: Search) -> list[Any]:
        """Who copied whom, for the report."""
        winner = None if search.winner is None else search.winner.number
        return lineage_sections(trials_of(search), winner, search.space.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """Its settings."""
        return asdict(self)

    # Training with exchanges

    def train(self, search: Search, population: Sequence[Trial], until: int) -> None:
        """Train these trials until each has `until` rounds behind it, and exchange on the way."""
        if self.asynchronous:
            self._train_apart(search, population, until)
            return
        while ready := search.payable(_unfinished(population, until)):
            self._exchange(search, population, ready, until)
            search.round(search.payable(_unfinished(population, until)))

    def _train_apart(self, search: Search, population: Sequence[Trial], until: int) -> None:
        """The same, each trial at its own pace."""
        attempts: dict[int, int] = {}  # at the rounds under way, by trial
        # A trial that copies a slower one goes on from there, but trains no more rounds for that.
        limits = {trial.number: _limit(trial, until) for trial in population}
        while True:
            idle = [
                trial
                for trial in _unfinished(population, until)
                if trial.number not in attempts and trial.trained < limits[trial.number]
            ]
            ready = search.payable(idle, len(attempts))
            revived = self._exchange(search, population, ready, until)
            limits |= {trial.number: _limit(trial, until) for trial in revived}
            for trial in search.payable([*ready, *revived], len(attempts)):
                attempts[trial.number] = 0
                search.submit(trial)
            if not attempts:
                return
            _collect(search, population, attempts)

    # The exchange itself

    def _exchange(
        self, search: Search, population: Sequence[Trial], ready: Sequence[Trial], until: int
    ) -> list[Trial]:
        """Algorithm 1, function FedPop-G, for those of the `ready` trials that are due.

        Returns the trials that had failed and train again.
        """
        every = self.every(search.rounds)
        due = [trial for trial in ready if trial.losses and trial.round % every == 0]
        if search.evaluator.privacy is not None:
            due = affordable(due, every)
        if not due:
            return []
        scores = self._scores(search, population, due)
        bottom, top = bottom_and_top(list(scores.values()), self.quantile)
        # Whose loss is not finite goes, however many there are; who is in the middle of a round stays.
        lost = [trial for trial, score in scores.items() if math.isinf(score)]
        worst = [
            t for t in population if t.failed or (t in due and (t in lost or t in _at(population, bottom)))
        ]
        best = [t for t in _at(population, top) if t not in lost and t.round < until]
        if not worst or not best:
            return []
        failed = [trial for trial in worst if trial.failed]
        trials = {trial.number: trial for trial in population}

        def choose() -> list[dict[str, Any]]:
            return [self._copy(search, trial, best, scores) for trial in worst]

        key = {"trials": [[trial.number, trial.round] for trial in due]}
        for copy in search.session.decide("exchange", key, choose):
            config = Config.from_dict(copy["config"])
            told = copy["score"], copy["source_score"]
            search.replace(trials[copy["trial"]], trials[copy["source"]], config, *told)
        return failed

    def _scores(
        self, search: Search, population: Sequence[Trial], due: Sequence[Trial]
    ) -> dict[Trial, float]:
        """What trials are compared by, less is better: NaN of who has no score yet."""
        if search.evaluator.privacy is not None:
            return private_scores(search, population, due)
        if self.judge == "evaluation":
            search.evaluate(due)
            scored = [trial for trial in population if trial.scores]
            values = rank_values(scored, search.evaluator, search.objective)
            found = dict(zip(scored, values, strict=True))
            return {t: math.inf if t.failed else found.get(t, math.nan) for t in population}
        every = self.every(search.rounds)
        return {t: math.inf if t.failed else discounted(t.losses, every, self.discount) for t in population}

    def _copy(
        self, search: Search, trial: Trial, best: Sequence[Trial], scores: Mapping[Trial, float]
    ) -> dict[str, Any]:
        """One of the best, and its config perturbed; JSON-able."""
        rng = stream(search.seed, "exchange", trial.number, len(trial.replacements))
        source = best[int(rng.integers(len(best)))]
        config = self.evolution.perturbed(
            source.config, search.space, source.round, search.rounds, rng, _SCOPES
        )
        return {
            "trial": trial.number,
            "source": source.number,
            "source_step": len(source.replacements),
            "round": source.round,
            "left": trial.round,
            "reason": trial.reason,
            "score": self._told(search, trial, scores),
            "source_score": self._told(search, source, scores),
            "config": config.to_dict(),
        }

    def _told(self, search: Search, trial: Trial, scores: Mapping[Trial, float]) -> float | None:
        """The value that a trial was judged by, for display: a loss, or a score in the objective's metric."""
        by_loss = self.judge == "losses" and search.evaluator.privacy is None
        value = scores[trial] if by_loss or trial.score is None else trial.score.value
        return value if math.isfinite(value) else None


def _unfinished(population: Sequence[Trial], until: int) -> list[Trial]:
    return [trial for trial in population if trial.training and trial.round < until]


def _limit(trial: Trial, until: int) -> int:
    """The rounds that will have been trained for a trial when it has `until` rounds behind it."""
    return trial.trained + until - trial.round


def _at(population: Sequence[Trial], places: Sequence[int]) -> list[Trial]:
    return [population[place] for place in places]


def _collect(search: Search, population: Sequence[Trial], attempts: dict[int, int]) -> None:
    """Take in the round that ends next and all that have ended by then; repeat those that must be."""
    trials = {trial.number: trial for trial in population}
    under_way = set(attempts)
    done = [search.collect(trials, attempts)]
    ended = [n for n in search.session.ready() if n in under_way and n != done[0].number]
    done += [search.collect(trials, attempts, number) for number in ended]
    for trial in done:
        if trial.number not in attempts:
            continue
        if search.payable([trial], len(attempts) - 1):
            search.submit(trial, attempts[trial.number])
        else:
            del attempts[trial.number]
