"""FedPop at many seeds: the plan, the order of runs, the page of made-up rows, and a tiny one for real."""

import importlib

import pytest

import fedhpo as fh
from fedhpo.reproduce.fedpop import many
from fedhpo.reproduce.fedpop.many import METHODS, PLAN, SETS, Done, run_all, todo
from fedhpo.reproduce.fedpop.many_page import Table, facts, page
from fedhpo.reproduce.fedpop.sets import Setting
from fedhpo.research.statistics import Plan
from fedhpo.search.events import TuningError


def tiny(replicates=2, methods=("sha", "sha-3")):
    claim = {"name": "a", "first": methods[0], "second": methods[1], "sets": ["digits"]}
    return Plan.from_dict(
        {"endpoint": "accuracy", "first_seed": 50, "claims": [{**claim, "replicates": replicates}]}
    )


TINY = {"digits": Setting("digits", {"clients": 8}, "mlp", 4, 12, cohort=3, trials=3, epochs=2)}


def test_the_plan_names_what_there_is_and_seeds_that_nothing_was_chosen_on():
    plan = Plan.load(PLAN)
    assert set(plan.methods) == set(METHODS)
    assert set(plan.sets) == set(SETS)
    assert plan.first_seed >= 1000
    assert all(claim.replicates >= 20 and claim.margin for claim in plan.claims)
    assert len(todo(plan, SETS)) == 10 * 4 * 20


def test_what_most_claims_need_comes_first_seed_by_seed_and_long_runs_last():
    order = todo(Plan.load(PLAN), SETS)
    assert len(set(order)) == len(order)
    assert {(seed, method) for seed, _, method in order[:12]} == {
        (1000, method) for method in ("sha-3", "auto", "sha-3-cooling", "sha")
    }
    assert order[12][0] == 1001
    assert {name for _, name, _ in order[-200:]} == {"femnist-long"}


def rows(gaps, diverged=()):
    found = []
    for seed, gap in enumerate(gaps, start=50):
        found.append(Done("sha", "digits", seed, 80.0 + gap, 1, seed in diverged))
        found.append(Done("sha-3", "digits", seed, 80.0, 3))
    return found


def test_the_page_judges_what_is_whole_and_counts_collapses():
    plan = tiny(20)
    done = rows([1.0, 1.2] * 10)
    assert "**holds**" in page(plan, TINY, done)
    part = page(plan, TINY, done[:-2])
    assert "**undecided** (19 of 20 pairs)" in part
    fallen = rows([-0.5] * 18 + [-10.5, -40.0], diverged=[69])
    assert "2 of 20 (1.2% to 31.7%)" in page(plan, TINY, fallen)
    assert "they count at chance: sha on digits, seed 69" in page(plan, TINY, fallen)
    assert facts(plan, TINY, fallen)["verdicts"]["a"]["verdict"] in ("undecided", "does not hold")


def test_lineages_are_counted_without_runs_that_diverged():
    table = Table(rows([0.0, 0.0], diverged=[51]))
    assert table.lineages("sha", ["digits"]) == [1]
    assert table.lineages("sha-3", ["digits"]) == [3, 3]


def test_it_goes_on_where_it_was_stopped(tmp_path, monkeypatch):
    plan, path, said = tiny(), tmp_path / "journal", []
    real, left = many._run, [3]

    def stopping(*arguments):
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        return real(*arguments)

    monkeypatch.setattr(many, "_run", stopping)
    with pytest.raises(KeyboardInterrupt):
        run_all(plan, TINY, path, said.append)
    assert len(said) == 3
    monkeypatch.setattr(many, "_run", real)
    done = run_all(plan, TINY, path, said.append)
    assert len(said) == 4
    assert [(one.seed, one.method) for one in done] == [(s, m) for s in (50, 51) for m in ("sha-3", "sha")]
    assert done == run_all(plan, TINY, path, said.append)
    assert len(said) == 4
    assert all(5 < one.accuracy < 100 for one in done)
    with pytest.raises(fh.InputError, match="was begun with other settings"):
        run_all(tiny(3), TINY, path, said.append)


def test_a_run_that_comes_to_nothing_counts_at_chance(tmp_path, monkeypatch):
    def failing(*arguments, **options):
        raise TuningError("no trial could be trained")

    monkeypatch.setattr(importlib.import_module("fedhpo.tuning.tune"), "tune", failing)
    done = run_all(tiny(), TINY, tmp_path / "journal", lambda text: None)
    assert {(one.accuracy, one.diverged) for one in done} == {(10.0, True)}


@pytest.mark.data
def test_components_are_those_of_the_training_rows():
    data = SETS["fashion"].load()
    assert data.x.shape[1:] == (48,)
    variance = data.x[data.train.indices].var(axis=0)
    assert (variance[:-1] >= variance[1:] - 0.05).all()
