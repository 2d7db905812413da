"""The bench end to end on small tables: samples, refusals, resuming, what the page says."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from fedhpo.cli import main
from fedhpo.core.errors import InputError
from fedhpo.research.tables import CurveTable
from fedhpo.space import Float, Space
from fedhpo.testing.table import toy_table
from fedhpo_papers.bench import bench
from fedhpo_papers.bench.baselines.learned import _real
from fedhpo_papers.bench.cells import Cell, messages, play, priced
from fedhpo_papers.bench.entries import ENTRIES, Task, entry_named
from fedhpo_papers.bench.leaderboard import against_best, ranking, taken_away
from fedhpo_papers.bench.page import kept_apart, write
from fedhpo_papers.bench.plan import check_plan
from fedhpo_papers.bench.published import load_cells, save_cells
from fedhpo_papers.bench.results import Results, by_part
from fedhpo_papers.bench.run import table_digest
from fedhpo_papers.bench.sample import OBJECTIVE, sample_of
from fedhpo_papers.bench.settings import TRAININGS, Setting


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("tables") / "toy.table"
    toy_table(configs=40, rounds=27, clients=12).save(path)
    return str(path)


def test_two_seeds_share_a_sample_of_three_quarters(table: str) -> None:
    whole = CurveTable.load(table)
    first, same, other = (sample_of(whole, seed) for seed in (0, 1, 2))
    assert first.table.configs == same.table.configs != other.table.configs
    assert len(first.table.configs) == 30
    assert len(set(first.table.configs)) == 30
    seen, unseen = (set(one.validation_clients.tolist()) for one in (first.table, first.left_out))
    assert (len(seen), len(unseen), seen & unseen) == (9, 3, set())
    # What a client of the sample said is what it said in the table.
    config = first.table.configs[4]
    place = whole.configs.index(config)
    columns = np.isin(whole.validation_clients, first.table.validation_clients)
    assert (first.table.errors()[4] == whole.errors()[place][:, columns]).all()


def test_regret_is_over_the_clients_of_the_sample_and_over_the_others(table: str) -> None:
    sample = sample_of(CurveTable.load(table), 0)
    errors = sample.table.errors()[:, -1].mean(axis=1)
    best = int(errors.argmin())
    assert sample.regret(best, 27) == 0.0
    worst = int(errors.argmax())
    assert sample.regret(worst, 27) == pytest.approx(100 * (errors.max() - errors.min()))
    assert sample.regret(worst, 27) == pytest.approx(
        100 * (sample.table.truth(worst, 27, OBJECTIVE) - sample.table.truth(best, 27, OBJECTIVE))
    )
    elsewhere = sample.left_out.errors()[:, -1].mean(axis=1)
    assert sample.regret_elsewhere(worst, 27) == pytest.approx(100 * (elsewhere[worst] - elsewhere.min()))


def test_methods_that_a_table_cannot_replay_are_refused_with_the_reason(table: str) -> None:
    assert "fork" in play(Cell(table, Setting(), "fedpop", 0))["refused"]
    assert "nothing to learn from" in play(Cell(table, Setting(), "portfolio", 0))["refused"]
    private = play(Cell(table, Setting(1, 10.0), "optuna-median", 0))
    assert "epsilon cannot be split" in private["refused"]
    with pytest.raises(InputError, match="method 'robst'"):
        entry_named("robst")


@pytest.mark.parametrize("name", ["random", "sha", "robust", "irace", "random+race", "optuna-sha"])
def test_every_method_keeps_to_the_budget(table: str, name: str) -> None:
    found = play(Cell(table, Setting(1), name, 3))
    assert found["rounds"] <= TRAININGS * 27
    assert found["regret"] >= 0
    assert found["messages"] == found["rounds"] * 10 + found["evaluations"]


def test_a_race_by_clients_asks_for_no_more_private_scores_than_were_planned() -> None:
    """It is planned with all 16 trials to the end; when some are dropped, smaller rounds of scores follow."""
    found = play(Cell("femnist", Setting(1, 100.0), "irace", 0))
    assert "regret" in found, found
    assert found["epsilon"] <= 100.0 + 1e-9


def test_at_equal_messages_nobody_pays_more_than_random_search(table: str) -> None:
    task = Task(CurveTable.load(table), Setting(equal="messages"), (), 0)
    allowed = messages(priced(ENTRIES["random"], task)[0], task.cohort)
    found, total = priced(ENTRIES["sha"], task)
    assert total < TRAININGS * 27
    assert 0.8 * allowed < messages(found, task.cohort) <= allowed


def test_a_bench_that_was_killed_goes_on_to_the_same_page(table: str, tmp_path: Path) -> None:
    def run(place: str) -> tuple[str, int]:
        lines: list[str] = []
        facts, results = bench(
            "smoke",
            methods=["random", "sha", "fedpop"],
            tables=[table],
            directory=tmp_path / place,
            workers=1,
            say=lines.append,
        )
        written = write(facts, results, tmp_path / place / "page.md")
        text = "".join(Path(file).read_text() for file in written.values())
        return text, int(lines[0].split()[2])

    whole, known = run("whole")
    assert known == 0
    journal = next((tmp_path / "whole").glob("cells-*.jsonl"))
    cells = journal.read_text().splitlines(keepends=True)
    (tmp_path / "cut").mkdir()
    (tmp_path / "cut" / journal.name).write_text("".join(cells[:8]) + cells[8][:20])  # killed while it wrote
    again, known = run("cut")
    assert known == 7
    assert again == whole


def test_cells_of_other_code_are_not_mixed_with_these(table: str, tmp_path: Path) -> None:
    from fedhpo.core.journal import Journal

    Journal(tmp_path / f"cells-{table_digest(table)}.jsonl", {"code": "another", "table": "", "others": []})
    with pytest.raises(InputError, match="begun with other settings"):
        bench("smoke", methods=["random"], tables=[table], directory=tmp_path, workers=1)


def test_a_page_is_made_again_from_published_cells_and_goes_on_from_them(table: str, tmp_path: Path) -> None:
    cells = tmp_path / "cells.xz"

    def run(*methods: str, place: str = "") -> tuple[str, str]:
        lines: list[str] = []
        facts, results = bench(
            "smoke",
            methods=methods,
            tables=[table],
            reference="sha",
            directory=tmp_path / place if place else None,
            cells=cells,
            workers=1,
            say=lines.append,
        )
        written = write(facts, results, tmp_path / "page.md")
        return "".join(Path(file).read_text() for file in written.values()), lines[0]

    first, said = run("sha", "random", "fedpop", place="runs")
    assert said == "24 cells, 0 of them known"
    again, said = run("sha", "random", "fedpop")
    assert (again, said) == (first, "24 cells, 24 of them known")
    assert run("sha", "irace")[1] == "16 cells, 8 of them known"
    assert run("sha", "random", "irace")[1] == "24 cells, 24 of them known"  # none was lost
    # Cells of other code still make the page, which names that code, but nothing is added to them.
    about, rows = load_cells(cells)["toy"]
    save_cells(cells, {"toy": (about | {"code": "older"}, rows)})
    assert "code older." in run("sha", "random")[0]
    with pytest.raises(InputError, match=r"cells of other code \(older, this is .*not all"):
        run("sha", "tpe")
    save_cells(cells, {"toy": (about | {"table": "another"}, rows)})
    with pytest.raises(InputError, match="cells of another table toy"):
        run("sha")
    cells.write_text("{}")
    with pytest.raises(InputError, match="holds no cells of a bench"):
        run("sha")


def _rows(method: str, regrets: list[float]) -> list[dict[str, object]]:
    common = {"table": "t", "setting": "s", "method": method, "elsewhere": 0.0}
    return [{**common, "seed": seed, "regret": regret} for seed, regret in enumerate(regrets)]


def test_ranks_differences_and_ratios_worked_by_hand() -> None:
    rows = _rows("a", [1.0, 2.0, 3.0, 4.0] * 16) + _rows("b", [3.0, 2.0, 7.0, 8.0] * 16)
    results = Results(["t"], ["s"], ["a", "b"], "a", rows)
    assert results.regret("b", ["s"]).mean == 5.0
    # b - a is 2, 0, 4, 4: parts {2, 0} and {4, 4} have means 1 and 4, each 1.5 from their mean; 32 parts.
    difference = results.difference("b", ["s"])
    assert (difference.mean, difference.standard_error) == pytest.approx((2.5, 1.5 / np.sqrt(31)))
    assert results.ranks(["s"], ["a", "b"]) == {"a": 1.125, "b": 1.875}
    assert results.ratio("b", ["s"]) == pytest.approx(5.01 / 2.51)
    assert by_part({0: 1.0, 1: 2.0, 2: 3.0}).tolist() == [[1.0, 2.0]]
    found = results.log_ratio("b", ["s"])
    assert found.mean == pytest.approx(np.log(2.51 / 5.01))
    # a over 2.51 minus b over 5.01, seed by seed, is a difference like any other.
    apart = [a / 2.51 - b / 5.01 for a, b in ((1, 3), (2, 2), (3, 7), (4, 8))] * 16
    relative = Results(["t"], ["s"], ["a", "b"], "a", _rows("a", [0] * 64) + _rows("b", apart))
    assert found.standard_error == pytest.approx(relative.difference("b", ["s"]).standard_error)


def test_the_best_other_method_is_chosen_among_ever_more_rivals() -> None:
    rows = [
        row
        for name, regret in (("auto", 1.0), ("sha", 4.0), ("race", 2.0))
        for row in _rows(name, [regret] * 64)
    ]
    results = Results(["t"], ["s"], ["auto", "sha", "race"], "auto", rows)
    found = against_best(results, {"auto": "ours", "sha": "known", "race": "remedy"})
    assert [row[2] for row in found.rows] == ["sha", "race", "race"]
    assert found.data[0]["ratio"] == pytest.approx(1.01 / 4.01)
    assert found.data[0]["bound"] == pytest.approx(1.01 / 4.01)  # without any luck there is no error
    assert [row["ahead"] for row in found.data] == [3.0, 1.0, 1.0]
    assert [row["met"] for row in found.data] == [True, True, True]  # 1.01 / 2.01 is below 0.6


def test_the_page_keeps_test_tables_apart() -> None:
    regrets = {"u": {"auto": 1.0, "sha": 4.0}, "v": {"auto": 2.0, "sha": 1.0}}
    rows = [
        {**row, "table": table}
        for table, methods in regrets.items()
        for name, regret in methods.items()
        for row in _rows(name, [regret] * 64)
    ]
    results = Results(["u", "v"], ["s"], ["auto", "sha"], "auto", rows)
    kinds = {"auto": "ours", "sha": "known"}
    groups = kept_apart({"test": ["u"]}, results)
    test, other = (against_best(one, kinds, where) for one, where in groups)
    assert [one.data[0]["ratio"] for one in (test, other)] == pytest.approx([1.01 / 4.01, 2.01 / 1.01])
    assert [one.data[0]["met"] for one in (test, other)] == [True, False]
    assert "goal" in test.columns
    assert (test.columns[-2:], other.columns[-2:]) == (["u", "seeds"], ["v", "seeds"])
    assert test.rows[0][-1] == "64"
    assert test.title.endswith("on test tables")


def test_the_command_writes_page_figures_and_data(
    table: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "bench.md"
    arguments = ["--suite", "smoke", "--table", table, "-m", "random", "-m", "sha", "-m", "fedpop", "--json"]
    code = main(
        ["bench", *arguments, "--runs", str(tmp_path), "--output", str(page), "--workers", "1", "--quiet"]
    )
    told = json.loads(capsys.readouterr().out)
    assert (code, told["page"]) == (0, str(page))
    text = page.read_text()
    assert "| random |" in text
    assert "## 1 client" in text
    assert "- `fedpop` (all clients, 1 client): " in text
    data = json.loads(page.with_suffix(".json").read_text())
    assert {row["method"] for row in data["overall"]["All settings"]} == {"random", "sha"}
    assert "<svg" in page.with_suffix(".html").read_text()
    assert main(["bench", "--suite", "slow"]) == 2


def test_methods_with_different_seeds_are_compared_by_those_that_both_have() -> None:
    """Four seeds of a, two of b: 1 and 2 against 3 and 6."""
    rows = _rows("auto", [1.0, 2.0, 30.0, 40.0]) + _rows("robust-once", [3.0, 6.0])
    methods = ["auto", "robust-once"]
    results = Results(["t"], ["s"], methods, "auto", rows)
    assert results.ratio("robust-once", ["s"]) == pytest.approx(4.51 / 1.51)
    assert results.difference("robust-once", ["s"]).mean == 3.0
    assert [row[-3] for row in ranking(results, "", ["s"]).rows] == ["2", "4"]
    without = taken_away(results, {"auto": "ours", "robust-once": "ablation"})
    assert without.data[0]["s"]["mean"] == 3.0
    assert [row[0] for row in without.rows] == ["robust-once"]


def test_the_page_of_what_is_known_plays_nothing(table: str, tmp_path: Path) -> None:
    def run(*methods: str, seeds: int, known: bool = False) -> tuple[list[int], str, list[str]]:
        lines: list[str] = []
        facts, results = bench(
            "smoke",
            methods=methods,
            tables=[table],
            seeds=seeds,
            reference="random",
            directory=tmp_path,
            workers=1,
            known=known,
            note="Opened twice.",
            say=lines.append,
        )
        written = write(facts, results, tmp_path / "page.md")
        counts = [results.seeds(name, results.settings)[0] for name in methods]
        return counts, Path(written["page"]).read_text(), lines

    with pytest.raises(InputError, match="no cell of these"):
        run("random", seeds=4, known=True)
    run("random", seeds=4)
    run("sha", "random", seeds=2)
    counts, page, lines = run("random", "sha", "tpe", seeds=100, known=True)
    assert counts == [4, 2, 0]
    assert lines == ["12 cells, 12 of them known"]
    assert "There are up to 4 seeds" in page
    assert "Opened twice." in page
    assert "`sha`" in page
    assert "`tpe`" not in page  # it has no cells


def test_degenerate_tables_are_part_of_no_verdict() -> None:
    """Ratios 1/4 and 1/2 on two tables; on a third, where all configs are alike, 100."""
    regrets = {"u": (1.0, 4.0), "v": (1.0, 2.0), "stackexchange": (100.0, 1.0)}
    rows = [
        {**row, "table": table}
        for table, pair in regrets.items()
        for name, regret in zip(("auto", "sha"), pair, strict=True)
        for row in _rows(name, [regret] * 64)
    ]
    results = Results(list(regrets), ["s"], ["auto", "sha"], "auto", rows)
    found, flip = results.verdict("sha", ["s"])
    assert found.mean == pytest.approx((np.log(1.01 / 4.01) + np.log(1.01 / 2.01)) / 2)
    assert (found.parts, flip) == (2, 0.25)


def test_test_tables_are_played_by_the_code_of_their_plan(tmp_path: Path) -> None:
    plan, tables = tmp_path / "plan.json", {"eeg": "aa"}
    with pytest.raises(InputError, match="nothing is played: commit it"):
        check_plan(plan, "one", tables)
    assert check_plan(plan, "one", tables) == "Test tables were played by a plan for code one."
    with pytest.raises(InputError, match="play them with --again"):
        check_plan(plan, "two", tables)
    with pytest.raises(InputError, match="other test tables than eeg"):
        check_plan(plan, "one", {"eeg": "bb"}, again=True)
    assert "and again with two" in check_plan(plan, "two", tables, again=True)
    assert "and again with two" in check_plan(plan, "one", tables)  # it stays on the page


def test_configs_are_matched_by_their_values() -> None:
    """A table with rates up to 1 and one with rates up to 100: 0.1 is 0.1, wherever in its range it lies."""
    own, other = (
        SimpleNamespace(space=Space(client={"lr": Float(0.01, high, log=True)})) for high in (1.0, 100.0)
    )
    config = other.space.complete({"client": {"lr": 0.1}})
    assert _real(own, config) == pytest.approx([0.5])  # type: ignore[arg-type]
    assert other.space.to_unit(config) == pytest.approx([0.25])
    assert _real(own, other.space.complete({"client": {"lr": 10.0}})) == pytest.approx([1.5])  # type: ignore[arg-type]
