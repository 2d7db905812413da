"""The reproduction of FedTune: its settings, its verdicts by made-up rows, and parts of it at smoke scale."""

import json
import math

import numpy as np
import pytest

import fedhpo as fh
from fedhpo.methods.fedtune import Cells, CellSearch, CellTuner
from fedhpo.protocol.objective import Objective
from fedhpo_papers import reproduction
from fedhpo_papers.fedtune.claims import gap, judge, medians
from fedhpo_papers.fedtune.lab import Lab, hand_grid
from fedhpo_papers.fedtune.paper import TABLE_1, TABLE_2
from fedhpo_papers.fedtune.parts import PARTS, TRANSFERRED, TUNERS, _progress
from fedhpo_papers.fedtune.pools import Pool
from fedhpo_papers.fedtune.sets import SCALES, World


def test_the_papers_setting():
    """G.2, Table 3 and section 4.2: 24 cells of 3,600 configs, 20 rounds, 50 clients, 500 rounds."""
    paper = SCALES["paper"]
    for setting in paper.sets.values():
        assert len(setting.cells) == 24
        assert setting.space.size == 3600
    assert paper.simulated_rounds == 20
    assert paper.simulated_clients == 5
    assert (paper.sets["cifar10"].clients, paper.sets["cifar10"].rounds) == (50, 500)
    assert paper.sets["femnist"].rounds == 2000
    assert paper.sets["cifar10"].space.default().client["lr"] == 0.05
    assert SCALES["default"].seeds >= 3
    assert all(len(setting.cells) == 6 for setting in SCALES["default"].sets.values())
    assert set(TRANSFERRED) == set(TRANSFERRED.values()) == set(paper.sets)


def test_published_figures_are_in_their_places():
    assert TABLE_1["femnist"] == {"global": 74.14, "fedtune": 81.24, "hand": 81.64}
    assert TABLE_2[0.75, 10, 400] == 0.086
    assert len(TABLE_2) == 12


def test_what_is_public_what_is_private_and_what_is_tested_are_apart():
    world = World.of(SCALES["smoke"].sets["femnist"])
    parts = [set(world.public.tolist()), set(world.private.tolist()), set(world.tested.tolist())]
    assert sum(map(len, parts)) == len(set.union(*parts)) == 1797
    assert len(parts[0]) == 700
    assert np.bincount(world.samples.y[world.tested]).tolist() == [10] * 10
    data = world.clients()
    assert data.train.sizes.tolist() == [20, 20, 20, 40, 40, 40, 0]
    assert data.test.sizes.tolist() == [0] * 6 + [100]
    np.testing.assert_array_equal(data.y[data.test.rows(6)], world.samples.y[world.tested])
    np.testing.assert_array_equal(data.x[data.test.rows(6)], world.samples.x[world.tested])
    scored, scorer = world.with_scorer()
    assert scorer == 6
    held = world.public[world.proxy.scored]
    np.testing.assert_array_equal(scored.x[scored.validation.rows(6)], world.samples.x[held])
    for client in range(6):
        np.testing.assert_array_equal(scored.x[scored.train.rows(client)], data.x[data.train.rows(client)])


def pool():
    """Three configs in six cells and the mixture; the second is the best of each cell, the third of all."""
    setting = SCALES["smoke"].sets["femnist"]
    configs = [setting.space.complete({"client": {"lr": lr}}) for lr in (0.4, 0.002, 0.8)]
    held_out = np.array([[0.1, 0.3, 0.2]] * 6 + [[0.1, 0.2, 0.3]])
    own = np.array([[0.9, math.nan, 0.2]] * 7)
    return Pool(setting, configs, held_out, own)


def test_tuners_replay_a_pool():
    found = pool()
    for sampler in ("gp", "random", "grid"):
        searches = found.replay(CellTuner(sampler, 3, None), seed=1)
        assert [search.best(Objective()) for search in searches] == [(found.configs[1], 0.3)] * 6
    # A grid goes in the order of the learning rates.
    [first, *_] = found.replay(CellTuner("grid", 3, None), seed=0)
    assert [config.client["lr"] for config in first.configs] == [0.002, 0.4, 0.8]
    [mixture] = found.replay(CellTuner("random", 3, None), seed=0, cells=[6])
    assert mixture.best(Objective())[0] == found.configs[2]
    own = found.table(found.replay(CellTuner("random", 3, None), 0, "own"))
    assert [config["lr"] for config in own.configs] == [0.4] * 6
    less = found.sub_table(own, Cells((0.5,), (20, 40)))
    assert len(less.configs) == 2


def test_steps_behind_and_the_stopping_rule():
    search = CellSearch(0, [], [0.1, math.nan, 0.496, 0.2, 0.3, 0.1, 0.2, 0.1, 0.5])
    found = _progress(search, 0.5)
    assert found["steps"] == 3  # within 0.5 points
    assert found["stopped"] == 8  # five steps without improvement
    assert found["behind_then"] == pytest.approx(0.4)
    assert found["behind"] == pytest.approx([40, 40, 0.4, 0.4, 0.4, 0.4, 0.4, 0.4, 0])


def trained(part, accuracy, seeds=3, **facts):
    """Rows of trainings whose accuracies are given by way, alike for all seeds but for a little."""
    return [
        {**facts, "way": way, "seed": seed, "accuracy": value + 0.01 * seed * (way == "global")}
        for way, value in accuracy.items()
        for seed in range(seeds)
    ]


WAYS = {"global": 70, "fedtune": 75, "hand": 75.5, "own clients": 71, "regression": 72, "transferred": 73}


def verdicts(rows):
    return [one.verdict for one in judge(rows)]


def test_verdicts_on_table_1():
    rows = [row for name in TABLE_1 for row in trained("table1", WAYS, set=name)]
    assert verdicts({"table1": rows}) == ["holds"] * 5
    worse = trained("table1", {**WAYS, "fedtune": 69}, set="cifar10")
    other = [row for row in rows if row["set"] != "cifar10"]
    assert verdicts({"table1": [*other, *worse]}) == ["does not hold"] * 4 + ["holds"]
    alone = [row for row in rows if row["seed"] == 0]
    assert verdicts({"table1": alone}) == ["undecided"] * 5
    assert gap(rows, "fedtune", "global", set="femnist").value == pytest.approx(4.99)


def test_verdicts_on_rates():
    rows = [
        {"index": i, "batch": b, "seed": s, "lr": TABLE_2[i, b, q] * (1 + 0.01 * s)}
        for i, b, q in TABLE_2
        for s in range(3)
    ]
    assert verdicts({"table2": rows}) == ["holds", "holds"]
    flat = [{**row, "lr": 0.1 - row["index"] / 100 - row["batch"] / 1000} for row in rows]
    assert verdicts({"table2": flat}) == ["does not hold", "does not hold"]
    lost = [{"index": i, "seed": s, "lost": 15.0 + s} for i in (0.2, 0.4) for s in range(3)]
    assert verdicts({"figure2": lost}) == ["holds"]


def test_verdicts_on_steps():
    def steps(gp, random):
        by = {"gp": gp, "gp warm": gp - 1, "random": random, "grid": 50}
        return [
            {"set": "femnist", "tuner": t, "seed": s, "cell": c, "steps": by[t] + s + c}
            for t in TUNERS
            for s in range(1 if t == "grid" else 3)
            for c in range(3)
        ]

    assert medians(steps(8, 30), "femnist", "gp") == {0: 9, 1: 10, 2: 11}
    assert verdicts({"figure5": steps(8, 30)}) == ["holds"] * 3
    assert verdicts({"figure5": steps(60, 30)}) == ["does not hold", "does not hold", "holds"]


def test_verdicts_on_the_other_figures():
    skews = [row for skew in ("gaussian", "poisson") for row in trained("f6", WAYS, set="femnist", skew=skew)]
    assert verdicts({"figure6": skews}) == ["holds"]
    cases = [
        *trained("f7", WAYS, case="natural"),
        *trained("f7", {"global": 70, "fedtune": 60}, case="fedadagrad"),
    ]
    assert verdicts({"figure7": cases}) == ["holds", "does not hold"]
    cells = [{"cells": n, "seed": s, "accuracy": 70 + n + s / 10} for n in (1, 2, 6) for s in range(3)]
    assert verdicts({"figure8": cells}) == ["holds"]


def test_hand_tuning_s_grid():
    configs = hand_grid(SCALES["default"].sets["femnist"], 5)
    assert len(configs) == 15
    assert sorted({config.client["lr"] for config in configs}) == [0.002, 0.008, 0.028, 0.106, 0.4]
    assert {config.client["epochs"] for config in configs} == {2}


def test_the_smoke_scale(tmp_path):
    """Two parts; what is done is not done again, and parts give the same in any order."""
    said = []
    options = {
        "only": ["figure8", "figure1"],
        "runs": tmp_path / "runs",
        "out": tmp_path / "out",
        "workers": 0,
    }
    first = reproduction("fedtune").run("smoke", say=said.append, **options)
    assert {row["cells"] for row in first["rows"]["figure8"]} == {1, 2, 3, 6}
    assert len(first["rows"]["figure8"]) == 4 * 2
    assert all(5 < row["accuracy"] < 100 for row in first["rows"]["figure8"])
    assert [row["hand"] for row in first["rows"]["figure1"]] == [120, 1200, 12000]
    assert "Figure 8: number of cells" in first["text"]
    assert (tmp_path / "out" / "fedtune-smoke.md").read_text() == first["text"]
    assert json.loads((tmp_path / "out" / "fedtune-smoke.json").read_text())["scale"] == "smoke"
    assert said == ["figure8-0: done", "figure8-1: done"]
    again = reproduction("fedtune").run("smoke", say=said.append, **options)
    assert again == first
    assert len(said) == 2
    # The largest table is FedTune's own, which the first table trains too.
    lab = Lab.at("smoke", tmp_path / "runs" / "smoke", said.append, 0)
    ways = {"fedtune": lab.table("femnist", 0)}
    alone = lab.trained("femnist", "index", 0, ways)["fedtune"]["accuracy"]
    [together] = [r["accuracy"] for r in first["rows"]["figure8"] if (r["cells"], r["seed"]) == (6, 0)]
    assert alone == together


def test_unknown_names():
    with pytest.raises(fh.InputError, match="unknown scale"):
        reproduction("fedtune").run("tiny")
    with pytest.raises(fh.InputError, match="unknown part"):
        reproduction("fedtune").run("smoke", only=["table9"])
    assert set(PARTS) >= {"table1", "table2", "figure5", "figure6", "figure7", "figure8"}
