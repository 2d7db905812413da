"""A method where a part is wanted, and a part where a method is wanted, are answered with what to write."""

import re

import pytest

import fedhpo as fh
from fedhpo.core.fingerprint import code_of
from fedhpo.core.settings import settings_of
from fedhpo.methods.fedex import FedExPolicy

SPACE = fh.Space(client={"lr": fh.Float(0.1, 1.0)})
HALVING = fh.schedules.Halving(trials=3)


@pytest.mark.parametrize(
    ("mistake", "instead"),
    [
        (lambda: fh.Tuner(HALVING, fh.TPE(startup=4)), "write fedhpo.samplers.TPE(startup=4)"),
        (lambda: fh.Tuner(HALVING, fh.BOHB), "write fedhpo.samplers.BOHB()"),
        (lambda: fh.Asker(SPACE, fh.GP()), "write fedhpo.samplers.GP()"),
        (lambda: fh.Tuner(fh.SHA(trials=9)), "write fedhpo.schedules.Halving(trials=9, finalists=3)"),
        (lambda: fh.Tuner(HALVING, policy=fh.FedEx(arms=4)), "FedExPolicy(arms=4)"),
        (lambda: fh.Tuner(HALVING, policy=fh.Auto()), "fedhpo.Auto is a method, not a policy"),
        (lambda: fh.methods.method_of(fh.samplers.TPE()), "write fedhpo.TPE(), or fedhpo.Tuner("),
        (lambda: fh.methods.method_of(fh.TPE), "write fedhpo.TPE()"),
        (lambda: fh.methods.method_of(FedExPolicy()), "write fedhpo.FedEx(), or fedhpo.Tuner("),
        (lambda: fh.methods.method_of(HALVING), "fedhpo.Tuner(schedule=...)"),
    ],
)
def test_what_to_write_is_said(mistake, instead):
    with pytest.raises(fh.InputError, match=re.escape(instead)):
        mistake()


def test_the_policy_keeps_the_name_that_runs_hold():
    """So that a run begun by 0.2.0 with `Tuner(..., policy=FedEx())` resumes."""
    assert code_of(FedExPolicy) == {"name": "FedEx", "parts": {"code": "fedhpo.methods.fedex.policy.FedEx"}}
    assert settings_of(FedExPolicy())["name"] == "fedex"
    assert fh.Tuner(HALVING, policy=FedExPolicy()).fingerprint(SPACE)["policy"]["name"] == "FedEx"


def test_the_old_name_of_the_policy_warns():
    with pytest.warns(FutureWarning, match="is now fedhpo.methods.fedex.FedExPolicy"):
        from fedhpo.methods.fedex.policy import FedEx
    assert FedEx is FedExPolicy
