"""The reproduction of FLoRA: published figures, verdicts by made-up rows, and a table at smoke scale."""

import json
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedhpo.cli import main
from fedhpo.core.errors import InputError
from fedhpo.methods.flora.surfaces import SURFACES
from fedhpo.space.config import Config
from fedhpo_papers import reproduction
from fedhpo_papers.flora import command as flora
from fedhpo_papers.flora import data
from fedhpo_papers.flora.claims import CASES, judge, tally, wilcoxon
from fedhpo_papers.flora.figures import html, improvements
from fedhpo_papers.flora.page import differences
from fedhpo_papers.flora.paper import FEW, MAIN, PARTIES, SENT, TALLY, TREES, TRIED
from fedhpo_papers.flora.settings import SCALES
from fedhpo_papers.flora.work import CENTRAL, Recommend, Search, do_all, read_lines

Row = dict[str, Any]


def published(learner: str) -> list[Row]:
    """The paper's own rows, as ours are."""
    part = {"hgb": "table7", "svm": "table8", "mlp_sklearn": "table9"}[learner]
    return [
        {
            "part": part,
            "set": name,
            "learner": learner,
            "defaults": [0.5],
            "baseline": [0.5],
            "regrets": dict(zip(SURFACES, paper.regrets, strict=True)),
            "accuracies": {s: 0.5 + (1 - r) / 10 for s, r in zip(SURFACES, paper.regrets, strict=True)},
            "savings": dict.fromkeys(SURFACES, 8),
        }
        for name, paper in MAIN[learner].items()
    ]


def test_published_figures_agree_with_each_other() -> None:
    """Its tests and counts (Table 10) follow from the regrets of Tables 7 to 9, gamma from PMax / PMin."""
    everything = [row for learner in MAIN for row in published(learner)]
    assert len(everything) == CASES == 20
    for surface, (counts, statistic, p) in zip(SURFACES, TALLY["overall"], strict=True):
        found = wilcoxon(everything, surface)
        assert found == (statistic, pytest.approx(p, abs=1e-5))
        assert "/".join(map(str, tally(everything, surface))) == counts
    for rows in MAIN.values():
        for paper in rows.values():
            assert paper.pmax / paper.pmin == pytest.approx(paper.gamma, abs=0.006)
    for name, rows in PARTIES.items():
        assert rows[3][1] == MAIN["hgb"][name].regrets
    assert all(len(rows) == len(FEW) for table in (TRIED, SENT) for rows in table.values())


def verdicts(rows: Sequence[Row]) -> dict[str, str]:
    return {verdict.claim: verdict.verdict for verdict in judge(rows)}


def test_the_papers_own_rows_bear_out_its_claims() -> None:
    found = verdicts([row for learner in MAIN for row in published(learner)])
    assert found["APLM beats the default config in at least 15 of 20 cases"] == "holds"
    assert found["Every surface wins more often than it loses against the default"] == "holds"
    assert found["Every surface improves on the default by a Wilcoxon test (p < 0.05)"] == "holds"
    assert found["APLM is the best overall: the most wins and the least p"] == "holds"
    # Its text says so; its own Table 10 has 1.01 for SGM+U.
    assert found["The third quartile of regrets is below 1 for every surface"] == "does not hold"


def test_few_cases_decide_little() -> None:
    rows = [row for learner in MAIN for row in published(learner)[:2]]
    found = verdicts(rows)
    assert found["APLM beats the default config in at least 15 of 20 cases"] == "undecided"
    lost = [{**row, "accuracies": dict.fromkeys(SURFACES, 0.4)} for row in rows]
    assert verdicts(lost)["APLM beats the default config in at least 15 of 20 cases"] == "does not hold"


def test_defaults_near_the_papers() -> None:
    claim = "HGB's default config scores within 3 points of SSBaseline on at least six of seven sets"

    def rows(*off: float) -> list[Row]:
        made = published("hgb")[: len(off)]
        for row, points in zip(made, off, strict=True):
            row["baseline"] = [(MAIN["hgb"][row["set"]].default + points) / 100] * 3
        return made

    assert verdicts(rows(2.9, -2.9, 0, 0, 0, 0, 9))[claim] == "holds"
    assert verdicts(rows(3.1, -3.1))[claim] == "does not hold"
    assert verdicts(rows(3.1, 0, 0))[claim] == "undecided"


def test_means_decide_only_by_two_standard_errors_of_the_differences() -> None:
    claim = "With HGB, SGM+U, MPLM and APLM have a lower mean regret than SGM"

    def rows(gains: Sequence[float]) -> list[Row]:
        others = {name: [0.5 - gain for gain in gains] for name in SURFACES[1:]}
        columns = {"sgm": [0.5] * 7, **others}
        return [
            {**row, "regrets": {name: columns[name][place] for name in SURFACES}}
            for place, row in enumerate(published("hgb"))
        ]

    assert verdicts(rows([0.1, 0.2, 0.1, 0.2, 0.1, 0.2, 0.1]))[claim] == "holds"
    # The mean is 1/7, its standard error as large: one case alone.
    assert verdicts(rows([1.0, 0, 0, 0, 0, 0, 0]))[claim] == "undecided"
    assert verdicts(rows([-0.1, -0.2, -0.1, -0.2, -0.1, -0.2, -0.1]))[claim] == "does not hold"
    assert verdicts(rows([0.1, 0.2, 0.1, 0.2, 0.1, 0.2, 0.1])[:6])[claim] == "undecided"


def test_few_pairs_are_compared_case_by_case() -> None:
    claim = "Fewer than 20 pairs sent are too few for APLM: a larger regret than with 40 and more"

    def rows(*gaps: float) -> list[Row]:
        return [
            {
                "part": "table13",
                "learner": "svm",
                "set": f"set {case}",
                "sent": sent,
                "regrets": dict.fromkeys(SURFACES, case + (gap if sent < 20 else 0)),
            }
            for case, gap in enumerate(gaps)
            for sent in FEW
        ]

    (found,) = judge(rows(0.5, 0.7, 0.6, 0.6))
    assert (found.claim, found.verdict) == (claim, "holds")
    assert found.here == "2.10 against 1.50: +0.60 ± 0.04"
    (found,) = judge(rows(4.0, 0.0, 0.0, 0.0))
    assert found.verdict == "undecided"


def test_scales_say_where_they_are_smaller() -> None:
    assert differences(SCALES["paper"]) == []
    said = differences(SCALES["default"])
    assert "200 evaluations of the centralised search, not 600" in said
    assert "electricity: 100 evaluations of the centralised search" in said
    assert "electricity: 15000 rows" in said
    assert "eeg_eye_state: 4000 rows (svm)" in said
    paper = SCALES["paper"]
    assert (paper.tries, paper.evaluations, paper.folds, paper.tree_tries) == (100, 600, 10, 500)


def test_the_tasks_of_the_papers_tables() -> None:
    """7, 6 and 7 sets; 5 + 6 + 3 numbers of parties; 4 cases of 6 numbers, twice; 4 imbalances; 3 sets."""
    counts = {part: len(flora.recommendations(part, SCALES["paper"])) for part in flora.PARTS}
    assert [counts[f"table{n}"] for n in (7, 8, 9, 11, 12, 13, 14, 15)] == [7, 6, 7, 14, 24, 24, 4, 3]
    (task,) = (t for t in flora.recommendations("table7", SCALES["paper"]) if t.problem.set == "sonar")
    searches = flora.searches_of(task, SCALES["paper"])
    assert [(s.party, s.tries) for s in searches] == [(0, 100), (1, 100), (2, 100), (CENTRAL, 600)]


def test_regret_and_what_it_takes_to_match() -> None:
    assert flora.regret(0.9, 0.8, 0.9) == 0
    assert flora.regret(0.9, 0.8, 0.7) == 2
    assert math.isnan(flora.regret(0.8, 0.8, 0.9))


@pytest.fixture
def real(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of this test's own."""
    monkeypatch.setenv("FEDHPO_CACHE", str(tmp_path / "cache"))


def test_a_search_of_many_trainings_is_drawn_beside_one_training() -> None:
    row = {
        "part": "table8",
        "set": "sonar",
        "defaults": [0.5],
        "best": 0.75,
        "evaluations": 9,
        "curve": improvements([0.75, 0.5, 0.5, 0.25]),  # regrets 2, 1, 1, 0
        "regrets": dict.fromkeys(SURFACES, 0.5),
    }
    even = {**row, "set": "pollen", "best": 0.5}  # the default is the best: no regret to draw
    page = html({"scale": "smoke", "rows": [row, even]}, ["SGM", "SGM+U", "MPLM", "APLM"], [])
    assert "sonar" in page
    assert "pollen" not in page
    drawn = re.findall(r'<polyline points="([^"]*)"', page)
    assert len(drawn) == 6
    search = [tuple(map(float, point.split(","))) for point in drawn[0].split()]
    across, down = zip(*search, strict=True)
    assert across == tuple(sorted(across))
    assert (across[0], across[-1]) == (44, 340)  # from the first training to the last
    assert [round((y - down[0]) / (down[-1] - down[0]), 2) for y in down] == [0, 0, 0.5, 0.5, 1, 1]


@pytest.mark.data
@pytest.mark.usefixtures("real")
def test_rows_are_dealt_class_by_class() -> None:
    parties = data._dealt("oil_spill", None, 3)
    labels = data._table("oil_spill")[1]
    assert sorted(np.concatenate(parties)) == list(range(937))
    assert [int(labels[rows].sum()) for rows in parties] in ([14, 14, 13], [14, 13, 14], [13, 14, 14])
    kept = data._kept("pollen", 1000)
    assert np.bincount(data._table("pollen")[1][kept]).tolist() == [500, 500]


@pytest.mark.data
@pytest.mark.usefixtures("real")
def test_imbalances_of_mnist() -> None:
    parties = [data._images("imb1", (50, 250), 7, party) for party in range(4)]
    even = [float((labels % 2 == 0).mean()) for _, _, _, labels in parties]
    assert all(share > 0.7 for share in even[:2])
    assert all(share < 0.3 for share in even[2:])
    assert parties[0][0].shape == (50, 49)
    assert parties[0][0].max() <= 1
    groups = [set(data._images("imb2", (50, 50), 7, party)[1].tolist()) for party in range(4)]
    assert groups == [{0, 1}, {2, 3}, {4, 5}, {6, 7, 8, 9}]


@pytest.mark.data
@pytest.mark.usefixtures("real")
def test_the_testbeds_rows() -> None:
    parties, held = data._drawn("oil_spill")
    assert [len(rows) for rows in parties] == [TREES["oil_spill"].rows] * 3
    assert len(held) == pytest.approx(0.4 * 937, abs=1)
    assert not set(np.concatenate(parties)) & set(held)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """SVM alone on one set, and small forests: the quickest there is."""
    scale = replace(SCALES["smoke"], sets=("heart_statlog",), folds=2, evaluations=5)
    monkeypatch.setattr(flora, "SCALES", {"smoke": scale})
    monkeypatch.setattr("fedhpo.surrogates.regressors.TREES", 10)


@pytest.mark.data
@pytest.mark.usefixtures("real", "small")
def test_a_table_runs_and_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    said: list[str] = []
    arguments: dict[str, Any] = {"runs": tmp_path / "runs", "workers": 1, "say": said.append}
    found = flora.run("smoke", only=["table8"], out=tmp_path / "out", **arguments)
    (row,) = found["rows"]
    assert row["best"] == max(1 - line["loss"] for line in _lines(tmp_path, "heart_statlog-svm-k2-central"))
    assert row["regrets"]["aplm"] is not None
    assert (tmp_path / "out" / "flora-smoke.md").read_text(encoding="utf-8") == found["text"]
    kept = json.loads((tmp_path / "out" / "flora-smoke.json").read_text(encoding="utf-8"))
    assert kept["rows"][0]["configs"] == row["configs"]
    # A kill in the middle of a line, and what follows from the searches gone.
    file = tmp_path / "runs" / "smoke" / "searches" / "heart_statlog-svm-k2-p3-party1.jsonl"
    whole = file.read_bytes()
    file.write_bytes(whole[:-30])
    for later in (tmp_path / "runs" / "smoke" / "recommended").iterdir():
        later.unlink()
    said.clear()
    assert flora.run("smoke", only=["table8"], **arguments)["rows"] == found["rows"]
    assert file.read_bytes() == whole
    assert len(said) == 2  # the one search, and what is recommended
    said.clear()
    flora.run("smoke", only=["table8"], **arguments)
    assert not said


def _lines(folder: Path, name: str) -> list[dict[str, Any]]:
    return read_lines(folder / "runs" / "smoke" / "searches" / f"{name}.jsonl")


@pytest.mark.data
@pytest.mark.usefixtures("real")
def test_a_search_on_workers_is_the_same(tmp_path: Path) -> None:
    problem = data.Table("heart_statlog", "svm", folds=2)
    for folder, workers in ((tmp_path / "one", 1), (tmp_path / "two", 2)):
        # The second is the same search, and longer: one file has one writer.
        tasks = [Search(problem, 0, 2), Search(problem, 0, 5), Search(problem, 1, 5)]
        do_all(tasks, folder, workers, lambda text: None)
    files = sorted((tmp_path / "one" / "searches").iterdir())
    assert [len(read_lines(file)) for file in files] == [5, 5]
    for file in files:
        assert file.read_bytes() == (tmp_path / "two" / "searches" / file.name).read_bytes()


def test_what_cannot_be_trained_is_the_worst_but_a_users_mistake_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(self: data.Table, party: int, config: Config) -> float:
        raise ValueError("Solver produced non-finite parameter weights")

    with monkeypatch.context() as patch:
        patch.setattr(data.Table, "loss", fails)
        search = Search(data.Table("heart_statlog", "svm"), 0, 2)
        search.run(tmp_path)
    assert [line["loss"] for line in read_lines(search.file(tmp_path))] == [1.0, 1.0]
    monkeypatch.setenv("FEDHPO_DATA", str(tmp_path))
    data._table.cache_clear()
    with pytest.raises(InputError, match="is missing"):
        Search(data.Table("sonar", "svm"), 0, 2).run(tmp_path)


def test_what_was_sent_is_the_best_of_what_was_tried(tmp_path: Path) -> None:
    problem = data.Trees("oil_spill")
    for party in range(3):
        file = Search(problem, party, 3).file(tmp_path)
        file.parent.mkdir(exist_ok=True)
        lines = [
            json.dumps({"config": {"client": {"max_iter": 10 + i}}, "loss": loss})
            for i, loss in enumerate((0.5, 0.2, 0.3))
        ]
        file.write_text("\n".join(lines) + "\n")
    parties = Recommend(problem, 3, sent=2).parties(tmp_path)
    assert [party.losses for party in parties] == [(0.2, 0.3)] * 3
    assert [party.losses for party in Recommend(problem, 2).parties(tmp_path)] == [(0.5, 0.2)] * 3


def test_the_command_knows_its_tables(capsys: pytest.CaptureFixture[str]) -> None:
    assert reproduction("flora") is flora
    assert main(["reproduce", "flora", "--table", "6"]) == 2
    assert "unknown part 'table6'" in capsys.readouterr().err
