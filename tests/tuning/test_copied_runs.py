"""A copy of a private run, or an older state of it, does not release again what was paid once."""

import json
import os
import shutil

import pytest

import fedhpo as fh
from fedhpo.core.run_errors import BudgetError, RunError
from fedhpo.protocol.federation import REPEATABLE
from fedhpo.run import open_read
from fedhpo.run.record import Record
from fedhpo.search.private import PrivateChannel
from fedhpo.testing import ToyFederation
from fedhpo.tuning.shared_budget import SharedBudget

SPACE = fh.Space(client={"lr": fh.Float(1e-3, 10.0, log=True)})


@pytest.fixture(autouse=True)
def own_state(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDHPO_STATE", str(tmp_path / "state"))


class Killed(BaseException):
    """The process is gone."""


def tune(folder, name="run", *, total=1.5, stop=None, federation=None, held_out=0.0):
    """Four releases of 0.25 at all of 20 clients; stopped after so many of them.

    With `held_out=0.2` they are five of 0.2: the same clients compare the winner with the user's own config.
    """
    ledger = {"budget": str(folder / "ledger"), "total": total}
    evaluation = fh.Evaluator(privacy=fh.Privacy(1.0, **ledger, held_out=held_out))
    seen = []

    def callback(event):
        seen.extend([event.kind] if event.kind == "evaluate" else [])
        return stop is not None and event.kind in ("round", "evaluate") and len(seen) >= stop

    return fh.tune(
        federation or ToyFederation(),
        SPACE,
        fh.TPE(trials=4),
        rounds=2,
        total=8,
        cohort=4,
        evaluation=evaluation,
        run=folder / name,
        callbacks=[callback],
    )


def copied(folder, name):
    return shutil.copytree(folder / "run", folder / name)


def released(folder, name, kind="release"):
    with open_read(folder / name) as run:
        events = [event for event in run.record.events() if event.kind == f"decide {kind}"]
        return [json.loads(event.result) for event in events if event.result]


def most_spent(folder):
    return max(fh.PrivacyLedger(folder / "ledger").spent.values())


def test_a_copy_that_is_further_behind_is_refused_before_it_trains(tmp_path):
    tune(tmp_path, stop=0)
    copied(tmp_path, "copy")
    assert tune(tmp_path).status == "finished"
    federation = ToyFederation()
    with pytest.raises(
        RunError, match=r"run .*copy: .*charged 4 releases of this run, .* holds 0: .*another name"
    ):
        tune(tmp_path, "copy", federation=federation)
    assert not federation.trials
    assert released(tmp_path, "copy") == []
    assert most_spent(tmp_path) == 1.0


def test_a_copy_that_is_one_behind_pays_that_release_again(tmp_path):
    tune(tmp_path, stop=3)
    copied(tmp_path, "copy")
    first = tune(tmp_path)
    with pytest.warns(
        UserWarning, match=r"run .*copy: a release was charged .* paid again: epsilon 0.25 more"
    ):
        again = tune(tmp_path, "copy")
    assert (again.status, most_spent(tmp_path)) == ("finished", 1.25)
    assert "paid_again" not in first.facts["privacy"]["over_runs"]
    assert again.facts["privacy"]["over_runs"]["paid_again"] == 0.25
    copied(tmp_path, "third")
    shutil.rmtree(tmp_path / "run")
    assert tune(tmp_path, "third").status == "finished"  # it has all releases: nothing more is paid
    assert most_spent(tmp_path) == 1.25


def test_without_room_in_the_total_it_is_refused(tmp_path):
    tune(tmp_path, stop=3, total=1.0)
    copied(tmp_path, "copy")
    tune(tmp_path, total=1.0)
    with pytest.raises(BudgetError, match=r"this release, which may have been drawn before, is 0.25 more"):
        tune(tmp_path, "copy", total=1.0)
    assert len(released(tmp_path, "copy")) == 3


def test_a_copy_without_the_comparison_at_the_end_pays_it_again(tmp_path):
    """It is the fifth release: who lacks it is one behind, and who lacks a score as well is refused."""
    tune(tmp_path, stop=3, held_out=0.2)
    copied(tmp_path, "older")
    tune(tmp_path, stop=4, held_out=0.2)
    copied(tmp_path, "copy")
    first = tune(tmp_path, held_out=0.2)
    assert (first.status, most_spent(tmp_path)) == ("finished", pytest.approx(1.0))
    with pytest.raises(RunError, match=r"charged 5 releases of this run, .* holds 3: "):
        tune(tmp_path, "older", held_out=0.2)
    with pytest.warns(UserWarning, match=r"run .*copy: .* paid again: epsilon 0.2 more"):
        again = tune(tmp_path, "copy", held_out=0.2)
    assert (again.status, most_spent(tmp_path)) == ("finished", pytest.approx(1.2))
    assert again.facts["privacy"]["over_runs"]["paid_again"] == pytest.approx(0.2)
    # Seeded noise on the same differences: what is paid again is no other release.
    assert released(tmp_path, "copy", "compare") == released(tmp_path, "run", "compare") != []


def test_killed_between_charge_and_record_of_the_comparison_it_is_paid_again(tmp_path, monkeypatch):
    settle, lost = Record.settle, []

    def killed(self, number, result, *rest):
        if not lost and len(released(tmp_path, "run")) == 4 and b"second_moment" in bytes(result):
            lost.append(json.loads(result))
            raise Killed
        settle(self, number, result, *rest)

    monkeypatch.setattr(Record, "settle", killed)
    with pytest.raises(Killed):
        tune(tmp_path, held_out=0.2)
    with pytest.warns(UserWarning, match=r"paid again: epsilon 0.2 more"):
        result = tune(tmp_path, held_out=0.2)
    assert most_spent(tmp_path) == pytest.approx(1.2)
    assert released(tmp_path, "run", "compare") == lost
    (tmp_path / "other").mkdir()
    uncut = tune(tmp_path / "other", held_out=0.2)
    ours, theirs = (dict(one.facts, times=None) for one in (result, uncut))
    assert ours["privacy"].pop("over_runs") != theirs["privacy"].pop("over_runs")  # 0.2 more
    assert ours == theirs


def test_a_run_that_was_moved_with_its_ledger_goes_on(tmp_path):
    (tmp_path / "a").mkdir()
    tune(tmp_path / "a", stop=2)
    (tmp_path / "a").rename(tmp_path / "b")
    (tmp_path / "b" / "run").rename(tmp_path / "b" / "other")
    assert tune(tmp_path / "b", "other").status == "finished"
    assert most_spent(tmp_path / "b") == 1.0


def test_a_finished_copy_is_read_where_there_is_no_ledger(tmp_path):
    (tmp_path / "here").mkdir()
    result = tune(tmp_path / "here")
    (tmp_path / "there").mkdir()
    shutil.copytree(tmp_path / "here" / "run", tmp_path / "there" / "run")
    assert fh.load_run(tmp_path / "there" / "run").best_config == result.best_config
    again = tune(tmp_path / "there", total=None)
    assert again.facts["privacy"]["over_runs"] == result.facts["privacy"]["over_runs"]
    assert not (tmp_path / "there" / "ledger").exists()


def test_a_run_that_is_not_finished_needs_its_own_ledger(tmp_path):
    tune(tmp_path, stop=2)
    (tmp_path / "ledger").rename(tmp_path / "away")
    with pytest.raises(RunError, match=r"run .*run drew on the privacy ledger .*ledger, which is not there"):
        tune(tmp_path)
    other = fh.Privacy(0.1, budget=str(tmp_path / "other"), total=1.5)
    options = {"rounds": 2, "total": 8, "cohort": 4, "evaluation": fh.Evaluator(privacy=other)}
    fh.tune(ToyFederation(), SPACE, fh.TPE(trials=4), **options)
    shutil.rmtree(os.environ["FEDHPO_STATE"])
    (tmp_path / "other").rename(tmp_path / "ledger")
    with pytest.raises(RunError, match=r"is not what the run drew on"):
        tune(tmp_path)


def test_a_run_killed_between_charge_and_record_pays_that_release_again(tmp_path, monkeypatch):
    settle, lost = Record.settle, []

    def killed(self, number, result, *rest):
        if len(lost) < 2 and len(released(tmp_path, "run")) == 1:
            lost.append(json.loads(result)["values"])
            raise Killed
        settle(self, number, result, *rest)

    monkeypatch.setattr(Record, "settle", killed)
    with pytest.raises(Killed):
        tune(tmp_path, total=2.0)
    with pytest.raises(Killed), pytest.warns(UserWarning, match=r"paid again"):  # in the same place again
        tune(tmp_path, total=2.0)
    with pytest.warns(UserWarning, match=r"paid again"):
        assert tune(tmp_path, total=2.0).status == "finished"
    assert most_spent(tmp_path) == 1.5
    assert lost == [released(tmp_path, "run")[1]["values"]] * 2  # seeded noise on the same sums


def test_seeded_noise_is_not_put_on_the_sums_of_clients_that_do_not_repeat_themselves(tmp_path, monkeypatch):
    def real():
        federation = ToyFederation()
        federation.capabilities -= {REPEATABLE}
        return federation

    settle, lost = Record.settle, []

    def killed(self, number, result, *rest):
        if not lost:
            lost.append(json.loads(result)["values"])
            raise Killed
        settle(self, number, result, *rest)

    monkeypatch.setattr(Record, "settle", killed)
    with pytest.raises(Killed):
        tune(tmp_path, federation=real())
    with pytest.warns(UserWarning, match=r"paid again"):
        tune(tmp_path, federation=real())
    assert released(tmp_path, "run")[0]["values"] != lost[0]


def test_a_full_disk_stops_before_the_release_is_drawn(tmp_path, monkeypatch):
    drawn, noise, pwrite = [], PrivateChannel.noise, os.pwrite

    def drawing(self, *rest):
        found = noise(self, *rest)
        drawn.append(rest)
        return found

    monkeypatch.setattr(PrivateChannel, "noise", drawing)
    tune(tmp_path, stop=1)
    assert len(drawn) == 1
    room = (tmp_path / "ledger").stat().st_size + 20

    def full(descriptor, data, offset):
        if os.path.realpath(f"/proc/self/fd/{descriptor}") == os.path.realpath(tmp_path / "ledger"):
            data = data[: max(0, room - offset)]
        return pwrite(descriptor, data, offset)

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        for _ in range(3):
            with pytest.raises(RunError, match=r"cannot write .*ledger: No space left on device"):
                tune(tmp_path)
    assert len(drawn) == 1
    assert tune(tmp_path).status == "finished"  # with room again, and nothing was paid twice
    assert (len(drawn), most_spent(tmp_path)) == (4, 1.0)


def test_a_run_of_0_2_0_goes_on_and_its_copies_are_noticed_from_then_on(tmp_path, monkeypatch):
    settle = Record.settle

    def old_settle(self, number, result, cost=None, facts=None):
        settle(self, number, result, cost)

    def old_take(self, run):  # as it was: no order, no standing
        run.record.set(privacy_run="old")
        self._run, self._record = "old", run.record
        self._rotate(self.ledger.take("old", self._planned).order)

    with monkeypatch.context() as patch:
        patch.setattr(Record, "settle", old_settle)
        patch.setattr(SharedBudget, "take", old_take)
        patch.setattr(SharedBudget, "pay", None)
        tune(tmp_path, stop=2)
    lines = [json.loads(line)[0] for line in (tmp_path / "ledger").read_bytes().splitlines()]
    plain = [line for line in lines if "journal" not in line]
    (tmp_path / "ledger").write_text("".join(json.dumps(line) + "\n" for line in plain))
    shutil.rmtree(os.environ["FEDHPO_STATE"])
    copied(tmp_path, "copy")
    assert tune(tmp_path).status == "finished"
    assert most_spent(tmp_path) == 1.0
    with pytest.raises(RunError, match=r"has charged 2 releases of this run, and its record holds 0"):
        tune(tmp_path, "copy")


def test_a_private_run_without_a_ledger_says_that_copies_are_not_noticed(tmp_path):
    options = {"rounds": 2, "total": 4, "cohort": 4, "evaluation": fh.Evaluator(privacy=fh.Privacy(1.0))}
    result = fh.tune(ToyFederation(), SPACE, fh.TPE(trials=2), run=tmp_path / "a", **options)
    assert "that is not noticed; set `budget` and `total`" in result.facts["privacy"]["copies"]
    page = fh.write_report([tmp_path / "a"], tmp_path / "report.html").read_text()
    assert "a copy or an older state of its directory" in page
    kept_nowhere = fh.tune(ToyFederation(), SPACE, fh.TPE(trials=2), **options)
    assert "copies" not in kept_nowhere.facts["privacy"]
    assert "copies" not in tune(tmp_path).facts["privacy"]
