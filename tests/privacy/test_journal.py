"""The file of a ledger: full and failing disks, cuts, edits and older copies do not make it forget."""

import errno
import os
import shutil
from dataclasses import replace

import pytest

from fedhpo.core.journal import Journal as Steps
from fedhpo.core.run_errors import BudgetError, DamageError, RunError
from fedhpo.privacy.budget import PrivacyLedger, Share, Standing
from fedhpo.privacy.spending import SpendingLedger
from fedhpo.privacy.witness import state_directory


@pytest.fixture(autouse=True)
def own_state(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDHPO_STATE", str(tmp_path / "state"))


@pytest.fixture
def path(tmp_path):
    """A ledger of one charge of 0.5."""
    SpendingLedger(tmp_path / "ledger", 2.0).charge(0.5, "an evaluation")
    return tmp_path / "ledger"


def charge(path, epsilon=0.5):
    SpendingLedger(path, 2.0).charge(epsilon, "an evaluation")


def spent(path):
    return SpendingLedger(path, 2.0).spent


def test_a_disk_that_is_full_at_any_byte_stops_the_charge_and_takes_it_back(path, monkeypatch):
    before, pwrite = path.read_bytes(), os.pwrite
    length = len(before.splitlines(keepends=True)[-1])  # as long as the line to come
    for room in range(length):

        def full(descriptor, data, offset, room=room):
            end = len(before) + room
            if offset >= end:
                raise OSError(errno.ENOSPC, "No space left on device")
            return pwrite(descriptor, data[: end - offset], offset)

        with monkeypatch.context() as patch:
            patch.setattr(os, "pwrite", full)
            with pytest.raises(RunError, match=r"cannot write .*ledger: No space left on device"):
                charge(path)
        assert path.read_bytes() == before
    charge(path)
    assert (spent(path), path.stat().st_size) == (1.0, len(before) + length)


@pytest.mark.parametrize("call", ["fsync", "ftruncate", "pwrite"])
def test_an_error_of_the_disk_stops_the_charge(path, monkeypatch, call):
    def fail(*_):
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        with pytest.raises(RunError, match=r"Input/output error"):
            charge(path)
    assert spent(path) == (1.0 if call == "ftruncate" else 0.5)  # what could not be taken back counts


def test_a_witness_that_cannot_be_written_stops_the_charge(path, monkeypatch):
    before = path.read_bytes()
    (path.parent / "file").write_text("")
    monkeypatch.setenv("FEDHPO_STATE", str(path.parent / "file"))
    with pytest.raises(RunError, match=r"set FEDHPO_STATE to a directory that can be written"):
        charge(path)
    assert path.read_bytes() == before


def test_a_file_that_is_cut_anywhere_is_refused(path):
    charge(path)
    whole = path.read_bytes()
    for end in range(len(whole)):
        path.write_bytes(whole[:end])
        with pytest.raises(DamageError, match=r"was cut, emptied, replaced|not as it was written"):
            charge(path)
        assert path.read_bytes() == whole[:end]
    path.write_bytes(whole)
    charge(path)
    assert spent(path) == 1.5


def test_a_file_that_is_changed_anywhere_is_refused(path):
    charge(path)
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(DamageError):
            charge(path)


def test_a_file_that_is_gone_or_another_is_refused(path, tmp_path):
    older = shutil.copy(path, tmp_path / "older")
    charge(path)
    latest = path.read_bytes()
    charge(tmp_path / "other", 0.1)
    for change in (lambda: path.unlink(), lambda: path.write_bytes(b"")):
        change()
        with pytest.raises(DamageError, match=r"a ledger of 3 lines was here"):
            charge(path)
    for other in (older, tmp_path / "other"):
        shutil.copy(other, path)
        with pytest.raises(DamageError, match=r"replaced, or is an older copy"):
            charge(path)
    path.write_bytes(latest)
    moved = path.rename(tmp_path / "moved")  # what is moved goes on
    charge(moved)
    assert spent(moved) == 1.5


def test_a_line_that_a_crash_cut_short_counts_as_a_charge(path):
    whole = path.read_bytes()
    length = len(whole.splitlines()[-1])
    for cut in range(1, length):
        torn = b'[{"epsilon": 0.5, "for": "an evaluation"}, "4e5b8e0ff52f6f4b4e1ccc72b5b1e7a2"]'[:cut]
        path.write_bytes(whole + torn)
        assert spent(path) == 1.0
        with pytest.raises(BudgetError, match=r"epsilon 1.1 .* 1 of 2"):
            charge(path, 1.1)
    charge(path)
    assert spent(path) == 1.5
    assert [b"torn" in line for line in path.read_bytes().splitlines()] == [False, False, True, False]


def test_a_cut_line_that_no_witness_knows_of_is_refused(path):
    whole = path.read_bytes()
    shutil.rmtree(state_directory())
    path.write_bytes(whole[:-1])
    with pytest.raises(DamageError, match=r"line 2 is cut short, and nothing in"):
        charge(path)
    path.write_bytes(whole[:20])  # as after a kill in the very first line: nobody can have drawn on it
    assert spent(path) == 0.0
    path.write_bytes(whole)  # without a witness the file alone counts, and has one again
    charge(path)
    path.write_bytes(whole)
    with pytest.raises(DamageError, match=r"it has 2 lines"):
        charge(path)


def paying(ledger, known, cost=0.25):
    """Pay for a release as a run does whose record then holds it."""
    noted = []
    paid, again = ledger.pay("one", known, Share({"a": cost}), noted.append)
    assert noted[0].begun == paid.begun == noted[0].drawn + 1 or again
    return Standing(paid.position, paid.begun, paid.begun), again


def test_a_run_that_is_behind_its_ledger_pays_again_or_is_refused(tmp_path):
    ledger = PrivacyLedger(tmp_path / "ledger", total=2.0)
    ledger.take("one", lambda _: Share({"a": 1.0}))
    begun = ledger.standing("one", Standing())
    first, again = paying(ledger, begun)
    assert not again
    second, again = paying(ledger, first)
    assert (again, ledger.spent) == (False, {"a": 1.0})
    with pytest.raises(RunError, match=r"has charged 2 releases of this run, and its record holds 0"):
        paying(ledger, begun)
    copied, again = paying(ledger, first)  # one behind
    assert (again, ledger.spent, ledger.paid_again("one")) == (True, {"a": 1.25}, 0.25)
    _, again = paying(ledger, copied)  # the copy is the run now
    assert not again
    with pytest.raises(RunError, match=r"charged 4 releases of this run, and its record holds 2"):
        paying(ledger, second)
    ledger.settle("one", Share({"a": 0.1}))  # another copy may have spent what is left: nothing is given back
    assert ledger.spent == {"a": 1.25}


def test_a_run_killed_at_every_payment_can_go_on(tmp_path):
    ledger = PrivacyLedger(tmp_path / "ledger", total=2.0)
    ledger.take("one", lambda _: Share({"a": 1.0}))
    record = [ledger.standing("one", Standing())]
    for _ in range(4):  # killed after the payment, before the record holds the release
        _, again = ledger.pay("one", record[-1], Share({"a": 0.25}), record.append)
    assert again
    assert ledger.spent == {"a": 1.75}
    _, again = ledger.pay("one", record[-1], Share({"a": 0.25}), record.append)
    with pytest.raises(BudgetError, match=r"which may have been drawn before, is 0.25 more"):
        ledger.pay("one", record[-1], Share({"a": 0.25}), record.append)


def test_a_run_that_gave_back_the_rest_pays_for_every_further_release(tmp_path):
    ledger = PrivacyLedger(tmp_path / "ledger", total=2.0)
    ledger.take("one", lambda _: Share({"a": 1.0}))
    known, _ = paying(ledger, ledger.standing("one", Standing()))
    ledger.settle("one", Share({"a": 0.25}))
    assert ledger.spent == {"a": 0.25}
    _, again = paying(ledger, known)
    assert (again, ledger.spent) == (True, {"a": 0.5})


def test_a_torn_release_counts_for_the_runs_that_it_may_be_of(tmp_path):
    path = tmp_path / "ledger"
    ledger = PrivacyLedger(path, total=4.0)
    for name in ("one", "other"):
        ledger.take(name, lambda _: Share({"a": 1.0}))
    stood = {name: ledger.standing(name, Standing()) for name in ("one", "other")}
    path.write_bytes(path.read_bytes() + b'[{"run": "one", "relea')
    ledger.take("third", lambda _: Share({"a": 0.5}))
    paid = {name: ledger.pay(name, stood[name], Share({"a": 0.25}), lambda _: None) for name in stood}
    assert {name: again for name, (_, again) in paid.items()} == {"one": True, "other": False}
    path.write_bytes(path.read_bytes() + b'[{"run": "othe')
    known = replace(paid["other"][0], drawn=1)
    known, again = ledger.pay("other", known, Share({"a": 0.25}), lambda _: None)
    assert again
    assert not ledger.pay("other", replace(known, drawn=2), Share({"a": 0.25}), lambda _: None)[1]
    assert ledger.spent == {"a": 3.0}


def test_a_ledger_under_a_run_is_that_of_its_last_release(tmp_path):
    path = tmp_path / "ledger"
    ledger = PrivacyLedger(path, total=2.0)
    ledger.take("one", lambda _: Share({"a": 1.0}))
    older = path.read_bytes()
    known, _ = paying(ledger, ledger.standing("one", Standing()))
    shutil.rmtree(state_directory())  # the run itself is the second witness
    path.write_bytes(older)
    with pytest.raises(RunError, match=r"is not what the run drew on, which had 4 lines"):
        ledger.standing("one", known)


def test_steps_that_do_not_fit_on_the_disk_are_not_kept_in_part(tmp_path, monkeypatch):
    steps, pwrite = Steps(tmp_path / "steps", {"a": 1}), os.pwrite
    steps.add(["first"])
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", lambda fd, data, end: pwrite(fd, data[:5], end) if len(data) > 50 else 0)
        with pytest.raises(OSError, match=r"No space left"):
            steps.add(["second"])
    steps.add(["third"])
    assert list(steps) == list(Steps(tmp_path / "steps", {"a": 1})) == ["first", "third"]
