"""Optuna's samplers through ours."""

import sys

import numpy as np
import optuna
import pytest

from fedhpo.core.errors import InputError, MissingExtraError
from fedhpo.samplers import OptunaSampler
from fedhpo.samplers.optuna import _told
from fedhpo.space import Float, Space
from fedhpo.testing.sampler import MIXED, PLANE, observed, played


@pytest.mark.parametrize(
    "space", [MIXED, Space(server={"lr_decay": Float(0.99, 0.9999, log=True, complement=True)})]
)
def test_values_survive_the_way_through_optuna(space: Space) -> None:
    rng = np.random.default_rng(0)
    configs = [space.sample(rng) for _ in range(30)]

    class Parrot(optuna.samplers.BaseSampler):
        """Answers with the parameters of the study's last complete trial."""

        def infer_relative_search_space(self, study, trial):  # type: ignore[no-untyped-def]
            return {}

        def sample_relative(self, study, trial, search_space):  # type: ignore[no-untyped-def]
            return {}

        def sample_independent(self, study, trial, param_name, param_distribution):  # type: ignore[no-untyped-def]
            return study.get_trials(states=[optuna.trial.TrialState.COMPLETE])[-1].params[param_name]

    for config in configs:
        seen = [observed(0, config, 1.0)]
        assert OptunaSampler(Parrot).suggest(space, seen, [], rng) == config


def test_optuna_is_told_of_the_highest_rung_failures_and_pending_configs() -> None:
    rng = np.random.default_rng(0)
    a, b, c, d = (PLANE.sample(rng) for _ in range(4))
    seen = [
        observed(0, a, 1.0, 5),
        observed(1, b, 2.0, 5),
        observed(2, c, np.inf, 3),
        observed(0, a, 0.5, 15),
    ]
    told = _told(optuna, PLANE, seen, [a, b, c, d])
    assert [(t.state.name, t.value) for t in told] == [
        ("COMPLETE", 0.5),
        ("COMPLETE", 0.5),
        ("RUNNING", None),
    ]
    assert told[0].params == {"client.a": a.client["a"], "client.b": a.client["b"]}
    assert told[2].params == {"client.a": d.client["a"], "client.b": d.client["b"]}


def test_any_sampler_runs_and_says_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    for sampler in (OptunaSampler("QMCSampler"), OptunaSampler(optuna.samplers.BruteForceSampler)):
        space = Space(client={"lr": MIXED.hyperparameters["client.batch_size"]})
        assert len(set(played(sampler, space, 9, lambda config: 1.0))) == 4
    assert "new study" not in "".join(capfd.readouterr())


def test_mistakes_are_named() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(InputError, match=r"unknown Optuna sampler 'TPESampelr' .did you mean 'TPESampler'"):
        OptunaSampler("TPESampelr").suggest(PLANE, [], [], rng)
    with pytest.raises(InputError, match=r"options of TPESampler: .*n_startup.*it takes"):
        OptunaSampler("TPESampler", {"n_startup": 3}).suggest(PLANE, [], [], rng)
    with pytest.raises(InputError, match="sampler must be a name or a class of Optuna's samplers, not <"):
        OptunaSampler(optuna.samplers.TPESampler()).suggest(PLANE, [], [], rng)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="sampler must be a name or a class of Optuna's samplers, not <"):
        OptunaSampler(dict)


def test_without_optuna_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(MissingExtraError, match=r"\[optuna\]"):
        OptunaSampler().suggest(PLANE, [], [], np.random.default_rng(0))
