"""`fedhpo check` agrees with `fedhpo tune`: right studies are right, and others are refused alike."""

import pytest

from fedhpo.core.errors import InputError
from fedhpo.study import Study
from fedhpo.study.outlook import outlook


def study(method, **others):
    return Study.from_dict(
        {
            "data": {"name": "synthetic", "clients": 6, "samples": 30, "dimension": 4, "classes": 2},
            "model": {"name": "linear"},
            "space": {"client": {"lr": {"low": 0.01, "high": 1.0, "log": True}}},
            "budget": {"rounds": 2, "total": 8, "cohort": 3},
            "method": method,
            **others,
        }
    )


@pytest.mark.parametrize(
    "method",
    [
        {"name": "fedpop-auto", "trials": 4, "rate": 2},
        {"name": "flora", "configs": 4, "folds": 2},
        {"name": "fts", "trials": 2, "configs": 4, "features": 4},
        {"name": "fedhyper", "trials": 3},
    ],
    ids=lambda method: method["name"],
)
def test_a_method_that_mixes_asks_or_multiplies_is_right(method):
    facts = outlook(study(method)).facts
    assert (facts["plan"] is None) == (method["name"] in ("flora", "fts"))  # nobody is asked in a plan


def test_privacy_and_personal_models_are_right():
    private = outlook(study({"name": "random"}, evaluation={"privacy": {"epsilon": 50.0}}))
    assert private.facts["plan"]["epsilon"] == pytest.approx(50.0)
    assert dict(private.rows["Privacy"])["epsilon"].startswith("50 ")
    personal = outlook(study({"name": "random"}, evaluation={"personalised": True}))
    assert personal.facts["plan"]["rounds"] == 8


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ({"method": {"name": "fts"}, "objective": {"metric": "auroc"}}, "'auroc': with fts"),
        (
            {
                "model": {"name": "svm"},
                "space": {},
                "budget": {"rounds": 1, "total": 2, "cohort": 3},
                "evaluation": {"personalised": True},
            },
            "personalised",
        ),
    ],
)
def test_what_tune_refuses_is_refused(others, message):
    wrong = study(**{"method": {"name": "random"}, **others})
    for judge in (outlook, lambda one: one.tune(workers=0)):
        with pytest.raises(InputError, match=message):
            judge(wrong)


def test_a_plan_of_a_method_that_asks_is_refused_in_words():
    with pytest.raises(InputError, match="method fts: its clients search on their own rows"):
        study({"name": "fts"}).plan(1)


def test_bytes_of_tuned_shapes_say_whose_they_are():
    shapes = {"client": {"lr": {"low": 0.01, "high": 1.0}}, "model": {"hidden": {"values": [4, 64]}}}
    tuned = outlook(study({"name": "random"}, model={"name": "mlp"}, space=shapes))
    assert "as large as your own config's" in dict(tuned.rows["Cost"])["sent to clients"]
    assert "your own" not in dict(outlook(study({"name": "random"})).rows["Cost"])["sent to clients"]
