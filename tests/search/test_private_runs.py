"""Private runs: what is released, charged, recorded and shown, and nothing else."""

import dataclasses
import json
import math
import signal
import sqlite3
import subprocess
import sys

import numpy as np
import pytest

import fedhpo as fh
from fedhpo.core.run_errors import BudgetError
from fedhpo.methods import BOHB, GP, TPE, Hyperband
from fedhpo.policies import Fixed
from fedhpo.privacy import selection
from fedhpo.privacy.means import noisy_mean
from fedhpo.privacy.privacy import Privacy
from fedhpo.protocol.objective import Objective
from fedhpo.protocol.reasons import Reason, Why
from fedhpo.research.tables.replay import replay
from fedhpo.run import Budget, Run, open_read
from fedhpo.run.codec import unpack
from fedhpo.run.recorded import RecordedSession
from fedhpo.samplers import Random
from fedhpo.search import private
from fedhpo.search.evaluator import Evaluator
from fedhpo.search.private import channel_of
from fedhpo.search.release_plan import planned_releases
from fedhpo.search.search import Search
from fedhpo.search.unrecorded import UnrecordedSession
from fedhpo.testing import ToyFederation
from fedhpo.testing.table import toy_table

SPACE = fh.Space(client={"lr": fh.Float(1e-3, 10.0, log=True)}, server={"lr": fh.Float(0.5, 1.0)})
BUDGET = {"rounds": 8, "total": 48, "cohort": 4}
MECHANISMS = ["laplace", "topk", "permute-and-flip", "repeated"]


def tune(privacy, federation=None, method=None, *, clients=None, **options):
    evaluation = Evaluator(clients=clients, privacy=privacy)
    return fh.tune(
        federation or ToyFederation(),
        SPACE,
        method or fh.SHA(trials=9, finalists=1),
        evaluation=evaluation,
        **(BUDGET | options),
    )


def facts(result):
    return {name: value for name, value in result.facts.items() if name != "times"}


def search_of(federation, privacy, **options):
    settings = {"rounds": 8, "total": 48, "cohort": 4, "seed": 0} | options
    objective = Objective(weighting="uniform")
    return Search(SPACE, objective=objective, evaluator=Evaluator(privacy=privacy), **settings)


def test_the_ledger_refuses_evaluation_seventeen(tmp_path):
    """Epsilon 1 over 16 evaluations at 100 clients: 16 scores with noise of scale 0.16, and no more."""
    search = search_of(ToyFederation(clients=100), Privacy(epsilon=1.0, evaluations=16))
    with Run.create_or_open(tmp_path / "a", {}, "none", 1, budget=Budget(epsilon=1.0)) as run:
        search.begin(RecordedSession(ToyFederation(clients=100), run.record, run.ledger))
        trials = search.start(1, Random(), Fixed())
        for _ in range(16):
            search.evaluate(trials)
        assert search.ledger.epsilon == pytest.approx(1.0)
        with pytest.raises(BudgetError, match=r"epsilon: 0.0625 more would exceed the budget of 1"):
            search.evaluate(trials)
        assert len(trials[0].scores) == 16
        errors = [score.standard_error for score in trials[0].scores]
        assert errors == pytest.approx([math.sqrt(2) * 0.16] * 16)
        assert search.ledger.cost.evaluations == 1600


class Replies(ToyFederation):
    """Every client says `said`; only the first `count` reply."""

    def __init__(self, count, said=0.5, clients=10):
        super().__init__(clients=clients)
        self.count, self.said = count, said

    def evaluate(self, trials, clients, split="validation"):
        found = super().evaluate(trials, clients, split)
        missing = (np.arange(len(clients)) >= self.count).astype(np.int8) * 2
        accuracy = np.where(missing == 0, self.said, np.nan)
        return [dataclasses.replace(s, status=missing, accuracy=accuracy) for s in found]


def test_noise_is_scaled_to_the_replies_that_came():
    result = tune(Privacy(1.0, held_out=0.0), Replies(8), "random")
    validation = result.facts["best"]["validation"]
    assert validation["clients"] == 8
    # 6 scores, 8 replies out of 10; scores near m = 0.5 spread by m (1 - m) at most.
    near = min(1.0, max(0.0, validation["value"]))
    drawing = near * (1 - near) / 8 * (1 - 8 / 10)
    assert validation["standard_error"] == pytest.approx(math.sqrt(drawing + 2 * (6 / 8) ** 2))


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_below_the_minimum_nothing_is_released(tmp_path, mechanism):
    privacy = Privacy(1.0, mechanism=mechanism, minimum=6)
    if mechanism == "laplace":
        with pytest.raises(fh.FedhpoError, match="no trial has a finite score"):
            tune(privacy, Replies(5), "random", run=tmp_path / "a")
    else:  # no score was looked at: the first trial is as good as any
        assert tune(privacy, Replies(5), "random", run=tmp_path / "a").facts["best"]["trial"] == 0
    with open_read(tmp_path / "a") as run:
        answers = [json.loads(e.result) for e in run.record.events() if e.epsilon]
    assert len(answers) == 1
    assert answers[0].get("values", [None]) == [None] * len(answers[0].get("values", [None]))


@pytest.mark.parametrize("said", [7.0, -0.5, math.nan, math.inf])
def test_what_is_no_score_counts_as_the_worst_one(said):
    """One of ten clients says 0.5, nine say this: all ten replied."""
    federation = Replies(10, said=np.array([0.5] + [said] * 9))
    result = tune(Privacy(1e9), federation, "random")
    assert result.best_score == pytest.approx(0.05, abs=1e-6)
    assert result.facts["best"]["validation"]["clients"] == 10
    result = tune(Privacy(1e9), Replies(10, said=-3.0), "random", objective="error")
    assert result.best_score == pytest.approx(1.0, abs=1e-6)


def test_weights_are_uniform():
    said = np.linspace(0.0, 1.0, 10)
    federation = Replies(10, said=said)
    assert np.average(said, weights=federation.sizes) > 0.505
    result = tune(Privacy(1e9), federation, "random", objective=Objective(weighting="size"))
    assert result.best_score == pytest.approx(0.5, abs=1e-6)
    assert result.facts["objective"]["weighting"] == "uniform"


def test_the_standard_error_covers_what_noise_and_draws_do():
    """Two thousand releases of one model: they spread by no more than the error, and not by much less."""
    privacy = Privacy(epsilon=40.0, evaluations=1)
    search = Search(
        SPACE,
        objective=Objective(weighting="uniform"),
        evaluator=Evaluator(clients=20, privacy=privacy),
        **(BUDGET | {"seed": 0}),
    )
    channel = channel_of(search.evaluator)
    toy = ToyFederation(clients=100, noise=1.0)
    toy.start(0, {}, seed=0)
    search.begin(UnrecordedSession(toy), channel=channel)
    accuracy = private.replies_of(search.objective, toy.evaluate([0], toy.validation_clients)[0])
    values, errors = [], []
    for number in range(2000):
        rng = np.random.default_rng(number)
        drawn = search.evaluator.draw(np.arange(100), rng)
        noise = channel.noise(search, number)
        value, scale = noisy_mean(accuracy[drawn], channel.epsilon_each, noise)
        found = channel._score(search.objective, (value, scale, 20), 1, 100)
        values.append(value)
        errors.append(found.standard_error)
    assert scale == pytest.approx(1 / (40 * 20))
    assert np.std(values) <= 1.03 * np.mean(errors)
    assert np.std(values) > 0.4 * np.mean(errors)


# What is kept


def all_numbers(path):
    """Every number in the record's events and in the files beside it."""
    with open_read(path) as run:
        for event in run.record.events():
            if event.kind in ("round", "done", "evaluate"):
                for item in unpack(event.result):
                    for name in ("loss_before", "loss_after", "accuracy_before", "accuracy_after"):
                        yield from getattr(item, name)
            else:
                yield from _numbers(json.loads(event.result or b"null"))
    yield from _numbers(json.loads((path / "result.json").read_text()))
    for line in (path / "history.csv").read_text().splitlines()[1:]:
        yield from (float(cell) for cell in line.split(",") if cell.replace(".", "").isdigit())


def _numbers(value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for inner in value:
            yield from _numbers(inner)
    elif isinstance(value, float):
        yield value


class Watched(ToyFederation):
    """Remembers every score that a client ever said, and the means of each evaluation."""

    def __init__(self, **options):
        super().__init__(**options)
        self.said = set()

    def evaluate(self, trials, clients, split="validation"):
        found = super().evaluate(trials, clients, split)
        for scores in found:
            self.said.update(np.concatenate([scores.accuracy, scores.loss]).tolist())
            for metric in ("accuracy", "loss"):
                self.said.update((scores.mean(metric), scores.mean(metric, "uniform")))
        return found


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("method", [fh.SHA(trials=9, finalists=1), Hyperband()])
def test_no_score_that_was_not_paid_for_is_kept_anywhere(tmp_path, mechanism, method):
    federation = Watched()
    result = tune(Privacy(1.0, mechanism=mechanism), federation, method, run=tmp_path / "a", baseline=True)
    with open_read(tmp_path / "a") as run:
        assert "evaluate" not in {event.kind for event in run.record.events()}
    assert len(federation.said) > 100
    assert not federation.said & {n for n in all_numbers(tmp_path / "a") if not math.isnan(n)}
    assert all(row["accuracy_before"] is None and row["loss"] is None for row in result.history)
    if mechanism != "laplace":
        assert {row["kind"] for row in result.history} == {"round"}
    assert result.test is None
    raw = b"".join(
        row[0] or b""
        for row in sqlite3.connect(tmp_path / "a" / "record.sqlite").execute(
            "SELECT result FROM events WHERE kind LIKE 'decide %'"
        )
    )
    assert not any(np.float64(score).tobytes() in raw for score in federation.said)


def test_the_search_that_callbacks_see_holds_released_scores_only():
    federation, seen = Watched(), set()

    def look(event):
        for trial in event.search.trials:
            assert trial.evaluations == []
            seen.update(score.value for score in trial.scores)

    tune(Privacy(1.0), federation, callbacks=[look])
    assert len(seen) == 13
    assert not seen & federation.said


def test_test_scores_are_left_out_unless_wanted_and_then_marked(tmp_path):
    assert tune(Privacy(1.0)).test is None
    wanted = tune(Privacy(1.0, report_test=True), run=tmp_path / "a")
    assert wanted.test["outside_privacy"] is True
    assert 0 < wanted.test["accuracy"] < 1
    with open_read(tmp_path / "a") as run:
        assert "evaluate" not in {event.kind for event in run.record.events()}


def test_the_result_says_how_it_was_private():
    said = tune(Privacy(1.0)).facts["privacy"]
    assert said["noise"] == "simulated (numpy, seeded)"
    assert (said["epsilon"], said["evaluations"]) == (1.0, 13)  # 9 + 3 + 1 scores
    assert said["epsilon_spent"] == pytest.approx(1.0)
    assert "not the models" in said["covers"]
    assert fh.tune(ToyFederation(), SPACE, fh.SHA(trials=9, finalists=1), **BUDGET).facts["privacy"] is None


def test_an_exact_release_says_so():
    pytest.importorskip("opendp")
    privacy = Privacy(1e4, release="exact")
    first, second = tune(privacy), tune(privacy)
    assert first.facts["privacy"]["noise"] == "exact (OpenDP)"
    assert first.best_score != second.best_score  # not from the seed


def test_without_a_comparison_the_gain_comes_from_released_scores_and_is_never_certain():
    result = tune(Privacy(20.0, held_out=0.0), baseline=True)
    assert result.improved is not True
    assert result.gain["p_value"] is None
    assert result.facts["privacy"]["evaluations"] == 15  # both once more at the end
    best, own = result.facts["best"]["validation"], result.facts["baseline"]["validation"]
    assert result.gain["value"] == pytest.approx(best["value"] - own["value"])
    assert result.gain["standard_error"] == pytest.approx(
        math.hypot(best["standard_error"], own["standard_error"])
    )
    assert tune(Privacy(1.0, mechanism="topk")).gain is None


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_what_asking_costs_is_in_the_record(tmp_path, mechanism):
    """13 scores, or choices from 9 + 3 trials, each at 20 clients; the same sums wherever they are read."""
    privacy = Privacy(1.0, mechanism=mechanism, report_test=True)
    result = tune(privacy, run=tmp_path / "a")
    asked = {"laplace": 9 + 3 + 1}.get(mechanism, 9 + 3)
    shown = [result.facts[who] for who in ("best", "baseline")]
    tested = len({one["trial"] for one in shown if one["test"] is not None})
    with open_read(tmp_path / "a") as run:
        spent = run.facts()["spent"]
        released = [event for event in run.record.events() if event.epsilon]
    assert sum(event.cost.evaluations for event in released) == 20 * asked
    assert spent["evaluations"] == 20 * asked + len(ToyFederation().test_clients) * tested
    for name in ("rounds", "client_rounds", "bytes_down", "bytes_up", "samples", "evaluations"):
        assert spent[name] == result.cost[name]
    again = tune(privacy, run=tmp_path / "a")
    assert again.cost == result.cost


def test_the_history_holds_released_scores_and_no_others(tmp_path):
    for metric in ("accuracy", "error"):
        result = tune(Privacy(1.0), run=tmp_path / metric, objective=metric)
        rows = [row for row in result.history if row["kind"] == "evaluate"]
        assert len(rows) == 9 + 3 + 1
        assert {(row["ok"], row["failed"], row["missing"], row["loss"]) for row in rows} == {
            (20, None, None, None)
        }
        assert rows[-1]["epsilon"] == pytest.approx(1.0)
        assert rows[-1]["evaluations"] == result.cost["evaluations"]
        best = result.facts["best"]
        [own] = [row for row in rows if (row["trial"], row["round"]) == (best["trial"], best["rounds"])]
        said = own["accuracy"] if metric == "accuracy" else 1 - own["accuracy"]
        assert said == pytest.approx(best["validation"]["value"])


# Plans: hand-computed


def scales(monkeypatch, privacy, method, **options):
    """The scale of the noise in each choice of a run with 100 clients."""
    found = []
    plain = selection.SELECTIONS["topk"]

    def spy(values, count, epsilon, sensitivity, noise):
        found.append((len(values), count, 2 * count * sensitivity / epsilon))
        return plain(values, count, epsilon, sensitivity, noise)

    monkeypatch.setattr(selection, "SELECTIONS", {"topk": spy})
    result = tune(privacy, ToyFederation(clients=100), method, **options)
    return result, found


def test_scales_of_sha(monkeypatch):
    """27 -> 9 -> 3 -> 1: three rungs are chosen from, T = 3; Lap(2 T k w / eps) on sums, w = 0.5."""
    privacy = Privacy(epsilon=1.0, mechanism="topk", gap=0.5)
    result, found = scales(monkeypatch, privacy, fh.SHA(trials=27, finalists=1), rounds=8, total=100)
    assert [(size, kept) for size, kept, _ in found] == [(27, 9), (9, 3), (3, 1)]
    assert [scale for *_, scale in found] == pytest.approx([27, 9, 3])
    assert result.facts["privacy"]["epsilon_spent"] == pytest.approx(1.0)


def test_scales_of_hyperband(monkeypatch):
    """9@1 3@3 1@9 | 5@3 1@9 | 3@9: T = 5 over all brackets.

    Bracket 1 keeps 3 of 9 and 1 of 3, bracket 2 keeps 1 of 5; the ends of brackets 2 and 3 are compared
    with the best so far, 1 of 2 and 1 of 4. The end of bracket 1 is a single trial: nothing to choose.
    With `gap = 1` noise is on means of whole scores.
    """
    privacy = Privacy(epsilon=2.0, mechanism="topk", gap=1.0)
    result, found = scales(monkeypatch, privacy, Hyperband(unit=1), rounds=9, total=69)
    assert [(size, kept) for size, kept, _ in found] == [(9, 3), (3, 1), (5, 1), (2, 1), (4, 1)]
    assert [scale for *_, scale in found] == pytest.approx([0.15, 0.05, 0.05, 0.05, 0.05])
    assert result.facts["privacy"]["evaluations"] == 5
    assert result.facts["privacy"]["epsilon_spent"] == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("mechanism", "releases"),
    # All trials of all rungs; 4 + 3 + 2 + 1 eliminations and the ends of brackets 2 to 5.
    [("laplace", 121 + 49 + 21 + 10 + 5), ("topk", 10 + 4)],
)
def test_plan_of_the_papers_hyperband(mechanism, releases):
    search = search_of(None, Privacy(1.0, mechanism=mechanism), rounds=405, total=7905)
    plan = planned_releases(Hyperband(unit=5), search, np.arange(100))
    assert (plan.releases, plan.trials) == (releases, 143)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("method", [fh.RandomSearch(), fh.GridSearch(2), TPE(), GP(), BOHB()])
def test_every_method_spends_what_was_planned(mechanism, method):
    privacy = Privacy(3.0, mechanism=mechanism, held_out=0.0)
    result = tune(privacy, method=method, rounds=4, total=20)
    assert result.facts["privacy"]["epsilon_spent"] == pytest.approx(3.0)
    assert result.status == "finished"


def test_trials_that_fail_leave_hyperband_within_its_plan():
    class Diverging(ToyFederation):
        def round(self, work):
            reports = super().round(work)
            return [r if w.client["lr"] < 0.3 else _hopeless(r) for r, w in zip(reports, work, strict=True)]

    result = tune(Privacy(1.0), Diverging(), Hyperband(unit=1), rounds=9, total=69)
    assert "failed" in {trial["status"] for trial in result.facts["trials"]}
    assert result.facts["privacy"]["epsilon_spent"] < 1.0


@pytest.mark.parametrize("method", [BOHB(), Hyperband()])
def test_rounds_that_failed_trials_left_over_ask_for_no_more_releases(method):
    """9@1 3@3 1@9 | 5@3 1@9 | 3@9 | 3@1 1@3 1@9: seven choices are planned for 80 rounds.

    A trial that fails leaves rounds for a last bracket of 6@1 2@3 1@9, which has one choice more.
    """
    table = toy_table(configs=40, rounds=9, clients=20, total=80, failed={3: 4, 17: 0, 30: 6})
    evaluation = Evaluator(clients=10, privacy=Privacy(50.0, mechanism="topk"))
    found = [replay(table, method, seed=seed, evaluation=evaluation) for seed in range(9)]
    assert min(one.rounds for one in found) < 80
    assert max(one.epsilon for one in found) == pytest.approx(50.0)


def _hopeless(report):
    return dataclasses.replace(
        report,
        applied=False,
        status=np.ones(len(report.cohort), np.int8),
        reasons=dict.fromkeys(range(len(report.cohort)), Reason(Why.DIVERGED)),
    )


def test_samplers_learn_who_was_kept_and_who_was_dropped():
    seen = []

    def look(event):
        if event.kind == "start" and len(event.search.trials) > 9:
            seen.extend((o.trial, o.score.round, o.score.rank_value) for o in event.search.observations)

    tune(Privacy(1e9, mechanism="topk"), method=BOHB(unit=1), rounds=9, total=69, callbacks=[look])
    first_rung = {trial: rank for trial, round, rank in seen if round == 1 and trial < 9}
    assert sorted(first_rung.values()) == [0.0] * 3 + [1.0] * 6


def test_a_private_choice_with_much_epsilon_is_the_open_one():
    private_run = tune(Privacy(1e9, mechanism="topk"), ToyFederation(noise=0.0))
    open_run = fh.tune(ToyFederation(noise=0.0), SPACE, fh.SHA(trials=9, finalists=1), **BUDGET)
    assert private_run.best_config == open_run.best_config
    assert "kept private" in str(private_run)


# Resume


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_stopped_again_and_again_it_ends_the_same_and_is_charged_once(tmp_path, mechanism):
    privacy = Privacy(2.0, mechanism=mechanism)
    unbroken = tune(privacy, run=tmp_path / "unbroken")
    stops = 0
    while True:
        left = iter(range(1 + stops % 3))

        def stop(event, left=left):
            return not event.replayed and next(left, None) is None

        result = tune(privacy, run=tmp_path / "a", callbacks=[stop])
        if result.status == "finished":
            break
        stops += 1
    assert stops > 3
    assert facts(result) == facts(unbroken)
    with open_read(tmp_path / "a") as run:
        assert run.facts()["spent"]["epsilon"] == pytest.approx(2.0)


class Dying(ToyFederation):
    """The process ends in the middle of the n-th evaluation: charged, but not drawn."""

    def __init__(self, at):
        super().__init__()
        self.left = at

    def fingerprint(self, model):
        return ToyFederation().fingerprint(model)

    def evaluate(self, trials, clients, split="validation"):
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt
        return super().evaluate(trials, clients, split)


@pytest.mark.parametrize("release", ["simulated", "exact"])
@pytest.mark.parametrize("mechanism", ["laplace", "topk"])
def test_killed_between_charge_and_draw_it_is_charged_once(tmp_path, mechanism, release):
    if release == "exact":
        pytest.importorskip("opendp")
    privacy = Privacy(2.0, mechanism=mechanism, release=release)
    with pytest.raises(KeyboardInterrupt):
        tune(privacy, Dying(2), run=tmp_path / "a")
    with open_read(tmp_path / "a") as run:
        before = run.facts()["spent"]["epsilon"]
        first = [json.loads(e.result) for e in run.record.events() if e.epsilon and e.result]
    assert len(first) == 1
    result = tune(privacy, run=tmp_path / "a")
    with open_read(tmp_path / "a") as run:
        spent = run.facts()["spent"]["epsilon"]
        again = [json.loads(e.result) for e in run.record.events() if e.epsilon]
    assert before < spent + 1e-9
    assert spent == pytest.approx(2.0)
    assert again[0] == first[0]  # what was released stays released
    if release == "simulated":
        assert facts(result) == facts(tune(privacy, run=tmp_path / "unbroken"))


KILLED = """
import os, signal, sys
import fedhpo as fh
from fedhpo import Evaluator, Privacy
from fedhpo.testing import ToyFederation

class Killed(ToyFederation):
    left = 2

    def fingerprint(self, model):
        return ToyFederation().fingerprint(model)

    def evaluate(self, trials, clients, split="validation"):
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().evaluate(trials, clients, split)

space = fh.Space(client={"lr": fh.Float(1e-3, 10.0, log=True)}, server={"lr": fh.Float(0.5, 1.0)})
evaluation = Evaluator(privacy=Privacy(2.0))
fh.tune(
    Killed(),
    space,
    fh.SHA(trials=9, finalists=1),
    rounds=8,
    total=48,
    cohort=4,
    run=sys.argv[1],
    evaluation=evaluation,
)
"""


def test_killed_for_real_it_ends_the_same_and_is_charged_once(tmp_path):
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "a")], check=False)
    assert done.returncode == -signal.SIGKILL
    result = tune(Privacy(2.0), run=tmp_path / "a")
    assert facts(result) == facts(tune(Privacy(2.0), run=tmp_path / "unbroken"))
    assert result.facts["privacy"]["epsilon_spent"] == pytest.approx(2.0)


# What cannot be


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"objective": "loss"}, "privacy needs a score in"),
        ({"objective": Objective(over="tail")}, "over = 'mean'"),
        ({"privacy": Privacy(1.0, evaluations=12)}, "evaluations = 12: must be at least 13, as sha plans"),
        ({"method": "fedpop"}, "local half goes by the score of the one client"),
        ({"method": "fedhyper"}, "products of clients' updates"),
        ({"method": "fts"}, "fts is not private: clients tell what they learned"),
    ],
)
def test_what_cannot_be_private_is_refused_before_anything_is_written(tmp_path, options, message):
    options = {"privacy": Privacy(1.0)} | options
    with pytest.raises(fh.InputError, match=message):
        tune(run=tmp_path / "a", **options)
    assert not (tmp_path / "a").exists()


def test_more_evaluations_than_planned_may_be_paid_for():
    result = tune(Privacy(1.0, evaluations=26))
    assert result.facts["privacy"]["epsilon_spent"] == pytest.approx(0.5)


def test_training_weights_must_be_uniform_too():
    data = fh.load("digits", clients=10)
    space = fh.Space(client={"lr": fh.Float(0.01, 1.0)})
    options = {"rounds": 2, "total": 4, "cohort": 3, "evaluation": Evaluator(privacy=Privacy(5.0))}
    federation = fh.simulate("mlp", data, workers=0)
    with federation, pytest.raises(fh.InputError, match="weighting = 'uniform'"):
        fh.tune(federation, space, "random", **options)
    with fh.simulate("mlp", data, workers=0, weighting="uniform") as federation:
        assert fh.tune(federation, space, "random", **options).status == "finished"


def test_pld_accounting_adds_less_noise():
    pytest.importorskip("dp_accounting")
    basic = tune(Privacy(1.0)).facts
    tighter = tune(Privacy(1.0, accounting="pld", delta=1e-3)).facts
    assert tighter["privacy"]["epsilon_each"] > 1.2 * basic["privacy"]["epsilon_each"]
    errors = [f["best"]["validation"]["standard_error"] for f in (basic, tighter)]
    assert errors[1] < errors[0] / 1.2
