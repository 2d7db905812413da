"""Clients that come and go, are slow, drop out or are too late: by hand, and in whole runs."""

import math

import numpy as np
import pytest

import fedhpo as fh
from fedhpo.core.errors import InputError
from fedhpo.federations.timing import DROPPED, GONE, LATE, Timed, Timing
from fedhpo.federations.traces import Drawn, Intervals, trace_of
from fedhpo.schedules import FixedLength
from fedhpo.testing.runs import PLAIN, facts_of, stopped_at_every_event

ROWS = np.array([100, 200, 400])
HELD = np.array([30, 30, 60])


def timing(rows=ROWS, held=HELD, **settings):
    return Timing(fh.Fleet(**{"speed": 10.0, "bandwidth": 1000.0, "latency": 2.0, **settings}), rows, held)


def work(cohort, starts=(), scores=()):
    return fh.Work(0, cohort, {"lr": 0.1}, scores=scores, starts=starts)


def written(tmp_path, text, name="trace.csv"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return str(path)


# By hand


def test_a_round_takes_as_long_as_its_slowest_member():
    # 2 s of latency, 2 x 4 x 250 bytes at 1,000 a second, rows at 10 a second
    found = timing().round(work([0, 2]), np.array([2.0, 1.0]), 250, 50.0)
    assert found.ends.tolist() == [50 + 2 + 2 + 20, 50 + 2 + 2 + 40]
    assert (found.begun, found.last, found.reasons) == (50.0, 94.0, {})


def test_scoring_a_row_takes_a_third_of_training_on_it():
    found = timing().round(work([2], scores=("before", "after")), np.ones(1), 0, 0.0)
    assert found.last == pytest.approx(2 + 40 + 2 * 60 / 3 / 10)


def test_who_is_not_back_by_the_deadline_is_too_late():
    found = timing(deadline=15.0).round(work([0, 2], starts=(0.0, 7.0)), np.ones(2), 0, 0.0)
    assert found.ends.tolist() == [12.0, 22.0]
    assert found.reasons == {1: LATE}


def test_stragglers_and_dropouts_come_as_often_as_asked_for():
    many = np.full(2000, 100)
    slow = timing(many, many, stragglers=0.2, slowdown=5.0).round(work(range(2000)), np.ones(2000), 0, 0.0)
    assert set(slow.ends.round(6).tolist()) == {12.0, 52.0}
    assert np.mean(slow.ends > 20) == pytest.approx(0.2, abs=0.03)
    dropped = timing(many, many, dropouts=0.3).round(work(range(2000)), np.ones(2000), 0, 0.0)
    assert len(dropped.reasons) / 2000 == pytest.approx(0.3, abs=0.03)
    assert set(dropped.reasons.values()) == {DROPPED}
    when = dropped.ends[list(dropped.reasons)]
    assert when.max() < 12.0
    assert when.mean() == pytest.approx(6.0, abs=0.5)  # at any moment alike


def test_a_client_does_one_thing_after_the_other():
    clock = timing()
    first = clock.round(work([0, 1]), np.ones(2), 0, 0.0)
    assert clock.starts([1, 2], 5.0, [first]) == [22.0, 5.0]
    assert clock.starts([0], 30.0, [first]) == [30.0]
    assert clock.starts([0], 0.0, [first, Timed([0], 0.0, np.array([40.0]), {})]) == [40.0]


def test_speeds_spread_by_the_log_and_files_say_them_exactly(tmp_path):
    many = np.full(4000, 100)
    speeds = np.log(timing(many, many, speed_spread=0.5).speed / 10.0)
    assert speeds.std() == pytest.approx(0.5, abs=0.02)
    assert np.median(speeds) == pytest.approx(0.0, abs=0.03)
    file = written(tmp_path, "client,speed,bandwidth\n1,5,100\n0,50,1000\n2,20,10\n")
    clock = timing(devices=file)
    assert clock.speed.tolist() == [50.0, 5.0, 20.0]
    assert clock.bandwidth.tolist() == [1000.0, 100.0, 10.0]


# Traces


def test_a_file_says_who_is_there_and_begins_anew(tmp_path):
    file = written(tmp_path, "client,begin,end\n0,0,10\n1,5,20\n0,10,12\n1,90,100\n")
    with pytest.warns(UserWarning, match="1 of 3 clients are not in the file"):
        trace = trace_of(fh.Fleet(availability=file), 3)
    assert trace.there(11.0).tolist() == [True, True, False]
    assert trace.there(107.0).tolist() == [True, True, False]
    assert trace.leaves(0, 3.0, 50.0) == 12.0  # stays that touch are one
    assert trace.leaves(0, 50.0, 60.0) == 50.0
    assert trace.leaves(1, 91.0, 140.0) == 100.0  # it is not there when the file begins anew
    assert trace.leaves(1, 6.0, 20.0) == math.inf
    assert trace.later(30.0) == 90.0


def test_a_stay_goes_on_over_the_end_of_the_file():
    trace = Intervals([[(0.0, 5.0), (90.0, 100.0)], [(0.0, 100.0)]])
    assert trace.leaves(0, 95.0, 1000.0) == 105.0
    assert trace.leaves(1, 95.0, 1e6) == math.inf


@pytest.mark.parametrize("kind", ["random", "day_night"])
def test_drawn_presence_has_its_share_and_leaves_agree_with_it(kind):
    fleet = fh.Fleet(availability=kind, share=0.4, stay=600.0, seed=3)
    trace = Drawn(200, fleet)
    times = np.arange(0, 4 * 86_400, 1800.0)
    assert np.mean([trace.there(t).mean() for t in times]) == pytest.approx(0.4, abs=0.01)
    seen = np.array([trace.there(t) for t in np.arange(5000.0, 7000.0, 2.0)])
    for client in range(200):
        left, away = trace.leaves(client, 5000.0, 6998.0), np.flatnonzero(~seen[:, client])
        assert left == math.inf if not len(away) else 2 * away[0] - 2 <= left - 5000.0 <= 2 * away[0]


def test_at_night_more_clients_are_there():
    trace = Drawn(3000, fh.Fleet(availability="day_night", share=0.5, swing=0.8))
    night, day = (trace.there(hour * 3600.0).mean() for hour in (26.0, 38.0))
    # The clients' clocks differ by 3 hours, which takes exp(-(2 pi 3/24)^2 / 2) = 0.73 of the swing.
    assert night == pytest.approx(0.5 * (1 + 0.8 * 0.735), abs=0.03)
    assert day == pytest.approx(0.5 * (1 - 0.8 * 0.735), abs=0.03)
    later = Drawn(3000, fh.Fleet(availability="day_night", share=0.5, swing=0.8, begin=12.0))
    assert later.there(14 * 3600.0).tolist() == trace.there(26 * 3600.0).tolist()


def test_it_is_waited_until_enough_are_there(tmp_path):
    file = written(tmp_path, "client,begin,end\n0,0,10\n1,5,20\n2,8,20\n")
    clock = timing(availability=file)
    assert clock.present(1.0, 1, np.arange(3))[1].tolist() == [0]
    time, there = clock.present(1.0, 3, np.arange(3))
    assert (time, there.tolist()) == (8.0, [0, 1, 2])
    file = written(tmp_path, "client,begin,end\n0,0,10\n1,10,20\n2,0,20\n")
    with pytest.raises(InputError, match="never were 3 of 3 clients at a time"):
        timing(availability=file).present(0.0, 3, np.arange(3))


def test_who_leaves_in_the_middle_does_not_reply(tmp_path):
    file = written(tmp_path, "client,begin,end\n0,0,100\n1,0,15\n2,0,100\n")
    found = timing(availability=file).round(work([0, 1]), np.ones(2), 0, 0.0)
    assert found.reasons == {1: GONE}
    assert found.ends.tolist() == [12.0, 15.0]
    later = timing(availability=file).round(work([1], starts=(50.0,)), np.ones(1), 0, 0.0)
    assert (later.reasons, later.last) == ({0: GONE}, 50.0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"availability": "weekends"}, "unknown availability 'weekends'"),
        ({"share": 0.0}, "share must be above 0"),
        ({"availability": "day_night", "share": 0.9}, r"share \* \(1 \+ swing\) must be at most 1"),
        ({"stragglers": 1.5}, r"stragglers must lie in \[0, 1\]"),
        ({"dropouts": 1.0}, "dropouts must be below 1"),
        ({"deadline": 0}, "deadline must be above 0"),
        ({"slowdown": 0.5}, "slowdown must be at least 1"),
        ({"speed": "fast"}, "speed must be a number"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        fh.Fleet(**settings)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("who,begin,end\n0,0,1\n", "has no column 'client'; needed: client, begin, end"),
        ("client,begin,end\n7,0,1\n", "line 2: there is no client '7'; clients are 0..2"),
        ("client,begin,end\n0,5,1\n", "line 2: must have 0 <= begin < end"),
        ("client,begin,end\n0,zero,1\n", "line 2: begin must be a number, not 'zero'"),
        ("client,begin,end\n", "has no rows"),
    ],
)
def test_files_that_cannot_be_are_refused(tmp_path, text, message):
    with pytest.raises(InputError, match=message):
        timing(availability=written(tmp_path, text))


def test_devices_must_name_every_client(tmp_path):
    with pytest.raises(InputError, match="client 2 is missing"):
        timing(devices=written(tmp_path, "client,speed\n0,1\n1,2\n"))


# Whole runs

FLEET = fh.Fleet(
    availability="day_night",
    share=0.4,
    stay=60.0,
    speed=5.0,
    speed_spread=0.7,
    stragglers=0.2,
    dropouts=0.1,
    deadline=60.0,
)
BUDGET = {"rounds": 4, "total": 12, "cohort": 3, "seed": 4}
POPULATION = {"population": 3, "interval": 2}


@pytest.fixture(scope="module")
def data():
    return fh.load("synthetic", clients=20, seed=0)


def tuned(data, method, workers=0, **more):
    with fh.simulate("linear", data, workers=workers, fleet=FLEET) as federation:
        return fh.tune(federation, PLAIN, method, **BUDGET, **more)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_run_that_is_stopped_at_every_event_ends_the_same(data, tmp_path, asynchronous):
    method = fh.FedPop(asynchronous=asynchronous, **POPULATION)
    whole = tuned(data, method, run=tmp_path / "whole")
    assert whole.cost["simulated_seconds"] > 0
    with fh.simulate("linear", data, workers=0, fleet=FLEET) as federation:
        parts = stopped_at_every_event(federation, PLAIN, method, tmp_path / "parts", **BUDGET)
    assert facts_of(parts) == facts_of(whole)


def test_time_does_not_depend_on_the_number_of_workers(data):
    method = fh.FedPop(asynchronous=True, **POPULATION)
    assert facts_of(tuned(data, method)) == facts_of(tuned(data, method, workers=2))


def test_the_history_tells_when_rounds_began_and_ended(data):
    result = tuned(data, fh.Tuner(FixedLength(trials=3, side_by_side=1)))
    rounds = [row for row in result.history if row["kind"] == "round"]
    assert all(0 <= row["simulated_begin"] < row["simulated_end"] for row in rounds)
    last = max(row["simulated_end"] for row in rounds)
    assert last <= result.cost["simulated_seconds"] < last + 100
    # Trials one after the other: the next begins when the one before has ended.
    first, second = ([row for row in rounds if row["trial"] == n] for n in (0, 1))
    assert min(row["simulated_begin"] for row in second) >= max(row["simulated_end"] for row in first)


def test_trials_side_by_side_wait_for_each_other_and_asynchronous_ones_do_not(data):
    waits = tuned(data, fh.FedPop(**POPULATION))
    hurries = tuned(data, fh.FedPop(asynchronous=True, **POPULATION))
    begins = {}
    for row in waits.history:
        if row["kind"] == "round":
            begins.setdefault(row["event"], set()).add(row["simulated_begin"])
    ends = [max(r["simulated_end"] for r in waits.history if r.get("event") == e) for e in begins]
    assert ends == sorted(ends)
    assert hurries.cost["simulated_seconds"] < waits.cost["simulated_seconds"]


def test_replies_that_are_lost_are_missing_with_the_reason(data):
    result = tuned(data, fh.RandomSearch(trials=3))
    reasons = {failure["reason"] for failure in result.facts["failures"]}
    assert reasons <= {LATE.text, DROPPED.text, GONE.text}
    assert DROPPED.text in reasons
    assert {failure["status"] for failure in result.facts["failures"]} == {"missing"}


def test_a_run_is_not_continued_with_another_fleet(data, tmp_path):
    tuned(data, fh.RandomSearch(trials=3), run=tmp_path / "run")
    other = fh.Fleet(speed=3.0)
    with (
        fh.simulate("linear", data, workers=0, fleet=other) as federation,
        pytest.raises(fh.FedhpoError, match="fleet"),
    ):
        fh.tune(federation, PLAIN, fh.RandomSearch(trials=3), run=tmp_path / "run", **BUDGET)


def test_privacy_is_refused(data):
    with pytest.raises(InputError, match="privacy cannot go with a fleet"):
        tuned(data, fh.RandomSearch(trials=3), evaluation=fh.Evaluator(privacy=fh.Privacy(1.0)))


def test_methods_that_ask_for_other_work_are_refused(data):
    with pytest.raises(InputError, match="query"):
        tuned(data, fh.FLoRA())
