"""FLoRA: the parties' own searches, one training; on analytic parties, learners and torch models."""

import json
import math
import pickle
from pathlib import Path

import numpy as np
import pytest

import fedhpo as fh
from fedhpo.cli import main
from fedhpo.core.errors import InputError
from fedhpo.data import from_clients
from fedhpo.federations.folds import FoldScores
from fedhpo.learners import collective
from fedhpo.learners.boosted import BoostedTrees
from fedhpo.methods.flora.guided import Guided
from fedhpo.methods.flora.surfaces import fit_surface
from fedhpo.protocol.federation import Answer, Status, TrialError
from fedhpo.protocol.objective import Score
from fedhpo.protocol.reasons import Reason, Why
from fedhpo.protocol.sampler import Observation
from fedhpo.queries.local_search import PartySearch
from fedhpo.queries.pairs import PartyPairs
from fedhpo.report import write_report
from fedhpo.run import open_read
from fedhpo.run.codec import unpack
from fedhpo.space.config import Config
from fedhpo.study import Study
from fedhpo.testing import ToyFederation
from fedhpo.testing.parties import BAYES, party_data, party_rows

SPACE = fh.Space(client={"lr": fh.Float(1e-3, 10.0, log=True, default=0.001)})
BUDGET = {"rounds": 4, "total": 4, "cohort": 3}


class Parties(ToyFederation):
    """Three parties whose losses are the distance of lr, in decades, from a best one of their own."""

    best = (0.01, 0.1, 1.0)

    def __init__(self, answers=None):
        super().__init__(3, noise=0.0)
        self.answers, self.asked = answers or {}, 0

    def query(self, task, clients):
        self.asked += 1
        return [self.answers.get(int(party)) or self.search(task, int(party)) for party in clients]

    def search(self, task, party):
        search = PartySearch(task, party, 10 * (party + 1))
        while (config := search.ask()) is not None:
            search.tell(abs(math.log10(config.client["lr"] / self.best[party])) / 4)
        return search.answer()


def flora(**settings):
    """FLoRA as fast as it can be."""
    return fh.FLoRA(**{"configs": 8, "regressor": "gp", "diagnose": False, **settings})


def tune(method=None, federation=None, space=SPACE, **options):
    return fh.tune(federation or Parties(), space, method or flora(), **{**BUDGET, **options})


def test_what_suits_all_parties_is_trained_once():
    result = tune(fh.FLoRA(configs=40), baseline=True)
    assert [(t["trial"], t["rounds"]) for t in result.trials] == [(0, 4), (1, 4)]
    assert (result.cost["rounds"], result.cost["baseline_rounds"]) == (4, 4)
    found = result.facts["flora"]
    # The mean of |log lr - best| is lowest at the middle party's best, where it is (1 + 0 + 1) / 3 / 4.
    assert result.best_config.client["lr"] == pytest.approx(0.1, rel=0.5)
    assert found["predicted_loss"] == pytest.approx(1 / 6, abs=0.05)
    assert found["predicted_default_loss"] == pytest.approx(0.5, abs=0.1)
    assert found["surface"] == "aplm"
    assert found["diagnostics"]["gamma"] >= 1.0
    assert [(p["party"], p["size"], p["pairs"], p["status"]) for p in found["parties"]] == [
        (0, 10, 40, "ok"),
        (1, 20, 40, "ok"),
        (2, 30, 40, "ok"),
    ]
    assert result.gain["value"] > 0
    assert result.cost["bytes_up"] > 3 * 40


@pytest.mark.parametrize("surface", ["sgm", "sgm+u", "mplm", "auto"])
def test_other_surfaces(surface):
    found = tune(
        flora(configs=15, surface=surface, best=10, diagnose=surface == "auto", regressor="forest")
    ).facts["flora"]
    expected = found["diagnostics"]["recommended"] if surface == "auto" else surface
    assert found["surface"] == expected
    assert {p["pairs"] for p in found["parties"]} == {10}
    if surface == "mplm":
        assert 0.02 < found["config"]["client"]["lr"] < 0.5


def test_the_record_holds_pairs_and_sizes_of_the_parties_and_nothing_else(tmp_path):
    with fh.LearnerFederation(party_data(), BAYES, workers=0) as federation:
        space = fh.Space(client={"var_smoothing": fh.Float(1e-9, 1.0, log=True)})
        method = flora(configs=4, folds=2, diagnose=True)
        fh.tune(federation, space, method, rounds=1, cohort=3, run=tmp_path / "run")
    assert "Slices" in (tmp_path / "run" / "surface.html").read_text()
    page = write_report([tmp_path / "run"], tmp_path / "report.html").read_text()
    assert "Local searches" in page
    assert "distance between parties" in page
    assert "paper&#x27;s emulation" in page
    with open_read(tmp_path / "run") as run:
        queries = [event for event in run.record.events() if event.kind == "query"]
    assert len(queries) == 1
    answers = unpack(queries[0].result)
    assert [answer.client for answer in answers] == [0, 1, 2]
    for answer in answers:
        assert set(answer.content) == {"configs", "losses", "size"}
        assert answer.reason is None
        assert all(space.contains(Config.from_dict(config)) for config in answer.content["configs"])
        assert all(type(loss) is float for loss in answer.content["losses"])
        assert answer.content["size"] == 48
    assert json.loads(queries[0].call)["name"] == "local_search"


def test_distances_between_the_parties_rows_are_told_unless_they_are_private():
    space = fh.Space(client={"var_smoothing": fh.Float(1e-9, 1.0, log=True)})

    def told(**settings):
        method = flora(configs=2, folds=2, diagnose=True, **settings)
        result = fh.tune(federation, space, method, rounds=1, cohort=3, seed=5)
        return result.facts["flora"]["diagnostics"]["wasserstein"]

    with fh.LearnerFederation(party_data(), BAYES, workers=0) as federation:
        apart = told()
        assert apart == federation.distances([0, 1, 2], seed=5)
        assert np.shape(apart["distances"]) == (3, 3)
        assert told(privacy=fh.LocalPrivacy(epsilon=3.0, unit="party"), sampler="tpe") is None
    assert tune(flora(configs=2, diagnose=True)).facts["flora"]["diagnostics"]["wasserstein"] is None


def test_a_run_that_is_stopped_goes_on_without_asking_again(tmp_path):
    whole = tune(flora(configs=10), run=tmp_path / "whole")
    federation = Parties()
    for kind in ("parties", "round"):
        stopped = tune(
            flora(configs=10), federation, run=tmp_path / "cut", callbacks=[lambda e, k=kind: e.kind == k]
        )
        assert stopped.status == "stopped"
    done = tune(flora(configs=10), federation, run=tmp_path / "cut")
    assert federation.asked == 1
    assert done.facts["flora"] == whole.facts["flora"]
    assert done.best_score == whole.best_score


def test_local_searches_that_are_cut_short_go_on_where_they_were(tmp_path, monkeypatch):
    space = fh.Space(client={"var_smoothing": fh.Float(1e-9, 1.0, log=True)})
    trained = []

    def tuned(name, most=math.inf):
        tell = PartySearch.tell

        def cut(self, *outcome):
            if len(trained) >= most:
                raise RuntimeError("killed")
            tell(self, *outcome)

        submit = FoldScores.submit

        def noted(self, party, config):
            trained.append(party)
            submit(self, party, config)

        with monkeypatch.context() as patch, fh.LearnerFederation(party_data(), BAYES, workers=0) as there:
            patch.setattr(PartySearch, "tell", cut)
            patch.setattr(FoldScores, "submit", noted)
            return fh.tune(there, space, flora(configs=5), rounds=1, cohort=3, run=tmp_path / name)

    whole = tuned("whole")
    assert len(trained) == 15
    trained.clear()
    with pytest.raises(RuntimeError, match="killed"):
        tuned("cut", most=9)
    journal = tmp_path / "cut" / "local-search.jsonl"
    known = len(journal.read_text().splitlines()) - 1
    assert known == 7  # of 9 configs two were under way at other parties
    trained.clear()
    again = tuned("cut")
    assert len(trained) == 15 - known
    assert again.facts["flora"] == whole.facts["flora"]
    assert again.cost["samples"] == whole.cost["samples"]
    assert not journal.exists()


def test_parties_that_fail_or_are_late_are_left_out_and_reported():
    answers = {
        0: Answer(0, Status.MISSING, reason=Reason(Why.LATE, "late: 3 of 5 configs tried in 60 s")),
        1: Answer(1, Status.OK, {"size": 5, "configs": [{"client": {"lr": 1e9}}], "losses": [0.0]}),
    }
    result = tune(flora(configs=5, diagnose=True), Parties(answers))
    told = result.facts["flora"]["parties"]
    assert [party["status"] for party in told] == ["missing", "failed", "ok"]
    assert told[0]["reason"].startswith("late")
    assert "client.lr" in told[1]["reason"]
    assert len(result.facts["flora"]["diagnostics"]["parties"]) == 1
    with pytest.raises(InputError, match=r"1 of 3 parties answered, 2 must: party 0: late"):
        tune(flora(configs=5, minimum=2), Parties(answers))
    with pytest.raises(InputError, match=r"party 0: late.*; deadline = 60 says how many seconds"):
        tune(flora(configs=5, minimum=2, deadline=60.0), Parties(answers))


@pytest.mark.parametrize(
    "content", [None, 7, {}, {"size": 5, "configs": [{}], "losses": ["x"]}, {"size": "a"}]
)
def test_answers_of_another_form_are_not_used(content):
    result = tune(flora(configs=5), Parties({2: Answer(2, Status.OK, content)}))
    assert result.facts["flora"]["parties"][2]["status"] == "failed"


def test_the_users_own_config_is_trained_where_it_is_the_best():
    space = fh.Space(client={"lr": fh.Choice([0.1, 0.001])})
    result = tune(flora(configs=2), space=space)
    assert [(t["trial"], t["rounds"]) for t in result.trials] == [(0, 4)]
    enqueued = tune(flora(configs=10), enqueue=[{"client": {"lr": 5.0}}])
    assert [t["rounds"] for t in enqueued.trials] == [0, 0, 4]


def test_privacy_is_charged_and_stated(tmp_path):
    private = fh.FLoRA(configs=8, privacy=fh.LocalPrivacy(epsilon=8.0, unit="party"))
    result = tune(private, run=tmp_path / "run")
    assert result.facts["flora"]["privacy"] | {"covers": ""} == {
        "epsilon": 8.0,
        "unit": "party",
        "sensitivity": 1.0,
        "sensitivity_is": "the score's whole range",
        "noise": "none: losses are not sent",
        "scale": 0.0,
        "release": "simulated",
        "covers": "",
        "chosen": 1,
        "of": 8,
        "epsilon_of": {"choice": 8.0, "losses": 0.0},
    }
    assert all(party["best_loss"] is None for party in result.facts["flora"]["parties"])
    assert result.facts["flora"]["predicted_loss"] is None
    with open_read(tmp_path / "run") as run:
        assert sum(event.epsilon for event in run.record.events()) == 8.0
    clear = tune(flora(configs=8)).facts["flora"]
    assert clear["parties"][0]["best_loss"] != result.facts["flora"]["parties"][0]["best_loss"]
    with pytest.raises(InputError, match="privacy of its own"):
        tune(evaluation=fh.Evaluator(privacy=fh.Privacy(epsilon=1.0)))


def test_further_trainings_tune_what_no_party_can_see():
    """The toy's server learns nothing at lr 0.1; the best is near 2, where a step goes all the way."""
    server = {"lr": fh.Float(0.1, 2.5, log=True, default=0.1)}
    space = fh.Space(client={"lr": fh.Float(1e-3, 10.0, log=True, default=0.1)}, server=server)
    once = tune(flora(configs=20), space=space)
    more = tune(flora(configs=20, refine=5), space=space, total=24)
    assert once.best_config.server["lr"] == 0.1
    assert more.cost["rounds"] == 24
    assert len(more.trials) == 1 + 6 or more.trials[0]["rounds"] == 4
    assert more.best_config.server["lr"] > 0.5
    assert more.best_score > once.best_score + 0.1
    with pytest.raises(InputError, match="24 in all"):
        tune(flora(refine=5), space=space, total=23)


def test_refinement_keeps_what_the_surface_knows():
    """With the client's optimum known, what is suggested next moves the server's lr, not the client's."""
    local = fh.Space(client={"lr": fh.Float(0, 1)})
    space = fh.Space(client={"lr": fh.Float(0, 1)}, server={"lr": fh.Float(0, 1, default=0.1)})
    configs = tuple(local.grid(41))
    pairs = PartyPairs(0, 10, configs, tuple(5 * (c.client["lr"] - 0.3) ** 2 for c in configs))
    surface = fit_surface("aplm", local, [pairs], seed=0)
    found = space.complete({"client": {"lr": 0.3}})
    guided = Guided(found, lambda: surface)
    assert guided.suggest(space, [], [], np.random.default_rng(0)) == found
    seen = [Observation(0, found, Score(0.5, 0.0, 3, 1, 0.5))]
    after = [guided.suggest(space, seen, [found], np.random.default_rng(seed)) for seed in range(5)]
    assert all(abs(config.client["lr"] - 0.3) < 0.1 for config in after)
    assert all(abs(config.server["lr"] - 0.1) > 0.2 for config in after)


# Learners


def test_a_global_hold_out_and_the_worst_party():
    """Problem 2.3: a party without training rows scores. Problem 2.4: the maximum over parties."""
    parts = [dict(zip(("train", "validation"), halves(seed), strict=True)) for seed in range(3)]
    whole = party_rows(200, 9)
    space = fh.Space(client={"var_smoothing": fh.Float(1e-9, 1.0, log=True)})
    method = flora(configs=3, folds=2)
    held = from_clients([{"train": part["train"]} for part in parts] + [{"validation": whole}])
    with fh.LearnerFederation(held, BAYES, workers=0) as federation:
        result = fh.tune(federation, space, method, rounds=1, cohort=3, objective="loss")
        x, y = whole
        guess = result.model.predict(x)
        balanced = np.mean([(guess[y == label] == label).mean() for label in (0, 1)])
        assert result.best_score == pytest.approx(1 - balanced, abs=1e-12)
        assert federation.train_clients.tolist() == [0, 1, 2]
    with fh.LearnerFederation(from_clients(parts), BAYES, workers=0) as federation:
        worst = fh.Objective("loss", over="worst")
        result = fh.tune(federation, space, method, rounds=1, cohort=3, objective=worst)
        [scores] = federation.evaluate([result.facts["best"]["trial"]], [0, 1, 2])
        assert result.best_score == scores.loss.max() > scores.loss.min()


def halves(seed):
    x, y = party_rows(60, seed)
    return (x[:40], y[:40]), (x[40:], y[40:])


def test_many_trainings_are_rounds_too():
    """The multi-shot baseline: any method, at a round a training."""
    space = fh.Space(client={"var_smoothing": fh.Float(1e-9, 1.0, log=True)})
    with fh.LearnerFederation(party_data(), BAYES, workers=0) as federation:
        result = fh.tune(federation, space, fh.TPE(), rounds=1, total=6, cohort=3, objective="loss")
        assert result.cost["rounds"] == len(result.trials) == 6
        federation.start(50, {}, 1)
        work = fh.Work(50, [0, 1], {"var_smoothing": 0.1})
        [report] = federation.round([work])
        assert (report.round, report.applied, report.train_size.tolist()) == (1, True, [48, 48])
        with pytest.raises(InputError, match="rounds must be 1"):
            federation.round([work])
        with pytest.raises(InputError, match="fork"):
            federation.fork(50, 51)
        with pytest.raises(TrialError):
            federation.evaluate([7], [0])


def test_a_trial_brought_back_from_its_file_predicts_the_same(tmp_path):
    with fh.LearnerFederation(party_data(), "sklearn.ensemble:ExtraTreesClassifier", workers=0) as federation:
        federation.start(0, {"n_estimators": 5}, 3)
        federation.start(1, {}, 3)
        federation.round([fh.Work(0, [0, 2], {"max_depth": 3})])
        [before] = federation.evaluate([0], [0, 1, 2])
        federation.save(tmp_path)
        federation.load(tmp_path)
        [after] = federation.evaluate([0], [0, 1, 2])
        assert federation.model(1) is None
    np.testing.assert_array_equal(before.loss, after.loss)
    assert np.isfinite(before.loss).all()


def test_a_training_that_fails_says_why():
    space = fh.Space(client={"var_smoothing": fh.Float(-2.0, -1.0)})
    federation = fh.LearnerFederation(party_data(), BAYES, workers=0)
    with federation, pytest.raises(fh.FedhpoError, match="var_smoothing"):
        fh.tune(federation, space, "random", rounds=1, total=1, cohort=3)


def test_collective_training_is_named_and_survives_a_checkpoint(tmp_path, monkeypatch):
    pytest.importorskip("xgboost")

    def together(parties, parameters, rounds):  # what the processes of `collective.train` come to
        x, y = (np.concatenate(part) for part in zip(*parties.values(), strict=True))
        trees = BoostedTrees(max_iter=rounds, min_samples_leaf=int(4 * parameters["min_child_weight"]))
        return bytes(trees.fit(x, y).booster_.save_raw("ubj"))

    monkeypatch.setattr(collective, "train", together)
    with fh.LearnerFederation(party_data(), "hgb", training="collective", workers=0) as federation:
        space = fh.Space(client={"max_iter": 5, "min_samples_leaf": fh.Int(1, 5)})
        result = fh.tune(federation, space, flora(configs=2, folds=2), rounds=1, cohort=3)
        assert result.facts["flora"]["training"].startswith("collective")
        assert result.best_score > 0.6
        federation.save(tmp_path)
        best, x = result.facts["best"]["trial"], party_rows(9, 5)[0]
        before = federation.model(best).predict_proba(x)
        monkeypatch.setattr(BoostedTrees, "fit", None)  # it is not trained again
        federation.load(tmp_path)
        np.testing.assert_array_equal(federation.model(best).predict_proba(x), before)


def test_a_party_that_dies_in_the_collective_fails_the_round(monkeypatch):
    def die(*_, **__):
        raise collective.CollectiveError("party 2 did not end the federated training", 2)

    monkeypatch.setattr(collective, "train", die)
    with fh.LearnerFederation(party_data(), "xgboost", training="collective", workers=0) as federation:
        federation.start(0, {}, 1)
        [report] = federation.round([fh.Work(0, [1, 2], {})])
        assert not report.applied
        assert report.status.tolist() == [Status.MISSING, Status.FAILED]
        assert "party 2" in report.reasons[1].text
        assert report.round == 0
    with pytest.raises(InputError, match="boosted trees"):
        fh.LearnerFederation(party_data(), "svm", training="collective")


def test_an_estimator_is_never_unpickled(monkeypatch, tmp_path):
    """What a checkpoint holds is numbers and facts; nothing of it goes through pickle."""
    monkeypatch.setattr(pickle, "loads", None)
    monkeypatch.setattr(pickle, "load", None)
    with fh.LearnerFederation(party_data(), BAYES, workers=0) as federation:
        space = fh.Space(client={"var_smoothing": fh.Float(1e-9, 1.0, log=True)})
        method = flora(configs=2, folds=2)
        first = fh.tune(federation, space, method, rounds=1, cohort=3, run=tmp_path / "run")
        again = fh.tune(federation, space, method, rounds=1, cohort=3, run=tmp_path / "run")
    assert again.best_score == first.best_score
    assert again.model is not None


def test_regression_too():
    """Three parties of a line with noise: the loss is 1 - R2, which a strong penalty makes worse."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3, 40, 2))
    lines = [(part, part[:, 0] + 0.1 * rng.normal(size=40)) for part in x]
    ridge = "sklearn.linear_model:Ridge"
    space = fh.Space(client={"alpha": fh.Float(1e-3, 1e4, log=True, default=1e4)})
    with fh.LearnerFederation(lines, ridge, scoring="r2", workers=0) as federation:
        result = fh.tune(federation, space, flora(folds=3), rounds=1, cohort=3, objective="loss")
    assert result.best_config.client["alpha"] < 100
    assert result.best_score < 0.1
    with fh.LearnerFederation(lines, ridge, workers=0) as federation:
        assert federation.scoring == "r2"  # by default, where targets are numbers


# Study files

STUDY = """
[data]
name = "digits"
clients = 3
partition = { kind = "iid" }
[model]
name = "estimator"
path = "sklearn.naive_bayes:GaussianNB"
scale = true
[space.client]
var_smoothing = { low = 1e-9, high = 1.0, log = true, default = 1e-9 }
[method]
name = "flora"
configs = 3
folds = 2
regressor = "gp"
[budget]
rounds = 1
cohort = 3
"""


def test_a_study_file_of_a_learner(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.toml").write_text(STUDY)
    assert main(["tune", "study.toml", "--workers", "0", "--quiet", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["flora"]["training"].startswith("pooled (the paper's emulation")
    assert [party["pairs"] for party in told["flora"]["parties"]] == [3, 3, 3]
    assert told["best"]["test"]["accuracy"] > 0.5


def test_the_example_is_one():
    study = Study.load(Path(__file__).parents[3] / "examples" / "flora.toml")
    assert study.method == fh.FLoRA(configs=25, folds=5)
    assert study.space == fh.learners.HGB.space


def test_an_empty_space_is_the_learners_own():
    tables = {"data": {"name": "digits"}, "model": {"name": "hgb", "max_iter": 20}, "space": {}}
    study = Study.from_dict({**tables, "budget": {"rounds": 1, "cohort": 3}, "method": {"name": "flora"}})
    assert study.space.names == (
        "client.l2_regularization",
        "client.learning_rate",
        "client.min_samples_leaf",
    )
    assert dict(study.space.fixed) == {"model.max_iter": 20}
    cash = Study.from_dict({**tables, "model": {"name": "cash"}, "budget": {"rounds": 1, "cohort": 3}})
    assert "model.algorithm" in cash.space.names


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"budget": {"rounds": 3}}, "budget.rounds = 3: must be 1"),
        ({"model": {"name": "svm", "gama": 1.0}}, "model.gama: unknown hyperparameter of svm 'gama'"),
        ({"model": {"name": "svn"}}, "did you mean 'svm'"),
        ({"model": {"name": "estimator"}}, "model.path is missing"),
        ({"space": {"client": {"lr": {"low": 0.1, "high": 1.0}}}}, "space.client.lr: unknown hyperparameter"),
        ({"space": {"server": {"lr": {"low": 0.1, "high": 1.0}}}}, "space.server: learners have no"),
        ({"method": {"name": "flora", "surface": "apl"}}, "method.surface"),
        ({"method": {"name": "flora", "best": 500}}, "best must lie in 1..100"),
        ({"method": {"name": "flora", "privacy": {"epsilon": -1.0}}}, "epsilon must be a positive"),
    ],
)
def test_mistakes_in_a_study_name_the_key(change, said):
    good = {
        "data": {"name": "digits"},
        "model": {"name": "svm"},
        "space": {},
        "budget": {"rounds": 1, "cohort": 3},
        "method": {"name": "flora"},
    }
    with pytest.raises(InputError, match=said.replace(".", r"\.")):
        Study.from_dict({**good, **change})


def test_wrong_settings_are_refused():
    for wrong in ({"surface": "plm"}, {"sampler": "grid"}, {"alpha": -1.0}, {"refine": -1}, {"minimum": 0}):
        with pytest.raises(InputError, match=next(iter(wrong))):
            flora(**wrong)
    with pytest.raises(InputError, match="a maximum"):
        flora(surface="mplm", weighting="size")
    with pytest.raises(InputError, match="nothing to tune"):
        tune(space=fh.Space(client={"lr": 0.1}, server={"lr": fh.Float(0.1, 1.0)}))
