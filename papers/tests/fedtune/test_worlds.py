"""Worlds: what is drawn anew, what the page makes of them, and that two of them run and are kept."""

import json

import numpy as np
import pytest

from fedhpo.core.errors import InputError
from fedhpo_papers import reproduction
from fedhpo_papers.fedtune.claims import counted, judge
from fedhpo_papers.fedtune.lab import Lab
from fedhpo_papers.fedtune.sets import SCALES
from fedhpo_papers.fedtune.worlds import FreshWorld, grid
from fedhpo_papers.fedtune.worlds_page import WAYS, endpoints, headroom, judge_worlds, worlds_table
from fedhpo_papers.fedtune.worlds_part import CONTROLS, plan, worlds

TINY = SCALES["smoke"].world_sets["digits"]


def test_what_is_tested_public_and_private_are_apart_and_drawn_anew():
    first, second = FreshWorld(TINY, 0), FreshWorld(TINY, 1)
    for world in (first, second):
        parts = [set(rows.tolist()) for rows in world._rows]
        assert sum(map(len, parts)) == len(set.union(*parts)) == 1797
        assert (len(parts[0]), len(parts[1])) == (200, 700)
    assert set(first._rows[0].tolist()) != set(second._rows[0].tolist())
    data = first.clients
    assert sorted(data.train.sizes) == [0] + [20] * 4 + [40] * 4
    assert data.test.sizes.tolist() == [0] * 8 + [200]
    assert data.x.shape[1] == 16
    # Components are those of the public rows: there they have mean 0, and no two go together.
    public = first.proxy.data.x
    assert np.abs(public.mean(axis=0)).max() < 1e-4
    together = np.corrcoef(public.T) - np.eye(16)
    assert np.abs(together).max() < 1e-3


def test_the_plan_asks_for_24_worlds_of_three_sets():
    planned = plan()
    assert planned.sets == ["fashion_mnist", "femnist", "cifar10"] == list(SCALES["default"].world_sets)
    assert [claim.replicates for claim in planned.claims] == [24, 24, 12, 12, 12] * 3
    assert {
        way for claim in planned.claims if claim.replicates == 12 for way in (claim.first, claim.second)
    } == {
        "mixture",
        "global",
        *CONTROLS,
    }
    assert set(planned.methods) - {"half of the headroom"} <= set(WAYS)
    # Both searches, the paper's way and the paper's setting have a setting of the paper's Table 3.
    assert SCALES["default"].world_sets["cifar10"].space.default().client["lr"] == 0.05


def rows(count=24, gain=2.0, room=3.0, diverged=()):
    """Made-up worlds: a table that gains, cells that lose, a headroom."""
    rng = np.random.default_rng(0)
    found = []
    for name in plan().sets:
        for world in range(1000, 1000 + count):
            base, jitter = 70 + rng.normal(), rng.normal(size=4) / 10
            accuracy = {
                "own": base - 20,
                "global": base,
                "mixture": None if (name, world) in diverged else base + gain + jitter[0],
                "guarded": base + gain + jitter[0],
                "weights": base + 0.5 + jitter[1],
                "fednova": base + 0.2 + jitter[2],
                "cells": base - 1 + jitter[3],
                "grid 0.1 0": base - 1,
                "grid 0.2 0": None,
                "grid 0.1 -1": base - 1 + room,
                "grid 0.2 -2": base - 5,
            }
            if world >= 1012:
                for way in CONTROLS:
                    del accuracy[way]
            facts = {
                "compared": {"kept": True},
                "mixture": {"policy": {"index_slope": -1.5}},
                "capped": False,
            }
            found.append({"set": name, "world": world, "accuracy": accuracy, "facts": facts})
    return found


def test_verdicts_of_the_plan():
    verdicts = [one.verdict for one in judge_worlds(rows())]
    assert verdicts == ["holds", "holds", "holds", "holds", "does not hold"] * 3
    # 1 of 3 points is less than half.
    half = [one.verdict for one in judge_worlds(rows(gain=1.0))][1::5]
    assert half == ["does not hold"] * 3
    few = judge_worlds(rows(count=6))
    assert {one.verdict for one in few} == {"undecided"}
    assert all(one.here.endswith("(6) of 24 worlds") for one in few[:2])
    assert all(one.here.endswith("(6) of 12 worlds") for one in few[2:5])
    assert judge({"worlds": rows()})[0].verdict == "holds"


def test_what_diverged_is_told_and_counts_at_chance():
    found = rows(diverged=[("femnist", 1003)])
    assert endpoints(found, "mixture", "femnist")[1003] == pytest.approx(100 / 62)
    assert counted({"set": "femnist", "accuracy": None}) == pytest.approx(100 / 62)
    text = worlds_table(found)
    assert "1 of 24 (0.1% to 21.1%)" in text
    assert text.count("### ") == 3
    assert "+3.00 ± 0.00" in text  # the headroom
    assert "| one config, FedNova | 12 |" in text
    # Of four trainings of the grid one constant diverged.
    assert "50% of the constants and 0% of the falling tables diverged" in text
    assert headroom(found[0]) == pytest.approx(3.0)
    # A table may have slopes 0, so that there is never less than nothing to gain.
    assert headroom(rows(room=-1.0)[0]) == 0.0


def test_the_grid_holds_constants_and_falling_tables():
    found = grid(TINY)
    assert list(found) == ["grid 0.1 0", "grid 0.1 -1", "grid 0.2 0", "grid 0.2 -1"]
    assert {cell["lr"] for cell in found["grid 0.1 0"].configs} == {0.1}
    assert max(cell["lr"] for cell in found["grid 0.2 -1"].configs) == 0.2


def test_two_worlds_from_search_to_page(tmp_path):
    said = []
    run = reproduction("fedtune").run
    with pytest.raises(KeyboardInterrupt):
        worlds(Lab.at("smoke", tmp_path / "smoke", _stop, 0))
    # The first world is kept; the page of what is kept has it alone.
    found = run("smoke", runs=tmp_path, out=tmp_path / "out", workers=0, kept=True, say=said.append)
    assert [row["world"] for row in found["rows"]["worlds"]] == [1000]
    assert said == []
    # Another machine, which has the page's data only, runs what is missing: of each world, its controls last.
    options = {"runs": tmp_path / "other", "out": tmp_path / "out", "workers": 0, "say": said.append}
    found = run("smoke", only=["worlds"], **options)
    assert said == [
        f"{part}: done" for part in ("controls-digits-1000", "worlds-digits-1001", "controls-digits-1001")
    ]
    first, second = found["rows"]["worlds"]
    assert set(first["accuracy"]) >= set(WAYS)
    assert first["accuracy"] != second["accuracy"]
    assert first["facts"]["compared"]["deals"] == 4
    assert "### digits, 2 worlds" in found["text"]
    # Alone, a machine comes to the same.
    alone = run("smoke", only=["worlds"], runs=tmp_path / "alone", workers=0, say=lambda text: None)
    assert alone["rows"]["worlds"] == found["rows"]["worlds"]
    # Parts that are not run again stay on the page; a third machine has nothing to do.
    third = {**options, "runs": tmp_path / "third"}
    again = run("smoke", only=["figure1", "worlds"], **third)
    assert set(again["rows"]) == {"worlds", "figure1"}
    assert len(said) == 3
    path = tmp_path / "out" / "fedtune-smoke.json"
    kept = json.loads(path.read_text())
    # Worlds that were run under other settings do not count.
    path.write_text(json.dumps({**kept, "world_sets": {"digits": "other clients"}}))
    assert "worlds" not in run("smoke", only=["figure1"], **third)["rows"]
    with pytest.raises(InputError, match="kept goes with worlds and cnn"):
        run("smoke", only=["table1"], runs=tmp_path, kept=True)


def _stop(text):
    raise KeyboardInterrupt
