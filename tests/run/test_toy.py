"""The toy federation that methods and runs are tested with: by hand."""

import numpy as np
import pytest

from fedhpo.core.errors import InputError
from fedhpo.protocol.federation import AFTER, REPEATABLE, Status, TrialError, Work
from fedhpo.testing import ToyFederation


def trained(lr, rounds=1, **options):
    toy = ToyFederation(noise=0.0, **options)
    toy.start(0, {}, seed=0)
    for _ in range(rounds):
        report = toy.round([Work(0, [0, 1], {"lr": lr})])[0]
    return toy, report


def test_the_best_lr_goes_half_of_the_way_each_round():
    _, report = trained(0.1, rounds=3)
    assert report.round == 3
    assert report.loss_before.tolist() == [1 / 16, 1 / 16]
    assert report.loss_after.tolist() == [1 / 64, 1 / 64]


def test_ten_times_too_much_or_too_little_is_equally_bad():
    share = 0.5 * np.exp(-1.0)
    for lr in (0.01, 1.0):
        assert trained(lr)[1].loss_after == pytest.approx((1 - share) ** 2)
    assert trained(0.0)[1].loss_after.tolist() == [1.0, 1.0]


def test_each_client_has_its_config_and_counts_by_its_size():
    toy = ToyFederation(noise=0.0)
    toy.start(0, {}, seed=0)
    toy.round([Work(0, [0, 1], [{"lr": 0.1}, {"lr": 0.0}])])
    # Sizes are 10 and 11: the mean of a step of a half and none.
    assert toy.state(0).arrays["weights"] == pytest.approx(0.5 * 10 / 21)


class ByClasses:
    """Half of the way for clients with two classes, nothing for others."""

    def resolve(self, labels, classes):
        return {"lr": 0.1 if len(set(labels.tolist())) == 2 else 0.0}

    def to_dict(self):
        return {}


def test_a_rule_is_resolved_at_the_client():
    toy = ToyFederation(noise=0.0)
    toy.start(0, {}, seed=0)
    assert toy.round([Work(0, [0, 1], ByClasses())])[0].loss_after.tolist() == [0.25, 1.0]


def test_missing_and_failed_clients_have_no_scores_and_too_few_change_nothing():
    toy = ToyFederation(200, missing=0.3, failing=0.3)
    toy.start(0, {}, seed=0)
    report = toy.round([Work(0, range(200), {"lr": 0.1}, scores=(AFTER,), minimum=150)])[0]
    counts = [int(np.sum(report.status == status)) for status in Status]
    assert all(40 <= count <= 100 for count in counts)
    assert np.isnan(report.loss_before).all()
    assert (np.isnan(report.loss_after) == (report.status != Status.OK)).all()
    assert sorted(report.reasons) == np.flatnonzero(report.status == Status.FAILED).tolist()
    assert not report.applied
    assert toy.state(0).arrays["weights"].tolist() == [0.0] * 4
    assert (report.cost.client_rounds, report.cost.bytes_up) == (200, 32 * counts[0])


def test_a_fork_copies_weights_and_clock_but_not_the_random_stream():
    toy = ToyFederation()
    for trial in range(2):
        toy.start(trial, {}, seed=trial)
    toy.round([Work(0, [0, 1], {"lr": 0.1})])
    toy.fork(0, 1)
    one, other = toy.round([Work(t, [0, 1], {"lr": 0.1}) for t in range(2)])
    assert one.round == other.round == 2
    assert toy.state(0).arrays["weights"].tolist() == toy.state(1).arrays["weights"].tolist()
    assert one.loss_after.tolist() != other.loss_after.tolist()


def test_a_clients_scores_do_not_depend_on_who_else_is_asked():
    toy = ToyFederation()
    toy.start(0, {}, seed=0)
    everyone = toy.evaluate([0], range(20))[0].loss
    assert toy.evaluate([0], [7, 3])[0].loss.tolist() == everyone[[7, 3]].tolist()
    assert toy.evaluate([0], [7, 3], "test")[0].loss.tolist() != everyone[[7, 3]].tolist()


def test_not_repeatable_means_different_each_time():
    _, one = trained(0.1, repeatable=False)
    toy, other = trained(0.1, repeatable=False)
    assert REPEATABLE not in toy.capabilities
    assert one.loss_after.tolist() != other.loss_after.tolist()


def test_mistakes_are_named():
    toy = ToyFederation(3)
    toy.start(0, {"width": 1}, seed=0)
    toy.start(1, {"width": 2}, seed=0)
    with pytest.raises(InputError, match="different models"):
        toy.fork(0, 1)
    with pytest.raises(TrialError, match="trial 5 is not there"):
        toy.evaluate([5], [0])
    with pytest.raises(InputError, match=r"unknown client 3; there are 0\.\.2"):
        toy.submit(Work(0, [3], {}))
    toy.submit(Work(0, [2], {}))
    with pytest.raises(TrialError, match="in the middle of a round"):
        toy.submit(Work(0, [2], {}))
    with pytest.raises(TrialError, match="no round was submitted for trial 1"):
        toy.next_done(1)
