"""FedPop: exchanges between trials, alone and with FedPop-L, under both schedules, apart and side by side."""

import dataclasses
import itertools
import json
import math

import numpy as np
import pytest

import fedhpo as fh
from fedhpo.figures.lineage import ancestry, stretches
from fedhpo.figures.reading import load_view
from fedhpo.methods import Exchange, Tuner
from fedhpo.methods.fedpop.exchange import discounted
from fedhpo.methods.sections import sections_told
from fedhpo.protocol.reasons import Reason, Why
from fedhpo.report.sections.own import own
from fedhpo.schedules import FixedLength, Halving, Hyperband
from fedhpo.testing import ToyFederation

SPACE = fh.Space(client={"lr": fh.Float(1e-3, 10.0, log=True)}, server={"lr": fh.Float(0.2, 1.0)})
KINDS = fh.Space(
    client={
        "lr": fh.Float(1e-3, 10.0, log=True),
        "batch_size": fh.Ordinal([8, 16, 32]),
        "epochs": fh.Int(1, 5),
        "prox": fh.Float(0.01, 1.0, when={"client.rule": "prox"}),
        "rule": fh.Choice(["plain", "prox"]),
    },
    server={"lr": fh.Float(0.2, 1.0), "momentum": fh.Choice([0.0, 0.9]), "steps": fh.Int(1, 4, log=True)},
    model={"width": fh.Choice([1, 2])},
)


def tune(method=None, federation=None, space=SPACE, **options):
    budget = {"rounds": 20, "total": 180, "cohort": 6} | options
    return fh.tune(federation or ToyFederation(noise=0.02), space, method or fh.FedPop(), **budget)


def facts(result, *without):
    return {name: value for name, value in result.facts.items() if name not in ("times", *without)}


def changes(result):
    return [(row["round"], row["trial"], row["source"]) for row in result.lineage]


# The score of a trial


def test_equation_five_by_hand():
    """T_g = 3, gamma = 0.9: weights 0.81, 0.9, 1 for the last three of four rounds."""
    expected = (0.81 * 3.0 + 0.9 * 2.0 + 1.0 * 1.0) / (0.81 + 0.9 + 1.0)
    assert discounted([100.0, 3.0, 2.0, 1.0], 3, 0.9) == pytest.approx(expected)
    assert discounted([2.0, 1.0], 3, 0.9) == pytest.approx((0.9 * 2 + 1) / 1.9)  # only what there is
    assert discounted([3.0, 2.0, 1.0], 3, 1.0) == pytest.approx(2.0)
    assert discounted([3.0, 2.0, 1.0], 3, 0.0) == 1.0  # 0^0 = 1: the last round


def test_a_round_without_a_loss_is_left_out_but_still_ages_the_others():
    expected = (0.81 * 3.0 + 1.0 * 1.0) / 1.81
    assert discounted([3.0, math.nan, 1.0], 3, 0.9) == pytest.approx(expected)
    assert discounted([3.0, math.inf, 1.0], 3, 0.9) == math.inf
    assert math.isnan(discounted([math.nan], 3, 0.9))
    assert math.isnan(discounted([], 3, 0.9))


# When, and who


def test_exchanges_happen_at_every_interval_but_not_after_the_last_round():
    """9 trials of 20 rounds, T_g = 0.1 x 20 = 2: at 2, 4, ..., 18, three of nine each time."""
    result = tune()
    at = [row["round"] for row in result.lineage]
    assert sorted(set(at)) == list(range(2, 20, 2))
    assert [at.count(number) for number in sorted(set(at))] == [3] * 9
    assert result.cost["rounds"] == 180
    assert {trial["rounds"] for trial in result.facts["trials"]} == {20}


def test_nobody_copies_a_trial_that_was_replaced_in_the_same_exchange():
    rows = changes(tune())
    for number in {number for number, _, _ in rows}:
        targets = {target for at, target, _ in rows if at == number}
        assert targets.isdisjoint({source for at, _, source in rows if at == number})


def test_sets_and_scores_are_those_of_the_recorded_losses():
    """Recomputed from the history alone: Eq. 5 over the rounds since a trial's last replacement."""
    result = tune(fh.FedPop(local=False, interval=4))
    losses = {trial: {} for trial in range(9)}
    for row in result.history:
        if row["kind"] == "round":
            losses[row["trial"]][row["round"]] = row["loss_after"]
    since = dict.fromkeys(range(9), 0)
    for number in (4, 8, 12, 16):
        scores = {}
        for trial in range(9):
            known = [losses[trial][r] for r in range(since[trial] + 1, number + 1)]
            weights = [0.9 ** (len(known[-4:]) - 1 - i) for i in range(len(known[-4:]))]
            scores[trial] = np.average(known[-4:], weights=weights)
        order = sorted(range(9), key=lambda trial: (scores[trial], trial))
        rows = [row for row in result.lineage if row["round"] == number]
        # The history's losses are means by size, an exchange's are plain: nearly the same order.
        assert {row["trial"] for row in rows} <= set(order[-4:])
        assert {row["source"] for row in rows} <= set(order[:4])
        for row in rows:
            assert row["score"] == pytest.approx(scores[row["trial"]], abs=0.02)
            since[row["trial"]] = number


@pytest.mark.parametrize("asynchronous", [False, True])
def test_trials_may_be_judged_by_fresh_evaluations(asynchronous):
    """Of nine trials the three with the lowest accuracy become copies of the three with the highest."""
    result = tune(fh.FedPop(interval=4, judge="evaluation", asynchronous=asynchronous))
    accuracy = {
        (row["round"], row["trial"]): row["accuracy"]
        for row in result.history
        if row["kind"] == "evaluate" and row["split"] == "validation"
    }
    for number in (4, 8, 12, 16):
        order = sorted(range(9), key=lambda trial: (-accuracy[number, trial], trial))
        rows = [row for row in result.lineage if row["round"] == number]
        assert {row["trial"] for row in rows} == set(order[-3:])
        assert {row["source"] for row in rows} <= set(order[:3])
        for row in rows:
            assert row["score"] == pytest.approx(accuracy[number, row["trial"]])
            assert row["source_score"] == pytest.approx(accuracy[number, row["source"]])


def test_a_copy_has_the_weights_of_its_source_and_a_config_near_it():
    """Without noise and resampling, all client and server values lie within eps of the source's."""
    method = fh.FedPop(local=False, resample=0.0, annealing="constant", eps=0.1)
    result = tune(method, ToyFederation(noise=0.0))
    configs = {t["trial"]: (t["path"] or [t])[0]["config"] for t in result.facts["trials"]}
    for row in result.lineage:
        source = configs[row["source"]]
        assert abs(math.log10(row["client.lr"] / source["client"]["lr"])) <= 4 * 0.1 + 1e-9
        assert abs(row["server.lr"] - source["server"]["lr"]) <= 0.8 * 0.1 + 1e-9
        own = {"client": {"lr": row["client.lr"]}, "server": {"lr": row["server.lr"]}}
        configs[row["trial"]] = own
    losses = {}
    for row in result.history:
        if row["kind"] == "round":
            losses[row["trial"], row["round"]] = row["loss_before"]
    for row in result.lineage:  # the first loss after a copy is that of the source's model
        after = row["round"] + 1
        assert losses[row["trial"], after] == pytest.approx(losses[row["source"], after], rel=1e-12)


def test_the_best_config_is_the_last_and_the_path_tells_the_whole_way():
    result = tune()
    trials = {trial["trial"]: trial for trial in result.facts["trials"]}
    best = trials[result.facts["best"]["trial"]]
    assert result.best_config.to_dict() == best["config"]
    replaced = [trial for trial in trials.values() if trial["path"]]
    assert replaced
    for trial in replaced:
        assert trial["path"][-1]["config"] == trial["config"]
        assert trial["path"][0] | {"config": None} == {
            "round": 0,
            "source": None,
            "score": None,
            "source_score": None,
            "reason": "",
            "config": None,
        }
    assert len(result.lineage) == sum(len(trial["path"]) - 1 for trial in replaced)


# The ablation, the schedules


def test_l_alone_changes_no_config_and_g_alone_gives_all_clients_the_same(tmp_path):
    only_l = tune(fh.FedPop(exchange=False))
    assert not len(only_l.lineage)
    assert only_l.tried["client"] > 100
    only_g = tune(fh.FedPop(local=False))
    # 9 configs at first, and 3 more at each of 9 exchanges.
    assert only_g.tried == {"server": 9 + 27, "client": 9 + 27}


def test_vectors_tried_by_other_methods():
    assert tune(fh.RandomSearch()).tried == {"server": 9, "client": 9}
    assert tune(fh.SHA(trials=9)).tried == {"server": 9, "client": 9}
    fedex = tune(fh.FedEx(arms=3, schedule="fixed", trials=2)).tried
    assert fedex["server"] == 2
    assert 2 <= fedex["client"] <= 6


def test_under_halving_trials_are_dropped_before_an_exchange_of_the_same_round():
    """9 -> 3 -> 1 trials, rungs end at 7 and 14: T_g = 7, so both come after the eliminations."""
    method = fh.FedPop(population=9, schedule="halving", interval=7, local=False)
    result = tune(method, total=9 * 7 + 3 * 7 + 6)
    survivors = {t["trial"] for t in result.facts["trials"] if t["rounds"] > 7}
    assert len(survivors) == 3
    assert {row["round"] for row in result.lineage} == {7}
    assert {row["trial"] for row in result.lineage} <= survivors
    assert {row["source"] for row in result.lineage} <= survivors


def test_a_member_replaced_since_the_last_rung_is_judged_on_its_own_rounds_only():
    """With scores averaged over a trial's evaluations, those before its replacement do not count."""
    method = fh.FedPop(population=9, schedule="halving", rate=3, interval=2, local=False)
    averaged = fh.Evaluator(clients=10, average="recent")
    kept = {}

    def look(event):
        if event.kind == "evaluate":
            for trial in event.trials:
                since = trial.replacements[-1].round if trial.replacements else 0
                assert all(score.round > since for score in trial.scores)
                kept[trial.number, trial.round] = len(trial.scores)

    tune(method, evaluation=averaged, callbacks=[look], total=110)
    assert 1 in kept.values()
    assert len({rounds for _, rounds in kept}) == 3


@pytest.mark.parametrize("schedule", [FixedLength(5, 5), Halving(9), Hyperband()])
def test_every_schedule_takes_an_exchange(schedule):
    from fedhpo.methods.fedpop.local import FedPopLocal

    result = tune(Tuner(schedule, policy=FedPopLocal(), exchange=Exchange(interval=2)))
    assert len(result.lineage) > 0
    assert result.cost["rounds"] <= 180
    assert result.facts["method"]["exchange"]["interval"] == 2


def test_hyperparameters_of_every_kind_and_models_of_different_shape():
    """A copy takes the shape of its source's model, and conditions hold in every config on the way."""
    result = tune(space=KINDS)
    for trial in result.facts["trials"]:
        for step in trial["path"]:
            KINDS.validate(fh.Config.from_dict(step["config"]))
    before = {t["trial"]: t["path"][0]["config"]["model"] for t in result.facts["trials"] if t["path"]}
    after = {t["trial"]: t["config"]["model"] for t in result.facts["trials"] if t["path"]}
    assert before != after


# Failures


class Diverging(ToyFederation):
    """A client lr above 1 gives losses that are not finite, or updates that cannot be used."""

    refuse = False

    def _train(self, work):
        bad = [work.config_of(member)["lr"] > 1.0 for member in range(len(work.cohort))]
        if self.refuse and all(bad):
            work = dataclasses.replace(work, minimum=len(work.cohort))
            self.missing, kept = 1.0, self.missing
            report = super()._train(work)
            self.missing = kept
            self._trials[work.trial].round -= 1
            reasons = dict.fromkeys(range(len(work.cohort)), Reason(Why.DIVERGED))
            status = np.ones_like(report.status)
            return dataclasses.replace(
                report, round=report.round - 1, applied=False, status=status, reasons=reasons
            )
        report = super()._train(work)
        return dataclasses.replace(report, loss_after=np.where(bad, np.nan, report.loss_after))


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("refuse", [False, True])
def test_a_trial_whose_loss_is_not_finite_is_replaced_at_the_next_exchange(refuse, asynchronous):
    """Of nine trials more than three have a client lr above 1: all of these go at the first exchange."""
    federation = Diverging(noise=0.0)
    federation.refuse = refuse
    enqueue = [{"client": {"lr": lr}} for lr in (2.0, 3.0, 4.0, 5.0, 6.0)]
    method = fh.FedPop(local=False, interval=5, resample=0.0, asynchronous=asynchronous)
    result = tune(method, federation, enqueue=enqueue)
    first = [row for row in result.lineage if row["round"] == 5]
    assert {1, 2, 3, 4, 5} <= {row["trial"] for row in first}
    assert all(row["score"] is None for row in first if row["trial"] in range(1, 6))
    assert {trial["status"] for trial in result.facts["trials"]} == {"finished"}
    assert {trial["rounds"] for trial in result.facts["trials"]} == {20}
    if refuse:
        reasons = {t["trial"]: t["path"][1]["reason"] for t in result.facts["trials"] if t["path"]}
        assert all("not finite" in reasons[trial] for trial in range(1, 6))


def test_if_all_fail_the_error_says_so():
    federation = Diverging(noise=0.0)
    federation.refuse = True
    space = fh.Space(client={"lr": fh.Float(2.0, 10.0)})
    with pytest.raises(fh.FedhpoError, match=r"no trial could be trained.*not finite"):
        tune(federation=federation, space=space)


def test_missing_and_failing_clients_do_not_stop_the_exchange():
    result = tune(federation=ToyFederation(missing=0.5, failing=0.2))
    assert result.status == "finished"
    assert len(result.lineage) >= 20
    spent = sum(row["applied"] is not None for row in result.history)
    assert result.cost["repeated_rounds"] == spent - sum(
        row["applied"] is True for row in result.history if row["kind"] == "round"
    )


# Apart


@pytest.mark.parametrize("schedule", ["fixed", "halving"])
@pytest.mark.parametrize(("missing", "judge"), [(0.0, "losses"), (0.3, "losses"), (0.0, "evaluation")])
def test_trials_that_are_equally_fast_do_the_same_as_side_by_side(schedule, missing, judge):
    settings = {"schedule": schedule, "population": 9, "judge": judge}
    both = [
        tune(
            fh.FedPop(asynchronous=asynchronous, **settings),
            ToyFederation(noise=0.02, missing=missing),
        )
        for asynchronous in (False, True)
    ]
    assert both[0].cost["repeated_rounds"] == 0  # a round that is repeated would take longer
    assert facts(both[0], "method") == facts(both[1], "method")


def test_trials_at_their_own_pace_spend_no_more_and_repeat_with_their_order():
    found = [
        tune(fh.FedPop(asynchronous=True), ToyFederation(arrivals=arrivals), rounds=10, total=90)
        for arrivals in (3, 3, 4)
    ]
    assert facts(found[0]) == facts(found[1])
    assert facts(found[0]) != facts(found[2])
    for result in found:
        assert len(result.lineage) > 5
        assert result.cost["rounds"] <= 90
        assert result.cost["repeated_rounds"] == 0
        assert max(trial["rounds"] for trial in result.facts["trials"]) == 10


class Slow(ToyFederation):
    """Trial 0's rounds end only when no other round is under way."""

    def next_done(self, trial=None):
        if trial is None:
            trial = next((number for number in self._trials.rounds if number != 0), 0)
        self.order = [*getattr(self, "order", []), trial]
        return super().next_done(trial)

    def ready(self):
        return [number for number in self._trials.rounds if number != 0]


def test_nobody_waits_for_a_slow_trial():
    """While trial 0 has not ended its first round, all others train to their end, and exchange."""
    federation = Slow(noise=0.02)
    result = tune(fh.FedPop(asynchronous=True), federation)
    first = federation.order.index(0)
    assert [federation.order[:first].count(trial) for trial in range(1, 9)] == [20] * 8
    assert {row["round"] for row in result.lineage} >= set(range(2, 20, 2))


# Stopped, killed, resumed


class StopAt:
    def __init__(self, number):
        self.left = number

    def __call__(self, event):
        self.left -= not event.replayed
        return self.left == 0


@pytest.mark.parametrize(("asynchronous", "events"), [(False, 4), (True, 17)])
def test_stopped_again_and_again_ends_in_the_same_result(tmp_path, asynchronous, events):
    """The order of arrival is chance at first; where it is recorded, a resumed run follows it."""
    method = fh.FedPop(asynchronous=asynchronous, interval=3)
    options = {"rounds": 9, "total": 54, "cohort": 4}
    whole = tune(method, ToyFederation(missing=0.2), **options)
    stops = 0
    while True:
        found = tune(
            method, ToyFederation(missing=0.2), run=tmp_path / "a", callbacks=[StopAt(events)], **options
        )
        if found.status == "finished":
            break
        stops += 1
    assert stops > 2
    assert facts(found) == facts(whole)


def test_the_record_holds_the_order_of_arrival(tmp_path):
    """Stopped under one order and resumed by a federation with another, what was recorded stays."""
    method = fh.FedPop(asynchronous=True, interval=3)
    options = {"rounds": 9, "total": 54, "cohort": 4, "run": tmp_path / "a"}
    stopped = tune(method, ToyFederation(arrivals=1), callbacks=[StopAt(30)], **options)
    assert stopped.status == "stopped"
    order = [row["trial"] for row in stopped.history if row["kind"] == "round"]
    ended = tune(method, ToyFederation(arrivals=2), **options)
    assert ended.status == "finished"
    assert [row["trial"] for row in ended.history if row["kind"] == "round"][: len(order)] == order
    again = tune(method, ToyFederation(arrivals=7), **options)
    assert facts(again) == facts(ended)


# The user's own config


def test_gain_is_not_told_of_a_trial_zero_that_became_a_copy():
    space = fh.Space(client={"lr": fh.Float(1e-3, 10.0, log=True, default=1e-3)}, server={"lr": 1.0})
    replaced = tune(federation=ToyFederation(noise=0.0), space=space)
    assert replaced.facts["trials"][0]["path"]
    assert replaced.gain is None
    assert replaced.facts["baseline"] is None


def test_the_baseline_is_trained_anew_where_trial_zero_became_a_copy():
    space = fh.Space(client={"lr": fh.Float(1e-3, 10.0, log=True, default=1e-3)}, server={"lr": 1.0})
    result = tune(federation=ToyFederation(noise=0.0), space=space, baseline=True)
    assert result.facts["baseline"]["config"]["client"]["lr"] == 1e-3
    assert result.facts["baseline"]["rounds"] == 20
    assert result.cost["baseline_rounds"] == 20
    assert result.cost["repeated_rounds"] == 0
    assert result.gain["value"] > 0
    assert result.gain["round"] == 20


# The report


def test_the_report_draws_the_lineage_of_the_winner(tmp_path):
    result = tune(fh.FedPop(local=False), run=tmp_path / "a")
    view = load_view(tmp_path / "a")
    line = ancestry(view.trials, view.winner)
    assert line[0][0] == result.facts["best"]["trial"]
    assert line[0][2] == 20
    assert line[-1][1] == 0
    for (_, begin, _), (_, _, end) in itertools.pairwise(line):
        assert begin == end
    assert sum(end - begin for trial, begin, end, *_ in stretches(view.trials) if trial == 3) == 20
    assert [one["title"] for one in result.facts["sections"]] == ["Lineage"]
    [section] = own(view)
    page = section.body
    assert "copied trial" in page
    assert "server.lr" in page
    without = {key: value for key, value in view.result.items() if key != "sections"}
    assert json.loads(json.dumps(sections_told(without))) == view.result["sections"]  # as 0.2.0 kept it
    assert own(dataclasses.replace(view, result=without | {"trials": []})) == []


def test_the_lineage_of_an_unfinished_run_comes_from_its_record(tmp_path):
    tune(fh.FedPop(), run=tmp_path / "a", callbacks=[StopAt(20)])
    view = load_view(tmp_path / "a")
    copies = [step for trial in view.result["trials"] for step in trial["path"][1:]]
    assert len(copies) >= 3
    assert [section.title for section in own(view)] == ["Lineage"]


# Refusals and names


def test_mistakes_are_named():
    with pytest.raises(fh.InputError, match=r"interval must be rounds .* or a share in \(0, 1\], not 1.5"):
        fh.FedPop(interval=1.5)
    with pytest.raises(fh.InputError, match=r"discount must lie in \[0, 1\], not 2"):
        fh.FedPop(discount=2)
    with pytest.raises(fh.InputError, match=r"unknown judge 'accuracy'; known: evaluation, losses"):
        fh.FedPop(judge="accuracy")
    with pytest.raises(fh.InputError, match=r"unknown schedule 'sha'; known: fixed, halving"):
        fh.FedPop(schedule="sha")
    with pytest.raises(fh.InputError, match=r"population must be at least 1, not 0"):
        fh.FedPop(population=0)
    with pytest.raises(fh.InputError, match=r"9 trials of 20 rounds need a total of 180 rounds, not 100"):
        tune(fh.FedPop(population=9), total=100)


def test_a_federation_that_cannot_fork_is_refused_only_where_it_must():
    class Plain(ToyFederation):
        def __init__(self):
            super().__init__()
            self.capabilities = self.capabilities - {"fork"}

    with pytest.raises(fh.InputError, match=r"fedpop needs a federation with: fork"):
        tune(federation=Plain())
    assert tune(fh.FedPop(exchange=False), Plain()).status == "finished"


def test_privacy_refuses_the_local_half():
    evaluation = fh.Evaluator(privacy=fh.Privacy(epsilon=1.0))
    with pytest.raises(fh.InputError, match="local half goes by the score of the one client in each slot"):
        tune(fh.FedPop(), evaluation=evaluation)
