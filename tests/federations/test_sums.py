"""Updates that workers add up: what the server gets is FedAvg's mean, and who fails fails alone."""

import numpy as np
import pytest

import fedhpo as fh
from fedhpo.engine.executor import Job, JobResult, Shares, TrainTask
from fedhpo.engine.plan import Member, plan
from fedhpo.engine.pool import Done, Order
from fedhpo.federations.apart import Apart
from fedhpo.protocol.reasons import Reason, Why

CLIENT = {"lr": 0.3, "batch_size": 8}


@pytest.fixture(scope="module")
def data():
    return fh.load("digits", clients=40)


def changes(data, cohorts, stacking, client=CLIENT, **settings):
    """By cohort, what the first round does to the model."""
    found = []
    for cohort in cohorts:
        with fh.simulate("linear", data, workers=0, stacking=stacking, **settings) as federation:
            federation.start(0, {}, seed=3)
            start = federation.state(0).arrays["weights"]
            [report] = federation.round([fh.Work(0, cohort, client)])
            found.append((report, federation.state(0).arrays["weights"] - start))
    return found


@pytest.mark.parametrize("stacking", [False, True])
@pytest.mark.parametrize("clip", [None, 1.0])
def test_a_round_takes_the_weighted_mean_of_what_each_client_does_alone(data, stacking, clip):
    cohort = [int(c) for c in data.train_clients[:36]]
    alone = changes(data, [[c] for c in cohort], stacking=False)
    [(report, found)] = changes(data, [cohort], stacking, clip_norm=clip, weight_cap=clip and 1e6)
    sizes = np.array([one.train_size[0] for one, _ in alone], float)
    updates = np.array([change for _, change in alone], float)
    if clip is not None:
        norms = np.linalg.norm(updates, axis=1)
        assert norms.min() < clip < norms.max()
        updates *= np.minimum(1, clip / norms)[:, None]
    np.testing.assert_allclose(found, sizes @ updates / sizes.sum(), rtol=0, atol=1e-6)
    assert report.train_size.tolist() == sizes.tolist()


@pytest.mark.parametrize("stacking", [False, True])
def test_an_update_that_is_not_finite_is_left_out_alone(data, stacking):
    cohort = [int(c) for c in data.train_clients[:36]]
    configs = [{**CLIENT, **({"lr": 1e38, "epochs": 5} if i == 5 else {})} for i in range(36)]
    [(report, found)] = changes(data, [cohort], stacking, configs)
    assert np.flatnonzero(report.status).tolist() == [5]
    assert report.reasons == {5: Reason(Why.DIVERGED)}
    [(_, wanted)] = changes(data, [cohort[:5] + cohort[6:]], stacking)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-6)


def test_groups_follow_the_work():
    def shares(count, share):
        members = [
            Member(Job(i, 0, {}, (0,), 0), "{}", 10, (), None, share and (share[0], 1.0 + i))
            for i in range(count)
        ]
        return [(inside, task.shares) for task, inside in plan(members, clip=2.0)]

    assert shares(3, None) == [([0], None), ([1], None), ([2], None)]
    assert [inside for inside, _ in shares(31, (7, 0))] == [[i] for i in range(31)]
    found = shares(48, (7, 0))
    assert [inside for inside, _ in found[:2]] == [[0, 1, 2], [3, 4, 5]]
    assert found[1][1] == Shares((0, 0, 0), (4.0, 5.0, 6.0), 2.0)
    assert max(len(inside) for inside, _ in shares(1000, (7, 0))) == 8


def test_jobs_of_a_task_that_failed_are_done_apart_and_put_together():
    task = TrainTask(
        "{}", tuple(Job(c, c, {}, (0,), 0) for c in range(3)), shares=Shares((0, 1, 0), (2.0, 3.0, 4.0), 1.5)
    )
    order = Order(task, [np.full(2, float(i), np.float32) for i in range(3)], (2, 2))
    apart = Apart(order, task, task.shares)
    assert [one.starts[0][0] for one in apart.orders] == [0, 1, 2]
    assert [one.task.shares for one in apart.orders] == [Shares((0,), (w,), 1.5) for w in (2.0, 3.0, 4.0)]
    first, second, third = apart.orders
    row = np.array([[1, 2]], np.float32)
    assert apart.take(Done(third, [JobResult(train_size=3)], row)) is None
    assert apart.take(Done(second, failure=Reason(Why.RAISED, "the worker process died twice"))) is None
    whole = apart.take(Done(first, [JobResult(train_size=1)], 10 * row))
    assert whole.order is order
    assert whole.output.tolist() == [[11, 22], [0, 0]]
    assert [(r.failure, r.train_size) for r in whole.value] == [
        (None, 1),
        (Reason(Why.RAISED, "the worker process died twice"), 0),
        (None, 3),
    ]
