"""The methods that are made of these samplers."""

import pytest

from fedhpo import samplers
from fedhpo.core.errors import InputError
from fedhpo.methods import BOHB, GP, SHA, TPE, Hyperband, method_of


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


def test_bohb_is_hyperband_with_its_own_model_and_a_third_random() -> None:
    tuner = BOHB(unit=5).tuner()
    assert tuner.schedule == Hyperband(unit=5).tuner().schedule
    assert tuner.sampler == samplers.BOHB(good_share=0.15, candidates=64, random_share=1 / 3)
