"""FedEx under halving: a run that is killed, and the comparison over seeds on a tiny federation."""

from functools import partial

from fedhpo.research.statistics import Plan
from fedhpo_papers import reproduction
from fedhpo_papers.fedex_femnist.many import METHODS, PLAN, run_seeds, todo
from fedhpo_papers.fedex_femnist.many_page import write_many
from fedhpo_papers.fedpop.sets import Setting

TINY = Setting("digits", {"clients": 8}, "mlp", 4, 16, rows=20, cohort=3, trials=3, epochs=2)


def test_killed_and_resumed_ends_in_the_same_result(tmp_path):
    run = partial(reproduction("fedex-femnist").run, "smoke", runs=tmp_path, workers=0, say=lambda text: None)
    found = run(out=tmp_path / "pages")
    assert 30 <= found["killed_after"] < 60
    assert found["same"]
    assert found["results"]["killed"]["policies"] == 4
    assert found["results"]["long"]["rounds"] <= 80
    assert "ends in the same result" in (tmp_path / "pages/fedex-femnist-smoke.md").read_text()
    assert run(out=tmp_path / "pages") == found  # also once everything is there


def test_the_plan_has_at_least_eight_seeds():
    plan = Plan.load(PLAN)
    assert set(plan.methods) == set(METHODS)
    assert all(claim.replicates >= 8 for claim in plan.claims)
    assert len(todo(plan)) == 3 * 8
    assert [seed for seed, *_ in todo(plan)[:4]] == [2000, 2000, 2000, 2001]


def test_seeds_are_compared_and_what_is_not_done_is_undecided(tmp_path):
    claim = {"name": "a", "first": "fedex", "second": "sha", "sets": ["digits"], "replicates": 2}
    plan = Plan.from_dict({"endpoint": "accuracy", "first_seed": 5, "claims": [claim]})
    rows = run_seeds(plan, tmp_path / "journal", lambda text: None, setting=TINY)
    assert [(row["seed"], row["method"]) for row in rows] == todo_of(plan)
    assert all(5 < row["accuracy"] <= 100 and row["own"] in (True, False) for row in rows)
    page = write_many(plan, rows, tmp_path)["text"]
    assert "4 of 4 planned runs are done" in page
    assert "(2) |" in page
    assert "**undecided**" in page
    assert "3 of 4 planned runs are done" in write_many(plan, rows[:3], tmp_path)["text"]


def todo_of(plan):
    return [(seed, method) for seed, _, method in todo(plan)]
