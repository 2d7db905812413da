"""The critique over many worlds: the plan, worlds that differ, and the whole on a tiny one."""

import json
from dataclasses import replace

import fedhpo as fh
from fedhpo_papers.fedex_critique.claims import AUTO
from fedhpo_papers.fedex_critique.many import (
    COMPARED,
    SETTING,
    CritiquePlan,
    about,
    flat,
    run_worlds,
    world,
)
from fedhpo_papers.fedex_critique.page import write_many
from fedhpo_papers.fedpop.sets import Setting
from fedhpo_papers.shared.planned import earlier_rows

TINY = Setting("digits", {"clients": 12}, "mlp", 3, 3, rows=20, shape={"hidden": 8})


def test_the_plan_has_enough_worlds_and_names_plain_settings():
    plan = CritiquePlan.load()
    assert plan.replicates >= 20
    assert plan.first_seed >= 1000
    assert plan.clients == (4, 30)
    assert len(plan.wanted) == 40
    assert set(plan.chosen) == set(AUTO)
    for by_clients in plan.chosen.values():
        assert set(by_clients) == {4, 30}
        assert set(by_clients.values()) <= set(COMPARED)
    assert SETTING.options["clients"] >= 30


def test_worlds_have_clients_of_their_own_and_share_the_rest():
    data = fh.load("digits", clients=12)
    few, many, other = world(data, 0, 2, 5), world(data, 0, 5, 5), world(data, 1, 5, 5)
    assert few.train_clients.tolist() == [0, 1]
    assert few.train.rows(1).tolist() == many.train.rows(1).tolist()  # the first two of the five
    assert [many.train.rows(c).tolist() for c in range(5)] != [other.train.rows(c).tolist() for c in range(5)]
    for one in (few, many, other):
        assert sorted(one.test.indices) == sorted(data.test.indices)
        assert not set(one.train.indices) & {*one.validation.indices, *one.test.indices}


def test_the_whole_in_tiny_worlds_and_again_from_the_data_beside_the_page(tmp_path):
    plan = replace(CritiquePlan.load(), replicates=1, clients=(2, 4))
    plan = replace(plan, chosen={what: {2: "constant gamma 0", 4: "adaptive gamma 1"} for what in AUTO})
    rows = run_worlds(plan, tmp_path / "journal", lambda text: None, setting=TINY, arms=4)
    assert [(row["set"], len(row["truth"])) for row in rows] == [("B2", 4), ("B4", 4)]
    assert all(set(row["settings"]) == set(COMPARED) for row in rows)
    single = flat(rows)
    assert len(single) == 2 * len(COMPARED)
    assert all(0 < row["accuracy"] <= 1 for row in single)
    found = write_many(plan, rows, tmp_path)
    assert "2 of 2 planned runs are done" in found["text"]
    assert found["text"].count("**undecided**") == len(found["verdicts"]) == 18
    kept = json.loads((tmp_path / "fedex-critique.json").read_text())
    assert kept["rows"] == rows
    (tmp_path / "kept.json").write_text(json.dumps({**about(plan, TINY, 4), "rows": rows}))
    earlier = earlier_rows(tmp_path / "kept.json", about(plan, TINY, 4), print)
    again = run_worlds(plan, tmp_path / "other", lambda text: None, earlier, setting=TINY, arms=4)
    assert again == rows
