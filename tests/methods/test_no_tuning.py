"""One training without a search: what it is, where it stands in a study, and what `advise` says of it."""

import numpy as np
import pytest

import fedhpo as fh
from fedhpo.core.errors import InputError
from fedhpo.protocol.objective import Objective
from fedhpo.research.advise import advise
from fedhpo.research.advise.advice import untuned_of
from fedhpo.research.advise.pilot import Pilot
from fedhpo.study import Study


def study(**sections):
    return {
        "data": {"name": "digits", "clients": 5},
        "model": {"name": "mlp"},
        "space": {"client": {"lr": {"low": 0.01, "high": 0.3, "log": True, "default": 0.05}}},
        "budget": {"rounds": 3, "cohort": 3, "tuning": "none"},
        **sections,
    }


def test_the_own_config_is_trained_once():
    found = Study.from_dict(study()).tune(workers=0)
    assert found.best_config.client == {"lr": 0.05}
    assert (len(found.trials), found.facts["cost"]["rounds"]) == (1, 3)
    assert found.facts["method"]["name"] == "none"
    by_hand = fh.tune(
        fh.simulate("mlp", fh.load("digits", clients=5), workers=0),
        fh.Space(client={"lr": fh.Float(0.01, 0.3, log=True, default=0.05)}),
        fh.NoTuning(),
        rounds=3,
        cohort=3,
    )
    assert by_hand.best_score == found.best_score


def test_a_fixed_space_will_do():
    found = Study.from_dict(study(space={"client": {"lr": 0.1}})).tune(workers=0)
    assert found.best_config.client == {"lr": 0.1}


@pytest.mark.parametrize(
    ("sections", "said"),
    [
        ({"method": {"name": "sha"}}, "method: has no effect beside budget.tuning"),
        ({"budget": {"rounds": 3, "tuning": "none", "total": 9}}, "budget.total = 9.*trains once"),
        ({"enqueue": [{"client": {"lr": 0.2}}]}, "enqueue"),
        ({"budget": {"rounds": 3, "tuning": "all"}}, "budget.tuning"),
    ],
)
def test_what_would_have_no_effect_is_refused(sections, said):
    with pytest.raises(InputError, match=said):
        Study.from_dict(study(**sections))


def pilot(own, metric="accuracy"):
    values = np.array([[0.5, 0.7], [0.6, 1.0]])
    values = values if metric == "accuracy" else 1 - values
    return Pilot(values, np.array([10, 30]), Objective(metric), 2, "hand", (0, 1), np.array(own))


def test_how_far_it_is_behind_by_hand():
    """Weights 1/4 and 3/4: the best scores 0.9, the own config 0.8 x 0.75 + 0.6 x 0.25 = 0.75."""
    found = untuned_of(pilot([0.6, 0.8]))
    assert (found.score, found.behind, found.beats) == pytest.approx((0.75, 0.15, 0.5))
    # Gaps 0 and 0.2 at weights 0.5 and 1.5 (mean 1): -0.075 and 0.075, so sd 0.10607 over sqrt(2).
    assert found.error == pytest.approx(0.075)
    error = untuned_of(pilot([0.4, 0.2], "error"))
    assert (error.behind, error.beats) == pytest.approx((0.15, 0.5))
    assert "tuning = 'none'" in untuned_of(pilot([0.6, 1.0])).in_words()
    assert untuned_of(pilot([0.1, 0.1])).in_words().startswith("Tune: ")
    assert untuned_of(Pilot(np.eye(2), np.ones(2, int), Objective("accuracy"), 1, "x")) is None


def test_advise_compares_with_it():
    given = study(budget={"rounds": 4, "cohort": 3})
    found = advise(Study.from_dict(given), workers=0)
    assert found.untuned is not None
    assert found.practices[-1] == found.untuned.in_words()
    assert found.to_dict()["untuned"]["beats"] == found.untuned.beats
