"""FedEx: two arms and three clients, worked out by hand."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedhpo as fh
from fedhpo.core.errors import InputError
from fedhpo.methods.fedex.learned import LearnedPolicy
from fedhpo.methods.fedex.policy import FedExPolicy
from fedhpo.methods.fedex.state import FedExState
from fedhpo.protocol.federation import RoundReport, Status
from fedhpo.protocol.reasons import Reason, Why

ARMS = LearnedPolicy.uniform([{"lr": 0.1}, {"lr": 0.2}])
SPACE = fh.Space(client={"lr": fh.Float(0.01, 1.0, log=True), "epochs": fh.Int(1, 5)}, server={"lr": 1.0})


class Draws:
    """In place of a generator: gives the arms that a test names."""

    def __init__(self, arms):
        self.arms = arms

    def choice(self, count, size, p):
        assert len(self.arms) == size
        assert p.sum() == pytest.approx(1)
        return np.array(self.arms)


def report(after, before=None, size=(1, 1, 2), number=1, status=None, reasons=None):
    count = len(after)
    before = [3.0] * count if before is None else before
    return RoundReport(
        0,
        number,
        True,
        10 + np.arange(count),
        np.array(status or [Status.OK] * count, dtype=np.int8),
        np.array(size),
        np.array(size),
        np.array(before, dtype=float),
        np.array(after, dtype=float),
        1 - np.array(before, dtype=float) / 10,
        1 - np.array(after, dtype=float) / 10,
        reasons or {},
    )


def play(policy, rounds, start=ARMS):
    """The state after rounds of (arms drawn, report)."""
    state = FedExState(policy, start)
    for arms, one in rounds:
        state.assign(range(len(arms)), Draws(arms))
        state.learn(one)
    return state


def odds(state):
    """log(theta_0 / theta_1)."""
    return state.log_weights[0] - state.log_weights[1]


# Three clients with 1, 1 and 2 validation rows; all had a loss of 3.0 before training.
# Round 1: arms 0, 1, 1 end at losses 2, 4, 3: mean (1*2 + 1*4 + 2*3)/4 = 3.
# Round 2: arms 0, 0, 1 end at losses 1, 2, 2: mean (1*1 + 1*2 + 2*2)/4 = 1.75.
ROUNDS = [([0, 1, 1], report([2, 4, 3])), ([0, 0, 1], report([1, 2, 2], number=2))]
FACTOR = math.sqrt(2 * math.log(2))


def by_hand(steps, first):
    """The log odds after both rounds; with one round behind, gamma makes no difference."""
    # Round 1, theta = (1/2, 1/2), baseline b: the gradients are
    #   g_0 = 1*(2 - b) / (1/2 * 4) = (2 - b)/2 and g_1 = (1*(4 - b) + 2*(3 - b)) / (1/2 * 4) = (10 - 3b)/2.
    b = {"zero": 0.0, "pretrain": 3.0, "skip": None}[first]
    # zero: g = (1, 5); pretrain: g = (-1/2, 1/2).
    g1 = None if b is None else ((2 - b) / 2, (10 - 3 * b) / 2)
    assert g1 in (None, (1.0, 5.0), (-0.5, 0.5))
    largest1 = 0.0 if g1 is None else max(abs(g1[0]), abs(g1[1]))
    step1 = {"constant": 1.0, "adaptive": 1 / (largest1 or 1), "aggressive": 1 / (largest1 or 1), "auto": 1.0}
    log_odds = 0.0 if g1 is None else -FACTOR * step1[steps] * (g1[0] - g1[1])
    # Round 2: theta_0 = 1 / (1 + exp(-log odds)); the baseline is round 1's mean, 3, whatever gamma.
    theta = 1 / (1 + math.exp(-log_odds))
    #   g_0 = (1*(1 - 3) + 1*(2 - 3)) / (theta_0 * 4) = -3/(4 theta_0), g_1 = 2*(2 - 3)/(theta_1 * 4).
    g2 = -3 / (4 * theta), -2 / (4 * (1 - theta))
    largest2 = max(abs(g2[0]), abs(g2[1]))
    updates = 1 if g1 is None else 2
    step2 = {
        "constant": 1.0,
        "adaptive": 1 / math.sqrt(largest1**2 + largest2**2),
        "aggressive": 1 / largest2,
        "auto": 1 / math.sqrt(updates),
    }
    return log_odds - FACTOR * step2[steps] * (g2[0] - g2[1])


@pytest.mark.parametrize("first", ["zero", "pretrain", "skip"])
@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("steps", ["constant", "adaptive", "aggressive", "auto"])
def test_two_rounds_of_two_arms_and_three_clients(steps, gamma, first):
    state = play(FedExPolicy(steps=steps, gamma=gamma, baseline=first), ROUNDS)
    assert odds(state) == pytest.approx(by_hand(steps, first), rel=1e-9)
    assert state.weights.sum() == pytest.approx(1)


def test_plain_numbers_of_the_first_round():
    """Aggressive from zero: g = (1, 5), so the log odds are FACTOR * (5 - 1)/5."""
    state = play(FedExPolicy(steps="aggressive", baseline="zero"), ROUNDS[:1])
    assert odds(state) == pytest.approx(0.8 * FACTOR)
    assert state.weights[0] == pytest.approx(1 / (1 + math.exp(-0.8 * 1.1774100225)))


@pytest.mark.parametrize(("gamma", "third"), [(0.0, 1.0), (0.5, 5 / 3), (1.0, 2.0)])
def test_gamma_weighs_the_rounds_before(gamma, third):
    """Means of 3 and 1: the third baseline is 1, (1 + 3/2)/(3/2) = 5/3, or 2."""
    quiet = [([0, 1, 0], report([3, 3, 3])), ([0, 1, 0], report([1, 1, 1]))]
    # Both arms did the same in each round; only what they did against the baseline moves them.
    before = play(FedExPolicy(steps="constant", gamma=gamma, baseline="pretrain"), quiet)
    after = play(
        FedExPolicy(steps="constant", gamma=gamma, baseline="pretrain"),
        [*quiet, ([0, 1, 0], report([1, 1, 1]))],
    )
    theta = before.weights
    gradient = np.array([3 * (1 - third) / (4 * theta[0]), 1 * (1 - third) / (4 * theta[1])])
    assert odds(after) - odds(before) == pytest.approx(-FACTOR * (gradient[0] - gradient[1]), abs=1e-9)


def test_worked_example_of_the_critique():
    """Loss 3.0 before, 2.7 after: from zero the sampled arm loses weight, from pretrain it gains."""
    one = [([0], report([2.7], [3.0], size=[1]))]
    zero = play(FedExPolicy(steps="constant", baseline="zero"), one)
    pretrain = play(FedExPolicy(steps="constant", baseline="pretrain"), one)
    # g_0 = 2.7 / (1/2) = 5.4, and -0.3 / (1/2) = -0.6.
    assert odds(zero) == pytest.approx(-5.4 * FACTOR)
    assert odds(pretrain) == pytest.approx(0.6 * FACTOR)
    assert zero.weights[0] < 0.5 < pretrain.weights[0]


def test_skip_leaves_the_first_round_out_but_remembers_it():
    state = play(FedExPolicy(baseline="skip"), ROUNDS[:1])
    assert state.weights.tolist() == [0.5, 0.5]


def test_error_and_difference():
    one = [([0, 1], report([2.0, 4.0], [3.0, 3.0], size=[1, 1]))]
    # Errors are losses / 10 in these reports. Difference: -1 and +1, over theta = 1/2 and two rows.
    difference = play(FedExPolicy(steps="constant", difference=True), one)
    assert odds(difference) == pytest.approx(-FACTOR * (-1 - 1))
    error = play(FedExPolicy(steps="constant", metric="error"), one)
    assert odds(error) == pytest.approx(-FACTOR * ((0.2 - 0.3) - (0.4 - 0.3)))


def test_only_used_replies_count():
    everybody = play(FedExPolicy(steps="constant"), [([0, 1], report([2.0, 4.0], size=[1, 1]))])
    some = play(
        FedExPolicy(steps="constant"),
        [
            (
                [0, 1, 1, 0],
                report(
                    [2.0, 4.0, math.nan, 9.0],
                    size=[1, 1, 0, 0],
                    status=[Status.OK, Status.OK, Status.MISSING, Status.FAILED],
                    reasons={3: Reason(Why.RAISED, "out of memory")},
                ),
            )
        ],
    )
    assert odds(some) == pytest.approx(odds(everybody))
    nobody = play(FedExPolicy(), [([0], report([math.nan], [math.nan], size=[0], status=[Status.MISSING]))])
    assert nobody.weights.tolist() == [0.5, 0.5]


@pytest.mark.parametrize(("clip", "worst"), [(None, 4.0), (10.0, 10.0), (3.5, 3.5)])
def test_a_loss_that_is_not_finite_counts_as_the_worst(clip, worst):
    """Without a clip that is the largest finite loss in the report, 4 here (before training: 3)."""
    diverged = report([2.0, 4.0, math.inf], size=[1, 1, 1])
    told = report([2.0, min(4.0, worst), worst], size=[1, 1, 1])
    policy = FedExPolicy(steps="constant", clip=clip)
    arms = [0, 0, 1]
    assert odds(play(policy, [(arms, diverged)])) == pytest.approx(
        odds(play(FedExPolicy(steps="constant"), [(arms, told)]))
    )


def test_an_update_refused_as_not_finite_counts_against_its_arm():
    """It comes back as failed, without a score or a size: worst loss, mean size."""
    one = report(
        [2.0, math.nan],
        [3.0, math.nan],
        size=[2, 0],
        status=[Status.OK, Status.FAILED],
        reasons={1: Reason(Why.DIVERGED)},
    )
    same = report([2.0, 3.0], [3.0, 3.0], size=[2, 2])
    assert odds(play(FedExPolicy(steps="constant"), [([0, 1], one)])) == pytest.approx(
        odds(play(FedExPolicy(steps="constant"), [([0, 1], same)]))
    )


def test_below_the_cutoff_everybody_gets_the_arm_with_most_weight():
    state = play(FedExPolicy(steps="constant", cutoff=0.6), [([0], report([2.0], size=[1]))])
    # g_0 = -2, log odds 2 * 1.177 = 2.35: the entropy of (0.913, 0.087) is 0.295.
    assert state.stopped
    before = state.weights.tolist()
    assert state.assign(range(50), np.random.default_rng(0)) == [{"lr": 0.1}] * 50
    state.learn(report([9.0] * 50, [3.0] * 50, size=[1] * 50))
    assert state.weights.tolist() == before


def test_the_cohort_draws_from_the_distribution():
    state = FedExState(FedExPolicy(), LearnedPolicy(ARMS.arms, (math.log(3), 0.0)))
    drawn = state.assign(range(10_000), np.random.default_rng(0))
    assert sum(arm == {"lr": 0.1} for arm in drawn) / 10_000 == pytest.approx(0.75, abs=0.02)


def test_arm_zero_is_the_centre_and_the_others_lie_in_the_ball():
    config = SPACE.sample(np.random.default_rng(3))
    state = FedExPolicy(arms=9, eps=0.1).begin(config, SPACE, np.random.default_rng(0))
    assert state.arms[0] == config.client
    assert len(set(state.arms)) == 9
    for arm in state.arms:
        assert abs(math.log10(arm["lr"] / config.client["lr"])) <= 0.2 + 1e-9
        assert abs(arm["epochs"] - config.client["epochs"]) <= 1


def test_a_radius_of_one_is_the_whole_space():
    state = FedExPolicy(arms=60, eps=1.0).begin(SPACE.default(), SPACE, np.random.default_rng(0))
    rates = np.array([arm["lr"] for arm in state.arms[1:]])
    assert (rates < 0.02).any()
    assert (rates > 0.5).any()
    assert not np.isin(rates, [0.01, 1.0]).any()  # a clipped ball would pile up at the bounds


def test_a_finite_space_has_no_more_arms_than_configs():
    space = fh.Space(client={"epochs": fh.Int(1, 4)})
    state = FedExPolicy(arms=27, eps=1.0).begin(space.default(), space, np.random.default_rng(0))
    assert sorted(arm["epochs"] for arm in state.arms) == [1, 2, 3, 4]


def test_nothing_to_tune_at_the_clients_is_refused():
    space = fh.Space(client={"lr": 0.1}, server={"lr": fh.Float(0.1, 1.0)})
    with pytest.raises(InputError, match="no client hyperparameter but fixed values"):
        FedExPolicy().begin(space.default(), space, np.random.default_rng(0))


def test_knobs_in_the_scope_policy_win():
    space = fh.Space(
        client={"lr": fh.Float(0.01, 1.0, log=True)}, policy={"gamma": 0.5, "arms": 4, "eps": 0.02}
    )
    state = FedExPolicy(gamma=1.0).begin(space.default(), space, np.random.default_rng(0))
    assert len(state.arms) == 4
    assert all(abs(math.log10(arm["lr"] / 0.1)) <= 0.04 + 1e-9 for arm in state.arms)
    with pytest.raises(InputError, match=r"unknown setting of fedex in space\.policy 'gama'.*gamma"):
        FedExPolicy().tuned(fh.Config(policy={"gama": 0.5}))


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"arms": 1}, "arms must be a whole number of at least 2, not 1"),
        ({"until": 0}, r"until must be a number in \(0, 1\], not 0"),
        ({"gamma": 1.5}, r"gamma must be a number in \[0, 1\], not 1.5"),
        ({"explore": "always"}, "explore must be a number or 'auto', not 'always'"),
        ({"eps": 0}, "eps must be a positive number, not 0"),
        ({"steps": "agressive"}, "unknown steps 'agressive'.*did you mean 'aggressive'"),
        ({"baseline": "none"}, "unknown baseline 'none'; known: pretrain, skip, zero"),
        ({"metric": "accuracy"}, "unknown metric 'accuracy'; known: error, loss"),
        ({"clip": -1}, "clip must be a positive number, or left out, not -1"),
        ({"landmarks": 27}, r"landmarks must be fewer than arms \(27\), not 27"),
        ({"start": "nowhere.json"}, "cannot read the policy nowhere.json"),
    ],
)
def test_settings_that_cannot_be_are_refused(setting, message):
    with pytest.raises(InputError, match=message):
        FedExPolicy(**setting)


@settings(max_examples=60, deadline=None)
@given(
    steps=st.sampled_from(["constant", "adaptive", "aggressive", "auto"]),
    losses=st.lists(st.lists(st.floats(0, 20), min_size=3, max_size=3), min_size=1, max_size=12),
    seed=st.integers(0, 99),
    explore=st.sampled_from([0.0, 0.2]),
)
def test_always_a_distribution(steps, losses, seed, explore):
    state = FedExState(
        FedExPolicy(steps=steps, explore=explore, gamma=0.5),
        LearnedPolicy.uniform([{"lr": i} for i in range(5)]),
    )
    rng = np.random.default_rng(seed)
    for number, after in enumerate(losses):
        state.assign(range(3), rng)
        state.learn(report(after, number=number + 1))
        assert np.isfinite(state.log_weights).all()
        assert (state.weights >= 0).all()
        assert state.weights.sum() == pytest.approx(1)


@given(shift=st.floats(-5, 5), seed=st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_differences_do_not_see_what_a_client_adds_to_every_loss(shift, seed):
    """The reason for `difference`: a constant that a round adds to all losses changes nothing."""
    rng = np.random.default_rng(seed)
    before, after = 6 + rng.random(3), 6 + rng.random(3)
    plain, moved = (
        play(FedExPolicy(steps="constant", difference=True), [([0, 1, 1], report(after + s, before + s))])
        for s in (0.0, shift)
    )
    assert odds(plain) == pytest.approx(odds(moved), abs=1e-9)
