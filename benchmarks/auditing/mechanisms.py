"""What is audited: each mechanism as the library draws it, at neighbouring inputs that differ most.

World 0 and world 1 differ in all scores of one client. A mechanism draws numbers of which large ones speak
for world 1. All state epsilon 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from unittest import mock

import numpy as np

from auditing.bound import Outcomes, evidence
from fedhpo.privacy import noise as noises
from fedhpo.privacy.caps import ClientCaps
from fedhpo.privacy.local import LocalPrivacy
from fedhpo.privacy.means import bounded, noisy_mean
from fedhpo.privacy.noise import ExactNoise, Noise, SeededNoise
from fedhpo.privacy.rotation import most_asked, rotation_order, slot_cohort, weights_of_values
from fedhpo.privacy.selection import SELECTIONS
from fedhpo.protocol.federation import Floats, Ints

EPSILON = 1.0

#: From a world, a source of noise and a number, so many draws.
Draw = Callable[[int, Noise, int], Outcomes]


@dataclass(frozen=True)
class Mechanism:
    """`tight` ones reach their epsilon at these inputs, so that the audit must see most of it.

    What is stated is (epsilon, `delta`).
    """

    name: str
    draw: Draw
    tight: bool = True
    exact: bool = False
    delta: float = 0.0


class Ahead:
    """A source of noise that draws in blocks what it will be asked for again: by the same call, only sooner.

    OpenDP takes as long for one number as for forty.
    """

    def __init__(self, inner: Noise, block: int = 4096) -> None:
        self._inner, self._block = inner, block
        self._left: dict[tuple[bytes, float], list[Floats]] = {}
        self.name, self.unit, self.step, self.rng = inner.name, inner.unit, inner.step, inner.rng
        self.total, self.mean, self.sensitivity = inner.total, inner.mean, inner.sensitivity
        self.permute_and_flip = inner.permute_and_flip
        self.steps, self.widest = inner.steps, inner.widest

    def laplace(self, values: Floats, scale: float) -> Floats:
        """The values, each with Laplace noise of this scale."""
        left = self._left.setdefault((values.tobytes(), scale), [])
        if not left:
            drawn = self._inner.laplace(np.tile(values, self._block), scale)
            left.extend(drawn.reshape(self._block, len(values)))
        return left.pop()


def source(exact: bool, seed: int) -> Noise:
    """Noise as a real release draws it, or a simulated one."""
    return Ahead(ExactNoise()) if exact else SeededNoise(np.random.default_rng(seed))


# Means

#: Clients of a mean. One of them says 0 in world 0 and 1 in world 1; the others say 0.
CLIENTS = 5


def said(world: int, clients: int = CLIENTS) -> Floats:
    """The scores of a cohort with the client that differs."""
    return np.array([float(world), *[0.0] * (clients - 1)])


def means(world: int, noise: Noise, draws: int, releases: int, epsilon: float) -> Outcomes:
    """Several noisy means over one cohort, each with this epsilon, as shares of what the client can do."""
    drawn = [[noisy_mean(said(world), epsilon, noise)[0] for _ in range(releases)] for _ in range(draws)]
    return evidence(np.array(drawn) * CLIENTS)


def one_mean(world: int, noise: Noise, draws: int) -> Outcomes:
    """One score of one trial."""
    return means(world, noise, draws, 1, EPSILON)


def paired_means(world: int, noise: Noise, draws: int) -> Outcomes:
    """Three trials at one cohort: a client weighs three times in the release."""
    weight = max(weights_of_values([range(CLIENTS)] * 3).values())
    return means(world, noise, draws, 3, EPSILON / weight)


def odd_score(world: int, noise: Noise, draws: int) -> Outcomes:
    """A client says NaN in world 0, and 1 in world 1; how many replied is told beside the mean."""
    given = said(1)
    given[0] = np.nan if world == 0 else 1.0
    scores = bounded(given, maximise=True)
    replies = len(scores)
    drawn = np.array([noisy_mean(scores, EPSILON, noise)[0] for _ in range(draws)])
    return evidence(drawn[:, None] * CLIENTS) + 10.0 * (replies - CLIENTS)


# Rotation

#: Clients, of which each slot asks one, and slots.
ROTATING, SLOTS = 4, 7


def rotated(world: int, noise: Noise, draws: int) -> Outcomes:
    """Each of seven scores asks the next client of four: nobody is in more than two."""
    order = rotation_order(range(ROTATING), seed=0)
    cohorts = [slot_cohort(order, slot, 1) for slot in range(SLOTS)]
    most = most_asked(SLOTS, 1, ROTATING)
    caps = ClientCaps(most)
    for cohort in cohorts:
        caps.take(weights_of_values([cohort]))
    assert caps.heaviest is not None
    return evidence(asked_in_turn(world, noise, draws, lambda _: cohorts, caps.heaviest, EPSILON / most))


def asked_in_turn(
    world: int,
    noise: Noise,
    draws: int,
    cohorts: Callable[[int], list[Ints]],
    client: int,
    epsilon: float,
) -> Outcomes:
    """One noisy mean a slot; 1/2, which says nothing, where the client was not asked."""
    found = np.full((draws, SLOTS), 0.5)
    for draw in range(draws):
        for slot, cohort in enumerate(cohorts(draw)):
            value = noisy_mean(np.full(len(cohort), float(world)), epsilon, noise)[0]
            if client in cohort:
                found[draw, slot] = value
    return found


# Rounds, and local searches


def arms(world: int, noise: Noise, draws: int) -> Outcomes:
    """FedEx: the sum of each arm, and a first baseline over all members, which is one look more."""
    groups = np.array([0, 0, 1, 1, 2])
    scores, looks = said(world), 2
    drawn = [
        [
            *(noisy_mean(scores[groups == arm], EPSILON / looks, noise)[0] for arm in range(3)),
            noisy_mean(scores, EPSILON / looks, noise)[0],
        ]
        for _ in range(draws)
    ]
    of_client = np.array(drawn)[:, [0, 3]] * [2, CLIENTS]  # the others are the same in both worlds
    return evidence(of_client)


def local_losses(world: int, noise: Noise, draws: int) -> Outcomes:
    """FLoRA: two losses of a party's own search."""
    release = "simulated" if isinstance(noise, SeededNoise) else "exact"
    privacy = LocalPrivacy(epsilon=EPSILON, release=release)
    with mock.patch.object(noises, "ExactNoise", return_value=noise):
        drawn = [[privacy.noisy(float(world), 2, noise.rng) for _ in range(2)] for _ in range(draws)]
    return evidence(np.array(drawn))


def local_choice(best: int) -> Draw:
    """FLoRA: the best of eight configs, whose losses are in the opposite order in world 1.

    At epsilon 1 three are favoured; what counts is how many of the three best of world 1 are chosen.
    """

    def draw(world: int, noise: Noise, draws: int) -> Outcomes:
        release = "simulated" if isinstance(noise, SeededNoise) else "exact"
        privacy = LocalPrivacy(epsilon=EPSILON, release=release)
        losses = (np.arange(8) / 7)[:: 1 - 2 * world].tolist()
        found = np.zeros(draws)
        with mock.patch.object(noises, "ExactNoise", return_value=noise):
            for place in range(draws):
                chosen = privacy.best(losses, best, noise.rng)
                found[place] = sum(one >= 5 for one, _ in chosen)
        return found

    return draw


# Choices

#: Clients that score each candidate.
REPLIES = 10


def choice(name: str, count: int, ahead: float) -> Draw:
    """`count` of twice as many candidates. Half of them are `ahead` times one client's part better than the
    others, at whom the client that differs says 0 in world 0 and 1 in world 1, and the opposite at the better
    ones. What counts is how many of the worse are chosen."""
    choose = SELECTIONS[name]

    def draw(world: int, noise: Noise, draws: int) -> Outcomes:
        others = REPLIES - 1
        worse = np.array([float(world), *[0.2] * others])
        better = np.array([1.0 - world, *[0.2 + ahead / others] * others])
        values = np.array([noise.mean(scores) for scores in [worse] * count + [better] * count])
        sensitivity = noise.sensitivity(REPLIES)
        kept = (choose(values, count, EPSILON, sensitivity, noise) for _ in range(draws))
        return np.array([sum(place < count for place in one) for one in kept], np.float64)

    return draw


def _both(name: str, draw: Draw, tight: bool = True) -> list[Mechanism]:
    return [Mechanism(name, draw, tight), Mechanism(f"{name}, exact", draw, tight, exact=True)]


MECHANISMS = (
    *_both("Laplace mean", one_mean),
    Mechanism("three Laplace means at one cohort", paired_means),
    Mechanism("a score that is NaN", odd_score),
    *_both("rotation, 7 scores, 4 clients", rotated),
    *_both("FedEx's sums", arms),
    *_both("FLoRA's local noise", local_losses),
    *_both("FLoRA's local choice, 1 of 8", local_choice(1)),
    Mechanism("FLoRA's local choice, 2 of 8", local_choice(2), tight=False),
    *_both("permute-and-flip, 1 of 2", choice("permute-and-flip", 1, 1.0)),
    Mechanism("permute-and-flip, 2 of 4", choice("permute-and-flip", 2, 1.0), tight=False),
    *_both("top-k, 1 of 2", choice("topk", 1, 3.0), tight=False),
    Mechanism("top-k, 2 of 4", choice("topk", 2, 3.0), tight=False),
    Mechanism("top-k, 9 of 18", choice("topk", 9, 3.0), tight=False),
    Mechanism("repeated, 1 of 2", choice("repeated", 1, 1.0), tight=False),
)
