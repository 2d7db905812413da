"""Gap scores and pooled choices, and a planted fault for each condition that their proof needs.

Ten clients score two contenders. The client that differs says (0, 1) of them in world 0 and (1, 0) in world
1; a second one says (0, 1) in both, the others the same of both. So contender 0 is two windows behind in
world 0, and level in world 1: permute-and-flip then chooses it e^epsilon times as often, no more, no less.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from auditing.bound import Outcomes
from auditing.mechanisms import EPSILON, REPLIES, Draw, Mechanism
from fedhpo.privacy.accounting import epsilon_each
from fedhpo.privacy.gaps import gap_totals
from fedhpo.privacy.means import bounded
from fedhpo.privacy.noise import ExactNoise, Noise
from fedhpo.privacy.privacy import Privacy
from fedhpo.privacy.selection import SELECTIONS, permute_and_flip_scale
from fedhpo.protocol.federation import Floats

#: The window.
W = 0.25
#: Slots that one client is in, and the delta under which they are composed, for the fault of pairs.
REPEATS, DELTA = 8, 0.05

choose = SELECTIONS["permute-and-flip"]


def replies(world: int, pairs: int = 1) -> Floats:
    """`scores[contender, client]`; the first half of the contenders are the worse ones."""
    scores = np.full((2, REPLIES), 0.5)
    scores[:, 0] = world, 1 - world
    scores[:, 1] = 0, 1
    return np.repeat(scores, pairs, axis=0)


def worse_chosen(
    totals: Floats, most: float, noise: Noise, draws: int, count: int = 1, epsilon: float = EPSILON
) -> Outcomes:
    """How many of the worse contenders each of so many choices takes."""
    half = len(totals) // 2
    kept = (choose(totals, count, epsilon, most, noise) for _ in range(draws))
    return np.array([sum(place < half for place in one) for one in kept], np.float64)


def gaps(count: int = 1) -> Draw:
    """A choice of so many of twice as many, as a channel makes it."""

    def draw(world: int, noise: Noise, draws: int) -> Outcomes:
        totals, most = gap_totals(replies(world, count), W, noise, maximise=True)
        return worse_chosen(totals, most, noise, draws, count)

    return draw


def odd_gaps(world: int, noise: Noise, draws: int) -> Outcomes:
    """The client says NaN and 7 in world 0, which both are the worst score: no gap at all."""
    scores = replies(world)
    scores[:, 0] = (np.nan, 1.0) if world == 0 else (1.0, 7.0)
    totals, most = gap_totals(bounded(scores, maximise=True), W, noise, maximise=True)
    return worse_chosen(totals, most, noise, draws)


def two_pools(world: int, noise: Noise, draws: int) -> Outcomes:
    """Two pooled choices at the same clients, each asked and paid for itself: half of epsilon each."""
    totals, most = gap_totals(replies(world), W, noise, maximise=True)
    first, second = (worse_chosen(totals, most, noise, draws, epsilon=EPSILON / 2) for _ in range(2))
    return first + second


def fair_prior(world: int, noise: Noise, draws: int) -> Outcomes:
    """Ranks from elsewhere, the same in both worlds, are added: they cost nothing."""
    return _with_prior(world, noise, draws, np.array([1.0, 0.0]))


def _with_prior(world: int, noise: Noise, draws: int, rank: Floats) -> Outcomes:
    totals, most = gap_totals(replies(world), W, noise, maximise=True)
    return worse_chosen(totals + 3 * permute_and_flip_scale(1, EPSILON, most) * rank, most, noise, draws)


class Coarse(ExactNoise):
    """Three steps in place of 10^9, so that a step can be seen."""

    GRID = 3
    unit, step = 1 / 3, 3.0


def coarse_gaps(world: int, noise: Noise, draws: int) -> Outcomes:
    """A window of 1.5 steps, rounded up to 2."""
    totals, most = gap_totals(replies(world), 0.5, Coarse(), maximise=True)
    return worse_chosen(totals, most, Coarse(), draws)


# Faults


def _faulty(gap: Callable[[Floats], Floats], said: Callable[[int], Floats] = replies) -> Draw:
    """Sums of what `gap` makes of replies, with the noise of true gaps."""

    def draw(world: int, noise: Noise, draws: int) -> Outcomes:
        return worse_chosen(gap(said(world)).sum(axis=1), W, noise, draws)

    return draw


def _louder(world: int) -> Floats:
    """The client says 0 of both, or 1 of both, which are no gaps; all others prefer the second a little."""
    scores = np.tile(np.array([[0.5], [0.6]]), REPLIES)
    scores[:, 0] = world
    return scores


def _odd(world: int) -> Floats:
    scores = replies(world)
    scores[:, 0] = (np.nan, 1.0) if world == 0 else (1.0, np.nan)
    scores[:, 2] = 0.0, 1.0
    return scores


def _clipped_first(scores: Floats) -> Floats:
    """NaN is still there after clipping, and then becomes the worst score there is, 1 behind."""
    clipped = np.clip(scores - np.nanmax(scores, axis=0), -W, 0)
    return np.where(np.isnan(clipped), -1.0, clipped)


def _own(scores: Floats) -> Floats:
    found: Floats = scores - scores.max(axis=0)
    return found


def spread_window(world: int, noise: Noise, draws: int) -> Outcomes:
    """w is the largest gap that was said: one client widens it, and the noise with it."""
    scores = np.tile(np.array([[0.5], [0.51]]), REPLIES)
    scores[:, 0] = 0.5 - world / 2, 0.5 + world / 2
    gap = _own(scores)
    return worse_chosen(gap.sum(axis=1), float(-gap.min()), noise, draws)


def count_forgotten(world: int, noise: Noise, draws: int) -> Outcomes:
    """Two are chosen, each with the whole epsilon."""
    totals, most = gap_totals(replies(world, 2), W, noise, maximise=True)
    return worse_chosen(totals, most, noise, draws, 2, 2 * EPSILON)


def _repeated(world: int, noise: Noise, times: int) -> tuple[Floats, float]:
    """Sums where the first two clients are in so many slots."""
    scores = replies(world)
    return gap_totals(np.hstack([scores, *[scores[:, :2]] * (times - 1)]), W, noise, maximise=True)


def two_slots(world: int, noise: Noise, draws: int) -> Outcomes:
    """A client is in two slots of a pool and charged once."""
    totals, most = _repeated(world, noise, 2)
    return worse_chosen(totals, most, noise, draws)


def slots_as_pairs(world: int, noise: Noise, draws: int) -> Outcomes:
    """A client is in eight slots of a pool, which `pld` composes as eight releases."""
    privacy = Privacy(EPSILON, mechanism="permute-and-flip", accounting="pld", delta=DELTA)
    totals, most = _repeated(world, noise, REPEATS)
    return worse_chosen(totals, most, noise, draws, epsilon=epsilon_each(privacy, REPEATS))


def one_pair(world: int, noise: Noise, draws: int) -> Outcomes:
    """The same client in eight slots, as one release of eight times the epsilon of one."""
    totals, most = _repeated(world, noise, REPEATS)
    return worse_chosen(totals, most, noise, draws, epsilon=EPSILON / REPEATS)


def used_again(world: int, noise: Noise, draws: int) -> Outcomes:
    """The scores of a pool are kept, and a later rung chooses by them for nothing."""
    totals, most = gap_totals(replies(world), W, noise, maximise=True)
    return worse_chosen(totals, most, noise, draws) + worse_chosen(totals, most, noise, draws)


def counted_recorded(world: int, noise: Noise, draws: int) -> Outcomes:
    """Who counted is recorded, and a client that says NaN does not count."""
    scores = _odd(world) if world == 0 else replies(world)
    known = ~np.isnan(scores).any(axis=0)
    totals, most = gap_totals(scores[:, known], W, noise, maximise=True)
    return worse_chosen(totals, most, noise, draws) + 10.0 * known[0]


def own_prior(world: int, noise: Noise, draws: int) -> Outcomes:
    """The prior's ranks come from scores of the same clients, which nobody paid for."""
    scores = replies(world)
    scores[:, 1] = 0.5
    return _with_prior(world, noise, draws, scores.mean(axis=1).argsort().astype(float))


def noise_reused(world: int, noise: Noise, draws: int) -> Outcomes:
    """A lost release is drawn again with the same noise, after the client said something else in world 1."""
    first, most = gap_totals(replies(0), W, noise, maximise=True)
    second, _ = gap_totals(replies(world), W, noise, maximise=True)
    found = np.zeros(draws)
    for draw in range(draws):
        state = noise.rng.bit_generator.state
        before = choose(first, 1, EPSILON, most, noise)
        noise.rng.bit_generator.state = state
        found[draw] = float(before != choose(second, 1, EPSILON, most, noise))
    return found


def float_gaps(world: int, noise: Noise, draws: int) -> Outcomes:
    """Gaps are clipped as floats, and only their sum goes onto the grid; the window is rounded down."""
    coarse, width = Coarse(), 0.5
    totals = np.clip(_own(replies(world)), -width, 0).sum(axis=1)
    steps = np.array([np.floor(coarse.GRID * value) for value in totals])
    return worse_chosen(steps, float(np.floor(width * coarse.GRID)), coarse, draws)


def _both(name: str, draw: Draw, tight: bool = True) -> list[Mechanism]:
    return [Mechanism(name, draw, tight), Mechanism(f"{name}, exact", draw, tight, exact=True)]


GAPS = (
    *_both("gaps, 1 of 2", gaps()),
    *_both("gaps, 2 of 4", gaps(2), tight=False),
    *_both("gaps, odd scores", odd_gaps),
    Mechanism("gaps on a coarse grid, exact", coarse_gaps),
    *_both("two pooled choices", two_pools),
    *_both("gaps with a prior from elsewhere", fair_prior, tight=False),
    Mechanism("eight slots as one pair", one_pair),
)
GAP_FAULTS = (
    Mechanism(
        "another client's best", _faulty(lambda scores: np.clip(scores - scores.max(), -W, 0), _louder)
    ),
    Mechanism("clipped before the worst-score rule", _faulty(_clipped_first, _odd)),
    Mechanism("an unclamped gap", _faulty(_own)),
    Mechanism("a window from the replies' spread", spread_window),
    Mechanism("k forgotten", count_forgotten),
    Mechanism("two slots charged once", two_slots),
    Mechanism("slots as pairs under pld", slots_as_pairs, delta=DELTA),
    Mechanism("pooled scores used again", used_again),
    Mechanism("who counted is recorded", counted_recorded),
    Mechanism("a prior from the same clients", own_prior),
    Mechanism("noise reused on changed replies", noise_reused),
    Mechanism("floating-point gaps, exact", float_gaps),
)
