"""The rule of `auto`, case by case, and that it is the default."""

from dataclasses import replace
from typing import Any

import pytest

import fedhpo as fh
from fedhpo.core.errors import InputError
from fedhpo.methods.auto import Case, choose
from fedhpo.methods.registry import method_of
from fedhpo.study.methods import method_in
from fedhpo.testing import ToyFederation
from fedhpo.tuning.setup import prepare

SPACE = fh.Space(client={"lr": fh.Float(1e-3, 10.0, log=True)})


def _case(asked: int, epsilon: float, *, rotates: bool = True, **more: Any) -> Case:
    return Case(81, 1296, 100, asked, epsilon, rotates, **more)


@pytest.mark.parametrize(
    ("case", "method", "mechanism", "said"),
    [
        (Case(81, 1296, 100, 1), "robust", None, "from 1 of 100 clients"),
        (Case(81, 1296, 100, 100), "robust", None, "Scores are exact"),
        (Case(8, 128, 100, 1), "gp", None, "8 rounds are too short"),
        (Case(8, 128, 100, 1, several=True), "sha", None, "several objectives"),
        (Case(9, 144, 100, 1), "robust", None, "from 1 of 100 clients"),
        (Case(8, 128, 100, 1, 100.0), "gp", "laplace", "8 rounds"),
        # By scores, 87 of 1 of 100 clients: one client is in one of them, noise sqrt(2) / 100.
        (_case(1, 100.0, values=True), "robust", "laplace", "from 1 of 100"),
        # By choices of gaps, pooled over clients, far less.
        (
            _case(1, 100.0),
            "robust",
            "permute-and-flip",
            "noise of 0.0064, and a private score would have 0.014",
        ),
        # Without rotation each score counts 87 times: sqrt(2) x 87 / 100 = 1.2.
        (_case(1, 100.0, rotates=False), "robust", "permute-and-flip", "would have 1.2"),
        (_case(1, 100.0, rotates=False, values=True), "random", "permute-and-flip", "noise of 1.2"),
        # sqrt(2) x 1 / 10 = 0.14 is above 0.1, but not above what a pilot found.
        (_case(1, 10.0, values=True), "robust", "laplace", "one rung"),
        (_case(1, 10.0, values=True), "robust", "laplace", "noise of 0.14"),
        (_case(1, 10.0, values=True, spread=0.3), "robust", "laplace", "from 1 of 100"),
        # 87 x 10 / 100, rounded up, is 9: sqrt(2) x 9 / (10 x 10) = 0.13.
        (_case(10, 10.0, values=True), "random", "permute-and-flip", "0.13"),
        (_case(10, 10.0), "robust", "permute-and-flip", "many short trials"),
        # Three rungs have more noise than 0.05, two less than 0.1.
        (_case(10, 3.0), "robust", "permute-and-flip", "in two rungs"),
        (_case(100, 1.0), "robust", "permute-and-flip", "in two rungs"),
        # Two have more: all trials train to the end.
        (_case(1, 0.1), "robust", "permute-and-flip", "one choice looks at them"),
        # Where values come out, each trial has one.
        (
            _case(100, 1.0, values=True),
            "random",
            "permute-and-flip",
            "one private score of each comes out, 16 in",
        ),
        # By whole scores, as before there were gaps. 9 choices at 10 clients are disjoint: 2 x 20 / 6 / 100.
        (_case(10, 10.0, gap=1.0), "robust", "permute-and-flip", "noise of 0.067"),
        (_case(10, 4.0, gap=1.0), "robust", "permute-and-flip", "noise of 0.17"),
        # 0.22 is above twice 0.1, and with 16 scores at 10 of 100 clients some client is in two of them.
        (_case(10, 3.0, gap=1.0), "random", "permute-and-flip", "noise of 0.22"),
        (_case(1, 10.0, gap=1.0, values=False), "random", "permute-and-flip", "0.67"),
        (_case(1, 100.0, gap=1.0, rotates=False), "random", "permute-and-flip", "noise of 0.6"),
    ],
)
def test_the_rule(case: Case, method: str, mechanism: str | None, said: str) -> None:
    found = choose(case)
    assert (found.method.name, found.mechanism) == (method, mechanism)
    assert said in found.why
    assert found.why.count(". ") == 1  # two sentences


def test_it_is_what_a_study_and_a_call_take_that_name_no_method() -> None:
    assert method_of(None) == fh.Auto() == method_in({})
    result = fh.tune(ToyFederation(clients=6), SPACE, rounds=9, total=72, cohort=2)
    assert result.facts["auto"]["method"] == "robust"
    assert "Scores are exact" in result.facts["auto"]["why"]


@pytest.mark.parametrize(
    ("rounds", "evaluation", "taken"),
    [
        (9, fh.Evaluator(clients=2), fh.Robust()),
        (4, None, fh.GP()),
        (18, fh.Evaluator(clients=1, privacy=fh.Privacy(1.0)), fh.Robust(rungs=1)),
        (9, fh.Evaluator(clients=2, privacy=fh.Privacy(1.0)), fh.Robust(rungs=1)),
        (9, fh.Evaluator(clients=2, privacy=fh.Privacy(1.0, accounting="basic")), fh.Robust(rungs=1)),
        (9, fh.Evaluator(clients=2, privacy=fh.Privacy(1.0, mechanism="laplace")), fh.RandomSearch()),
    ],
)
def test_it_comes_to_what_the_method_that_it_takes_comes_to(rounds, evaluation, taken) -> None:  # type: ignore[no-untyped-def]
    def run(method: fh.Method, evaluation: fh.Evaluator | None) -> fh.Result:
        return fh.tune(
            ToyFederation(clients=6), SPACE, method, rounds=rounds, total=72, cohort=2, evaluation=evaluation
        )

    auto = run(fh.Auto(), evaluation)
    if "mechanism" in auto.facts["auto"]:
        privacy = replace(evaluation.privacy, mechanism=auto.facts["auto"]["mechanism"])
        evaluation = replace(evaluation, privacy=privacy)
    own = run(taken, evaluation)
    assert auto.facts["auto"]["method"] == taken.name
    assert list(auto.trials) == list(own.trials)
    assert auto.best_config == own.best_config
    assert auto.cost["evaluations"] == own.cost["evaluations"]


def test_several_objectives_and_constraints_need_no_method_to_be_named() -> None:
    def run(**more: object) -> fh.Result:
        federation = ToyFederation(clients=6)
        return fh.tune(federation, SPACE, rounds=9, total=72, cohort=2, **more)  # type: ignore[arg-type]

    for more in ({"objectives": ["loss", "samples"]}, {"constraints": ["samples <= 1e9"]}):
        assert run(**more).facts["auto"]["method"] == "sha"


def test_a_total_below_one_training_is_refused() -> None:
    with pytest.raises(InputError, match="does not pay for one training"):
        fh.tune(ToyFederation(clients=6), SPACE, rounds=9, total=8, cohort=2)


def test_it_names_the_private_mechanism_where_the_study_names_none() -> None:
    def taken(**settings: object) -> tuple[str, str]:
        evaluation = fh.Evaluator(clients=4, privacy=fh.Privacy(50.0, **settings))  # type: ignore[arg-type]
        result = fh.tune(
            ToyFederation(clients=40), SPACE, rounds=9, total=72, cohort=2, evaluation=evaluation
        )
        assert result.facts["auto"]["mechanism"] == result.facts["privacy"]["mechanism"]
        return result.facts["auto"]["mechanism"], result.facts["auto"]["why"]

    assert taken()[0] == "permute-and-flip"
    assert "The mechanism is permute-and-flip: a score has noise of 0.035, a choice of 0.0085." in taken()[1]
    assert taken(mechanism="laplace")[0] == "laplace"
    assert "The mechanism is laplace, as named (permute-and-flip suits): " in taken(mechanism="laplace")[1]


def test_other_methods_have_laplace_where_none_is_named() -> None:
    evaluation = fh.Evaluator(clients=4, privacy=fh.Privacy(50.0))
    result = fh.tune(
        ToyFederation(clients=40), SPACE, "robust", rounds=9, total=72, cohort=2, evaluation=evaluation
    )
    assert result.facts["privacy"]["mechanism"] == "laplace"


def test_a_run_that_was_begun_with_laplace_goes_on_with_it() -> None:
    """0.2.0 took that where none was named, also for `auto`."""

    def prepared(begun: dict[str, object] | None) -> str:
        evaluation = fh.Evaluator(clients=4, privacy=fh.Privacy(50.0))
        options = {"rounds": 9, "total": 72, "cohort": 2, "seed": 0, "evaluation": evaluation}
        found = prepare(ToyFederation(clients=40), SPACE, None, begun=begun, **options)  # type: ignore[arg-type]
        return str(found.search.evaluator.privacy.mechanism)  # type: ignore[union-attr]

    begun = {"evaluation": {"privacy": {"mechanism": "laplace", "held_out": 0.2}}}
    assert (prepared(None), prepared(begun)) == ("permute-and-flip", "laplace")
