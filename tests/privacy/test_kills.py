"""A private run that is killed at a release, at every point of it: no two draws of one release are ever seen.

A release is charged, then drawn, then recorded, and only then told. A kill is a copy of the run's directory
as it is on the disk at that moment, from which another process would go on.
"""

import json
import shutil

import pytest

import fedhpo as fh
from fedhpo.privacy.privacy import Privacy
from fedhpo.protocol.session import RELEASES
from fedhpo.run import open_read
from fedhpo.run.record import Record
from fedhpo.search.evaluator import Evaluator
from fedhpo.testing import ToyFederation

SPACE = fh.Space(client={"lr": fh.Float(1e-3, 10.0, log=True)})
#: Points of a release after which the process may be gone.
POINTS = ("charged", "drawn", "recorded")


METHODS = {
    "sha": fh.SHA(trials=9, finalists=1),
    "fedex": fh.FedEx(schedule="fixed", trials=1, arms=2, metric="error"),  # a release inside every round
    "fedpop": fh.FedPop(population=3, local=False),
}


def tune(run, method, mechanism):
    privacy = Privacy(2.0, mechanism=mechanism, release="exact")
    return fh.tune(
        ToyFederation(),
        SPACE,
        METHODS[method],
        rounds=8,
        total=8 if method == "fedex" else 48,
        cohort=4,
        evaluation=Evaluator(privacy=privacy),
        run=run,
    )


def releasing(kind, epsilon):
    """Whether an event is a release; one is free that asks none of the clients that were asked most."""
    return bool(epsilon) or kind.removeprefix("decide ") in RELEASES


def releases(path):
    """What the record holds of each release, None where it was charged and not drawn, and its epsilon."""
    with open_read(path) as run:
        events = [event for event in run.record.events() if releasing(event.kind, event.epsilon)]
        return [(event.result and json.loads(event.result), event.epsilon) for event in events]


@pytest.mark.parametrize(
    ("method", "mechanism"),
    [("sha", "laplace"), ("sha", "topk"), ("fedex", "laplace"), ("fedpop", "laplace")],
)
def test_no_kill_lets_a_release_be_drawn_twice_and_seen_twice(tmp_path, monkeypatch, method, mechanism):
    pytest.importorskip("opendp")
    drawn, killed = [], {}
    append, settle = Record.append, Record.settle

    def kill(point, number):
        killed[point, number] = shutil.copytree(tmp_path / "run", tmp_path / f"{point}-{number}")

    def charging(self, kind, call, *rest, epsilon=0.0, **more):
        found = append(self, kind, call, *rest, epsilon=epsilon, **more)
        if releasing(kind, epsilon):
            kill("charged", len(drawn))
        return found

    def settling(self, number, result, *rest):
        kill("drawn", len(drawn))
        settle(self, number, result, *rest)
        drawn.append(json.loads(result))
        kill("recorded", len(drawn) - 1)

    monkeypatch.setattr(Record, "append", charging)
    monkeypatch.setattr(Record, "settle", settling)
    tune(tmp_path / "run", method, mechanism)
    monkeypatch.undo()

    count, paid = len(drawn), sum(epsilon for _, epsilon in releases(tmp_path / "run"))
    assert count > 1
    assert paid == pytest.approx(2.0)
    assert set(killed) == {(point, number) for point in POINTS for number in range(count)}
    for (point, number), path in killed.items():
        seen = releases(path)
        # Whoever reads the disk sees releases that were told, and of this one nothing before it is recorded.
        assert [value for value, _ in seen][:number] == drawn[:number]
        assert seen[number][0] == (drawn[number] if point == "recorded" else None)
        if mechanism == "laplace" and method != "fedex" and point != "recorded":
            raw = b"".join(file.read_bytes() for file in path.rglob("*") if file.is_file())
            assert not any(repr(value).encode() in raw for value in drawn[number]["values"])
        if number not in (0, count - 1):
            continue
        tune(path, method, mechanism)
        after = releases(path)
        settled = number + 1 if point == "recorded" else number
        assert [value for value, _ in after][:settled] == drawn[:settled]  # what was seen stays as it was
        assert len(after) == count
        assert sum(epsilon for _, epsilon in after) == pytest.approx(paid)  # and is paid once
        if mechanism == "laplace" and method != "fedex" and point != "recorded":
            assert after[number][0]["values"] != drawn[number]["values"]  # never told: it may be drawn anew
