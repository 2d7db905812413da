"""Synchronous successive halving (Jamieson and Talwalkar, 2016), within a total of rounds.

Trials of a rung train side by side and are scored together; the best `1/rate` of them go on. A rung is
an explicit set of trials, so that another rule may choose from it.
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from fedhpo.core.errors import InputError, unknown_name
from fedhpo.core.settings import check_settings
from fedhpo.protocol.federation import AFTER

if TYPE_CHECKING:
    from fedhpo.protocol.policy import ClientPolicy
    from fedhpo.protocol.sampler import Sampler
    from fedhpo.search.search import Search
    from fedhpo.search.trial import Trial


#: So many trials for so many full trainings in the total, as in the published schedules.
TRIALS, TRAININGS = 27, 5
#: At most this share of the total goes to finalists: with 5 trainings, three of them.
_FINAL_SHARE = 0.6


def rung_sizes(trials: int, rate: int, eliminations: int | None, finalists: int = 1) -> list[int]:
    """How many trials each rung holds: a `1/rate` part of the one before, until `finalists` are left.

    >>> rung_sizes(27, 3, None), rung_sizes(10, 3, 1), rung_sizes(30, 3, None, finalists=3)
    ([27, 9, 3, 1], [10, 3], [30, 10, 3])
    """
    sizes = [trials]
    while sizes[-1] > finalists and (eliminations is None or len(sizes) <= eliminations):
        sizes.append(max(finalists, sizes[-1] // rate))
    return sizes


def halving_rungs(rounds: int, total: int, sizes: list[int]) -> list[int]:
    """The rounds at which each rung ends, so that all of them together spend `total` if integers allow.

    The rungs before the last are equally long, but for what does not divide evenly, which goes to the
    earliest rungs that can take it. Raises `InputError` where the total does not pay for one round a rung.

    >>> halving_rungs(800, 4000, [27, 9, 3, 1])
    [89, 177, 268, 800]
    """
    # Per round of a rung, what its trials cost beyond those that train to the end anyway.
    extra = [size - sizes[-1] for size in sizes[:-1]]
    left = total - sizes[-1] * rounds
    if left < sum(extra) or rounds < len(sizes):
        least = sizes[-1] * max(rounds, len(sizes)) + sum(extra)
        raise InputError(
            f"{' -> '.join(map(str, sizes))} trials with a last training of {rounds} rounds need a total "
            f"of at least {least} rounds"
            + (f" and rounds of at least {len(sizes)}" if rounds < len(sizes) else "")
            + f", not {total}; fewer trials need less"
        )
    if not extra:
        return [rounds]
    step, left = divmod(left, sum(extra))
    # Each rung must end before the next: where the total pays for more, the rungs divide the training.
    capped = step * len(extra) >= rounds
    step = rounds // len(sizes) if capped else step
    ends, end = [], 0
    for i, cost in enumerate(extra):
        room = rounds - 1 - end - step * (len(extra) - i)
        more = 0 if capped else min(left // cost, room)
        left -= more * cost
        end += step + more
        ends.append(end)
    return [*ends, rounds]


def rungs_anew(rounds: int, total: int, sizes: list[int]) -> list[int]:
    """The same where every rung begins its trials anew: equally spaced ends, as late as the total pays for.

    >>> rungs_anew(81, 405, [27, 9, 3, 1]), cost_of([6, 12, 18, 81], [27, 9, 3, 1], anew=True)
    ([6, 12, 18, 81], 405)
    """
    weights = [size * (place + 1) for place, size in enumerate(sizes[:-1])]
    left = total - sizes[-1] * rounds
    if left < sum(weights) or rounds < len(sizes):
        least = sizes[-1] * max(rounds, len(sizes)) + sum(weights)
        raise InputError(
            f"{' -> '.join(map(str, sizes))} trials, trained anew in every rung, with a last training of "
            f"{rounds} rounds need a total of at least {least} rounds, not {total}; fewer trials need less"
        )
    step = min(left // sum(weights), rounds // len(sizes)) if weights else rounds
    return [*(step * (place + 1) for place in range(len(weights))), rounds]


def cost_of(ends: list[int], sizes: list[int], anew: bool = False) -> int:
    """The rounds that all rungs spend together; `anew`, if each begins its trials anew.

    >>> cost_of([89, 177, 268, 800], [27, 9, 3, 1])
    4000
    """
    if anew:
        return sum(n * end for n, end in zip(sizes, ends, strict=True))
    return sum(n * (end - start) for n, end, start in zip(sizes, ends, [0, *ends[:-1]], strict=True))


@dataclass(frozen=True)
class Halving:
    """`trials` trials, of which `1/rate` survive each elimination, until `finalists` train to the end.

    Left out, `trials` follows the total: 27 for every five full trainings that it holds, or as many as it
    pays for. There are fewer finalists where they would take more than three fifths of the total, and with
    several objectives more, up to half of the total. With `eliminations` it stops earlier, and the last rung
    holds more trials. Trials are dropped by a fresh `evaluation`, or, with the `judge` "losses", by the last
    round's loss after local training, for which clients must score there.
    """

    trials: int | None = None
    rate: int = 3
    eliminations: int | None = None
    finalists: int = 1
    judge: Literal["evaluation", "losses"] = "evaluation"

    def __post_init__(self) -> None:
        check_settings(self)
        if self.trials is not None and self.trials < 1:
            raise InputError(f"trials must be at least 1, not {self.trials}")
        if self.rate < 2:
            raise InputError(f"rate must be at least 2, not {self.rate}")
        if self.eliminations is not None and self.eliminations < 0:
            raise InputError(f"eliminations must be at least 0, not {self.eliminations}")
        if self.finalists < 1:
            raise InputError(f"finalists must be at least 1, not {self.finalists}")
        if self.judge not in ("evaluation", "losses"):
            raise unknown_name("judge", self.judge, ("evaluation", "losses"))

    def run(self, search: Search, sampler: Sampler, policy: ClientPolicy) -> Trial:
        """Rung by rung: train, score, keep the best."""
        sizes, ends = self.planned(search, sampler)
        rung = self.narrow(search, search.start(sizes[0], sampler, policy), sizes, ends)
        search.train(rung, ends[-1])
        search.evaluate(rung)
        return self.decide(search, rung)

    def narrow(self, search: Search, rung: list[Trial], sizes: list[int], ends: list[int]) -> list[Trial]:
        """Train these trials through all rungs but the last; the finalists come back."""
        for end, survivors in zip(ends[:-1], sizes[1:], strict=True):
            search.train(rung, end)
            if self.judge == "losses":
                kept = _least_losses(rung, survivors)
            else:
                search.evaluate(rung)
                kept = search.choose(rung, survivors)
            search.eliminate([trial for trial in rung if trial not in kept])
            rung = kept
        return rung

    def decide(self, search: Search, finalists: list[Trial]) -> Trial:
        """The best of those that trained to the end."""
        search.finish(finalists)
        return search.best(finalists)

    def plan(
        self, rounds: int, total: int, most: int | None = None, *, anew: bool = False
    ) -> tuple[list[int], list[int]]:
        """Sizes of the rungs and the rounds at which they end, with at most `most` trials.

        `anew`: every rung begins its trials anew.

        >>> Halving(27).plan(800, 4000)
        ([27, 9, 3, 1], [89, 177, 268, 800])
        >>> Halving(finalists=3).plan(81, 1296)
        ([86, 28, 9, 3], [9, 19, 28, 81])
        """
        wanted = max(1, TRIALS * total // (TRAININGS * rounds)) if self.trials is None else self.trials
        trials = wanted if most is None else min(wanted, most)
        while self.trials is None and trials > 1 and not self._pays(rounds, total, trials, anew):
            trials -= 1
        return self._planned(rounds, total, trials, anew)

    def _planned(self, rounds: int, total: int, trials: int, anew: bool) -> tuple[list[int], list[int]]:
        finalists = max(1, min(self.finalists, int(_FINAL_SHARE * total / rounds + 1e-9)))
        # Short trainings have few rungs: unless trials are given, there is one round for each.
        most = (
            self.eliminations
            if self.trials is not None
            else min(rounds if self.eliminations is None else self.eliminations, rounds - 1)
        )
        sizes = rung_sizes(trials, self.rate, most, finalists)
        return sizes, (rungs_anew if anew else halving_rungs)(rounds, total, sizes)

    def _pays(self, rounds: int, total: int, trials: int, anew: bool) -> bool:
        """Whether the total pays for so many trials."""
        try:
            self._planned(rounds, total, trials, anew)
        except InputError:
            return False
        return True

    def planned(self, search: Search, sampler: Sampler) -> tuple[list[int], list[int]]:
        """Sizes of the rungs and the rounds at which they end, for a search."""
        most = search.distinct(self.trials or search.total, sampler)
        # Several objectives have no one winner: up to half of the total goes to finalists.
        many = search.total // (2 * search.rounds) if search.criteria.others else 0
        for finalists in range(many, self.finalists, -1):
            with contextlib.suppress(InputError):
                more = replace(self, finalists=finalists)
                return more.plan(search.rounds, search.total, most, anew=search.anew)
        return self.plan(search.rounds, search.total, most, anew=search.anew)

    def rounds(self, search: Search, sampler: Sampler) -> int:
        """What the rungs spend together."""
        sizes, ends = self.planned(search, sampler)
        return cost_of(ends, sizes, search.anew)

    def cuts(self, search: Search, sampler: Sampler) -> bool:
        """Whether trials are cut short."""
        return len(self.planned(search, sampler)[1]) > 1

    def refuses_more(self, old: int, new: int, rounds: int) -> str:
        """Why a total cannot be raised: trials that a longer rung would have kept are gone."""
        return "under halving the lengths of all rungs follow the total, from the first round on"

    def to_dict(self) -> dict[str, Any]:
        """Its settings."""
        return {"name": "halving", **asdict(self)}


def _least_losses(rung: list[Trial], count: int) -> list[Trial]:
    """The trials with the least loss in their last round; one that failed, or diverged, comes last."""
    if not all(AFTER in trial.scores_in_round for trial in rung):
        raise InputError(
            "halving with judge = 'losses' needs clients that score after local training: "
            "use a client policy or an exchange that asks for it"
        )
    last = [math.inf if trial.failed or not trial.losses else trial.losses[-1] for trial in rung]
    order = sorted(range(len(rung)), key=lambda i: (math.isnan(last[i]), last[i], rung[i].number))
    return [rung[i] for i in order[:count]]
