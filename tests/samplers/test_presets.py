"""The methods that are made of these samplers."""

from dataclasses import replace

import pytest

import fedhpo as fh
from fedhpo import samplers
from fedhpo.core.errors import InputError
from fedhpo.methods import BOHB, GP, SHA, TPE, Hyperband, method_of
from fedhpo.testing import ToyFederation


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TPE(gamma=2.0), "gamma"),
        (lambda: TPE(side_by_side=0), "side_by_side"),
        (lambda: GP(acquisition="ucb"), "acquisition"),
        (lambda: SHA(rate=1), "rate"),
        (lambda: Hyperband(unit=0), "unit"),
        (lambda: BOHB(random_share=-0.1), "random_share"),
    ],
)
def test_a_method_refuses_bad_settings_when_it_is_made(make: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()  # type: ignore[operator]


def test_methods_by_name() -> None:
    assert [method_of(name) for name in ("tpe", "gp", "hyperband", "bohb")] == [
        TPE(),
        GP(),
        Hyperband(),
        BOHB(),
    ]


@pytest.mark.parametrize("method", [TPE(side_by_side=2), GP(side_by_side=2)])
def test_start_up_stays_below_the_number_of_trials(method: TPE | GP) -> None:
    """Seven hyperparameters and six trials: three are random, not eight. What leaves no trial is refused."""
    space = fh.Space(client={"lr": fh.Float(1e-3, 10.0, log=True), **{n: fh.Float(0, 1) for n in "abcdef"}})
    asked: list[int] = []

    def tuned(chosen: TPE | GP) -> fh.Result:
        return fh.tune(ToyFederation(clients=4), space, chosen, rounds=2, total=12, cohort=2)

    kind = getattr(samplers, type(method).__name__)
    suggest = kind.suggest

    def watched(self: object, *given: object, **others: object) -> object:
        asked.append(self.startup)  # type: ignore[attr-defined]
        return suggest(self, *given, **others)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kind, "suggest", watched)
        tuned(method)
    assert set(asked) == {3}
    with pytest.raises(InputError, match=r"startup = 6: must be below the number of trials, 6"):
        tuned(replace(method, startup=6))


def test_bohb_is_hyperband_with_its_own_model_and_a_third_random() -> None:
    tuner = BOHB(unit=5).tuner()
    assert tuner.schedule == Hyperband(unit=5).tuner().schedule
    assert tuner.sampler == samplers.BOHB(good_share=0.15, candidates=64, random_share=1 / 3)
