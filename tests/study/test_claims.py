"""Every key has an effect, is refused or is said: the parts' claims, and a sample of all keys."""

import importlib.util
import sys
import warnings
from dataclasses import fields
from pathlib import Path

import pytest

import fedhpo as fh
from fedhpo.core.claims import declared
from fedhpo.core.errors import InputError
from fedhpo.methods.preset import Preset
from fedhpo.methods.registry import METHODS
from fedhpo.search.search import cohort_of
from fedhpo.study import Study
from fedhpo.study.parts import FLOWER, NVFLARE, SIMULATION

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def settings():
    sys.path.insert(0, str(BENCHMARKS))
    spec = importlib.util.spec_from_file_location("settings_benchmark", BENCHMARKS / "settings.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    sys.path.remove(str(BENCHMARKS))


def small(**others):
    return {
        "data": {"name": "synthetic", "clients": 4, "samples": 30, "dimension": 4, "classes": 2},
        "model": {"name": "linear"},
        "space": {"client": {"lr": {"low": 0.01, "high": 1.0}}},
        "budget": {"rounds": 1, "total": 2, "cohort": 3},
        "method": {"name": "random"},
        **others,
    }


def svm(**others):
    return small(model={"name": "svm"}, space={}, **others)


@pytest.mark.parametrize(
    ("key", "section"),
    [
        ("server.aggregation", {"server": {"aggregation": "median"}}),
        ("server.aggregation", {"server": {"aggregation": "mean"}}),  # written out, it is set
        ("server.clip_norm", {"server": {"clip_norm": 1.0}}),
        ("server.optimiser", {"server": {"optimiser": "fedadam"}}),
        ("server.weighting", {"server": {"weighting": "uniform"}}),
        ("client.open", {"client": {"open": True}}),
        ("device", {"device": "cpu"}),
        ("federation.dropouts", {"federation": {"dropouts": 0.5}}),
    ],
)
def test_learners_refuse_what_they_do_not_honour(key, section):
    with pytest.raises(InputError, match=f"{key} = .*has no effect with model.name = 'svm'.*leave it out"):
        Study.from_dict(svm(**section))


def test_a_place_refuses_what_only_another_honours():
    study = Study.from_dict(small(device="cuda", client={"open": False}))
    with pytest.raises(InputError, match="torch models in a simulation would honour it"):
        study.check_place(FLOWER)
    with pytest.raises(InputError, match=r"client\.open = False: has no effect .* in a simulation"):
        study.check_place(SIMULATION)
    trees = Study.from_dict(small(model={"name": "xgboost"}, space={}, server={"weighting": "uniform"}))
    trees.check_place(NVFLARE)  # bagging weighs its clients
    with pytest.raises(InputError, match=r"server\.weighting"):
        trees.check_place(SIMULATION)


def test_sections_of_another_place_are_set_aside_and_said(tmp_path):
    study = Study.from_dict(small(flower={"deadline": 5.0}, nvflare={"retries": 2}))
    result = study.tune(tmp_path / "run", workers=0)
    assert result.facts["said"] == ["set aside in a simulation: [flower], [nvflare]"]
    assert "said" not in Study.from_dict(small()).tune(workers=0).facts


def test_at_a_place_of_their_own_trees_are_joined_and_that_is_said():
    place = {"place": {"name": "process"}}
    study = Study.from_dict(
        small(model={"name": "xgboost"}, space={}, server={"weighting": "uniform"}, **place)
    )
    study.check_place(SIMULATION)  # joined trees weigh their parties
    assert [line for line in study.said() if "trained by bagging" in line]
    with study.federation() as federation:
        assert federation.describe()["training"].startswith("bagging")
        assert federation.describe()["weighting"] == "uniform"


def test_the_training_of_trees_is_said_where_it_is_left_out():
    study = Study.from_dict(small(model={"name": "hgb"}, space={}))
    assert "model.training is left out: trained pooled" in study.said()[0]
    assert Study.from_dict(small(model={"name": "hgb", "training": "pooled"}, space={})).said() == []
    joined = Study.from_dict(small(model={"name": "hgb", "training": "bagging"}, space={}))
    assert joined.said() == [
        "model.name = 'hgb': joined trees are XGBoost's, with the hyperparameters of the same names; "
        "scikit-learn's are trained where rows are pooled"
    ]


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"objective": {"tail": 0.1}}, r"objective\.tail = 0\.1: counts only where over = 'tail'"),
        ({"evaluation": {"paired": True}}, r"evaluation\.paired = True: counts only where clients is given"),
        ({"federation": {"swing": 0.5}}, r"federation\.swing = 0\.5: counts only where availability"),
        ({"method": {"name": "fedex", "schedule": "fixed", "rate": 3}}, r"method\.rate = 3: counts only"),
        ({"method": {"name": "fedex", "metric": "error", "clip": 3.0}}, r"method\.clip = 3\.0: counts only"),
        ({"server": {"strategy": "FedMedian", "optimiser": "fedavg"}}, r"server\.optimiser = 'fedavg'"),
    ],
)
def test_a_key_that_does_not_count_beside_the_others_is_refused(section, message):
    with pytest.raises(InputError, match=message):
        Study.from_dict(small(**section))


def test_python_refuses_arguments_without_effect():
    data = fh.load("synthetic", clients=3, samples=30, dimension=4, classes=2)
    for options in ({"trim": 0.2}, {"strategy": "FedMedian", "aggregation": "median"}):
        with pytest.raises(InputError, match=r"trim = 0\.2: counts only|aggregation = 'median': has"):
            fh.simulate("linear", data, workers=0, **options)
    space = fh.Space(client={"lr": fh.Float(0.01, 1.0)}, policy={"gamma": fh.Float(0.0, 1.0)})
    with fh.simulate("linear", data, workers=0) as federation:
        with pytest.raises(InputError, match=r"space\.policy\.gamma: has no effect with random"):
            fh.tune(federation, space, "random", rounds=1, total=2)
        with pytest.raises(InputError, match=r"objective\.trim = 0\.1: counts only"):
            fh.tune(
                federation, space, "fedex", rounds=2, total=20, objective=fh.Objective("accuracy", trim=0.1)
            )


def test_a_recorded_study_with_such_a_key_goes_on(tmp_path):
    with pytest.warns(UserWarning, match=r"server\.aggregation .* goes on as without it"):
        study = Study.from_dict(svm(server={"aggregation": "median"}), recorded=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ignored = study.tune(workers=0)
    assert ignored.best_config == Study.from_dict(svm()).tune(workers=0).best_config


def test_a_cohort_is_ten_or_all():
    assert [cohort_of(None, 3), cohort_of(None, 40), cohort_of(5, 40)] == [3, 10, 5]
    result = Study.from_dict(small(budget={"rounds": 1, "total": 2})).tune(workers=0)
    assert result.cost["client_rounds"] == 2 * 4


def test_what_presets_declare_names_settings_of_theirs():
    for kind in METHODS.values():
        if not issubclass(kind, Preset):
            continue
        usual = {f.name: f.default for f in fields(kind) if f.init}
        for name, either in declared(kind).items():
            assert name in usual
            assert all(set(where) <= set(usual) for where in either)


def torch(**others):
    return Study.from_dict(small(**{"data": {**small()["data"], "clients": 8}, **others}))


def test_an_average_over_rounds_needs_scores_with_an_error():
    sha = {"method": {"name": "sha", "trials": 3}, "budget": {"rounds": 3, "total": 12, "cohort": 3}}
    recent = {"evaluation": {"average": "recent"}, **sha}
    with pytest.raises(InputError, match=r"evaluation\.average = 'recent': has no effect where all clients"):
        torch(**recent).tune(workers=0)
    # Clients that are not there do not reply, so that scores have an error.
    fleet = {"federation": {"availability": "random"}}
    assert torch(**recent, **fleet).tune(workers=0).status == "finished"
    assert torch(**{**recent, "evaluation": {"average": "recent", "clients": 2}}).tune(workers=0).best_config


@pytest.mark.parametrize("choice", ["mean", "trimmed"])
def test_a_choice_needs_two_trials(choice):
    one = {"evaluation": {"choice": choice}, "method": {"name": "random", "trials": 1}}
    with pytest.raises(
        InputError, match=r"evaluation\.choice = .* has no effect with random, which trains one"
    ):
        torch(**one).tune(workers=0)
    # From eight parties on FLoRA leaves some out of its surface by this setting.
    few = {"data": {"name": "digits", "clients": 4}}
    flora = {"evaluation": {"choice": choice}, "method": {"name": "flora", "configs": 2, "folds": 2}, **few}
    with pytest.raises(InputError, match=r"evaluation\.choice = .* with flora, which trains one trial"):
        torch(**flora).tune(workers=0)
    torch(**one, budget={"rounds": 1, "total": 2, "cohort": 3, "baseline": True}).tune(workers=0)


@pytest.mark.parametrize(("key", "value"), [("held_out", 0.5), ("clip", 0.5)])
def test_what_says_how_to_compare_needs_a_comparison(key, value):
    private = {"privacy": {"epsilon": 50.0, key: value}}
    sha = {"method": {"name": "sha", "trials": 3, "finalists": 1}}
    study = {"evaluation": private, **sha, "budget": {"rounds": 2, "total": 6, "cohort": 3}}
    with pytest.raises(InputError, match=rf"evaluation\.privacy\.{key} = 0\.5: has no effect with sha"):
        torch(**study).tune(workers=0)
    study["budget"]["baseline"] = True
    assert torch(**study).tune(workers=0).status == "finished"


def test_settings_that_only_some_trainings_or_rounds_honour():
    alone = Study.from_dict(svm(flower={"message_bytes": 5}))
    with pytest.raises(InputError, match=r"flower\.message_bytes = 5: has no effect with model.name = 'svm'"):
        alone.check_place(FLOWER)
    with pytest.raises(InputError, match=r"model\.scaling = 'minmax': has no effect with hgb"):
        Study.from_dict(small(model={"name": "hgb", "scaling": "minmax"}, space={}))
    for method, word in (
        ({"name": "hyperband", "rate": 2}, r"rate = 2: has no effect with trainings of one round"),
        ({"name": "robust", "rungs": 2}, r"rungs = 2: has no effect with trainings of one round"),
    ):
        with pytest.raises(InputError, match=word):
            Study.from_dict(svm(method=method)).tune(workers=0)
    with pytest.raises(InputError, match=r"discount = 0\.5: has no effect with interval = 1"):
        fh.FedPop(interval=1, discount=0.5)
    tuner = {"name": "tuner", "schedule": {"name": "fixed"}, "policy": {"name": "fedex", "rounds": 3}}
    with pytest.raises(InputError, match=r"method\.policy: unknown key 'rounds'|rounds"):
        Study.from_dict(small(method=tuner))


def test_knobs_of_a_method_leave_a_learners_own_space():
    """[space.policy] alone is refused for what it is, where the method has no knobs."""
    study = Study.from_dict(svm() | {"space": {"policy": {"gamma": 0.5}}})
    assert set(Study.from_dict(svm()).space.names) <= set(study.space.names)
    with pytest.raises(InputError, match=r"space\.policy\.gamma: has no effect with random"):
        study.tune(workers=0)


def test_biased_draws_go_with_further_metrics():
    """The scores of those who were drawn, in all metrics: an objective on one of them has as many."""
    study = torch(objective={"metric": "f1_macro"}, evaluation={"clients": 3, "bias": 2.0})
    assert study.tune(workers=0).status == "finished"


def test_a_refusal_counts_where_it_names_the_key(settings):
    names = sys.modules["settings_cells.judge"].names
    assert names("server.trim = 0.3: has no effect", "server.trim", 0.3)
    assert names("total of at least 7 rounds, not 5", "budget.total", 5)
    assert names("federation: leave it out where [evaluation.privacy] is set", "federation.seed", 1)
    assert not names("budget.total = 9: must be more", "server.trim", 0.3)
    assert not names("no trial could be trained", "server.trim", 0.3)


def where_sampled(path):
    """The context in which the sample sets a key: where it has most to say, else where nothing is trained."""
    section = path.partition(".")[0]
    return {"flower": "flower", "app": "flower app", "proxy": "proxy"}.get(
        section, "simulated" if section in ("server", "objective", "client") else "table"
    )


def test_a_sample_of_all_keys(settings):
    """Each general key once."""
    general = {key.path for key in sys.modules["settings_cells.keys"].general()}
    assert {"server.trim", "flower.deadline", "evaluation.privacy.epsilon", "federation.seed"} <= general
    sample = [cell for cell in settings.cells() if cell.context.name == where_sampled(cell.key.path)]
    cells = {cell.key.path: cell for cell in sample if cell.key.path in general}
    assert cells.keys() == general
    judged = {path: settings.judged(cell) for path, cell in cells.items()}
    assert {path: word for path, word in judged.items() if word[0] in ("silent", "failed")} == {}
    assert judged["evaluation.choice"] == ("honoured", "'trimmed'")
    assert {path for path, (word, _) in judged.items() if word == "honoured"} > {
        f"flower.{key}" for key in ("deadline", "retries", "quorum", "message_bytes", "hold_replies")
    }


def test_proxy_rows_that_fedtune_deals_itself_are_not_partitioned():
    proxy = {"data": {"name": "digits", "partition": {"kind": "iid"}}}
    with pytest.raises(InputError, match=r"proxy\.data\.partition: has no effect with fedtune"):
        Study.from_dict(small(method={"name": "fedtune"}, proxy=proxy, budget={"rounds": 1, "cohort": 3}))


def test_whose_bias_it_is_counts_among_several_trials():
    biased = {"clients": 3, "bias": 3.0, "bias_per": "message"}
    with pytest.raises(
        InputError, match=r"evaluation\.bias_per = 'message': has no effect with flora, which"
    ):
        Study.from_dict(small(method={"name": "flora", "configs": 3}, evaluation=biased)).tune(workers=0)


def test_a_strategy_without_a_rate_is_named():
    space = {"client": {"lr": {"low": 0.01, "high": 1.0}}, "server": {"lr": {"low": 0.1, "high": 1.0}}}
    with pytest.raises(InputError, match=r"unknown argument of server\.strategy = 'FedMedian', 'lr'"):
        Study.from_dict(small(space=space, server={"strategy": "FedMedian"})).tune(workers=0)


def test_a_bias_by_accuracy_is_refused_where_an_app_tells_a_loss():
    app = Path(__file__).parents[1] / "flower" / "apps"
    tables = {
        "app": {"path": str(app), "clients": 4},
        "space": {"client": {"learning-rate": {"low": 0.01, "high": 1.0, "log": True}}},
        "objective": {"metric": "eval_loss", "direction": "minimize"},
        "evaluation": {"clients": 3, "bias": 3.0},
        "budget": {"rounds": 1, "total": 2, "cohort": 3},
        "method": {"name": "random"},
    }
    with pytest.raises(InputError, match=r"evaluation\.bias = 3: has no effect.*'eval_loss' is a loss"):
        Study.from_dict(tables).tune()
