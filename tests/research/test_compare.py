"""Methods compared: the statistics, on a table, live, and at the command line."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedhpo.cli import main
from fedhpo.core.errors import InputError
from fedhpo.research.compare import Comparison, compare_live, compare_on_table
from fedhpo.research.compare.statistics import in_words, mean_ranks, pairs, sign_p, signed_rank_p
from fedhpo.research.incumbents import value_at
from fedhpo.research.statistics import holm
from fedhpo.research.tables import load_table
from fedhpo.research.tables.replay import replay
from fedhpo.study import Study
from fedhpo.testing.table import toy_table


@given(st.lists(st.floats(-1, 1).filter(bool), min_size=1, max_size=12, unique_by=abs))
def test_the_signed_rank_test_is_scipy_s_where_nothing_is_tied(differences):
    expected = stats.wilcoxon(differences, method="exact").pvalue
    assert signed_rank_p(differences) == pytest.approx(expected)


def test_ties_are_exact_too():
    # Ranks 1.5, 1.5, 3: of 8 sign patterns the sums 6 and 0 come up once each.
    assert signed_rank_p([1, 1, 2]) == 2 / 8
    assert signed_rank_p([1, -1]) == 1
    assert signed_rank_p([0, 0]) == 1
    assert signed_rank_p([0, 1, 2, 3, 4, 5]) == 2 / 2**5


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_never_lowers_a_p_value_and_keeps_their_order(p_values):
    found = holm(p_values)
    assert all(new >= old for new, old in zip(found, p_values, strict=True))
    assert all(new <= 1 for new in found)
    assert found[int(np.argmin(p_values))] == pytest.approx(min(1, len(p_values) * min(p_values)))
    order = np.argsort(p_values, kind="stable")
    assert (np.diff(np.array(found)[order]) >= 0).all()


def test_a_known_comparison():
    scores = {"a": [0.1, 0.2, 0.3, 0.1, 0.2, 0.3], "b": [0.2, 0.3, 0.4, 0.3, 0.3, 0.5]}
    [pair] = pairs(scores, maximise=False)
    assert (pair.wins, pair.losses, pair.ties) == (6, 0, 0)
    assert pair.median_difference == pytest.approx(0.1)
    assert pair.wilcoxon_p == pair.sign_p == sign_p(6, 0) == 2 / 2**6
    assert mean_ranks(scores, maximise=False) == {"a": 1.0, "b": 2.0}
    assert mean_ranks(scores, maximise=True) == {"a": 2.0, "b": 1.0}
    words = in_words([pair], 6)
    assert words[0].startswith("a is better than b (in 6 of 6 seeds, worse in 0; median difference 0.1000")


def test_a_worse_first_method_is_named_second():
    [pair] = pairs({"a": [0.1] * 8, "b": list(np.arange(2, 10) / 10)}, maximise=True)
    assert in_words([pair], 8)[0].startswith("b is better than a (in 8 of 8 seeds")


def test_too_few_seeds_are_told():
    [pair] = pairs({"a": [0.1, 0.2, 0.3], "b": [0.2, 0.3, 0.4]}, maximise=False)
    [line] = in_words([pair], 3)
    assert "smallest p-value that can come out is 0.25" in line


def test_no_difference_is_no_equality():
    same = {"a": [0.1, 0.2] * 5, "b": [0.2, 0.1] * 5}
    words = in_words(pairs(same, maximise=False), 10)
    assert words[0].startswith("No difference between methods is significant")
    assert "does not show that the methods are equal" in words[0]


def test_values_between_incumbents():
    run = [(9, 0.5), (27, 0.3)]
    assert np.isnan(value_at(run, 8))
    assert [value_at(run, spent) for spent in (9, 26, 27, 100)] == [0.5, 0.5, 0.3, 0.3]
    comparison = Comparison("c", "error", False, 30, [0, 1], {"m": [run, [(3, 0.7)]]}, {})
    assert comparison.scores(1 / 3) == {"m": [0.5, 0.7]}
    assert comparison.quartiles("m", [30])[:, 0].tolist() == pytest.approx([0.4, 0.5, 0.6])
    assert comparison.grid == [3, 9, 27, 30]


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    path = tmp_path_factory.mktemp("toy") / "toy.table"
    toy_table(configs=40, rounds=27, clients=20, total=216).save(path)
    return path


def test_on_a_table_each_run_is_a_replay(toy):
    comparison = compare_on_table(toy, ["random", "hyperband"], [0, 3])
    table = load_table(toy)
    alone = replay(table, "hyperband", seed=3)
    assert comparison.runs["hyperband"][1] == alone.incumbents
    assert comparison.total == 216
    assert comparison.metric == "error"
    assert len(comparison.runs["random"][0]) > 1  # one trial after the other: incumbents on the way


def test_processes_change_nothing(toy, monkeypatch):
    alone = compare_on_table(toy, ["random", "hyperband"], [0, 1], workers=1)
    monkeypatch.setattr("fedhpo.research.compare.on_table._WORTH_PROCESSES", 4)
    together = compare_on_table(toy, ["random", "hyperband"], [0, 1], workers=2)
    assert together.runs == alone.runs


def test_a_study_says_how_scores_are_observed(toy):
    table = load_table(toy)
    noisy = Study.from_dict({**table.study_tables, "evaluation": {"clients": 1}})
    seeds = range(12)
    clear = compare_on_table(toy, ["random"], seeds, workers=1)
    hard = compare_on_table(toy, ["random"], seeds, study=noisy, workers=1)
    assert np.mean(hard.scores()["random"]) > np.mean(clear.scores()["random"]) + 0.01
    other = {**table.study_tables, "space": {"client": {"lr": {"low": 0.1, "high": 1.0}}}}
    with pytest.raises(InputError, match="space: must be that of table toy"):
        compare_on_table(toy, ["random"], [0], study=Study.from_dict(other))
    longer = {**table.study_tables, "budget": {"rounds": 50}}
    with pytest.raises(InputError, match=r"budget\.rounds = 50: must be 27"):
        compare_on_table(toy, ["random"], [0], study=Study.from_dict(longer))
    with pytest.raises(InputError, match="did you mean 'hyperband'"):
        compare_on_table(toy, ["hyperbnad"], [0])


LIVE = {
    "data": {"name": "digits", "clients": 10},
    "model": {"name": "linear"},
    "space": {"client": {"lr": {"low": 0.001, "high": 1.0, "log": True}}},
    "evaluation": {"clients": 2},
    "budget": {"rounds": 3, "total": 9, "cohort": 3},
}


def test_live_runs_are_kept_and_go_on(tmp_path):
    study = Study.from_dict(LIVE, path="live.toml")
    whole = compare_live(study, ["random", "hyperband"], [0, 1], runs=tmp_path / "whole", workers=0)
    assert sorted(path.name for path in (tmp_path / "whole").iterdir() if path.is_dir()) == [
        "hyperband-0",
        "hyperband-1",
        "random-0",
        "random-1",
    ]
    again = compare_live(study, ["random", "hyperband"], [0, 1], runs=tmp_path / "whole", workers=0)
    assert again.runs == whole.runs

    def stopping(method, seed):
        return [lambda event: (method, seed, event.kind) == ("hyperband", 0, "evaluate")]

    methods = ["random", "hyperband"]
    with pytest.raises(KeyboardInterrupt):
        compare_live(study, methods, [0, 1], runs=tmp_path / "cut", workers=0, progress=stopping)
    resumed = compare_live(study, methods, [0, 1], runs=tmp_path / "cut", workers=0)
    assert resumed.runs == whole.runs


def test_live_truth_is_over_all_clients(tmp_path):
    comparison = compare_live(Study.from_dict(LIVE), ["random"], [0], runs=tmp_path / "runs", workers=0)
    result = json.loads((tmp_path / "runs/random-0/result.json").read_text())
    best = result["best"]
    spent, truth = comparison.runs["random"][0][-1]
    assert spent == 9
    everything = Study.from_dict({**LIVE, "evaluation": {}, "method": {"name": "random", "side_by_side": 1}})
    full = everything.tune(workers=0)
    [same] = [trial for trial in full.facts["trials"] if trial["config"] == best["config"]]
    assert truth == pytest.approx(same["score"])


def test_the_command(toy, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    arguments = [
        "compare",
        "--table",
        str(toy),
        "-m",
        "random",
        "-m",
        "sha",
        "--seeds",
        "8",
        "--workers",
        "1",
    ]
    assert main([*arguments, "--total", "162", "--clients", "5", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["total"] == 162
    assert told["setting"]["evaluation"]["clients"] == 5
    assert {row["method"] for row in told["methods"]} == {"random", "sha"}
    assert [len(runs) for runs in told["runs"].values()] == [8, 8]
    page = (tmp_path / told["report"]).read_text()
    for part in ("<h2>Results</h2>", "<h2>More than chance?</h2>", "random – sha", told["in_words"][0][:30]):
        assert part in page
    assert main([*arguments, "--out", "page.html"]) == 0
    assert "true error of the incumbent, median (quartiles) over 8 seeds:" in capsys.readouterr().out
    assert (tmp_path / "page.html").is_file()
    assert main(["compare"]) == 2
    assert "STUDY or --table" in capsys.readouterr().err
    assert main(["compare", "--table", "nowhere"]) == 2
    assert "unknown table 'nowhere'" in capsys.readouterr().err


def test_every_setting_of_an_evaluation_can_be_given():
    from fedhpo.cli import parser
    from fedhpo.cli.compare import adjusted
    from fedhpo.research.tables import load_table

    study = load_table("mnist").study
    asked = ["--clients", "5", "--no-paired", "--bias", "1.5", "--epsilon", "10", "--mechanism", "topk"]
    asked += ["--evaluations", "40", "--minimum", "0.8", "--accounting", "basic"]
    found = adjusted(study, parser().parse_args(["compare", "--table", "mnist", *asked])).evaluator
    assert (found.clients, found.paired, found.bias, found.average) == (5, False, 1.5, "last")
    assert found.privacy is not None
    assert (found.privacy.epsilon, found.privacy.mechanism) == (10.0, "topk")
    assert (found.privacy.evaluations, found.privacy.minimum, found.privacy.accounting) == (40, 0.8, "basic")
    averages = ["--clients", "5", "--average", "recent"]
    recent = adjusted(study, parser().parse_args(["compare", "--table", "mnist", *averages]))
    assert (recent.evaluator.average, recent.evaluator.paired) == ("recent", study.evaluator.paired)
    with pytest.raises(InputError, match="mechanism"):
        adjusted(
            study,
            parser().parse_args(["compare", "--table", "mnist", "--epsilon", "1", "--mechanism", "none"]),
        )


def test_keys_that_only_other_methods_honour_are_set_aside():
    from fedhpo.research.compare.methods import with_method

    study = Study.from_dict(
        {
            "data": {"name": "digits", "clients": 10},
            "model": {"name": "linear"},
            "space": {"client": {"lr": {"low": 0.01, "high": 1.0}}},
            "budget": {"rounds": 4, "total": 24, "cohort": 3},
            "evaluation": {"clients": 5, "average": "recent"},
            "method": {"name": "sha", "trials": 4},
        }
    )
    found = {name: with_method(study, name) for name in ("sha", "random", "fedtune")}
    assert {name: one.evaluator.average for name, one in found.items()} == {
        "sha": "recent",
        "random": "last",
        "fedtune": "last",
    }
    assert [found[name].file.budget.total for name in found] == [24, 24, None]
    assert {one.evaluator.clients for one in found.values()} == {5}
