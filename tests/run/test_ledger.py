"""What is spent adds up; only `require` refuses."""

import json

import pytest

from fedhpo.core.errors import InputError
from fedhpo.core.run_errors import BudgetError
from fedhpo.protocol.federation import Cost
from fedhpo.run import Budget, Ledger


def test_charges_add_up_beyond_the_budget_too():
    ledger = Ledger(Budget(rounds=3, seconds=10.0))
    ledger.charge(Cost(rounds=2, client_rounds=20, samples=7), seconds=1.5)
    ledger.charge(Cost(rounds=2, evaluations=5), seconds=0.5, epsilon=0.25)
    assert ledger.cost == Cost(rounds=4, client_rounds=20, samples=7, evaluations=5)
    assert ledger.remaining["rounds"] == -1
    assert ledger.remaining["seconds"] == 8.0
    assert ledger.remaining["client_rounds"] is None
    assert ledger.epsilon == 0.25


def test_require_takes_exactly_the_budget_and_no_more():
    ledger = Ledger(Budget(rounds=5))
    ledger.charge(Cost(rounds=3))
    ledger.require(Cost(rounds=2))
    assert ledger.fits(Cost(rounds=2))
    assert not ledger.fits(Cost(rounds=3))
    with pytest.raises(BudgetError, match=r"rounds: 3 more would exceed the budget of 5 \(3 spent\)"):
        ledger.require(Cost(rounds=3))
    ledger.charge(Cost(rounds=4))
    ledger.require(Cost(client_rounds=100))  # what is overspent does not forbid what is free of it


def test_ten_tenths_of_epsilon_fit_into_one():
    ledger = Ledger(Budget(epsilon=1.0))
    for _ in range(10):
        ledger.require(epsilon=0.1)
        ledger.charge(epsilon=0.1)
    with pytest.raises(BudgetError, match="epsilon"):
        ledger.require(epsilon=0.001)


def test_a_negative_budget_is_refused():
    with pytest.raises(InputError, match="budget rounds must be at least 0, not -1"):
        Budget(rounds=-1)


def test_to_dict_is_json():
    ledger = Ledger(Budget(rounds=1))
    ledger.charge(Cost(rounds=1))
    assert json.loads(json.dumps(ledger.to_dict()))["spent"]["rounds"] == 1
