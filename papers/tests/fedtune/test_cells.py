"""The part with the paper's 24 cells: what it is made of, that it runs, and what its page says."""

import numpy as np

from fedhpo_papers import reproduction
from fedhpo_papers.fedtune.cells_page import cells_table
from fedhpo_papers.fedtune.claims import judge
from fedhpo_papers.fedtune.sets import SCALES
from fedhpo_papers.fedtune.worlds import FreshWorld

TINY = SCALES["smoke"].cells_sets["digits"]


def test_the_default_has_the_papers_24_cells_and_a_client_of_each():
    setting = SCALES["default"].cells_sets["femnist"]
    assert len(setting.cells) == setting.clients == 24
    assert setting.indices == (0.2, 0.4, 0.6, 0.8)


def test_hand_tuning_scores_on_the_public_held_out_rows():
    world = FreshWorld(TINY, 0)
    data, scorer = world.with_scorer()
    assert data.train.sizes.tolist() == world.clients.train.sizes.tolist()
    public = world.proxy.data.x[np.sort(world.proxy.scored)]
    held = data.x[np.sort(data.validation.rows(scorer))]
    assert sorted(map(bytes, held)) == sorted(map(bytes, public))
    assert data.test.sizes.sum() == 0


def test_it_runs_and_says_what_was_found(tmp_path):
    run = reproduction("fedtune").run
    options = {"runs": tmp_path, "out": tmp_path / "out", "workers": 0, "say": lambda text: None}
    found = run("smoke", only=["cells"], **options)
    rows = found["rows"]["cells"]
    ways = ["1 cell", "2 cells", "4 cells", "own clients", "hand"]
    assert sorted({row["way"] for row in rows}) == sorted(ways)
    assert len({row["seed"] for row in rows}) == SCALES["smoke"].worlds
    hand = next(row for row in rows if row["way"] == "hand")
    assert len(hand["rates"]) == TINY.clients
    assert "24 cells with small models" in found["text"]
    # Another machine, which has the page's data only, has nothing to run.
    again = run("smoke", runs=tmp_path / "other", out=tmp_path / "out", workers=0, kept=True)
    assert again["rows"]["cells"] == rows


def made_up(hand=3.0):
    rows = []
    for seed in range(4):
        for way, gain in (
            ("1 cell", 0.0),
            ("4 cells", -1.0),
            ("24 cells", 1.0),
            ("own clients", -2.0),
            ("hand", hand),
        ):
            accuracy = 40 + seed + gain + 0.01 * seed * (way != "1 cell")
            row = {
                "set": "femnist",
                "seed": seed,
                "way": way,
                "accuracy": accuracy,
                "curve": [[12, 20.0], [60, 40.0]],
            }
            more = {"hand": {"rates": [0.1, 0.2]}, "24 cells": {"configs": [{"lr": 0.1}, {"lr": 0.4}]}}
            rows.append({**row, **more.get(way, {})})
    return rows


def test_claims_and_page():
    assert [one.verdict for one in judge({"cells": made_up()})] == ["holds"] * 3
    assert judge({"cells": made_up(hand=-1.0)})[0].verdict == "does not hold"
    text = cells_table(made_up())
    assert "| 0.1 | 4 |" in text
    assert "Of 2 cells 2.0 have a config of their own" in text
    assert "is 4 times their lowest" in text
    assert text.count("+3.0") == 1
