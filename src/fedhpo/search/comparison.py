"""How much better the winner is than the user's own config, at clients that did not choose it.

A winner's score is the best of many, so it flatters the winner: the clients that chose it cannot say what it
gains without a correction for how many configs they chose from. Fresh clients can.

**Private runs.** A share of the validation clients (`Privacy.held_out`, a fifth by default), drawn from the
run's seed before anything is asked, takes no part in the search. They have all of their epsilon left, and
spend it on one release at the end: the sum of d, their differences between winner and own config clipped to
±c, and the sum of d^2. Neighbouring inputs are those of the whole project: all scores of one client as they
are, and any others; who replied is public. The first sum then moves by at most 2c, the second by at most
c^2. `SUM_SHARE` of epsilon goes to the first, the rest to the second, and basic composition adds them up. No
client of the search is in it, so the run as a whole still spends epsilon at each client (parallel
composition), whatever the accounting of the search.

Where a share would be fewer than `LEAST` clients, all of them search with the rest of epsilon and compare
with this share of it. The choice then used the same clients: that is said, and corrected for.

**Other runs.** Where scores come from some of the clients, up to `MOST` of those that no score came from
compare the two at the end. Where all clients are asked for every score none are left, and what is known of
both has to do, corrected for the number of configs.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fedhpo.core.significance import level_of, non_negative, p_value, private_p_value
from fedhpo.core.streams import stream
from fedhpo.privacy.means import bounded, noisy_mean
from fedhpo.privacy.noise import Noise
from fedhpo.privacy.privacy import Privacy
from fedhpo.protocol.federation import Cost, Floats, Ints, Scores, Status
from fedhpo.protocol.objective import Objective
from fedhpo.protocol.policy import LearningState
from fedhpo.protocol.session import Charged
from fedhpo.search.paired import gain_at_clients

if TYPE_CHECKING:
    from fedhpo.search.private import PrivateChannel
    from fedhpo.search.search import Search
    from fedhpo.search.trial import Trial

#: So few clients say too little of clients at large to be kept for the comparison alone.
LEAST = 10
#: More fresh clients are not asked where scores are not private: their mean is certain enough.
MOST = 100
#: The part of the comparison's epsilon that the sum of differences takes; the second moment has the rest.
SUM_SHARE = 0.75


@dataclass(frozen=True)
class Gain:
    """How much better the winner is than the user's own config: unclamped, as tests need it.

    `p_value` is that of a one-sided test, None where there is none; `level` is what it must not exceed to be
    called an improvement. `fresh` says whether the choice used none of these clients, `rivals` how many
    configs it was made from. `clip` is the most that one client's difference counts, in private runs.
    """

    value: float
    standard_error: float
    clients: int
    round: int
    p_value: float | None = None
    fresh: bool = False
    rivals: int = 1
    clip: float | None = None

    @property
    def level(self) -> float:
        """Corrected for the number of configs, where these clients chose from them."""
        return level_of(1 if self.fresh else self.rivals)

    def to_dict(self, *, bounded: bool) -> dict[str, Any]:
        """For result.json; where scores lie in [0, 1] the value is clamped to what a gain can be."""
        value = min(1.0, max(-1.0, self.value)) if bounded and math.isfinite(self.value) else self.value
        told = asdict(self) | {"value": value, "level": self.level}
        return told if self.clip is not None else {k: v for k, v in told.items() if k != "clip"}


@dataclass(frozen=True)
class Comparison:
    """Who compares in a private run: `clients`, while the search asks `searched`; both in ascending order."""

    clients: Ints
    searched: Ints
    privacy: Privacy

    @property
    def held_out(self) -> bool:
        """Whether these clients take no part in the search."""
        return not len(np.intersect1d(self.clients, self.searched))

    @property
    def epsilon(self) -> float:
        """What the comparison spends of one client's epsilon."""
        return self.privacy.epsilon * (1.0 if self.held_out else self.privacy.held_out)

    @property
    def search_epsilon(self) -> float:
        """What the search may spend."""
        return self.privacy.epsilon if self.held_out else self.privacy.epsilon - self.epsilon

    def to_dict(self) -> dict[str, Any]:
        """For result.json."""
        return {
            "clients": self.clients.tolist(),
            "held_out": self.held_out,
            "epsilon": self.epsilon,
            "epsilon_sum": SUM_SHARE * self.epsilon,
            "epsilon_second_moment": (1 - SUM_SHARE) * self.epsilon,
            "search_epsilon": self.search_epsilon,
            "clip": self.privacy.clip,
        }


def comparison_of(privacy: Privacy, clients: Ints, seed: int, asked: int = 1) -> Comparison | None:
    """Who compares, by a draw that depends on the seed and the clients alone; None where nothing is compared.

    Nobody is held out where the search could then not ask as many clients as one score needs (`asked`).

    >>> found = comparison_of(Privacy(1.0), np.arange(100), seed=0)
    >>> len(found.clients), len(found.searched), found.held_out, found.epsilon
    (20, 80, True, 1.0)
    >>> few = comparison_of(Privacy(1.0), np.arange(30), seed=0)
    >>> len(few.clients), len(few.searched), few.held_out, few.epsilon
    (30, 30, False, 0.2)
    """
    if not privacy.held_out:
        return None
    everybody: Ints = np.sort(np.asarray(clients, dtype=np.int64))
    count = int(privacy.held_out * len(everybody) + 1e-9)
    if count < LEAST or len(everybody) - count < asked:
        return Comparison(everybody, everybody, privacy)
    drawn: Ints = np.sort(stream(seed, "held out").choice(everybody, count, replace=False))
    return Comparison(drawn, np.setdiff1d(everybody, drawn), privacy)


def evaluation_facts(search: Search) -> dict[str, Any]:
    """The evaluation as it was asked for: the search may have a part of its epsilon."""
    plan, facts = search.comparison, search.evaluator.to_dict()
    return facts if plan is None else facts | {"privacy": plan.privacy.to_dict()}


def rivals_of(search: Search) -> int:
    """How many configs the choice was made from, the user's own left out: trials, or what they trained with.

    A policy tries more configs than there are trials.
    """
    counts = [len(vectors) for vectors in search.tried.values()]
    return max(1, len(search.trials) - 1, *(count - 1 for count in counts))


def released_gain(search: Search, channel: PrivateChannel, best: Trial, own: Trial) -> Gain | None:
    """The one private release of the comparison, paid before it is drawn; None where too few replied.

    Held-out clients cost the run only what they spend beyond the client of the search that spent most.
    """
    found = search.comparison
    assert found is not None

    def draw() -> Charged:
        scores = search.session.evaluate_beside([best.number, own.number], found.clients)
        came = np.logical_and.reduce([one.status != Status.MISSING for one in scores])
        cost = sum((one.cost for one in scores), Cost())
        if came.sum() < max(2, found.privacy.least(len(came))):
            return Charged(None, cost)
        ours, theirs = (bounded_scores(search.objective, one)[came] for one in scores)
        difference = ours - theirs if search.objective.maximise else theirs - ours
        return Charged(draw_comparison(difference, found, channel.noise(search, "compare")), cost)

    spent = search.ledger.epsilon
    epsilon = max(0.0, found.epsilon - spent) if found.held_out else found.epsilon
    key = {
        "trials": [[one.number, one.round] for one in (best, own)],
        "clients": found.clients.tolist(),
        "epsilon": found.epsilon,
        "clip": found.privacy.clip,
    }
    search.compared = True
    each = dict.fromkeys(found.clients.tolist(), found.epsilon)
    answer = search.session.decide("compare", key, draw, epsilon=epsilon, each=each)
    return None if answer is None else _read(search, found, answer, best.round)


def draw_comparison(difference: Floats, plan: Comparison, noise: Noise) -> dict[str, Any]:
    """What leaves the clients: the noisy mean of clipped differences, and that of their squares.

    Both are brought into [0, 1], where one client moves a sum by at most 1: by 2c of the differences, and by
    c^2 of their squares.
    """
    clip = plan.privacy.clip
    part: Floats = np.clip(difference, -clip, clip) / clip
    mean, scale = noisy_mean((part + 1) / 2, SUM_SHARE * plan.epsilon, noise)
    second, second_scale = noisy_mean(part**2, (1 - SUM_SHARE) * plan.epsilon, noise)
    return {
        "mean": clip * (2 * mean - 1),
        "scale": 2 * clip * scale,
        "second_moment": clip**2 * second,
        "second_scale": clip**2 * second_scale,
        "replies": len(part),
    }


def _read(search: Search, plan: Comparison, answer: dict[str, Any], round: int) -> Gain:
    """The gain and its test from what was released.

    Where nothing was gained the second moment is the variance; where something was it is more, so that the
    error is never too small.
    """
    replies, mean, scale = answer["replies"], answer["mean"], answer["scale"]
    spread = math.sqrt(non_negative(answer["second_moment"], answer["second_scale"]) / replies)
    return Gain(
        mean,
        math.hypot(spread, math.sqrt(2) * scale),
        replies,
        round,
        private_p_value(mean, spread, scale, replies),
        fresh=plan.held_out,
        rivals=rivals_of(search),
        clip=plan.privacy.clip,
    )


def bounded_scores(objective: Objective, scores: Scores) -> Floats:
    """Each client's score in [0, 1]: who failed, or said no score, said the worst one."""
    values = np.where(scores.status == Status.OK, objective.values(scores), math.nan)
    return bounded(values, maximise=objective.maximise)


def fresh_gain(search: Search, best: Trial, own: Trial) -> Gain | None:
    """The gain at clients that no score of the search came from; None where there are too few of them."""
    learned = search.exchange is not None or any(isinstance(t.policy, LearningState) for t in search.trials)
    alive = {best.number, own.number} <= set(search.session.trials)
    possible = search.compares_afresh and alive and not search.session.timed
    if not possible or learned or own.round != best.round:
        return None
    fresh = np.setdiff1d(search.population, sorted(search.asked))
    if len(fresh) > MOST:
        fresh = np.sort(stream(search.seed, "fresh").choice(fresh, MOST, replace=False))
    if len(fresh) < LEAST:
        return None
    numbers, objective = [best.number, own.number], search.objective

    def compare() -> Charged:
        scores = search.session.evaluate_beside(numbers, fresh)
        value, error, clients = gain_at_clients(objective, search.evaluator, *scores)
        known = math.isfinite(error)
        answer = {"value": value, "standard_error": error if known else None, "clients": clients}
        cost = sum((one.cost for one in scores), Cost())
        return Charged(answer | {"effective": effective(objective, scores[0])} if clients else None, cost)

    key = {"trials": [[one.number, one.round] for one in (best, own)], "clients": fresh.tolist()}
    answer = search.session.decide("compare", key, compare)
    if answer is None:
        return None
    error = math.nan if answer["standard_error"] is None else answer["standard_error"]
    p = p_value(answer["value"], error, answer["effective"])
    rivals = rivals_of(search)
    return Gain(answer["value"], error, answer["clients"], best.round, p, fresh=True, rivals=rivals)


def effective(objective: Objective, scores: Scores) -> float:
    """How many clients of equal weight a mean over these is worth (Kish, 1965)."""
    sizes = scores.size[(scores.status == Status.OK) & (scores.size > 0)].astype(np.float64)
    if objective.over == "trimmed":
        return len(sizes) * (1 - 2 * objective.trim)
    if objective.weighting == "uniform" or objective.robust or not len(sizes):
        return float(len(sizes))
    return float(sizes.sum() ** 2 / (sizes**2).sum())
