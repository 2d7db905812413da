"""One budget over runs: what is taken, given back, refused, and kept through kills."""

import subprocess
import sys

import pytest

from fedhpo.core.errors import InputError
from fedhpo.core.run_errors import BudgetError, DamageError
from fedhpo.privacy.budget import PrivacyLedger, Share


def share(**epsilon):
    return lambda spent: Share(epsilon)


def test_runs_add_up_and_the_one_that_would_exceed_is_refused(tmp_path):
    ledger = PrivacyLedger(tmp_path / "a", total=2.0)
    ledger.take("one", share(a=1.0, b=0.5))
    ledger.take("two", share(a=1.0, b=0.5))
    assert ledger.spent == {"a": 2.0, "b": 1.0}
    assert ledger.highest == ("a", 2.0)
    with pytest.raises(BudgetError, match=r"client 'a' has spent 2 of 2 in earlier runs, .* 0.5 more"):
        ledger.take("three", share(a=0.5, b=0.5))
    with pytest.raises(BudgetError, match="client 'a'"):
        ledger.require(share(a=0.5))
    assert ledger.runs == 2
    ledger.take("three", share(b=1.0))
    assert ledger.spent == {"a": 2.0, "b": 2.0}


def test_a_run_takes_its_share_once(tmp_path):
    ledger = PrivacyLedger(tmp_path / "a", total=1.0)
    first = ledger.take("one", share(a=1.0))
    again = PrivacyLedger(tmp_path / "a").take("one", share(a=0.7))
    assert again == first
    assert ledger.spent == {"a": 1.0}


def test_what_was_not_spent_is_given_back(tmp_path):
    ledger = PrivacyLedger(tmp_path / "a", total=1.0)
    ledger.take("one", share(a=1.0, b=1.0))
    ledger.settle("one", Share({"a": 0.25}))
    assert ledger.spent == {"a": 0.25}
    ledger.settle("unknown", Share({"a": 5.0}))
    assert ledger.spent == {"a": 0.25}


def test_everyone_is_charged_where_there_are_no_names(tmp_path):
    ledger = PrivacyLedger(tmp_path / "a", total=2.0)
    ledger.take("named", share(a=1.0))
    ledger.take("nameless", lambda spent: Share(everyone=1.0))
    assert (ledger.spent, ledger.everyone) == ({"a": 2.0}, 1.0)
    with pytest.raises(BudgetError, match="client 'a' has spent 2 of 2"):
        ledger.take("more", lambda spent: Share(everyone=0.5))
    with pytest.raises(BudgetError, match="client 'new' has spent 1 of 2"):
        ledger.take("more", share(new=1.5))
    alone = PrivacyLedger(tmp_path / "b", total=1.0)
    alone.take("nameless", lambda spent: Share(everyone=1.0))
    with pytest.raises(BudgetError, match="clients have spent 1 of 1"):
        alone.take("again", lambda spent: Share(everyone=1.0))


def test_a_plan_sees_what_was_spent(tmp_path):
    ledger, seen = PrivacyLedger(tmp_path / "a", total=9.0), []
    ledger.take("one", share(a=1.0))
    ledger.take("two", lambda spent: seen.append(dict(spent)) or Share({"a": 1.0}))
    assert seen == [{"a": 1.0}]


def test_the_total_stays(tmp_path):
    with pytest.raises(InputError, match="total: say what one client may spend"):
        PrivacyLedger(tmp_path / "a")
    PrivacyLedger(tmp_path / "a", total=2.0).take("one", share(a=1.0))
    assert PrivacyLedger(tmp_path / "a").total == 2.0
    with pytest.raises(InputError, match=r"total = 50: .* was begun with 2"):
        PrivacyLedger(tmp_path / "a", total=50.0)


OLD = b"""{"kind": "privacy of clients over runs", "total": 2.0}
{"run": "one", "clients": {"a": 1.0}, "everyone": 0.0, "delta": 0.0, "order": []}
"""


def test_a_ledger_of_0_2_0_is_read_and_chained_at_its_next_charge(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(OLD)
    ledger = PrivacyLedger(path)
    assert (ledger.total, ledger.spent) == (2.0, {"a": 1.0})
    assert path.read_bytes() == OLD  # reading changes nothing
    ledger.take("two", share(a=0.5))
    assert path.read_bytes().startswith(OLD)
    assert PrivacyLedger(path).spent == {"a": 1.5}
    with pytest.raises(BudgetError):
        ledger.take("three", share(a=0.6))
    path.write_bytes(path.read_bytes().replace(b'"a": 1.0', b'"a": 0.1', 1))
    with pytest.raises(DamageError, match="line 3 is not as it was written"):
        _ = PrivacyLedger(path).spent


def test_a_line_that_0_2_0_wrote_in_part_may_be_a_charge(tmp_path):
    (tmp_path / "a").write_bytes(OLD + b'{"run": "two", "clients": {"a": 0.')
    with pytest.raises(DamageError, match="line 3 is cut short"):
        PrivacyLedger(tmp_path / "a")
    (tmp_path / "b").write_bytes(OLD.replace(b'"a": 1.0', b'"a": -1.0'))
    with pytest.raises(DamageError, match="line 2 is not a line of a privacy ledger"):
        PrivacyLedger(tmp_path / "b")


def test_processes_cannot_both_take_the_rest(tmp_path):
    """Four at a time want 0.5 of 1: two get it."""
    code = (
        "import sys\n"
        "from fedhpo.privacy.budget import PrivacyLedger, Share\n"
        "from fedhpo.core.run_errors import BudgetError\n"
        "try:\n"
        "    PrivacyLedger(sys.argv[1], 1.0).take(sys.argv[2], lambda spent: Share({'a': 0.5}))\n"
        "except BudgetError:\n"
        "    sys.exit(7)\n"
    )
    started = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "a"), str(number)])
        for number in range(4)
    ]
    assert sorted(process.wait() for process in started) == [0, 0, 7, 7]
    assert PrivacyLedger(tmp_path / "a").spent == {"a": 1.0}
