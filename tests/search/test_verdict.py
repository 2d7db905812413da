"""What is said of a gain, and that every place says the same figures."""

import json

import pytest

import fedhpo as fh
from fedhpo.cli import main
from fedhpo.cli.summary import summary
from fedhpo.figures.reading import load_view
from fedhpo.report.page import page
from fedhpo.search.verdict import verdict_of
from fedhpo.testing import ToyFederation

SPACE = fh.Space(client={"lr": fh.Float(1e-3, 10.0, log=True, default=0.1)})
WORSE = fh.Space(client={"lr": fh.Float(1e-3, 2e-3, log=True, default=2e-3)})


def facts(value, error, *, trial=1, round=40, rounds=40):
    gain = {"value": value, "standard_error": error, "clients": 50, "round": round}
    return {"best": {"trial": trial, "rounds": rounds}, "gain": gain, "trials": [{"trial": 0}, {"trial": 1}]}


@pytest.mark.parametrize(
    ("given", "kind", "improved", "use"),
    [
        (facts(0.11, 0.02), "improved", True, "tuned"),
        (facts(0.04, 0.02), "improved", True, "tuned"),
        (facts(0.03, 0.02), "not certain", None, "tuned"),
        (facts(0.03, None), "not certain", None, "tuned"),
        (facts(0.0, 0.02), "no improvement", False, "own"),
        (facts(-0.0233, 0.01), "no improvement", False, "own"),
        (facts(-0.0233, 0.01, round=11), "no improvement", False, "tuned"),
        (facts(0.0, 0.0, trial=0), "no improvement", False, "own"),
        (facts(None, None), "not known", None, "tuned"),
        ({**facts(0, 0), "gain": None}, "not known", None, "tuned"),
        ({**facts(0, 0), "best": None}, "not known", None, "tuned"),
    ],
)
def test_the_verdict(given, kind, improved, use):
    found = verdict_of(given)
    assert (found.kind, found.improved, found.use) == (kind, improved, use)
    assert ("keep your config" in found.text) == (kind == "no improvement")


class Only(fh.RandomSearch):
    """Trains what the sampler suggests, and not the user's own config, as single-shot methods do."""

    name = "only"

    def run(self, search):
        tuner = self.tuner()
        _, trial = search.start(2, tuner.sampler, tuner.policy)
        search.eliminate(search.trials[:1])
        search.train([trial], search.rounds)
        search.evaluate([trial])
        search.finish([trial])
        return search.best([trial])


def test_a_config_that_is_worse_than_the_own_is_not_used(tmp_path):
    """Of lr in [0.001, 0.002] the largest, which is the default, is best: whatever is drawn is worse."""
    result = fh.tune(
        ToyFederation(noise=0.0),
        WORSE,
        Only(),
        rounds=4,
        total=8,
        cohort=3,
        baseline=True,
        run=tmp_path / "run",
    )
    assert result.gain["value"] < 0
    assert result.improved is False
    assert result.facts["best"]["trial"] == 1
    assert result.best_config == WORSE.default() != result.tuned_config
    assert result.best_score == result.facts["baseline"]["validation"]["value"]
    assert "no improvement: keep your config" in str(result)
    stored = json.loads((tmp_path / "run" / "result.json").read_text())
    assert stored["verdict"]["kind"] == "no improvement"
    shown = summary(stored, tmp_path / "run", tmp_path / "report.html")
    assert "no improvement: keep your config" in shown
    assert "config to use" in shown
    view = load_view(tmp_path / "run")
    assert not view.winner_is_used
    told = page([view])
    assert "No improvement: keep your config" in told
    assert "Config to use" in told
    assert ">winner<" not in told


def test_rounds_are_the_same_wherever_they_are_told(tmp_path, capsys):
    result = fh.tune(
        ToyFederation(),
        SPACE,
        fh.SHA(trials=9, finalists=1),
        rounds=8,
        total=48,
        cohort=4,
        baseline=True,
        seed=1,
        run=tmp_path / "a",
    )
    cost, own = result.cost, result.cost["baseline_rounds"]
    assert own > 0
    assert cost["rounds"] + own == cost["all_rounds"]
    assert cost["rounds"] + cost["unspent_rounds"] == cost["budget"]["rounds"] == 48
    assert sum(row["kind"] == "round" for row in result.history) == cost["all_rounds"]
    assert main(["runs", str(tmp_path), "--json"]) == 0
    [listed] = json.loads(capsys.readouterr().out)["runs"]
    assert (listed["rounds"], listed["baseline_rounds"]) == (cost["rounds"], own)
    assert listed["spent"]["rounds"] == cost["all_rounds"]
    told = summary(result.facts, tmp_path / "a", tmp_path / "report.html")
    assert f"{cost['rounds']} of 48 rounds, {own} more for your own config" in told
    shown = page([load_view(tmp_path / "a")])
    assert f"{own} more for your config" in shown
    assert max(one.spent for one in load_view(tmp_path / "a").incumbents) <= cost["rounds"]


def test_the_report_of_a_stopped_run_says_what_the_result_said(tmp_path):
    seen = []

    def stop(event):
        seen.append(event.kind)
        return seen.count("evaluate") == 2

    objective = fh.Objective(over="worst")
    options = {"rounds": 8, "total": 48, "cohort": 4, "objective": objective, "run": tmp_path / "a"}
    result = fh.tune(ToyFederation(), SPACE, fh.SHA(trials=9), callbacks=[stop], **options)
    view = load_view(tmp_path / "a")
    assert result.status == view.result["status"] == "stopped"
    assert view.result["best"]["trial"] == result.facts["best"]["trial"]
    assert view.result["best"]["validation"]["value"] == result.best_score
    assert view.incumbents[-1].trial == result.facts["best"]["trial"]
    assert view.incumbents[-1].value == pytest.approx(result.best_score)


def test_learners_have_one_metric_in_search_and_result():
    from fedhpo.testing.parties import BAYES, party_data

    space = fh.Space(client={"var_smoothing": fh.Float(1e-9, 1.0, log=True)})
    method = fh.FLoRA(configs=4, folds=2, diagnose=False, regressor="gp")
    for given, metric, loss in (
        (None, "balanced_accuracy", "1 - balanced_accuracy"),
        ("error", "error", "1 - accuracy"),
        ("loss", "loss", "1 - balanced_accuracy"),
    ):
        with fh.LearnerFederation(party_data(), BAYES, workers=0) as federation:
            asked = []
            query = federation.query
            federation.query = lambda task, clients, q=query, a=asked: (
                a.append(task.scoring),
                q(task, clients),
            )[1]
            result = fh.tune(federation, space, method, rounds=1, cohort=3, objective=given)
        assert result.facts["objective"]["metric"] == metric
        assert result.facts["flora"]["loss"] == loss
        assert asked == [{"error": "accuracy"}.get(metric, metric)]
        rows = [r for r in result.history if r["kind"] == "evaluate" and r["split"] == "validation"]
        column = {"balanced_accuracy": 1 - rows[-1]["loss"], "error": 1 - rows[-1]["accuracy"]}
        assert result.best_score == pytest.approx(column.get(metric, rows[-1]["loss"]))


def test_balanced_accuracy_is_refused_where_nobody_scores_it():
    with pytest.raises(fh.InputError, match="'balanced_accuracy': ToyFederation has"):
        fh.tune(ToyFederation(), SPACE, rounds=8, cohort=4, objective="balanced_accuracy")
