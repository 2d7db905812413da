"""Gap scores and pooled choices: each condition of docs/evaluation.md, by hand and by counterexample."""

import contextlib
import itertools
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import fedhpo as fh
from fedhpo.core.errors import InputError
from fedhpo.privacy.gaps import LEAST, gap_totals, gap_width
from fedhpo.privacy.noise import ExactNoise, SeededNoise
from fedhpo.privacy.privacy import Privacy
from fedhpo.protocol.federation import Scores, Status
from fedhpo.protocol.objective import Objective
from fedhpo.run import open_read
from fedhpo.search.evaluator import Evaluator
from fedhpo.search.private import channel_of
from fedhpo.testing import ToyFederation

SPACE = fh.Space(client={"lr": fh.Float(1e-3, 10.0, log=True)})
NOISES = [SeededNoise(np.random.default_rng(0))]
with contextlib.suppress(fh.errors.MissingExtraError):
    NOISES.append(ExactNoise())
UNIT = arrays(np.float64, (3, 4), elements=st.floats(0, 1))


def test_by_hand():
    """Client 0 has 0.9 and 0.4, a gap of 0.5; client 1 has 0.2 and 0.3, a gap of 0.1."""
    scores = np.array([[0.9, 0.2], [0.4, 0.3]])
    wide, most = gap_totals(scores, 1.0, NOISES[0], maximise=True)
    assert wide == pytest.approx([-0.1, -0.5])
    assert most == 1
    clipped, most = gap_totals(scores, 0.2, NOISES[0], maximise=True)
    assert clipped == pytest.approx([-0.1, -0.2])
    assert most == 0.2
    errors, _ = gap_totals(1 - scores, 0.2, NOISES[0], maximise=False)
    assert errors == pytest.approx([-0.1, -0.2])


@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: noise.name)
@given(UNIT, arrays(np.float64, 3, elements=st.floats(0, 1)), st.floats(0.01, 1), st.booleans())
def test_one_client_moves_every_sum_by_the_window_at_most(noise, scores, others, width, maximise):
    changed = scores.copy()
    changed[:, 2] = others
    (before, most), (after, _) = (gap_totals(s, width, noise, maximise=maximise) for s in (scores, changed))
    assert np.abs(after - before).max() <= most * (1 + (1e-12 if noise.unit == 1 else 0))
    assert (before <= 0).all()
    assert (before >= -4 * most).all()


def test_exact_gaps_are_whole_steps_and_the_window_is_rounded_up():
    if len(NOISES) < 2:
        pytest.skip("OpenDP is not there")
    totals, most = gap_totals(
        np.array([[1 / 3, 0.5], [0.0, 0.5 + 1e-10]]), 0.1000000001, NOISES[1], maximise=True
    )
    assert totals.dtype == np.int64
    assert (totals.tolist(), most) == ([0, -100_000_001], 100_000_001)


def test_the_rule_of_the_window_is_monotone_and_bounded():
    assert gap_width(1e-9, 1) == LEAST
    assert gap_width(1e9, 10) == 1
    widths = [gap_width(epsilon, 8) for epsilon in np.geomspace(0.01, 1e4, 30)]
    assert widths == sorted(widths)
    assert gap_width(2.0, 5) == gap_width(1.0, 10)


def scores_of(values, status=None):
    values = np.asarray(values, np.float64)
    n = len(values)
    codes = np.full(n, Status.OK, np.int8) if status is None else np.asarray(status, np.int8)
    return Scores(0, "validation", np.arange(n), codes, np.full(n, 9), np.full(n, math.nan), values)


class _Asked:
    """What a choice goes by, without asking: the channel's own arithmetic."""

    def __init__(self, maximise=True):
        self.objective = Objective("accuracy" if maximise else "error", weighting="uniform")


def values_of(found, **privacy):
    settings = {"epsilon": 1.0, "evaluations": 1, "mechanism": "permute-and-flip", "gap": 0.5} | privacy
    channel = channel_of(Evaluator(privacy=Privacy(**settings)), 1)
    return channel._values(_Asked(), found, 1, NOISES[0])


def test_odd_scores_are_the_worst_before_the_own_best_is_taken():
    """NaN, 7 and a failure count as 0: the own best of client 0 is 0.4, not 7; client 1 has 0.3 and 0."""
    found = [
        scores_of([7.0, 0.3, 0.2]),
        scores_of([0.4, math.nan, 0.2], [Status.OK, Status.OK, Status.FAILED]),
    ]
    values, sensitivity = values_of(found)
    assert values == pytest.approx([-0.4 + 0 + 0, 0 - 0.3 - 0.2])
    assert sensitivity == 0.5


def test_only_the_loss_of_a_whole_message_is_missing():
    """Client 2 said nothing at all; client 1 nothing of the second trial, which is then its worst."""
    gone, here = Status.MISSING, Status.OK
    found = [scores_of([0.5, 0.4, 0.9], [here, here, gone]), scores_of([0.6, 0.0, 0.1], [here, gone, gone])]
    values, _ = values_of(found)
    assert values == pytest.approx([-0.1, -0.4])
    lost = [scores_of([0.5, 0.4, 0.9], [gone, gone, here])] * 2
    assert values_of(lost)[0] == [None, None]  # one of three is below the minimum of a half


def test_a_window_of_one_counts_whole_scores_as_before():
    found = [scores_of([0.5, 0.4]), scores_of([0.1, 0.6])]
    values, sensitivity = values_of(found, gap=1.0)
    assert values == pytest.approx([0.45, 0.35])
    assert sensitivity == 0.5


def test_trials_at_different_clients_have_no_gaps():
    other = scores_of([0.1, 0.6])
    moved = Scores(1, "validation", np.array([1, 2]), other.status, other.size, other.loss, other.accuracy)
    assert values_of([scores_of([0.5, 0.4]), moved])[0] == pytest.approx([0.45, 0.35])


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"gap": 0.0}, "gap must be a number in"),
        ({"gap": 1.5}, "gap must be a number in"),
        ({"gap": 0.5, "mechanism": "laplace"}, "gap = 0.5: has no effect with mechanism = 'laplace'"),
    ],
)
def test_windows_that_mean_nothing_are_refused(settings, said):
    with pytest.raises(InputError, match=said):
        Privacy(1.0, **settings)


def test_a_window_needs_trials_at_the_same_clients():
    with pytest.raises(InputError, match=r"gap = 0\.5 needs all trials at the same clients"):
        Evaluator(clients=2, paired=False, privacy=Privacy(1.0, mechanism="topk", gap=0.5))


# Pools


class Watched(ToyFederation):
    """Knows how often and whom it was asked about scores."""

    def __init__(self):
        super().__init__(clients=60)
        self.calls = []

    def evaluate(self, trials, clients, *args, **kwargs):
        self.calls.append((tuple(trials), tuple(np.asarray(clients).tolist())))
        return super().evaluate(trials, clients, *args, **kwargs)


def tuned(path, federation=None, **privacy):
    settings = {"epsilon": 20.0, "mechanism": "permute-and-flip", "held_out": 0.0} | privacy
    evaluation = Evaluator(clients=2, privacy=Privacy(**settings))
    return fh.tune(
        federation or Watched(),
        SPACE,
        fh.Robust(),
        rounds=9,
        total=144,
        cohort=40,
        evaluation=evaluation,
        run=path,
    )


def choices(path):
    with open_read(path) as run:
        events = [one for one in run.record.events() if one.kind == "decide choose"]
    return [(json.loads(one.call), json.loads(one.result)) for one in events]


def test_a_pooled_choice_asks_other_clients_in_one_call_and_weighs_one(tmp_path):
    federation = Watched()
    result = tuned(tmp_path / "a", federation)
    looks = result.facts["robust"]["looks"]
    assert max(looks) > 1
    found = choices(tmp_path / "a")
    for call, answer in found:
        [cohort] = call["asked"]
        assert len(set(cohort)) == len(cohort) <= 60
        assert len(cohort) % 2 == 0
        assert set(answer) == {"kept"}  # nothing of who counted
        numbers = tuple(number for number, _ in call["trials"])
        assert federation.calls.count((numbers, tuple(cohort))) == 1
    asked = {client: sum(client in call["asked"][0] for call, _ in found) for client in range(60)}
    said = result.facts["privacy"]["clients"]
    assert dict(said["taken"]) == {client: times for client, times in asked.items() if times}
    assert said["most"] == max(asked.values()) == -(-sum(len(c["asked"][0]) for c, _ in found) // 60)
    assert result.facts["privacy"]["epsilon_spent"] == pytest.approx(20.0)


def test_a_pool_is_paid_before_anybody_is_asked(tmp_path, monkeypatch):
    """Whoever is stopped while clients are asked has paid."""
    from fedhpo.run.recorded import RecordedSession

    order = []
    drawing, beside = RecordedSession.drawing, RecordedSession.evaluate_beside
    monkeypatch.setattr(RecordedSession, "drawing", lambda self: order.append("paid") or drawing(self))
    monkeypatch.setattr(
        RecordedSession, "evaluate_beside", lambda self, *a: order.append("asked") or beside(self, *a)
    )
    tuned(tmp_path / "a", epsilon=30.0)
    assert order.count("asked") == len(choices(tmp_path / "a"))
    assert all(before == "paid" for before, what in itertools.pairwise(order) if what == "asked")


def test_without_gaps_a_choice_is_one_evaluation_as_before(tmp_path):
    result = tuned(tmp_path / "a", gap=1.0)
    assert set(result.facts["robust"]["looks"]) == {1}
    assert {len(call["asked"][0]) for call, _ in choices(tmp_path / "a")} == {2}
