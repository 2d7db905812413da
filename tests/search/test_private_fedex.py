"""Private FedEx: noisy sums by arm, what they cost each client, and that nothing else gets out."""

import json
import math
import signal
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import fedhpo as fh
from fedhpo.core.run_errors import BudgetError
from fedhpo.methods.fedex.learned import LearnedPolicy
from fedhpo.methods.fedex.policy import FedExPolicy
from fedhpo.methods.fedex.state import FedExState
from fedhpo.privacy.means import noisy_mean
from fedhpo.privacy.privacy import Privacy
from fedhpo.privacy.withheld import SealedFederation
from fedhpo.protocol.federation import RoundReport
from fedhpo.protocol.objective import Objective
from fedhpo.run import Budget, open_read
from fedhpo.run.codec import unpack
from fedhpo.samplers import Random
from fedhpo.search.evaluator import Evaluator
from fedhpo.search.private import channel_of
from fedhpo.search.search import Search
from fedhpo.search.unrecorded import UnrecordedSession
from fedhpo.testing import ToyFederation

SPACE = fh.Space(client={"lr": fh.Float(1e-3, 10.0, log=True)}, server={"lr": 1.0})
ALONE = {"schedule": "fixed", "trials": 1, "arms": 3, "eps": 1.0, "clip": 2.0}


def equal(**options):
    """Clients that all hold as many validation rows."""
    federation = ToyFederation(**options)
    federation.sizes = np.full(len(federation.train_clients), 10)
    return federation


def tune(privacy, federation=None, method=None, **options):
    budget = {"rounds": 6, "total": 6, "cohort": 5}
    return fh.tune(
        federation or equal(),
        SPACE,
        method or fh.FedEx(**ALONE),
        evaluation=Evaluator(privacy=privacy),
        **(budget | options),
    )


def facts(result):
    return {name: value for name, value in result.facts.items() if name != "times"}


def report(losses, before, cohort=None, status=None, reasons=None):
    """A round of members with these losses, after and before training."""
    n = len(losses)
    return RoundReport(
        0,
        1,
        True,
        np.arange(n) if cohort is None else np.asarray(cohort),
        np.zeros(n, np.int8) if status is None else np.asarray(status, np.int8),
        np.full(n, 8),
        np.full(n, 4),
        np.asarray(before, float),
        np.asarray(losses, float),
        np.full(n, 0.5),
        np.full(n, 0.5),
        reasons or {},
    )


def state(**settings):
    """Two arms, of which members 0 and 1 drew the first and member 2 the second."""
    start = LearnedPolicy.uniform([{"lr": 0.1}, {"lr": 0.2}])
    made = FedExState(FedExPolicy(**({"arms": 2, "steps": "constant", "clip": 4.0} | settings)), start)
    made.assign([0, 1, 2], np.random.default_rng(0))
    made._drawn = np.array([0, 0, 1]), np.array([0.5, 0.5])
    return made


# What a release is made of


def test_members_are_brought_into_the_unit_interval_one_by_one():
    """Losses 3, 9 (clipped to 4) and not finite, with 1, 2 and 5 before."""
    losses = report([3.0, 9.0, math.nan], [1.0, 2.0, 5.0])
    plain = state().grouped(losses, [0, 1, 2])
    assert plain.groups.tolist() == [0, 0, 1]
    assert plain.values.tolist() == [0.75, 1.0, 1.0]
    assert plain.before.tolist() == [0.25, 0.5, 1.0]
    change = state(difference=True).grouped(losses, [0, 1, 2])
    assert change.values.tolist() == [(3 - 1 + 4) / 8, (4 - 2 + 4) / 8, 1.0]
    assert change.before is None
    error = state(metric="error", clip=None).grouped(losses, [1, 2])
    assert error.groups.tolist() == [0, 1]
    assert error.values.tolist() == [0.5, 0.5]


@pytest.mark.parametrize("difference", [False, True])
@pytest.mark.parametrize("baseline", ["zero", "pretrain", "skip"])
def test_exact_sums_say_what_equal_members_say(baseline, difference):
    """Two rounds: means by arm without noise move the weights just as the members themselves do."""
    rounds = [report([3.0, 1.0, 2.0], [3.5, 2.5, 3.0]), report([1.0, 2.0, 3.5], [3.0, 1.0, 2.0])]
    members, sums = (state(baseline=baseline, difference=difference, gamma=0.5) for _ in range(2))
    for one in rounds:
        for learner in (members, sums):
            learner._drawn = np.array([0, 0, 1]), np.array([0.5, 0.5])
        scores = sums.grouped(one, [0, 1, 2])
        means = {arm: float(scores.values[scores.groups == arm].mean()) for arm in (0, 1)}
        sums.learn_sums(one, [0, 1, 2], means, None if scores.before is None else float(scores.before.mean()))
        members.learn(one)
        assert sums.log_weights == pytest.approx(members.log_weights, abs=1e-12)
    assert members.log_weights[0] != pytest.approx(members.log_weights[1])


def test_a_step_by_hand():
    """Means 0.5 and 0.25 of clip 4, baseline 0: sums 2 x 2 and 1 x 1 over 3 members and theta 1/2."""
    learner = state(baseline="zero")
    learner.learn_sums(report([0.0] * 3, [0.0] * 3), [0, 1, 2], {0: 0.5, 1: 0.25}, None)
    step = math.sqrt(2 * math.log(2))
    gap = step * (4 / 1.5 - 1 / 1.5)
    assert learner.log_weights[1] - learner.log_weights[0] == pytest.approx(gap)


def test_without_a_release_nothing_is_learned_and_the_round_is_noted():
    learner = state()
    learner.learn_sums(report([1.0] * 3, [1.0] * 3), [], {}, None)
    assert learner.weights.tolist() == [0.5, 0.5]
    assert learner.looks == 2  # the first baseline is still to be had
    assert learner.history()["rounds"][-1]["drawn"] == [0, 0, 1]


def test_who_settled_on_an_arm_asks_for_nothing():
    assert state(cutoff=1.0).looks == 0
    assert [state(baseline=name).looks for name in ("pretrain", "zero", "skip")] == [2, 1, 1]
    assert state(difference=True).looks == 1


# Noise


class Says(ToyFederation):
    """Every client says the same loss, but client 0 may say another; all train."""

    def __init__(self, loss, other=None, clients=4):
        super().__init__(clients=clients)
        self.sizes = np.full(clients, 10)
        self.loss, self.other = loss, loss if other is None else other

    def round(self, work):
        def said(found):
            losses = np.where(found.cohort == 0, self.other, self.loss)
            return replace(found, loss_after=losses, loss_before=losses)

        return [said(found) for found in super().round(work)]


def released(federation, privacy, seed, method=None, releases=1, rounds=1):
    """The means by arm that the first `rounds` of one trial release, `releases` being planned."""
    settings = {"rounds": 8, "total": 8, "cohort": len(federation.train_clients), "seed": seed}
    objective, evaluator = Objective(weighting="uniform"), Evaluator(privacy=privacy)
    search = Search(SPACE, objective=objective, evaluator=evaluator, **settings)
    policy = method or FedExPolicy(arms=2, baseline="zero", clip=4.0)
    found = []
    session = Noting(federation, Budget(epsilon=privacy.epsilon), private=True)
    session.found = found
    search.begin(session, channel=channel_of(evaluator, releases))
    [trial] = search.start(1, Random(), policy)
    for _ in range(rounds):
        search.round([trial])
    return found, search


class Noting(UnrecordedSession):
    """A session that notes what is released of rounds."""

    def decide(self, name, key, function, **options):
        value = super().decide(name, key, function, **options)
        if name == "sums":
            self.found.append(value)
        return value


def test_the_noise_on_a_sum_has_the_scale_of_one_client():
    """Epsilon 2 in one release: Lap(1 / 2) on each sum of scores in [0, 1], whatever its members."""
    noise = []
    for seed in range(500):
        found, search = released(Says(1.0), Privacy(2.0), seed)
        drawn = search.trials[0].policy.history()["rounds"][-1]["drawn"]
        [answer] = found[0]
        noise += [drawn.count(arm) * (mean - 0.25) for arm, mean in answer["means"]]
    assert np.mean(noise) == pytest.approx(0, abs=0.1)
    assert np.mean(np.abs(noise)) == pytest.approx(0.5, rel=0.12)  # of Lap(b): b
    assert np.std(noise) == pytest.approx(0.5 * math.sqrt(2), rel=0.15)


@pytest.mark.parametrize("worst", [4.0, math.nan, 1e9])
def test_an_observer_gains_no_more_than_epsilon(worst):
    """Client 0 says 0 or the worst there is: no threshold on its arm's sum tells them apart by more than e^1.

    With 3000 draws a ratio of probabilities above 0.05 is known to 10% or so.
    """

    def draws(other):
        scores = state().grouped(report([other, 1.0, 1.0], [1.0] * 3), [0, 1, 2])
        own = scores.values[scores.groups == 0]
        noises = (channel.noise(Seed(seed), "sums", 0) for seed in range(3000))
        return np.array([len(own) * noisy_mean(own, channel.epsilon_each, noise)[0] for noise in noises])

    channel = channel_of(Evaluator(privacy=Privacy(1.0)), 1)
    low, high = draws(0.0), draws(worst)
    for threshold in np.linspace(-1.5, 3.0, 19):
        p, q = np.mean(low > threshold), np.mean(high > threshold)
        for a, b in ((p, q), (1 - p, 1 - q)):
            if min(a, b) > 0.05:
                assert abs(math.log(a / b)) < 1.0 + 0.2
    # It is not that nothing is told: the means differ by the whole sensitivity.
    assert high.mean() - low.mean() == pytest.approx(1.0, abs=0.1)


class Seed:
    """As much of a search as noise needs."""

    session = UnrecordedSession(ToyFederation())

    def __init__(self, seed):
        self.seed = seed


def test_exact_noise_is_on_the_sums_too():
    pytest.importorskip("opendp")
    privacy = Privacy(1e6, release="exact")
    found, _ = released(Says(1.0), privacy, 0)
    assert [mean for _, mean in found[0][0]["means"]] == pytest.approx(
        [0.25] * len(found[0][0]["means"]), abs=1e-3
    )
    wide = [released(Says(1.0), Privacy(0.5, release="exact"), 0)[0][0][0]["means"][0][1] for _ in range(2)]
    assert wide[0] != wide[1]  # not from the seed


# What it costs


def test_epsilon_composes_over_the_rounds_a_client_takes_part_in(tmp_path):
    """Cohorts of 5 of 20 clients; the first round has a baseline of its own, and one score is released."""
    result = tune(Privacy(3.0), run=tmp_path / "a")
    with open_read(tmp_path / "a") as run:
        reports = [unpack(event.result)[0] for event in run.record.events() if event.kind == "round"]
        charges = [event.epsilon for event in run.record.events() if event.kind == "decide sums"]
    looks, most = np.zeros(20, int), []
    for number, one in enumerate(reports):
        looks[one.cohort] += 2 if number == 0 else 1
        most.append(looks.max())
    said = result.facts["privacy"]
    assert said["rounds"] == {"planned": most[-1], "most": most[-1], "releases": 6}
    assert said["evaluations"] == most[-1] + 1
    each = 3.0 / (most[-1] + 1)
    assert charges == pytest.approx([each * more for more in np.diff([0, *most])])
    assert said["epsilon_each"] == pytest.approx(each)
    assert said["epsilon_spent"] == pytest.approx(3.0)
    assert most[-1] < 7  # or else it would be as if everybody had been in all rounds


def test_the_ledger_refuses_the_release_that_would_overspend():
    """All four clients in each round, epsilon for three releases: the fourth is refused, undrawn."""
    with pytest.raises(BudgetError, match=r"epsilon: 0.333333 more would exceed the budget of 1"):
        released_beyond_the_plan()


def released_beyond_the_plan():
    privacy = Privacy(1.0)
    found, search = released(Says(1.0), privacy, 0, releases=3, rounds=3)
    assert len(found) == 3
    assert search.ledger.epsilon == pytest.approx(1.0)
    search.channel.account.caps.most = 10
    search.round(search.trials)


def test_who_was_heard_as_often_as_planned_trains_on_unheard():
    found, search = released(Says(1.0), Privacy(1.0), 0, releases=3, rounds=5)
    assert len(found) == 3
    assert search.ledger.epsilon == pytest.approx(1.0)
    assert search.trials[0].round == 5
    logs = [one["log_weights"] for one in search.trials[0].policy.history()["rounds"]]
    assert logs[3] == logs[4] == logs[5]
    assert logs[2] != logs[3]


def test_halving_stays_within_its_plan():
    """Which trials go on, hence which cohorts there are, is not known when epsilon is split."""
    method = fh.FedEx(schedule="halving", trials=9, arms=3, clip=2.0)
    for seed in range(4):
        result = tune(Privacy(5.0), method=method, rounds=8, total=48, seed=seed)
        said = result.facts["privacy"]
        assert said["rounds"]["most"] <= said["rounds"]["planned"]
        assert said["evaluations"] == said["rounds"]["planned"] + 9 + 3 + 1
        assert 0.7 * 5 < said["epsilon_spent"] <= 5.0 + 1e-9


@pytest.mark.parametrize("mechanism", ["topk", "permute-and-flip", "repeated"])
def test_it_goes_with_private_choices(mechanism):
    method = fh.FedEx(schedule="halving", trials=9, arms=3, metric="error", difference=True)
    result = tune(Privacy(5.0, mechanism=mechanism), method=method, rounds=8, total=48)
    assert result.facts["privacy"]["evaluations"] == result.facts["privacy"]["rounds"]["planned"] + 2
    assert len({tuple(one["weights"]) for one in result.facts["policies"]}) == 9


def test_landmarks_are_scored_through_the_channel():
    method = fh.FedEx(**(ALONE | {"landmarks": 2, "landmark_rounds": 2}))
    result = tune(Privacy(50.0), method=method, total=10)
    assert result.facts["privacy"]["evaluations"] == 2 + 1 + result.facts["privacy"]["rounds"]["planned"]


# What gets out


class Watched(ToyFederation):
    """Remembers every score that a client said."""

    def __init__(self):
        super().__init__()
        self.said = set()

    def round(self, work):
        reports = super().round(work)
        for one in reports:
            for name in ("loss_before", "loss_after", "accuracy_before", "accuracy_after"):
                self.said.update(getattr(one, name).tolist())
        return reports


def test_no_score_of_a_round_is_recorded_or_shown(tmp_path):
    federation = Watched()
    result = tune(Privacy(1.0), federation, run=tmp_path / "a")
    assert len(federation.said) > 100
    with open_read(tmp_path / "a") as run:
        for event in run.record.events():
            if event.kind == "round":
                for one in unpack(event.result):
                    assert np.isnan([one.loss_before, one.loss_after]).all()
                    assert np.isnan([one.accuracy_before, one.accuracy_after]).all()
    raw = b"".join(file.read_bytes() for file in (tmp_path / "a").glob("record.sqlite*"))
    raw += (tmp_path / "a" / "result.json").read_bytes()
    assert not any(
        np.float64(score).tobytes() in raw or repr(score).encode() in raw for score in federation.said
    )
    rounds = [row for row in result.history if row["kind"] == "round"]
    assert len(rounds) == 6
    assert all(row["loss_before"] is None and row["accuracy_after"] is None for row in rounds)
    assert len(result.facts["policies"][0]["rounds"]) == 7


@pytest.mark.parametrize(
    ("method", "mechanism", "message"),
    [
        ({}, "laplace", "fedex with metric = 'loss' needs clip"),
        ({"clip": 4.0, "eliminate": 0.1}, "laplace", "eliminate = 0.1 reads how single scores spread"),
        ({"clip": 4.0, "landmarks": 2}, "topk", "landmarks = 2 are ranked by scores, and mechanism = 'topk'"),
    ],
)
def test_settings_that_would_read_more_are_refused(tmp_path, method, mechanism, message):
    method = fh.FedEx(schedule="fixed", trials=1, **method)
    with pytest.raises(fh.InputError, match=message):
        tune(Privacy(1.0, mechanism=mechanism), method=method, total=40, run=tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_what_bounds_a_score_cannot_be_tuned():
    space = fh.Space(client={"lr": fh.Float(0.01, 1.0)}, policy={"clip": fh.Float(1.0, 4.0)})
    with pytest.raises(fh.InputError, match=r"policy.clip cannot be tuned"):
        fh.tune(
            equal(), space, fh.FedEx(**ALONE), rounds=2, total=2, cohort=3,
            evaluation=Evaluator(privacy=Privacy(1.0)),
        )  # fmt: skip


def test_weights_by_size_are_refused():
    data = fh.load("digits", clients=10)
    with fh.simulate("mlp", data, workers=0) as federation, pytest.raises(fh.InputError, match="uniform"):
        tune(Privacy(1.0), federation)


def test_too_few_replies_are_not_heard():
    """Of a cohort of 5 at least 5 must be heard; with many missing there are rounds in which they are not."""
    result = tune(Privacy(1.0, minimum=5), equal(missing=0.1), rounds=12, total=12)
    assert 0 < result.facts["privacy"]["rounds"]["releases"] < 12


# With much epsilon, and resumed


@pytest.mark.parametrize(
    "settings",
    [{}, {"difference": True}, {"metric": "error", "clip": None}, {"baseline": "zero", "cutoff": 0.5}],
)
def test_with_much_epsilon_it_is_fedex_with_uniform_weights(settings):
    method = fh.FedEx(**(ALONE | settings))
    private = tune(Privacy(1e13), equal(noise=0.0), method).facts["policies"]
    plain = fh.tune(equal(noise=0.0), SPACE, method, rounds=6, total=6, cohort=5).facts["policies"]
    for ours, theirs in zip(private[0]["rounds"], plain[0]["rounds"], strict=True):
        assert ours["drawn"] == theirs["drawn"]
        assert ours["log_weights"] == pytest.approx(theirs["log_weights"], abs=1e-4)
    assert private[0]["best"] == plain[0]["best"]


def test_stopped_again_and_again_it_ends_the_same_and_is_charged_once(tmp_path):
    method = fh.FedEx(schedule="halving", trials=4, arms=3, clip=2.0)
    options = {"method": method, "rounds": 6, "total": 30}
    unbroken, stops = tune(Privacy(2.0), run=tmp_path / "unbroken", **options), 0
    while True:
        left = iter(range(1 + stops % 4))

        def stop(event, left=left):
            return not event.replayed and next(left, None) is None

        result = tune(Privacy(2.0), run=tmp_path / "a", callbacks=[stop], **options)
        if result.status == "finished":
            break
        stops += 1
    assert stops >= 3
    assert facts(result) == facts(unbroken)
    with open_read(tmp_path / "a") as run:
        assert run.facts()["spent"]["epsilon"] == pytest.approx(unbroken.facts["privacy"]["epsilon_spent"])


KILLED = """
import os, signal, sys
import fedhpo as fh
from fedhpo import Evaluator, Privacy
from fedhpo.privacy.withheld import SealedFederation
from fedhpo.testing import ToyFederation

drawn = SealedFederation.unseal
left = [int(sys.argv[2])]

def unseal(self, trial, round):
    left[0] -= 1
    if left[0] == 0:
        os.kill(os.getpid(), signal.SIGKILL)  # charged, but not drawn
    return drawn(self, trial, round)

SealedFederation.unseal = unseal
space = fh.Space(client={"lr": fh.Float(1e-3, 10.0, log=True)}, server={"lr": 1.0})
method = fh.FedEx(schedule="fixed", trials=1, arms=3, eps=1.0, clip=2.0)
federation = ToyFederation()
federation.sizes[:] = 10
fh.tune(federation, space, method, rounds=6, total=6, cohort=20, run=sys.argv[1],
        evaluation=Evaluator(privacy=Privacy(2.0, release=sys.argv[3])))
"""


@pytest.mark.parametrize("release", ["simulated", "exact"])
def test_killed_between_charge_and_draw_it_ends_the_same(tmp_path, release):
    """All clients are in each round, so that each release is charged before it is drawn."""
    if release == "exact":
        pytest.importorskip("opendp")
    path = tmp_path / "a"
    done = subprocess.run([sys.executable, "-c", KILLED, str(path), "4", release], check=False)
    assert done.returncode == -signal.SIGKILL
    with open_read(path) as run:
        events = [event for event in run.record.events() if event.kind == "decide sums"]
    first = [json.loads(event.result) for event in events if event.result]
    assert (len(events), len(first)) == (4, 3)
    result = tune(Privacy(2.0, release=release), run=path, cohort=20)
    with open_read(path) as run:
        again = [json.loads(e.result) for e in run.record.events() if e.kind == "decide sums"]
        assert run.facts()["spent"]["epsilon"] == pytest.approx(2.0)
    assert again[:3] == first  # what was released stays released
    assert None not in [one for answer in again for one in answer]  # the round was run again for its scores
    if release == "simulated":
        assert facts(result) == facts(tune(Privacy(2.0), run=tmp_path / "unbroken", cohort=20))


def test_real_clients_lose_what_was_not_drawn_and_go_on(tmp_path, monkeypatch):
    """Their round is not repeated: what was charged for it stays charged, and nothing is learned from it."""
    whole, left = SealedFederation.unseal, iter([True, True, False])

    def unseal(self, trial, round):
        if not next(left, True):
            raise KeyboardInterrupt
        return whole(self, trial, round)

    monkeypatch.setattr(SealedFederation, "unseal", unseal)
    with pytest.raises(KeyboardInterrupt):
        tune(Privacy(2.0), equal(repeatable=False), run=tmp_path / "a")
    result = tune(Privacy(2.0), equal(repeatable=False), run=tmp_path / "a")
    with open_read(tmp_path / "a") as run:
        answers = [json.loads(e.result) for e in run.record.events() if e.kind == "decide sums"]
    assert [answer == [None] for answer in answers] == [False, False, True, False, False, False]
    assert result.facts["privacy"]["epsilon_spent"] == pytest.approx(2.0)
    rounds = result.facts["policies"][0]["rounds"]
    assert rounds[3]["log_weights"] == rounds[2]["log_weights"]


# What is said of it


def test_the_report_says_what_rounds_cost(tmp_path):
    from fedhpo.report import write_report

    result = tune(Privacy(1.0), run=tmp_path / "a")
    page = write_report([tmp_path / "a"], tmp_path / "page.html").read_text(encoding="utf-8")
    most = result.facts["privacy"]["rounds"]["most"]
    assert f"noisy sums by arm in 6 releases; one client in at most {most} of {most}" in page
