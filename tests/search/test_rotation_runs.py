"""Private runs with rotation: whom they ask, what that costs each client, and what a kill leaves."""

import dataclasses
import json
import math
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedhpo as fh
from fedhpo.core.run_errors import BudgetError
from fedhpo.figures.told import Told
from fedhpo.methods import Hyperband
from fedhpo.privacy.accounting import epsilon_each
from fedhpo.privacy.privacy import Privacy
from fedhpo.privacy.rotation import most_asked, rotation_order, slot_cohort
from fedhpo.protocol.objective import Objective
from fedhpo.run import open_read
from fedhpo.search.account import RotationAccount, RotationPlan
from fedhpo.search.evaluator import Evaluator
from fedhpo.search.release_plan import planned_releases
from fedhpo.search.search import Search
from fedhpo.testing import ToyFederation

SPACE = fh.Space(client={"lr": fh.Float(1e-3, 10.0, log=True)}, server={"lr": fh.Float(0.5, 1.0)})
BUDGET = {"rounds": 8, "total": 48, "cohort": 4}


def tune(privacy, federation=None, method=None, *, clients=3, paired=None, **options):
    return fh.tune(
        federation or ToyFederation(),
        SPACE,
        method or fh.SHA(trials=9, finalists=1),
        evaluation=Evaluator(clients=clients, paired=paired, privacy=privacy),
        **(BUDGET | options),
    )


def facts(result):
    return {name: value for name, value in result.facts.items() if name != "times"}


def releases(path):
    """Call, answer and charge of each release, as the record holds them."""
    with open_read(path) as run:
        events = [e for e in run.record.events() if e.kind in ("decide release", "decide choose")]
    return [(json.loads(e.call), json.loads(e.result), e.epsilon) for e in events]


def taken(path):
    """In how many releases the record says that each client was asked."""
    return Counter(client for call, *_ in releases(path) for cohort in call["asked"] for client in cohort)


# By hand


def test_thirteen_scores_at_three_of_twenty_clients(tmp_path):
    """9 + 3 + 1 scores, 39 places for 20 clients: one client is in 2 at most, and noise is 2 / (eps 3)."""
    result = tune(Privacy(5.0), run=tmp_path / "a")
    found = releases(tmp_path / "a")
    order = rotation_order(np.arange(20), 0)
    slots = [cohort for call, *_ in found for cohort in call["asked"]]
    assert slots == [slot_cohort(order, slot, 3).tolist() for slot in range(13)]
    assert max(taken(tmp_path / "a").values()) == most_asked(13, 3, 20) == 2
    scales = {round(scale, 12) for _, answer, _ in found for scale in answer["scales"]}
    assert scales == {round(2 / (5.0 * 3), 12)}
    said = result.facts["privacy"]
    assert (said["evaluations"], said["epsilon_each"], said["clients"]["planned"]) == (13, 2.5, 2)
    assert said["clients"]["most"] == 2
    assert Counter(dict(said["clients"]["taken"])) == taken(tmp_path / "a")
    assert said["epsilon_spent"] == pytest.approx(5.0) == sum(charge for *_, charge in found)


def test_paired_trials_weigh_their_number(tmp_path):
    """9, 3 and 1 trials, each time at 3 clients: the first three have a part of 9 in it."""
    result = tune(Privacy(5.0), paired=True, run=tmp_path / "a")
    assert [len(call["asked"]) for call, *_ in releases(tmp_path / "a")] == [1, 1, 1]
    assert result.facts["privacy"]["clients"]["planned"] == 9
    assert result.facts["privacy"]["epsilon_each"] == pytest.approx(5.0 / 9)
    assert sorted(set(dict(result.facts["privacy"]["clients"]["taken"]).values())) == [1, 3, 9]
    assert result.facts["evaluation"]["paired"] is True


def test_where_all_are_asked_everybody_takes_part_in_everything():
    rotated, basic = (tune(Privacy(5.0, accounting=a), clients=None) for a in ("rotation", "basic"))
    assert rotated.facts["privacy"]["clients"]["planned"] == 13
    assert rotated.facts["privacy"]["epsilon_each"] == basic.facts["privacy"]["epsilon_each"]
    assert rotated.best_score == basic.best_score
    assert basic.facts["privacy"]["clients"] is None


def test_a_choice_weighs_one_whatever_the_number_of_trials(tmp_path):
    """Two choices, from 9 and from 3 trials, each at 12 of 20 clients: four are in both."""
    result = tune(Privacy(5.0, mechanism="topk"), clients=12, run=tmp_path / "a")
    assert [len(call["asked"]) for call, *_ in releases(tmp_path / "a")] == [1, 1]
    assert result.facts["privacy"]["clients"]["planned"] == 2
    assert Counter(taken(tmp_path / "a").values()) == {1: 16, 2: 4}
    few = tune(Privacy(5.0, mechanism="topk"), clients=10)  # no client is in both: each has all of epsilon
    assert few.facts["privacy"]["epsilon_each"] == pytest.approx(5.0)
    assert few.facts["privacy"]["epsilon_spent"] == pytest.approx(5.0)


def search_of(privacy, clients, **budget):
    settings = {"rounds": 8, "total": 48, "cohort": 4, "seed": 0} | budget
    evaluator = Evaluator(clients=clients, privacy=privacy)
    return Search(SPACE, objective=Objective(weighting="uniform"), evaluator=evaluator, **settings)


def test_the_plan_of_hyperband_at_one_of_a_hundred_clients():
    """206 scores at 1 of 100 clients: 3 of one client. Paired, the first rung's client has 81 of them."""
    plan = planned_releases(Hyperband(), search_of(Privacy(100.0), 1, rounds=81, total=1296), np.arange(100))
    assert plan.rotation.parts == math.ceil(plan.releases / 100) == 3
    assert sum(plan.rotation.caps) == plan.releases
    search = search_of(Privacy(100.0), 1, rounds=81, total=1296)
    search.evaluator = dataclasses.replace(search.evaluator, paired=True)
    assert planned_releases(Hyperband(), search, np.arange(100)).rotation.parts >= 81


def test_baseline_and_more_evaluations_are_in_the_plan():
    alone = Privacy(5.0, held_out=0.0)
    assert tune(alone, baseline=True).facts["privacy"]["evaluations"] == 15
    more = tune(Privacy(5.0, evaluations=40)).facts["privacy"]  # 40 x 3 / 20
    assert (more["clients"]["planned"], more["clients"]["most"]) == (6, 2)
    assert more["epsilon_spent"] == pytest.approx(5.0 * 2 / 6)


def test_pld_composes_what_one_client_takes_part_in():
    pytest.importorskip("dp_accounting")
    plain = tune(Privacy(5.0), clients=10).facts["privacy"]
    private = Privacy(5.0, accounting="pld", delta=1e-3)
    tighter = tune(private, clients=10).facts["privacy"]
    assert plain["clients"]["planned"] == tighter["clients"]["planned"] == 7
    assert tighter["epsilon_each"] == epsilon_each(private, 7) > plain["epsilon_each"]


def test_cohorts_that_follow_from_scores_are_refused():
    with pytest.raises(fh.InputError, match="draws clients by their scores"):
        Evaluator(clients=3, bias=1.0, privacy=Privacy(1.0))
    assert Evaluator(clients=3, bias=1.0, privacy=Privacy(1.0, accounting="basic")).bias == 1.0


# Who is missing, who fails


class Away(ToyFederation):
    """Clients 0 to 9 never reply."""

    def evaluate(self, trials, clients, split="validation"):
        found = super().evaluate(trials, clients, split)
        away = (np.asarray(clients) < 10).astype(np.int8) * 2
        return [dataclasses.replace(scores, status=away) for scores in found]


def test_asked_is_taken_part_and_nobody_takes_the_place_of_the_missing(tmp_path):
    tune(Privacy(5.0, minimum=1), Away(), run=tmp_path / "a")
    asked = [cohort for call, *_ in releases(tmp_path / "a") for cohort in call["asked"]]
    assert {len(cohort) for cohort in asked} == {3}
    replies = [count for _, answer, _ in releases(tmp_path / "a") for count in answer["replies"]]
    assert replies == [sum(client >= 10 for client in cohort) for cohort in asked]
    scales = [scale for _, answer, _ in releases(tmp_path / "a") for scale in answer["scales"]]
    assert scales == pytest.approx([2 / (5 * r) if r else None for r in replies])


class Fails(ToyFederation):
    """Clients 0 to 4 fail when they are asked for a score."""

    def evaluate(self, trials, clients, split="validation"):
        found = super().evaluate(trials, clients, split)
        fails = (np.asarray(clients) < 5).astype(np.int8)
        return [dataclasses.replace(scores, status=fails) for scores in found]


def test_who_fails_has_replied_with_the_worst_score(tmp_path):
    tune(Privacy(1e9), Fails(noise=0.0), "random", clients=None, run=tmp_path / "a")
    [(_, answer, _)] = releases(tmp_path / "a")
    assert set(answer["replies"]) == {20}
    assert max(answer["values"]) <= 0.75 + 1e-6


def fake(clients, size, paired, values):
    """As much of a search as an account looks at."""
    mechanism = "laplace" if values else "topk"
    evaluator = Evaluator(clients=size, paired=paired, privacy=Privacy(1.0, mechanism=mechanism))
    return SimpleNamespace(population=np.arange(clients), evaluator=evaluator, seed=0)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_no_client_gets_above_its_cap_whatever_is_asked(data):
    """Planned with some releases and looks inside rounds; asked with others, as where trials fail."""
    clients = data.draw(st.integers(1, 12))
    size = data.draw(st.integers(1, clients))
    paired, values = data.draw(st.sampled_from([None, True, False])), data.draw(st.booleans())
    search = fake(clients, size, paired, values)
    looks = st.tuples(st.lists(st.integers(0, clients - 1), unique=True, max_size=4), st.integers(1, 2))
    event = st.one_of(st.integers(1, 5), looks) if data.draw(st.booleans()) else st.integers(1, 5)
    counted = RotationAccount()
    for one in data.draw(st.lists(event, min_size=1, max_size=8)):
        if isinstance(one, int):
            counted.ask(search, one, values=values)
        else:
            counted.hear(search, *one)
    plan = counted.planned(search, data.draw(st.integers(0, 3)))
    assert plan.parts >= max(counted.caps.taken.values(), default=0)
    account, parts = RotationAccount(plan), 0
    for one in data.draw(st.lists(st.one_of(st.integers(1, 5), looks), max_size=20)):
        try:
            if isinstance(one, int):
                asked = account.ask(search, one, values=values)
                assert len(asked.cohorts) == one
                parts += asked.parts
            else:
                parts += account.hear(search, account.able(search, one[0], one[1]), one[1])
        except BudgetError:
            continue
        own = Counter(account.caps.taken)
        assert max(own.values(), default=0) <= plan.parts
        if plan.caps is not None:
            for place, client in enumerate(account.order.tolist()):
                assert own[client] <= plan.caps[place]
    assert parts == account.caps.largest <= plan.parts


def test_looks_inside_rounds_leave_evaluations_what_was_planned_for_them():
    """m = 3, of which one evaluation at all clients: who was looked at twice is still asked then."""
    search = fake(2, 2, None, True)
    account = RotationAccount(RotationPlan(3, kept=(1, 1), looks=2), order=np.array([0, 1]))
    account.hear(search, [0], 2)
    assert account.able(search, [0, 1], 1) == [1]
    assert account.ask(search, 1, values=True).cohorts[0].tolist() == [0, 1]
    assert account.able(search, [0, 1], 1) == [1]
    assert account.ask(search, 1, values=True).cohorts[0].tolist() == [1]
    account.ask(search, 1, values=True)
    with pytest.raises(BudgetError, match=r"epsilon: 0.333333 more would exceed the budget of 1"):
        account.ask(search, 1, values=True)


def test_a_trial_whose_clients_are_at_their_caps_has_no_score():
    search = fake(2, 1, None, True)
    account = RotationAccount(RotationPlan(1, caps=(1, 0)), order=np.array([5, 6]))
    asked, calls = account.ask(search, 2, values=True), []
    assert [cohort.tolist() for cohort in asked.cohorts] == [[5], []]

    def evaluate(trials, clients):
        calls.append((trials, clients.tolist()))
        return ["scores"]

    assert asked.evaluated(evaluate, [7, 8]) == ["scores", None]
    assert calls == [([7], [5])]


# Resume


@pytest.mark.parametrize("mechanism", ["laplace", "topk"])
def test_stopped_at_every_event_it_asks_the_same_clients(tmp_path, mechanism):
    privacy = Privacy(2.0, mechanism=mechanism)
    unbroken, stops = tune(privacy, run=tmp_path / "b"), 0
    while True:
        result = tune(privacy, run=tmp_path / "a", callbacks=[lambda event: not event.replayed])
        if result.status == "finished":
            break
        stops += 1
    assert stops > 3
    assert facts(result) == facts(unbroken)
    assert releases(tmp_path / "a") == releases(tmp_path / "b")


class Dies(ToyFederation):
    """The process ends in the middle of the n-th evaluation, before or after the clients are asked."""

    def __init__(self, at, after=False):
        super().__init__()
        self.left, self.after = at, after

    def fingerprint(self, model):
        return ToyFederation().fingerprint(model)

    def evaluate(self, trials, clients, split="validation"):
        self.left -= 1
        found = super().evaluate(trials, clients, split) if self.after or self.left else None
        if self.left == 0:
            raise KeyboardInterrupt
        return found


@pytest.mark.parametrize("release", ["simulated", "exact"])
@pytest.mark.parametrize("at", [1, 5, 12, 13])
def test_killed_between_charge_draw_and_record_nothing_is_seen_twice(tmp_path, at, release):
    """The twelfth score costs no client more than another has spent: its charge is on disk all the same."""
    if release == "exact":
        pytest.importorskip("opendp")
    privacy = Privacy(2.0, release=release)
    with pytest.raises(KeyboardInterrupt):
        tune(privacy, Dies(at, after=at % 2 == 0), run=tmp_path / "a")
    with open_read(tmp_path / "a") as run:
        kept = [e for e in run.record.events() if e.kind == "decide release"]
    assert kept[-1].result is None  # charged, and who was asked is written down
    assert json.loads(kept[-1].call)["asked"]
    result = tune(privacy, run=tmp_path / "a")
    with open_read(tmp_path / "a") as run:
        again = [e for e in run.record.events() if e.kind == "decide release"]
    assert [e.call for e in again[: len(kept)]] == [e.call for e in kept]
    assert [e.result for e in again[: len(kept) - 1]] == [e.result for e in kept[:-1]]
    assert result.facts["privacy"]["epsilon_spent"] == pytest.approx(2.0)
    assert max(taken(tmp_path / "a").values()) == 2
    if release == "simulated":
        assert facts(result) == facts(tune(privacy, run=tmp_path / "unbroken"))


def test_a_drawn_release_that_cost_nothing_more_cannot_be_lost(tmp_path):
    """The witness knows of it: a record that ends before it is refused."""
    tune(Privacy(2.0), run=tmp_path / "a")
    found = releases(tmp_path / "a")
    assert [charge for *_, charge in found][-1] == 0.0
    assert tune(Privacy(2.0), run=tmp_path / "a").status == "finished"


def test_a_page_waits_for_a_release_that_is_charged_and_not_drawn(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        tune(Privacy(2.0), Dies(12), run=tmp_path / "a")
    with open_read(tmp_path / "a") as run:
        told = Told(run.study["objective"])
        told.read(run.record)
        assert told.events == run.record.last - 1
    tune(Privacy(2.0), run=tmp_path / "a")
    with open_read(tmp_path / "a") as run:
        told.read(run.record)
        assert told.events == run.record.last


# FedEx: the same account


def test_rounds_and_evaluations_share_one_account(tmp_path):
    """Three of 20 clients score: who is heard most in rounds need not be who is asked."""
    space = fh.Space(client={"lr": fh.Float(1e-3, 10.0, log=True)}, server={"lr": 1.0})
    method = fh.FedEx(schedule="fixed", trials=2, arms=3, eps=1.0, clip=2.0, baseline="zero")
    options = {"rounds": 6, "total": 12, "cohort": 5}
    evaluation = Evaluator(clients=3, privacy=Privacy(4.0, held_out=0.0))
    toy = ToyFederation()
    toy.sizes = np.full(20, 10)
    result = fh.tune(toy, space, method, evaluation=evaluation, run=tmp_path / "a", **options)
    with open_read(tmp_path / "a") as run:
        sums = [json.loads(e.call) for e in run.record.events() if e.kind == "decide sums"]
    said = result.facts["privacy"]
    assert said["clients"]["most"] <= said["clients"]["planned"]
    assert said["epsilon_each"] == pytest.approx(4.0 / said["clients"]["planned"])
    # In all: 12 rounds of 5, but for those who were not heard, and 2 scores of 3.
    heard = sum(len(members) for one in sums for _, _, members in one["rounds"])
    assert sum(count for _, count in said["clients"]["taken"]) == heard + 6
    assert said["clients"]["planned"] < said["rounds"]["planned"] + 2 + 1
    basic = fh.tune(
        ToyFederation(),
        space,
        method,
        evaluation=Evaluator(clients=3, privacy=Privacy(4.0, accounting="basic", held_out=0.0)),
        **options,
    )
    assert basic.facts["privacy"]["epsilon_each"] <= said["epsilon_each"]
