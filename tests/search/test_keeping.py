"""Which model of the last rounds is kept: means by hand, what they cost, and where they are refused."""

import numpy as np
import pytest

import fedhpo as fh
from fedhpo.core.errors import InputError
from fedhpo.search.keeping import tail_of
from fedhpo.study import Study

SPACE = fh.Space(client={"lr": fh.Float(0.05, 0.5, log=True)}, server={"lr": 1.0})
#: Steps so large that models swing, and a mean of them is ahead.
WILD, SEED = fh.Space(client={"lr": 0.9, "momentum": 0.8}, server={"lr": 1.0}), 1
DATA = fh.load("digits", clients=8, seed=0)


def tuned(keep, method="random", rounds=10, run=None, weighting="size", **settings):
    settings = {"total": 2 * rounds, "cohort": 3, **settings}
    with fh.simulate("mlp", DATA, workers=0, weighting=weighting) as federation:
        return fh.tune(federation, SPACE, method, rounds=rounds, keep=keep, run=run, **settings)


def vector(model):
    return np.concatenate([p.detach().numpy().ravel() for p in model.parameters()])


class Watching:
    """Keeps the weights of every trial after each of its rounds."""

    def __init__(self, federation):
        self.federation, self.seen = federation, {}

    def __call__(self, event):
        for trial in event.trials if event.kind == "round" else ():
            weights = self.federation.state(trial.number).arrays["weights"].copy()
            self.seen.setdefault(trial.number, []).append(weights)


@pytest.mark.parametrize("keep", ["mean", "exponential"])
def test_what_is_kept_is_the_average_of_the_last_fifth(keep):
    with fh.simulate("mlp", DATA, workers=0) as federation:
        watching = Watching(federation)
        found = fh.tune(
            federation, WILD, fh.NoTuning(), rounds=20, cohort=3, seed=SEED, keep=keep, callbacks=[watching]
        )
    assert tail_of(20) == 4
    last = np.array(watching.seen[0][-4:], np.float64)
    assert found.facts["keep"]["kept"] == f"{keep} of 4 models"
    expected = last.mean(axis=0)
    if keep == "exponential":  # shares 1, 0.8, 0.8, 0.8
        expected = last[0]
        for model in last[1:]:
            expected = expected + 0.8 * (model - expected)
    np.testing.assert_allclose(vector(found.model), expected, atol=1e-6)
    with fh.simulate("mlp", DATA, workers=0) as federation:
        plain = fh.tune(federation, WILD, fh.NoTuning(), rounds=20, cohort=3, seed=SEED)
    np.testing.assert_array_equal(vector(plain.model), last[-1].astype(np.float32))


@pytest.mark.parametrize("method", ["random", "sha", "robust", "hyperband", "bohb", "auto", "fedex"])
def test_every_schedule_takes_it_and_the_search_stays_the_same(method):
    plain, mean = (tuned(keep, method, 9, total=54) for keep in ("last", "mean"))
    assert mean.best_config == plain.best_config
    assert [one["trial"] for one in mean.trials] == [one["trial"] for one in plain.trials]
    assert mean.facts["keep"]["kept"] in ("last", "mean of 2 models")
    assert mean.cost["rounds"] == plain.cost["rounds"]
    # What it cost: two models at every client; nothing goes up but scores.
    extra = mean.cost["evaluations"] - plain.cost["evaluations"]
    assert extra == 2 * 8
    assert mean.cost["bytes_down"] - plain.cost["bytes_down"] == extra * 4 * len(vector(plain.model))


def test_the_best_of_some_looks_is_a_model_of_the_last_fifth():
    found = tuned("best", fh.NoTuning(), 20, total=None)
    kept = found.facts["keep"]
    assert kept["kept"] in ("best", "last")
    assert 16 < kept["round"] < 20
    assert (kept["kept"] == "best") == (kept["gain"] > 0)


def test_a_run_that_was_cut_ends_in_the_same_way(tmp_path):
    whole = tuned("mean", "sha", 9, total=27)
    left = [14]

    def stop(event):
        left[0] -= not event.replayed
        return left[0] < 0

    first = tuned("mean", "sha", 9, total=27, run=tmp_path / "run", callbacks=[stop])
    assert first.status == "stopped"
    again = tuned("mean", "sha", 9, total=27, run=tmp_path / "run")
    assert again.facts["keep"] == whole.facts["keep"]
    np.testing.assert_array_equal(vector(again.model), vector(whole.model))


def test_what_would_be_wrong_is_refused():
    with pytest.raises(InputError, match="no epsilon pays for"):
        tuned("mean", evaluation=fh.Evaluator(privacy=fh.Privacy(epsilon=10)), weighting="uniform")
    with pytest.raises(InputError, match="keeps models in its own way"):
        tuned("mean", "fedpop", total=30)
    with pytest.raises(InputError, match="trainings of one round"):
        tuned("mean", rounds=1)
    with pytest.raises(InputError, match="unknown keep 'first'"):
        tuned("first")
    with pytest.raises(InputError, match=r"budget|keep = .mean.: has no effect in trainings of one round"):
        Study.from_dict(
            {
                "data": {"name": "synthetic", "clients": 4, "samples": 30, "dimension": 4, "classes": 2},
                "model": {"name": "mlp_sklearn"},
                "space": {},
                "method": {"name": "random"},
                "budget": {"rounds": 1, "total": 2, "cohort": 3, "keep": "mean"},
            }
        ).tune(workers=0)


def test_the_mean_of_adapters_is_refused_unless_one_factor_is_fixed():
    from torch import nn

    base = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 10))
    for freeze, refused in ((False, True), (True, False)):
        space = fh.Space(
            model={"rank": 2, "freeze_down": freeze}, client={"lr": fh.Float(0.05, 0.5)}, server={"lr": 1.0}
        )
        settings = {"rounds": 5, "total": 5, "cohort": 3, "keep": "mean"}
        with fh.simulate(fh.LoRA(base), DATA, workers=0) as federation:
            if refused:
                with pytest.raises(InputError, match="not the product of means"):
                    fh.tune(federation, space, "random", **settings)
            else:
                assert "keep" in fh.tune(federation, space, "random", **settings).facts
