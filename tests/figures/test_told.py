"""A record that is read bit by bit tells what it tells in one go, and what the history tells."""

import math

import pytest

import fedhpo as fh
from fedhpo.figures.reading import load_view
from fedhpo.figures.told import Told
from fedhpo.run import open_read
from fedhpo.testing import ToyFederation

SPACE = fh.Space(client={"lr": fh.Float(1e-3, 1.0, log=True)}, server={"lr": 1.0})
METHODS = {
    "sha": fh.SHA(trials=4),
    "fedpop": fh.FedPop(population=3, interval=1),
    "fedex": fh.FedEx(schedule="fixed", trials=2, arms=3),
}


@pytest.fixture(scope="module", params=METHODS)
def run(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / request.param
    federation = ToyFederation(8, missing=0.1, failing=0.1)
    fh.tune(federation, SPACE, METHODS[request.param], rounds=4, total=16, cohort=3, run=path)
    return path


def state(told):
    arrays = {trial: (who.tolist(), scores.tolist()) for trial, (who, scores) in told.clients.items()}
    arrays = ("latest", "pairs")  # of scores, which hold arrays: the parts are compared one by one
    plain = {k: v for k, v in vars(told).items() if not k.startswith("_") and k not in arrays}
    plain["latest"] = {trial: (at, scores.accuracy.tolist()) for trial, (at, scores) in told.latest.items()}
    plain["pairs"] = {
        trial: (at, *(one.loss.tolist() for one in two)) for trial, (at, *two) in told.pairs.items()
    }
    return plain | {"clients": arrays, "failures": told.failures.to_list()}


def test_reading_in_pieces_gives_the_same(run):
    with open_read(run) as opened:
        whole, pieces = Told(opened.study["objective"]), Told(opened.study["objective"])
        assert whole.read(opened.record)
        turns = 0
        while not pieces.read(opened.record, seconds=0.0):  # one event at a time
            turns += 1
        assert turns == opened.record.last - 1
        assert state(pieces) == state(whole)
        assert pieces.read(opened.record)  # nothing new
        assert state(pieces) == state(whole)


def test_it_tells_what_the_history_tells(run):
    with open_read(run) as opened:
        rows = opened.history()
        told = Told(opened.study["objective"])
        told.read(opened.record)
    assert told.evaluations == [row for row in rows if row["kind"] == "evaluate"]
    rounds = [row for row in rows if row["kind"] == "round"]
    assert dict(told.replies) == {
        status: sum(row[status] for row in rounds) for status in ("ok", "failed", "missing")
    }
    seen = [(row["trial"], row["round"] - 1, row["accuracy_before"]) for row in rounds]
    expected = {place for place in seen if place[2] is not None}
    found = {(trial, at, value) for trial, curve in told.cohorts.items() for at, value in curve}
    assert {place[:2] for place in found} == {place[:2] for place in expected}
    known = {place[:2]: place[2] for place in expected}
    assert all(math.isclose(known[trial, at], value, rel_tol=1e-12) for trial, at, value in found)


def test_a_record_that_was_cut_is_read_anew(tmp_path):
    def tune(total):
        return fh.tune(
            ToyFederation(6),
            SPACE,
            fh.RandomSearch(),
            rounds=3,
            total=total,
            cohort=3,
            run=tmp_path / "a",
            baseline=True,
        )

    tune(6)
    with open_read(tmp_path / "a") as opened:
        told = Told(opened.study["objective"])
        told.read(opened.record)
        before = told.events
    tune(12)  # raises the total: what came after the search is cut off, and done again later
    with open_read(tmp_path / "a") as opened:
        assert opened.record.last > before
        told.read(opened.record)
        fresh = Told(opened.study["objective"])
        fresh.read(opened.record)
    assert state(told) == state(fresh)
    assert len(load_view(tmp_path / "a").result["trials"]) == len(told.configs)
