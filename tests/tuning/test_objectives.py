"""Several objectives and constraints, from `fedhpo.tune` and a study file to result, report and export."""

import json

import numpy as np
import pytest

import fedhpo as fh
from fedhpo import InputError
from fedhpo.core.pareto import fronts
from fedhpo.protocol.objective import Score
from fedhpo.search.channel import best_first
from fedhpo.search.trial import Trial

SPACE = fh.Space(
    client={"lr": fh.Float(1e-3, 1.0, log=True)},
    server={"lr": 1.0},
    model={"hidden": fh.Int(4, 64, log=True)},
)


@pytest.fixture(scope="module")
def federation():
    with fh.simulate("mlp", fh.load("digits", clients=10), workers=0) as opened:
        yield opened


def tuned(federation, method="random", **more):
    more = {"objectives": ["accuracy", "bytes_up"], **more}
    return fh.tune(federation, SPACE, method, rounds=3, total=24, cohort=4, **more)


@pytest.mark.parametrize("method", ["random", "sha", "hyperband", "tpe", "gp"])
def test_the_pareto_set_is_what_no_trial_beats(federation, method):
    result = tuned(federation, method)
    longest = [t for t in result.facts["trials"] if t["rounds"] == 3 and t["score"] is not None]
    values = [[-t["objectives"]["accuracy"], t["objectives"]["bytes_up"]] for t in longest]
    expected = {t["trial"] for t, front in zip(longest, fronts(np.array(values)), strict=True) if front == 0}
    assert {row["trial"] for row in result.pareto} == expected
    assert result.pareto[0]["trial"] == result.facts["best"]["trial"]  # the best of the first objective
    hidden = result.pareto[0]["model.hidden"]
    parameters = 64 * hidden + hidden + 10 * hidden + 10
    # Updates of four clients in each of three rounds; they send a few numbers beside.
    assert 0 <= result.pareto[0]["bytes_up"] - 3 * 4 * 4 * parameters < 3 * 4 * 100
    assert "Pareto set" in str(result)


def test_halving_keeps_the_ends_of_the_front_not_the_two_most_accurate():
    def trial(number, accuracy, size, violation=0.0):
        other = Score(size, 0.0, 0, 3, size)
        score = Score(accuracy, 0.0, 9, 3, -accuracy, others=(other,), violation=violation)
        return Trial(number, SPACE.default(), None, (), scores=[score])

    rung = [trial(0, 0.9, 100), trial(1, 0.89, 99), trial(2, 0.5, 10), trial(3, 0.95, 90, violation=0.1)]
    assert [t.number for t in best_first(rung, fh.Evaluator(), fh.Objective())] == [0, 2, 1, 3]


def test_halving_has_more_finalists_where_there_is_no_one_winner(federation):
    ended = [
        sum(t["status"] == "finished" for t in result.facts["trials"])
        for result in (
            tuned(federation, "sha"),
            fh.tune(federation, SPACE, "sha", rounds=3, total=24, cohort=4),
        )
    ]
    assert ended == [4, 3]  # 24 rounds are eight trainings


def test_a_trial_that_breaks_a_constraint_loses_to_all_that_keep_them(federation):
    free = tuned(federation)
    limit = float(np.median([t["objectives"]["bytes_up"] for t in free.facts["trials"]]))
    bound = tuned(federation, constraints=[f"bytes_up <= {limit}"])
    kept = [t for t in bound.facts["trials"] if t["objectives"]["bytes_up"] <= limit]
    assert all(t["violation"] == 0 for t in kept)
    assert len(kept) < len(bound.facts["trials"])
    best = max(kept, key=lambda t: t["score"])
    assert bound.facts["best"]["trial"] == best["trial"]
    assert all(row["bytes_up"] <= limit for row in bound.pareto)


def test_with_constraints_alone_the_best_is_the_best_that_keeps_them(federation):
    one = fh.tune(
        federation, SPACE, "random", rounds=3, total=24, cohort=4, constraints=["bytes_up <= 20000"]
    )
    able = [t for t in one.facts["trials"] if t["constraints"]["bytes_up <= 20000"] <= 20000]
    assert one.facts["best"]["trial"] == max(able, key=lambda t: t["score"])["trial"]


def test_it_is_said_where_no_trial_keeps_them(federation):
    result = tuned(federation, constraints=["bytes_up <= 1"])
    assert len(result.pareto) == 0
    assert "no trial keeps all constraints" in str(result)
    least = min(result.facts["trials"], key=lambda t: t["objectives"]["bytes_up"])
    assert result.facts["best"]["trial"] == least["trial"]


def test_mean_against_the_worst_tenth(federation):
    result = tuned(federation, objectives=["accuracy", fh.Objective("accuracy", over="tail", tail=0.2)])
    assert all(row["accuracy_tail"] <= row["accuracy"] for row in result.pareto)


def test_a_run_is_resumed_with_the_same_objectives_only(federation, tmp_path):
    first = tuned(federation, run=tmp_path / "run")
    again = tuned(federation, run=tmp_path / "run")
    assert list(first.pareto) == list(again.pareto)
    with pytest.raises(InputError, match=r"objectives|constraints"):
        tuned(federation, run=tmp_path / "run", constraints=["bytes_up <= 20000"])


def test_the_report_and_the_plot_show_the_set(federation, tmp_path):
    result = tuned(federation, run=tmp_path / "run", constraints=["bytes_up <= 20000"])
    figure = result.plot.pareto()
    by_name = {trace.name: trace for trace in figure.data}
    assert list(by_name["Pareto set"].x) == sorted(row["bytes_up"] for row in result.pareto)
    assert len(by_name["breaks a constraint"].x) == sum(t["violation"] > 0 for t in result.facts["trials"])
    page = fh.write_report([tmp_path / "run"], tmp_path / "report.html").read_text()
    assert "What can be had for what" in page
    assert "bytes_up &lt;= 20000" in page
    with pytest.raises(InputError, match="unknown objective 'byte'"):
        result.plot.pareto("byte")


def test_an_exported_study_of_optuna_has_all_objectives(federation, tmp_path):
    optuna = pytest.importorskip("optuna")
    from fedhpo.tuning.export import export

    result = tuned(federation)
    storage = f"sqlite:///{tmp_path / 'trials.db'}"
    export(result, "optuna", storage)
    study = optuna.load_study(study_name="fedhpo", storage=storage)
    assert [d.name for d in study.directions] == ["MAXIMIZE", "MINIMIZE"]
    theirs = {trial.user_attrs["trial"] for trial in study.best_trials}
    assert theirs == {row["trial"] for row in result.pareto}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"objectives": "accuracy"}, "objectives must be a list"),
        ({"objectives": []}, "objectives is empty"),
        ({"objectives": ["bytes_up", "accuracy"]}, r"objectives\[0\]: bytes_up is a cost"),
        ({"objectives": ["acuracy"]}, r"objectives\[0\]: unknown objective 'acuracy'"),
        ({"objectives": ["accuracy", "bites"]}, r"objectives\[1\]: unknown objective 'bites'"),
        ({"objectives": ["accuracy", "accuracy"]}, "'accuracy' twice"),
        ({"objectives": ["accuracy", {"metric": "bytes", "over": "tail"}]}, "it takes no over"),
        ({"objective": "accuracy"}, "give one of them"),
        ({"constraints": "bytes_up <= 3"}, "constraints must be a list"),
        ({"constraints": ["bytes_up"]}, r"constraints\[0\]: a constraint is written"),
        ({"method": "fedpop"}, "fedpop goes by one objective"),
        ({"method": "robust"}, "robust goes by one objective"),
        ({"evaluation": fh.Evaluator(privacy=fh.Privacy(epsilon=1.0))}, "cannot go with privacy"),
    ],
)
def test_mistakes_are_told_before_anything_is_trained(federation, given, said):
    with pytest.raises(InputError, match=said):
        tuned(federation, **given)


STUDY = {
    "objectives": ["accuracy", "bytes_up"],
    "constraints": ["accuracy_worst >= 0.0"],
    "data": {"name": "digits", "clients": 10},
    "model": {"name": "mlp"},
    "space": SPACE.to_dict(),
    "budget": {"rounds": 3, "total": 12, "cohort": 4},
    "method": {"name": "random"},
}


def test_a_study_file_says_the_same_as_python(federation, tmp_path):
    ours = fh.Study.from_dict(STUDY).tune(tmp_path / "run", workers=0)
    theirs = fh.tune(
        federation,
        SPACE,
        "random",
        rounds=3,
        total=12,
        cohort=4,
        objectives=["accuracy", "bytes_up"],
        constraints=["accuracy_worst >= 0.0"],
    )
    assert list(ours.pareto) == list(theirs.pareto)
    kept = json.loads((tmp_path / "run" / "result.json").read_text())
    assert kept["pareto"] == [row["trial"] for row in ours.pareto]
    assert [one["name"] for one in kept["objectives"]] == ["accuracy", "bytes_up"]


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"objectives": ["accuracy", "bites"]}, "objectives[1]: unknown objective 'bites'"),
        ({"constraints": ["bytes_up < 3"]}, "constraints[0]: a constraint is written"),
        ({"objective": {"metric": "loss"}}, "leave out [objective]"),
        ({"method": {"name": "fedtune"}}, "fedtune goes by one objective"),
    ],
)
def test_a_study_file_with_a_mistake_names_the_key(table, said):
    with pytest.raises(InputError) as error:
        fh.Study.from_dict({**STUDY, **table}, path="study.toml")
    assert str(error.value).startswith("study.toml: ")
    assert said in str(error.value)
