"""The reproduction of FedPop: its cells, its verdicts by made-up rows, and parts of it at smoke scale."""

import itertools
import json
import os
import signal

import pytest

import fedhpo as fh
from fedhpo.cli import main
from fedhpo.federations.simulated import SimulatedFederation
from fedhpo_papers import reproduction
from fedhpo_papers.fedpop.claims import Rows, judge
from fedhpo_papers.fedpop.command import BENCHMARKS, Cell, cells, method
from fedhpo_papers.fedpop.curves import pooled
from fedhpo_papers.fedpop.page import html
from fedhpo_papers.fedpop.paper import TABLE_2, TABLE_4
from fedhpo_papers.fedpop.sets import FULL, SETS, THIN


def test_the_cells_of_the_papers_tables():
    """7 sets x 2 wrappers x 3 tunings; PACS x 3; 3 sets x 4 of which 2 are those of table 2; 4; 2 x 3 x 2;
    4 sets x 2 x 3, one of these sets with few rows only there."""
    assert len(cells(["table2"], 3)) == 3 * 42
    assert len(cells(["table3"], 3)) == 9
    assert len({cell.name for cell in cells(["table2", "table4"], 1)}) == 42 + 6
    assert len(cells(["figure5"], 1)) == 4
    assert len({cell.name for cell in cells(["table2", "optimisers"], 1)}) == 42 + 2 * 8  # two seeds
    assert len({cell.name for cell in cells(["table2", "judged"], 1)}) == 42 + 6 + 6


def test_the_papers_budgets():
    """(R_t, R_c): (4000, 800) for CIFAR-10 and Shakespeare, (2000, 200) for FEMNIST, (1000, 200) for PACS."""
    sets = SETS["paper"]
    assert {(sets[n].total, sets[n].rounds) for n in BENCHMARKS if "femnist" not in n} == {(4000, 800)}
    assert (sets["femnist-niid"].total, sets["femnist-niid"].rounds) == (2000, 200)
    assert (sets["pacs"].total, sets["pacs"].rounds) == (1000, 200)
    assert method(Cell("table2", "cifar-iid", "rs", "none", 0), sets["cifar-iid"]) == fh.RandomSearch(
        trials=5
    )
    judged = method(Cell("judged", "cifar-iid", "sha", "fedpop-judged", 0), sets["cifar-iid"])
    assert (judged.schedule, judged.judge) == ("halving", "evaluation")
    both = method(Cell("table4", "cifar-iid", "rs", "fedpop-g", 0), sets["cifar-iid"])
    assert both.judge == "losses"
    assert (both.population, both.local, both.exchange) == (5, False, True)


def test_the_papers_space():
    space = SETS["paper"]["cifar-iid"].space()
    assert len([name for name in space.names if name.startswith("server.")]) == 3
    assert len([name for name in space.names if name.startswith("client.")]) == 7
    for name in ("server.lr_decay", "client.lr_decay"):  # 1 - 10^U(-4, -2)
        decay = space.hyperparameters[name]
        assert [decay.from_unit(unit) for unit in (0, 0.5, 1)] == [0.99, 0.999, 0.9999]


def test_published_figures_are_in_their_places():
    assert TABLE_2["sha", "fedpop"]["cifar-dir0.5"] == (74.88, 2.06, 72.41, 1.87)
    assert TABLE_2["rs", "fedex"]["shakespeare-niid"] == (44.28, 8.78, 46.69, 7.39)
    for tuning in ("none", "fedpop"):
        for name, figure in TABLE_4[tuning].items():
            assert figure == TABLE_2["rs", tuning][name][:2]


def row(set, wrapper, tuning, seed, accuracy, **more):
    base = {"set": set, "wrapper": wrapper, "tuning": tuning, "seed": seed, "optimiser": "fedavgm"}
    counted = {"fine_tuned": accuracy, "server": 5, "client": 5, "curve": None}
    return {**base, "accuracy": accuracy, **counted, **more}


@pytest.mark.parametrize(
    ("gains", "verdict"),
    [((2.0, 2.1, 1.9), "holds"), ((-2.0, -2.1, -1.9), "does not hold"), ((-2.0, 2.0, 0.5), "undecided")],
)
def test_verdicts_go_by_paired_differences(gains, verdict):
    """Seeds differ by 20 points, but FedPop's gain is much the same in each."""
    levels = (40.0, 60.0, 50.0)
    rows = [
        row("pacs", "sha", t, seed, level) for t in ("none", "fedex") for seed, level in enumerate(levels)
    ]
    rows += [row("pacs", "sha", "fedpop", s, levels[s] + gain) for s, gain in enumerate(gains)]
    [found] = judge(Rows(rows))
    assert found.claim.startswith("On PACS")
    assert found.verdict == verdict


def test_few_rows_are_judged_by_how_the_lead_changes():
    """Two points behind with few rows and one with all: a larger lead, though it is behind."""
    rows = [row(s, "sha", "none", seed, 50.0) for s in (THIN, FULL) for seed in range(3)]
    for s, lead in ((THIN, -2.0), (FULL, -1.0)):
        rows += [row(s, "sha", "fedpop", seed, 50.0 + lead + 0.01 * seed) for seed in range(3)]
    found = {verdict.claim: verdict for verdict in judge(Rows(rows))}
    [claim] = [claim for claim in found if claim.startswith("With all rows FedPop leads")]
    assert (found[claim].here, found[claim].verdict) == ("SHA +1.00 ± 0.00", "holds")


def test_a_figure_has_a_panel_for_each_set_whose_tunings_were_all_run():
    rows = [
        row(s, w, t, seed, 10.0 + seed)
        for s, tunings in (("cifar-iid", ("none", "fedex", "fedpop")), ("cifar-dir1", ("none", "fedpop")))
        for w in ("rs", "sha")
        for t in tunings
        for seed in range(2)
    ]
    page = html({"scale": "smoke"}, Rows(rows), [])
    assert page.count("<svg") == 2  # the global model's and the fine-tuned ones'
    assert page.count("<circle") == 2 * 2 * 3
    assert ">cifar-dir1<" not in page


def test_one_seed_decides_nothing():
    rows = [row("pacs", "sha", t, 0, a) for t, a in (("none", 10.0), ("fedex", 10.0), ("fedpop", 90.0))]
    assert judge(Rows(rows))[0].verdict == "undecided"


def test_centralised_training_holds_all_rows_at_one_client():
    data = fh.load("digits", clients=7)
    one = pooled(data)
    assert one.clients == 1
    assert sorted(one.train.indices) == sorted(data.train.indices)
    assert sorted(one.test.indices) == sorted(data.test.indices)


def test_parts_at_smoke_scale_are_run_once_and_written(tmp_path):
    said = []
    module = reproduction("fedpop")
    options = {"only": ["table3", "figure5"], "runs": tmp_path / "runs", "workers": 0}
    found = module.run("smoke", out=tmp_path / "out", say=said.append, **options)
    assert len(said) == 2 * (3 + 4)
    assert {verdict["claim"].split()[0] for verdict in found["verdicts"]} == {"On", "FedPop"}
    page = (tmp_path / "out" / "fedpop-smoke.md").read_text()
    assert "75.17 ± 1.18 (85.37 ± 2.12)" in page
    data = json.loads((tmp_path / "out" / "fedpop-smoke.json").read_text())
    curves = {r["tuning"]: r["curve"] for r in data["rows"] if r["set"] == "figure5" and r["seed"] == 0}
    assert [number for number, _ in curves["fedpop"]] == [1, 2, 3, 4]
    assert "centralised" in (tmp_path / "out" / "fedpop-smoke.html").read_text()
    before = {path: path.stat().st_mtime for path in (tmp_path / "runs").rglob("result.json")}
    said.clear()
    again = module.run("smoke", say=said.append, **options)
    assert again["rows"] == found["rows"]
    assert not said
    assert {path: path.stat().st_mtime for path in before} == before


def test_stopped_by_ctrl_c_it_goes_on_from_there(tmp_path, monkeypatch, capsys):
    rounds, real = itertools.count(1), SimulatedFederation.round

    def at_the_fifth_round(self, work):
        if next(rounds) == 5:
            os.kill(os.getpid(), signal.SIGINT)
        return real(self, work)

    arguments = ["reproduce", "fedpop", "--scale", "smoke", "--only", "table3", "--workers", "0"]
    arguments += ["--runs", str(tmp_path), "--out", str(tmp_path / "out")]
    with monkeypatch.context() as patched:
        patched.setattr(SimulatedFederation, "round", at_the_fifth_round)
        assert main(arguments) == 130
    assert "interrupted" in capsys.readouterr().err
    data = tmp_path / "out" / "fedpop-smoke.json"
    done = json.loads(data.read_text())["rows"]  # the page of what is done
    assert 0 < len(done) < 6
    assert main(arguments) == 0
    rows = json.loads(data.read_text())["rows"]
    assert len(rows) == 6
    assert rows[: len(done)] == done


def test_mistakes_are_named(tmp_path):
    with pytest.raises(fh.InputError, match=r"unknown scale 'huge'; known: cnn, deep, default, paper, smoke"):
        reproduction("fedpop").run("huge", runs=tmp_path)
    with pytest.raises(fh.InputError, match=r"unknown part 'table9'"):
        reproduction("fedpop").run("smoke", only=["table9"], runs=tmp_path)


def test_clients_are_thinned_out_but_tested_on_all():
    """At most 20 training and 10 validation rows a client; test data is whole."""
    thin, whole = SETS["smoke"]["cifar-iid"].load(), fh.load("digits", clients=8)
    assert max(len(thin.train.rows(c)) for c in range(8)) == 20
    assert max(len(thin.validation.rows(c)) for c in range(8)) == 10
    assert sorted(thin.test.indices) == sorted(whole.test.indices)
    assert set(thin.train.indices) <= set(whole.train.indices)
