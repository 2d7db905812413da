"""FedPop-L, and what both levels share: sets with ties, Evo's bounds, annealing, vectors in their ball."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedhpo as fh
from fedhpo.methods.fedpop.evolution import Evolution, bottom_and_top
from fedhpo.methods.fedpop.local import FedPopLocal
from fedhpo.policies.losses import client_losses, round_loss
from fedhpo.protocol.federation import RoundReport, Status
from fedhpo.protocol.reasons import Reason, Why
from fedhpo.schedules.annealing import annealed

SPACE = fh.Space(
    client={
        "lr": fh.Float(1e-4, 1.0, log=True),
        "momentum": fh.Float(0.0, 0.9),
        "epochs": fh.Int(1, 5),
        "batch_size": fh.Ordinal([8, 16, 32, 64, 128]),
        "rule": fh.Choice(["a", "b"]),
    },
    server={"lr": fh.Float(0.1, 10.0, log=True)},
)
OK, FAILED, MISSING = Status.OK, Status.FAILED, Status.MISSING


def report(after, *, number=1, status=None, size=None, before=None, reasons=None):
    """A round whose members have these losses."""
    count = len(after)
    nothing = np.full(count, np.nan)
    status = np.array([OK] * count if status is None else status, np.int8)
    size = np.ones(count, np.int64) if size is None else np.array(size)
    before = nothing if before is None else np.array(before, float)
    cohort = np.arange(100, 100 + count)
    after = np.array(after, float)
    return RoundReport(
        0, number, True, cohort, status, size, size, before, after, nothing, nothing, reasons or {}
    )


# Bottom and top sets


def test_sets_of_five_with_ties():
    """ceil(5/3) = 2 each; of the equal scores 0.3 at 1, 3 and 4 the earlier place counts as the better."""
    assert bottom_and_top([0.5, 0.3, 0.1, 0.3, 0.3], 3) == ([4, 0], [2, 1])


def test_sets_of_nine():
    """ceil(9/3) = 3 each, of scores in descending order."""
    assert bottom_and_top([9, 8, 7, 6, 5, 4, 3, 2, 1], 3) == ([2, 1, 0], [8, 7, 6])


def test_sets_of_ten_all_equal():
    """ceil(10/3) = 4 each, in the order of places where all are alike."""
    assert bottom_and_top([1.0] * 10, 3) == ([6, 7, 8, 9], [0, 1, 2, 3])


def test_sets_of_twenty_seven_with_ties_at_both_edges():
    """9 each: the top set ends inside the run of 1s (places 8 to 11), the bottom one begins in that of 3s."""
    scores = [0.0] * 8 + [1.0] * 4 + [2.0] * 4 + [3.0] * 4 + [4.0] * 7
    bottom, top = bottom_and_top(scores, 3)
    assert top == [0, 1, 2, 3, 4, 5, 6, 7, 8]
    assert bottom == [18, 19, 20, 21, 22, 23, 24, 25, 26]


def test_a_population_too_small_for_two_sets():
    assert bottom_and_top([0.5], 3) == ([], [])
    assert bottom_and_top([], 3) == ([], [])
    assert bottom_and_top([0.5, 0.4, 0.3], 2) == ([0], [2])  # ceil(3/2) = 2 would overlap


def test_infinite_is_worst_and_nan_is_not_there():
    assert bottom_and_top([math.inf, 0.2, math.nan, 0.1], 3) == ([0], [3])


@given(st.lists(st.sampled_from([0.1, 0.2, 0.3, math.inf, math.nan]), max_size=30), st.integers(2, 6))
def test_sets_are_disjoint_equally_large_and_ordered(scores, quantile):
    bottom, top = bottom_and_top(scores, quantile)
    scored = [score for score in scores if not math.isnan(score)]
    assert len(bottom) == len(top) == min(math.ceil(len(scored) / quantile), len(scored) // 2)
    assert not set(bottom) & set(top)
    keys = [(scores[i], i) for i in (*top, *bottom)]
    assert keys == sorted(keys)


# Annealing


def test_cosine_annealing_by_hand():
    """x_r = x_0 (1 + cos(pi r / R)) / 2: cos is 1, 1/2, 0, -1/2, -1 at 0, 1/3, 1/2, 2/3 and 1 of the way."""
    found = [annealed(0.1, r, 60) for r in (0, 20, 30, 40, 60)]
    assert found == pytest.approx([0.1, 0.075, 0.05, 0.025, 0.0], abs=1e-15)


def test_constant_and_step_annealing():
    assert [annealed(0.1, r, 60, "constant") for r in (0, 30, 60)] == [0.1, 0.1, 0.1]
    assert [annealed(0.8, r, 8, "step") for r in range(9)] == [0.8, 0.8, 0.4, 0.4, 0.2, 0.2, 0.1, 0.1, 0.1]


def test_rounds_beyond_the_last_stay_at_the_end():
    assert annealed(0.1, 70, 60) == annealed(0.1, 60, 60)
    assert annealed(0.1, 70, 60, "step") == annealed(0.1, 59, 60, "step")


# Evo


@pytest.mark.parametrize(("number", "width"), [(0, 0.1), (20, 0.075), (40, 0.025)])
def test_evo_moves_a_learning_rate_by_at_most_its_annealed_width(number, width):
    """lr has 4 decades: at eps it moves by at most 4 eps decades, and comes near both ends."""
    rng = np.random.default_rng(0)
    config = SPACE.complete({"client": {"lr": 0.01, "epochs": 3}})
    evolution = Evolution(eps=0.1, resample=0.0)
    found = [
        evolution.perturbed(config, SPACE, number, 60, rng, ("client", "server")).client for _ in range(400)
    ]
    decades = [math.log10(client["lr"] / 0.01) for client in found]
    assert max(decades) <= 4 * width + 1e-9
    assert min(decades) >= -4 * width - 1e-9
    assert max(decades) > 3.8 * width
    assert min(decades) < -3.8 * width
    assert {client["epochs"] for client in found} == {2, 3, 4}  # itself or a neighbour one step away


def test_evo_resamples_from_the_prior_with_its_annealed_probability():
    """Only a resampled coordinate leaves the neighbourhood; at two thirds of the way 0.4 is down to 0.1.

    A resampled lr is outside its own +-0.1 decades with probability 1 - 0.2/4 = 0.95.
    """
    rng = np.random.default_rng(1)
    config = SPACE.complete({"client": {"lr": 0.01}})
    evolution = Evolution(eps=0.1, resample=0.4)
    draws = [evolution.perturbed(config, SPACE, 40, 60, rng, ("client",)).client["lr"] for _ in range(4000)]
    share = np.mean([abs(math.log10(lr / 0.01)) > 0.1 + 1e-9 for lr in draws])
    assert share == pytest.approx(0.095, abs=0.015)


def test_mistakes_are_named():
    with pytest.raises(fh.InputError, match=r"eps must be a finite number of at least 0, not -1"):
        FedPopLocal(eps=-1)
    with pytest.raises(fh.InputError, match=r"resample must be a probability from 0 to 1, not 2"):
        FedPopLocal(resample=2)
    with pytest.raises(fh.InputError, match=r"unknown annealing 'linear'.*cosine, step"):
        FedPopLocal(annealing="linear")
    with pytest.raises(fh.InputError, match=r"quantile must be a whole number of at least 2, not 1"):
        FedPopLocal(quantile=1)
    with pytest.raises(fh.InputError, match=r"unknown norm 'ball'; known: box, euclidean"):
        FedPopLocal(norm="ball")
    with pytest.raises(fh.InputError, match=r"unknown setting of fedpop in space\.policy 'gamma'"):
        FedPopLocal().tuned(fh.Config(policy={"gamma": 1.0}))


# What a report says


def test_losses_of_missing_failed_and_unvalidated_clients_are_not_known():
    found = client_losses(
        report(
            [0.5, 0.4, 0.3, np.nan, np.inf, np.nan],
            status=[OK, MISSING, FAILED, OK, OK, FAILED],
            size=[1, 1, 1, 0, 1, 0],
            reasons={1: Reason(Why.GONE), 2: Reason(Why.RAISED, "out of memory"), 5: Reason(Why.DIVERGED)},
        )
    )
    np.testing.assert_array_equal(found, [0.5, np.nan, np.nan, np.nan, np.inf, np.inf])


def test_a_trials_loss_is_the_plain_mean_over_clients():
    assert round_loss(report([0.2, 0.4, 0.9], size=[1, 1, 100])) == pytest.approx(0.5)
    assert round_loss(report([0.2, np.inf, 0.9])) == math.inf
    assert round_loss(report([0.2, np.nan, 0.9])) == math.inf  # it has validation data: the loss overflowed
    assert math.isnan(round_loss(report([np.nan], status=[MISSING])))


def test_a_refused_update_counts_like_the_worst_loss_of_the_round():
    """0.2 and 0.4 after training, 0.9 before it: the diverged third counts 0.9."""
    one = report(
        [0.2, 0.4, np.nan],
        before=[0.9, 0.5, np.nan],
        status=[OK, OK, FAILED],
        size=[1, 1, 0],
        reasons={2: Reason(Why.DIVERGED)},
    )
    assert round_loss(one) == pytest.approx((0.2 + 0.4 + 0.9) / 3)


# Client vectors


def state(slots=6, **settings):
    own = FedPopLocal(rounds=60, **settings).begin(SPACE.default(), SPACE, np.random.default_rng(3))
    own.assign(range(slots), np.random.default_rng(0))
    return own


def inside_the_box(own, radius):
    """Each coordinate within `radius` of its range: 4 decades, 0.9, ceil(4 radius) steps of five values."""
    base, steps = own.base.client, math.ceil(4 * radius)
    sizes = [8, 16, 32, 64, 128]
    for vector in own.vectors:
        assert abs(math.log10(vector["lr"] / base["lr"])) <= 4 * radius + 1e-9
        assert abs(vector["momentum"] - base["momentum"]) <= 0.9 * radius + 1e-9
        assert abs(vector["epochs"] - base["epochs"]) <= steps
        assert abs(sizes.index(vector["batch_size"]) - sizes.index(base["batch_size"])) <= steps


def test_vectors_are_drawn_in_the_ball_and_stay_in_it():
    own = state(resample=0.5)
    inside_the_box(own, 0.1)
    rng = np.random.default_rng(5)
    for number in range(1, 40):
        own.learn(report(rng.random(6), number=number))
        inside_the_box(own, 0.1)


def test_the_euclidean_ball_bounds_the_length_of_the_difference():
    own = state(resample=0.5, norm="euclidean", radius=0.2)
    rng = np.random.default_rng(5)
    for number in range(1, 40):
        own.learn(report(rng.random(6), number=number))
        for vector in own.vectors:
            base = own.base.client
            gaps = [
                math.log10(vector["lr"] / base["lr"]) / 4,
                (vector["momentum"] - base["momentum"]) / 0.9,
                (vector["epochs"] - base["epochs"]) / 4,
            ]
            assert math.hypot(*gaps) <= 0.2 + 1e-9


def test_only_the_worst_slots_change_and_they_copy_the_best():
    """Six slots, two in each set. Without perturbation a replaced vector equals one of the two best."""
    space = fh.Space(client={"lr": fh.Float(1e-4, 1.0, log=True), "momentum": fh.Float(0.0, 0.9)})
    policy = FedPopLocal(eps=0.0, resample=0.0, radius=0.3, rounds=60)
    own = policy.begin(space.default(), space, np.random.default_rng(0))
    before = own.assign(range(6), np.random.default_rng(0))
    own.learn(report([0.3, 0.9, 0.1, 0.5, 0.8, 0.2]))
    after = own.vectors
    for slot in (0, 2, 3, 5):
        assert after[slot] == before[slot]
    for slot in (1, 4):
        assert after[slot] in (before[2], before[5])


def test_slots_of_missing_clients_keep_their_vectors_and_are_not_scored():
    """Slots 0 and 1 are missing with what would be the worst and the best loss: both stay."""
    space = fh.Space(client={"lr": fh.Float(1e-4, 1.0, log=True)})
    own = FedPopLocal(eps=0.0, resample=0.0, radius=0.3, rounds=60).begin(
        space.default(), space, np.random.default_rng(0)
    )
    before = own.assign(range(5), np.random.default_rng(0))
    own.learn(report([9.0, 0.0, 0.5, 0.6, 0.7], status=[MISSING, MISSING, OK, OK, OK]))
    assert own.vectors == [*before[:4], before[2]]


def test_a_diverged_slot_is_replaced():
    space = fh.Space(client={"lr": fh.Float(1e-4, 1.0, log=True)})
    own = FedPopLocal(eps=0.0, resample=0.0, radius=0.3, rounds=60).begin(
        space.default(), space, np.random.default_rng(0)
    )
    before = own.assign(range(3), np.random.default_rng(0))
    status, reasons = [OK, FAILED, OK], {1: Reason(Why.DIVERGED)}
    own.learn(report([0.5, np.nan, 0.4], status=status, size=[1, 0, 1], reasons=reasons))
    assert own.vectors == [before[0], before[2], before[2]]


def test_settings_can_be_tuned_in_the_scope_policy():
    config = SPACE.default().replace(policy={"eps": 0.3, "radius": 0.05})
    own = FedPopLocal(rounds=10).begin(config, SPACE, np.random.default_rng(0))
    own.assign(range(20), np.random.default_rng(0))
    inside_the_box(own, 0.05)
