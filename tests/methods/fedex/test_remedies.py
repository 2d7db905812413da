"""What keeps FedEx from settling too early: each remedy by its numbers."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.isotonic import IsotonicRegression

from fedhpo.methods.fedex.elimination import Elimination
from fedhpo.methods.fedex.landmarks import Landmark, in_order
from fedhpo.methods.fedex.learned import LearnedPolicy
from fedhpo.methods.fedex.policy import FedExPolicy
from fedhpo.methods.fedex.state import FedExState, entropy_of

from .test_policy import ARMS, FACTOR, Draws, odds, play, report

FIVE = LearnedPolicy.uniform([{"lr": 0.1 * (i + 1)} for i in range(5)])


def test_exploration_bounds_the_importance_weights():
    """An arm with hardly any weight is still drawn with explore / arms, which divides its gradient."""
    start = LearnedPolicy(ARMS.arms, (0.0, -50.0))
    state = FedExState(FedExPolicy(steps="constant", explore=0.2), start)
    state.assign([0], Draws([1]))
    state.learn(report([2.0], size=[1]))
    # Chance of arm 1: 0.8 * exp(-50) + 0.2 / 2 = 0.1; gradient (2 - 3) / 0.1 = -10.
    assert odds(state) == pytest.approx(50 - 10 * FACTOR)


@pytest.mark.parametrize("steps", ["constant", "aggressive"])
def test_exploration_reaches_every_arm(steps):
    """Plain FedEx settles on what it met first; with a share of uniform draws nobody starves."""
    drawn = {}
    for explore in (0.0, 0.3):
        state, rng = FedExState(FedExPolicy(steps=steps, explore=explore), FIVE), np.random.default_rng(0)
        seen = np.zeros(5, dtype=int)
        for number in range(60):
            state.assign(range(4), rng)
            arms = np.array(state._drawn[0])
            if number >= 20:
                seen += np.bincount(arms, minlength=5)
            state.learn(report(3 - 0.1 * arms, number=number + 1, size=[1] * 4))
        drawn[explore] = seen
    assert (drawn[0.3] > 0).all()
    assert (drawn[0.0] == 0).any()


def test_entropy_regularisation_in_closed_form():
    """The regularised step is (log theta - eta g) / (1 + eta lambda), shown by its optimality condition."""
    strength = 0.3
    state = play(FedExPolicy(steps="constant", entropy=strength), [([0, 1], report([2.0, 4.0], size=[1, 1]))])
    # Half of the rows each, theta = 1/2: g = (-1, 1), so that the plain log odds are 2 * FACTOR.
    assert odds(state) == pytest.approx(2 * FACTOR / (1 + FACTOR * strength))
    # theta minimises <g, theta> - lambda H(theta) + KL(theta, (1/2, 1/2)) / eta.
    g = np.array([-1.0, 1.0])

    def objective(p):
        theta = np.array([p, 1 - p])
        kl = float((theta * np.log(theta / 0.5)).sum())
        return float(g @ theta) - strength * entropy_of(theta) + kl / FACTOR

    best = state.weights[0]
    assert objective(best) < min(objective(best - 1e-3), objective(best + 1e-3))


def test_entropy_regularisation_keeps_the_order_and_flattens():
    plain, flat = (
        play(FedExPolicy(steps="constant", entropy=e), [([0, 1], report([2.0, 4.0], size=[1, 1]))])
        for e in (0.0, 1.0)
    )
    assert entropy_of(flat.weights) > entropy_of(plain.weights)
    assert flat.best == plain.best == 0


def test_elimination_bound_by_hand():
    """Two arms, four scores each: 0, 0, 0, 0.2 and x, x, x, x + 0.2; delta 0.1.

    Each arm's squares around its mean add up to 0.03. The 5% quantile of chi squared with 8 - 2 = 6 degrees
    of freedom is 1.63538 (any table), so that the variance is at most 0.06 / 1.63538 = 0.036689, the spread
    0.191543. The radius is 0.191543 * sqrt(2 ln(4 * 2 * 16 / 0.1) / 4) = 0.362287: the worse arm goes
    once x is above twice that.
    """
    radius = math.sqrt(0.06 / 1.63538) * math.sqrt(2 * math.log(4 * 2 * 16 / 0.1) / 4)
    assert radius == pytest.approx(0.3623, abs=1e-4)
    for gap, alive in ((2 * radius - 0.001, [True, True]), (2 * radius + 0.001, [True, False])):
        arms = Elimination(2, delta=0.1)
        scores = np.array([0.0, 0.0, 0.0, 0.2])
        arms.see(np.repeat([0, 1], 4), np.concatenate([scores, scores + gap]))
        assert arms.alive.tolist() == alive


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 999))
def test_elimination_never_drops_all_and_puts_the_dropped_lowest(seed):
    rng = np.random.default_rng(seed)
    arms = Elimination(6, delta=0.3)
    for _ in range(40):
        drawn = rng.choice(np.flatnonzero(arms.alive), 4)
        arms.see(drawn, drawn + rng.normal(0, 0.5, 4))
    assert arms.alive[0] or not arms.alive.all()
    assert arms.alive.any()
    ranked = arms.below(rng.normal(size=6))
    if arms.order:
        assert ranked[arms.alive].min() > ranked[~arms.alive].max()
        best_first = sorted(arms.order, key=lambda arm: arms._sum[arm] / arms._count[arm])
        assert ranked[best_first].tolist() == sorted(ranked[arms.order], reverse=True)


def test_equal_arms_are_hardly_ever_eliminated():
    wrong = 0
    for seed in range(40):
        rng, arms = np.random.default_rng(seed), Elimination(5, delta=0.1)
        for _ in range(50):
            arms.see(rng.integers(0, 5, 4), rng.normal(size=4))
        wrong += bool(arms.order)
    assert wrong / 40 <= 0.1


def test_an_eliminated_arm_is_drawn_no_more_and_not_in_the_learned_policy():
    state, rng = (
        FedExState(FedExPolicy(steps="auto", eliminate=0.2, explore=0.5), FIVE),
        np.random.default_rng(1),
    )
    for number in range(60):
        state.assign(range(6), rng)
        arms = np.array(state._drawn[0])
        loss = 2 + 2.0 * (arms == 4) + 0.01 * rng.normal(size=6)
        state.learn(report(loss, size=[1] * 6, number=number + 1))
    assert state.history()["eliminated"] == [4]
    assert state.weights[4] == 0
    assert int(np.argmin(state.log_weights)) == 4
    assert FIVE.arms[4] not in state.assign(range(500), rng)
    assert len(state.learned.arms) == 4


@settings(max_examples=50, deadline=None)
@given(values=st.lists(st.floats(-5, 5), min_size=2, max_size=8), seed=st.integers(0, 99))
def test_landmark_order_is_isotonic_regression(values, seed):
    values = np.array(values)
    order = np.random.default_rng(seed).permutation(len(values))
    expected = IsotonicRegression(increasing=False).fit_transform(np.arange(len(values)), values[order])
    assert in_order(values, order.tolist())[order] == pytest.approx(expected, abs=1e-9)


def test_landmarks_keep_their_order():
    """Alone, arm 1 was best, then 0; what the rounds say to the contrary is pooled."""
    landmarks = [Landmark(ARMS.arms[0], 0.9), Landmark(ARMS.arms[1], 0.1)]
    state = FedExState(FedExPolicy(steps="constant"), ARMS, landmarks)
    state.assign([0, 1], Draws([0, 1]))
    state.learn(report([2.0, 4.0], size=[1, 1]))
    assert odds(state) == pytest.approx(0)
    state.assign([0, 1], Draws([0, 1]))
    state.learn(report([4.0, 2.0], size=[1, 1], number=2))
    assert state.best == 1


def test_automatic_exploration_begins_uniform_and_falls():
    """Two arms: sqrt(2 ln 2 / (1.718 n)) is 0.2841 for n = 10 draws."""
    start = LearnedPolicy(ARMS.arms, (0.0, -50.0))
    state = FedExState(FedExPolicy(steps="constant", explore="auto"), start)
    state.assign(range(10), Draws([1] * 10))
    share = math.sqrt(2 * math.log(2) / ((math.e - 1) * 10))
    assert share == pytest.approx(0.2841, abs=1e-4)
    assert state._drawn[1] == pytest.approx([1 - share / 2, share / 2])
    many = FedExState(FedExPolicy(explore="auto"), LearnedPolicy.uniform([{"lr": i} for i in range(27)]))
    many.assign(range(4), np.random.default_rng(0))
    assert many._drawn[1] == pytest.approx(np.full(27, 1 / 27))  # 27 ln 27 is more than 1.718 * 4
