"""Trees of sums: what workers add up on the way to the server."""

import gc
import weakref

import numpy as np
import pytest

import fedhpo as fh
from fedhpo.engine import fold
from fedhpo.engine.executor import AddTask, TrainTask, add_up
from fedhpo.engine.pool import Done, Order
from fedhpo.federations.branches import Branches
from fedhpo.protocol.reasons import Reason, Why

CLIENT = {"lr": 0.3, "batch_size": 8}


def test_parts_are_added_from_first_to_last():
    parts = [np.array([one] * 40_000, np.float32) for one in (1e8, 1.0, -1e8)]
    total = np.full(40_000, 7, np.float32)
    add_up(parts, total)
    assert set(total.tolist()) == {0.0}  # 1e8 + 1 is 1e8 in float32; the other way round it would be 1


def leaves(count):
    return [Order(TrainTask("{}", ()), [], (1, 2)) for _ in range(count)]


def ended(order, number):
    return Done(order, [], np.full((1, 2), number, np.float32), place=np.full(2, number, np.float32))


def run(trees, todo, fail=()):
    """Do all orders, numbers as outputs; the wholes, and how many sums were taken."""
    wholes, sums, number = [], 0, 0
    while todo:
        order = todo.pop(0)
        number += 1
        if isinstance(order.task, AddTask):
            sums += 1
            total = sum(part.place for part in order.parts)
            done = Done(order, failure=Reason(Why.RAISED, "lost")) if sums in fail else ended(order, total[0])
        else:
            done = ended(order, 1)
        whole, more = trees.take(done)
        todo += more
        wholes += [] if whole is None else [whole]
    return wholes, sums


@pytest.mark.parametrize(("count", "sums"), [(1, 0), (2, 1), (4, 1), (5, 2), (10, 4), (17, 6)])
def test_all_outputs_end_in_one_sum(count, sums):
    """Ten are added as 4, 4 and 2, then these three."""
    trees, orders = Branches(), leaves(count)
    trees.plant(orders)
    [whole], taken = run(trees, list(orders))
    assert [done.order for done in whole.ends] == orders
    assert (whole.total.place.tolist(), taken) == ([count, count], sums)


def test_an_ended_round_lets_go_of_its_tasks_and_their_weights():
    trees, orders = Branches(), leaves(10)
    trees.plant(orders)
    held = [weakref.ref(order) for order in orders]
    gc.disable()  # branches that refer to each other would wait for it
    try:
        run(trees, orders)
        assert not any(order() for order in held)
    finally:
        gc.enable()


def test_what_a_lost_sum_needs_is_done_again_once():
    trees, orders = Branches(), leaves(6)
    trees.plant(orders)
    [whole], taken = run(trees, list(orders), fail=(2,))
    assert (whole.total.place.tolist(), taken) == ([6, 6], 4)
    trees.plant(orders := leaves(3))
    [whole], taken = run(trees, list(orders), fail=(1, 2))
    assert (whole.total.failure, taken) == (Reason(Why.RAISED, "lost"), 2)


def test_outputs_that_failed_are_left_out():
    trees, orders = Branches(), leaves(3)
    trees.plant(orders)
    assert trees.take(Done(orders[1], failure=Reason(Why.RAISED, "no"))) == (None, [])
    assert trees.take(ended(orders[0], 5)) == (None, [])
    _, [order] = trees.take(ended(orders[2], 6))
    assert [part.place[0] for part in order.parts] == [5, 6]


@pytest.mark.parametrize("workers", [0, 2])
def test_rounds_end_where_the_server_adds_up(monkeypatch, workers):
    data = fh.load("digits", clients=12)
    cohort = [int(c) for c in data.train_clients[:10]]
    configs = [{**CLIENT, **({"lr": 1e38, "epochs": 5} if i == 5 else {})} for i in range(10)]
    found = []
    for large in (10**9, 1):
        monkeypatch.setattr("fedhpo.federations.simulated.LARGE", large)
        with fh.simulate("mlp", data, workers=workers, stacking=False) as federation:
            federation.start(0, {}, seed=3)
            reports = [federation.round([fh.Work(0, cohort, configs)])[0] for _ in range(2)]
            found.append((reports, federation.state(0).arrays["weights"]))
            assert not federation._running
            assert not federation._branches._holds
    (usual, weights), (others, summed) = found
    np.testing.assert_allclose(summed, weights, rtol=0, atol=1e-6)
    assert [report.reasons for report in others] == [{5: Reason(Why.DIVERGED)}] * 2
    for one, other in zip(usual, others, strict=True):
        assert one.train_size.tolist() == other.train_size.tolist()
        assert one.loss_after.tolist() == pytest.approx(other.loss_after.tolist(), nan_ok=True, rel=1e-4)


def test_bits_do_not_depend_on_workers(monkeypatch):
    monkeypatch.setattr("fedhpo.federations.simulated.LARGE", 1)
    data, weights = fh.load("digits", clients=12), []
    for workers in (0, 2):
        with fh.simulate("mlp", data, workers=workers, stacking=False) as federation:
            for trial in range(2):
                federation.start(trial, {}, seed=trial)
            federation.round([fh.Work(trial, range(11), CLIENT) for trial in range(2)])
            weights.append([federation.state(trial).arrays["weights"] for trial in range(2)])
    assert np.array_equal(*weights)


def test_cohorts_of_ten_take_four_at_a_time():
    assert (fold.TOGETHER, fold.LARGE) == (4, 500_000)
