"""The bound of a race: by hand, against a simulation at the border, and where it is refused."""

import numpy as np
import pytest

import fedhpo as fh
from fedhpo.core.errors import InputError
from fedhpo.search.decided import LEVEL, bound_of, wealths


def test_wealth_by_hand():
    """Twelve bets from 0.01 to 0.98 in equal ratios; their wealths are averaged, and the largest counts."""
    bets = [0.01 * 98 ** (k / 11) for k in range(12)]
    first = sum(1 + bet * 0.4 for bet in bets) / 12
    second = sum((1 + bet * 0.4) * (1 + bet * 0.2) for bet in bets) / 12
    np.testing.assert_allclose(wealths([0.3, 0.1], 0.1), [first, second])
    assert wealths([0.5, -0.9], 0.0)[1] == wealths([0.5], 0.0)[0]  # what was reached once counts
    assert wealths([-1.0, -1.0], 0.0).tolist() == [1.0, 1.0]


def test_the_bound_adds_up_over_rivals_and_looks_in_common():
    ours = [0.1, 0.1, 0.2] * 9
    gone = [mine + ahead for mine, ahead in zip(ours, [0.5, 0.4] * 9, strict=False)]  # after 18 looks
    seen = [ours, [0.5, 0.4, 0.3] * 9, gone]
    found = bound_of(seen, 0.0)
    worst = max(1 / wealths([0.4, 0.3, 0.1] * 9, 0.0)[-1], 1 / wealths([0.5, 0.4] * 9, 0.0)[-1])
    assert (found.leader, found.looks) == (0, 27)
    assert found.value == pytest.approx(2 * worst)
    assert bound_of(seen, 0.0, rivals=6).value == pytest.approx(6 * worst)


def test_at_the_border_it_is_wrong_less_often_than_it_says():
    """Two trials, the second better by just more than the margin: how often is the first one called?"""
    rng = np.random.default_rng(0)
    draws = rng.random((1000, 200))
    cases = {
        "calm": np.clip(rng.normal(-0.011, 0.03, draws.shape), -1, 1),
        "wild": np.clip(rng.normal(-0.011, 0.3, draws.shape), -1, 1),
        "one row a client": np.where(draws < 0.2, 1.0, np.where(draws > 0.789, -1.0, 0.0)),
        "far worse at few": np.where(draws < 0.03, -1.0, (0.03 - 0.011) / 0.97),
    }
    for name, ahead in cases.items():
        wrong = [bool(((1 / wealths(row, 0.01)) <= LEVEL).any()) for row in ahead]
        assert np.mean(wrong) <= LEVEL, name


SPACE = fh.Space(client={"lr": fh.Float(0.01, 0.5, log=True)}, server={"lr": 1.0})


def tuned(method="robust", evaluation=None, **settings):
    settings = {"rounds": 9, "total": 108, "cohort": 20, **settings}
    data = fh.load("synthetic", clients=30, samples=30, dimension=4, classes=2, seed=1)
    with fh.simulate("linear", data, workers=0) as federation:
        evaluation = fh.Evaluator(clients=1) if evaluation is None else evaluation
        return fh.tune(federation, SPACE, method, evaluation=evaluation, **settings)


@pytest.mark.parametrize("method", ["robust", "auto"])
def test_a_race_says_how_sure_it_is_and_may_end_by_it(method):
    plain = tuned(method)
    told = plain.facts["race"]
    assert 0 < told["bound"] <= 1
    assert told["margin"] == 0.01
    wide = tuned(method, stop="decided", margin=0.9)  # nobody is worse by that much
    assert wide.facts["race"]["stopped"]
    assert wide.facts["race"]["bound"] <= LEVEL
    assert wide.facts["race"]["of_all"] >= wide.facts["race"]["bound"]
    assert wide.cost["evaluations"] < plain.cost["evaluations"]
    narrow = tuned(method, stop="decided", margin=1e-6)
    assert narrow.cost["evaluations"] >= wide.cost["evaluations"]


def test_where_it_would_not_hold_it_is_refused():
    for said, settings in (
        ("which has no race", {"method": "sha"}),
        ("all clients are asked", {"evaluation": fh.Evaluator()}),
        ("means of scores in", {"objective": "loss"}),
        ("means of scores in", {"objective": fh.Objective("accuracy", over="tail")}),
        ("which has no race", {"method": fh.Robust(race=False)}),
    ):
        with pytest.raises(InputError, match=said):
            tuned(stop="decided", **settings)
    with pytest.raises(InputError, match="counts only where stop"):
        tuned(margin=0.1)
    with pytest.raises(InputError, match=r"margin must be a number in \(0, 1\)"):
        tuned(stop="decided", margin=2)
    with pytest.raises(InputError, match="unknown stop 'soon'"):
        tuned(stop="soon")
