"""Boosted trees over XGBoost's collective: the model of pooled training, and no hang when a party dies."""

import os
import signal
import threading
import time
from multiprocessing import Pipe, resource_tracker
from types import SimpleNamespace

import numpy as np
import psutil
import pytest
from sklearn.datasets import load_breast_cancer

from fedhpo.learners import collective
from fedhpo.learners.boosted import BoostedTrees
from fedhpo.learners.collective import CollectiveError, Tracker, train

pytest.importorskip("xgboost")

X, Y = load_breast_cancer(return_X_y=True)
X = X.astype(np.float32)
THREE = {party: (X[party::3], Y[party::3]) for party in range(3)}
#: Rounds of boosting that no machine gets through while a test runs.
FOR_EVER = 10**9


def test_federated_equals_pooled_and_leaves_no_process():
    trees = BoostedTrees(max_iter=15, min_samples_leaf=5)
    assert trees.parameters(2)["max_bin"] == 256
    resource_tracker.ensure_running()  # is started once, and stays
    before = len(psutil.Process().children(recursive=True))
    federated = BoostedTrees().adopt(train(THREE, trees.parameters(2), trees.max_iter), 2)
    pooled = trees.fit(
        np.concatenate([x for x, _ in THREE.values()]), np.concatenate([y for _, y in THREE.values()])
    )
    np.testing.assert_allclose(federated.predict_proba(X), pooled.predict_proba(X), atol=1e-6)
    assert pooled.score(X, Y) > 0.98
    assert len(psutil.Process().children(recursive=True)) == before


def test_bytes_of_a_stump_by_hand():
    """Two values of one feature: a sketch of two entries, and histograms of two bins: root and one child."""
    x, y = np.array([[0.0], [1.0]] * 20, np.float32), np.array([0, 1] * 20)
    stump = BoostedTrees(max_iter=1, min_samples_leaf=4).fit(x, y)
    assert collective.exchanged(stump.booster_, [x[:20], x[20:]]) == 2 * 16 + 2 * (2 * 16)


@pytest.mark.parametrize("number", [0, 1, 4, 8, 14])
def test_a_party_that_is_killed_ends_the_training(number):
    """Each in turn, from before they have met to the middle of boosting."""
    party, pids, killed = number % 3, {}, []

    def kill(started):
        def now():
            os.kill(started[party], signal.SIGKILL)
            killed.append(time.monotonic())

        pids.update(started)
        threading.Timer(0.1 * number, now).start()

    with pytest.raises(CollectiveError, match=f"party {party} .* ended by SIGKILL; the others were stopped"):
        train(THREE, BoostedTrees().parameters(2), FOR_EVER, on_start=kill)
    assert time.monotonic() - killed[0] < 5
    assert len(pids) == 3
    assert not any(psutil.pid_exists(pid) for pid in pids.values())


class Ended:
    """A process that has ended with this code, or goes on."""

    def __init__(self, exitcode):
        self.exitcode = exitcode
        self.sentinel, self._held = Pipe()
        if exitcode is not None:
            self._held.close()

    def join(self):
        assert self.exitcode is not None


def member(exitcode=None, says=None):
    ours, theirs = Pipe()
    if says is not None:
        theirs.send(says)
    if exitcode is not None:
        theirs.close()
    return Ended(exitcode), ours, theirs  # the last one so that it stays open


def watched(*members):
    return collective._watch({party: one[:2] for party, one in enumerate(members)}, None)


def test_a_party_that_fails_is_named():
    with pytest.raises(CollectiveError, match=r"party 1 .*: ValueError: no labels; the others") as failed:
        watched(member(), member(says=(b"", "ValueError: no labels")))
    assert failed.value.party == 1


def test_who_died_is_to_blame_and_not_who_noticed():
    complaint = member(says=(b"", "XGBoostError: connection closed"))
    with pytest.raises(CollectiveError, match=r"party 2 .* ended by SIGKILL"):
        watched(complaint, member(), member(exitcode=-signal.SIGKILL))


def test_all_parties_have_the_same_model():
    assert watched(member(says=(b"trees", "")), member(says=(b"trees", ""))) == b"trees"


def test_an_address_that_is_not_ours_is_refused():
    with Tracker(2, "203.0.113.7") as tracker, pytest.raises(CollectiveError, match="could not be started"):
        _ = tracker.arguments


def test_a_tracker_that_breaks_says_so_to_nobody(monkeypatch, capfd):
    """As it may when a party has died: who died is the news."""

    class Broken:
        def __init__(self, *_, **__):
            self.held = True

        def start(self):
            pass

        def worker_args(self):
            return {"port": 1}

        def wait_for(self):
            raise ValueError("broken pipe")

        def free(self):  # as XGBoost's: the handle is given up first
            if self.held:
                self.held = False
                raise ValueError("broken pipe")

        def __del__(self):
            self.free()

    monkeypatch.setattr(collective, "_only_what_is_needed", lambda: None)
    monkeypatch.setattr(
        collective, "_xgboost", lambda: SimpleNamespace(tracker=SimpleNamespace(RabitTracker=Broken))
    )
    here, there = Pipe()
    collective._track(there, 3, "127.0.0.1", 0)
    assert here.recv() == ({"port": 1}, "")
    assert capfd.readouterr().err == ""
