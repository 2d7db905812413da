"""A larger total: the run goes on where its search ended, and ends like one that had it from the start."""

import os
import signal
import subprocess
import sys
import time

import pytest

import fedhpo as fh
from fedhpo.run import open_read
from fedhpo.testing import ToyFederation

SPACE = fh.Space(client={"lr": fh.Float(1e-3, 1.0, log=True)}, server={"lr": fh.Float(0.1, 2.0)})
COUNTED = ("rounds", "client_rounds", "bytes_down", "bytes_up", "samples", "evaluations")


def tune(run, method, total, rounds=9, toy=None, **options):
    federation = ToyFederation(**toy or {})
    return fh.tune(federation, SPACE, method, rounds=rounds, total=total, cohort=5, run=run, **options)


def found(result):
    """What must be the same however the total was come to."""
    facts = result.facts
    return facts["trials"], facts["best"], facts["baseline"], facts["cost"]["budget"]


# One pass of Hyperband spends 21 + 21 + 27 rounds.
WHOLE = [
    ("random", (27, 63, 90)),
    (fh.RandomSearch(side_by_side=2), (36, 72)),
    (fh.TPE(startup=2), (45, 90, 135)),
    (fh.GP(startup=2), (45, 72)),
    (fh.GridSearch(points=3), (27, 81)),
    ("hyperband", (21, 69, 138)),
    ("bohb", (69, 138)),
    (fh.FedEx(schedule="fixed", arms=5), (27, 54)),
    (fh.FedEx(schedule="hyperband", arms=5), (42, 69)),
]


@pytest.mark.parametrize("baseline", [False, True])
@pytest.mark.parametrize(("method", "totals"), WHOLE, ids=lambda value: str(value)[:40])
def test_it_ends_like_a_run_that_had_the_total_from_the_start(tmp_path, method, totals, baseline):
    results = [tune(tmp_path / "a", method, total, baseline=baseline) for total in totals]
    fresh = tune(tmp_path / "b", method, totals[-1], baseline=baseline)
    assert found(results[-1]) == found(fresh)
    assert results[-1].facts["totals"] == list(totals)
    # What the earlier ends cost is told, and is all that the run cost more.
    earlier = results[-1].cost["earlier_conclusions"]
    more, less = ({**result.cost, "rounds": result.cost["all_rounds"]} for result in (results[-1], fresh))
    assert {name: more[name] - earlier[name] for name in COUNTED} == {name: less[name] for name in COUNTED}
    assert results[-1].cost["rounds"] == fresh.cost["rounds"]
    assert earlier["evaluations"] > 0
    assert fresh.cost["earlier_conclusions"] is None
    with open_read(tmp_path / "a") as run:
        assert run.facts()["spent"]["evaluations"] == results[-1].cost["evaluations"]
        assert run.totals == list(totals)
    # Called once more it gives the same at once.
    again = tune(tmp_path / "a", method, totals[-1], baseline=baseline)
    assert again.facts["cost"] == results[-1].facts["cost"]
    assert found(again) == found(fresh)


def test_hyperband_goes_on_with_the_next_bracket_after_one_that_was_cut(tmp_path):
    before = tune(tmp_path / "a", "hyperband", 81)
    after = tune(tmp_path / "a", "hyperband", 162)
    count = len(before.facts["trials"])
    assert after.facts["trials"][1:count] == before.facts["trials"][1:]
    assert len(after.facts["trials"]) > count
    assert after.cost["rounds"] <= 162


def test_a_stopped_run_goes_on_too(tmp_path):
    def stop(event):
        return event.kind == "round" and event.search.ledger.cost.rounds >= 40

    stopped = tune(tmp_path / "a", "tpe", 63, callbacks=[stop])
    assert stopped.status == "stopped"
    assert found(tune(tmp_path / "a", "tpe", 90)) == found(tune(tmp_path / "b", "tpe", 90))


def test_stopped_again_in_the_extension_it_tells_the_new_total(tmp_path):
    method = fh.TPE(startup=2)
    tune(tmp_path / "a", method, 27)
    stopped = tune(tmp_path / "a", method, 90, callbacks=[lambda event: event.kind == "start"])
    assert stopped.status == "stopped"
    assert stopped.cost["budget"] == {"rounds": 90}
    with pytest.raises(
        fh.InputError, match=r"has a total of 90 rounds, not 27: a total can be raised, not low"
    ):
        tune(tmp_path / "a", method, 27)
    assert found(tune(tmp_path / "a", method, 90)) == found(tune(tmp_path / "b", method, 90))


def test_a_total_that_is_raised_keeps_the_start_up_of_the_first(tmp_path):
    tune(tmp_path / "a", "tpe", 45)
    more = tune(tmp_path / "a", "tpe", 135)
    assert more.cost["rounds"] == 135
    alike = tune(tmp_path / "b", fh.TPE(startup=2), 135)  # half of five trials
    assert found(more)[0] == found(alike)[0]


def test_rounds_that_had_to_be_repeated_end_the_first_part_as_they_did(tmp_path):
    toy = {"missing": 0.7, "failing": 0.2}  # a total may then end in the middle of a training
    first = tune(tmp_path / "a", fh.RandomSearch(side_by_side=2), 45, toy=toy)
    assert first.cost["repeated_rounds"] > 0
    more = tune(tmp_path / "a", fh.RandomSearch(side_by_side=2), 90, toy=toy)
    assert more.facts["trials"][: len(first.facts["trials"])] == first.facts["trials"]
    assert len(more.facts["trials"]) > len(first.facts["trials"])
    assert more.cost["rounds"] <= 90


REFUSED = [
    (fh.SHA(trials=9), "under halving the lengths of all rungs follow the total"),
    (fh.FedEx(trials=9, arms=4), "under halving the lengths of all rungs follow the total"),
    (fh.FedPop(), "the population trains side by side, and exchanges, from the first round on"),
    (fh.FedPop(population=9, schedule="halving"), "the population trains side by side"),
    (fh.RandomSearch(trials=3), "trials = 3 is trained whatever the total; left out, it follows the total"),
]


@pytest.mark.parametrize(("method", "why"), REFUSED, ids=lambda value: str(value)[:30])
def test_a_method_whose_plan_cannot_go_on_says_why(tmp_path, method, why):
    first = tune(tmp_path / "a", method, 90)
    with pytest.raises(fh.InputError) as told:
        tune(tmp_path / "a", method, 180)
    assert why in str(told.value)
    assert "cannot be raised to 180" in str(told.value)
    assert "enqueue the best config" in str(told.value)
    assert found(tune(tmp_path / "a", method, 90)) == found(first)  # nothing was lost


def test_a_private_run_and_a_total_without_a_further_training_are_refused(tmp_path):
    private = fh.Evaluator(privacy=fh.Privacy(epsilon=100.0))
    tune(tmp_path / "a", "random", 27, evaluation=private)
    with pytest.raises(fh.InputError, match="epsilon was divided beforehand"):
        tune(tmp_path / "a", "random", 54, evaluation=private)
    tune(tmp_path / "b", "random", 27)
    with pytest.raises(fh.InputError, match="pays for no further training of 9 rounds"):
        tune(tmp_path / "b", "random", 28)


@pytest.mark.parametrize(
    ("options", "what"),
    [({"rounds": 8}, "budget.rounds"), ({"seed": 1}, "seed"), ({"baseline": True}, "budget.baseline")],
)
def test_nothing_else_may_change_with_the_total(tmp_path, options, what):
    tune(tmp_path / "a", "random", 27)
    with pytest.raises(fh.InputError, match=f"holds another study .{what} is"):
        tune(tmp_path / "a", "random", 72, **options)


def test_where_clients_do_not_repeat_themselves_it_goes_on_from_the_files(tmp_path):
    first = tune(tmp_path / "a", "tpe", 27, toy={"repeatable": False}, baseline=True)
    more = tune(tmp_path / "a", "tpe", 54, toy={"repeatable": False}, baseline=True)
    assert more.facts["trials"][:3] == first.facts["trials"]
    assert len(more.facts["trials"]) == 6


KILLED = """
import sys
import fedhpo as fh
from fedhpo.testing import ToyFederation
space = fh.Space(client={"lr": fh.Float(1e-3, 1.0, log=True)}, server={"lr": fh.Float(0.1, 2.0)})
print("ready", flush=True)
fh.tune(ToyFederation(seconds=0.01), space, "hyperband", rounds=9, total=int(sys.argv[2]), cohort=5,
        run=sys.argv[1], baseline=True)
"""


def test_killed_in_the_middle_of_an_extension_it_goes_on(tmp_path):
    tune(tmp_path / "a", "hyperband", 69, baseline=True)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    for wait in (0.0, 0.3, 0.6):
        child = subprocess.Popen(
            [sys.executable, "-c", KILLED, str(tmp_path / "a"), "138"],
            env=environment,
            stdout=subprocess.PIPE,
        )
        assert child.stdout is not None
        child.stdout.readline()
        time.sleep(wait)
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
    resumed = tune(tmp_path / "a", "hyperband", 138, baseline=True)
    assert found(resumed) == found(tune(tmp_path / "b", "hyperband", 138, baseline=True))
    assert resumed.facts["totals"] == [69, 138]
