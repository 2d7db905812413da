"""Figures of a result: what they hold, and what they refuse."""

import numpy as np
import plotly.graph_objects as go
import pytest

import fedhpo as fh
from fedhpo.core.errors import InputError
from fedhpo.plots import Plots
from fedhpo.plots.importance import importances
from fedhpo.plots.story import Story

SPACE = fh.Space(
    client={
        "lr": fh.Float(1e-3, 1.0, log=True),
        "batch_size": fh.Choice([8, 16]),
        "momentum": fh.Float(0, 0.9),
    }
)


def made(trials=30, seed=0, score=lambda config: config.client["momentum"]):
    """A result whose score follows from the config, with a history of two evaluations a trial."""
    rng = np.random.default_rng(seed)
    configs = [SPACE.from_unit(rng.random(3)) for _ in range(trials)]
    rows = [
        {
            "kind": "evaluate",
            "split": split,
            "rounds": 2 * n + r,
            "trial": n,
            "round": r,
            "accuracy": r / 10,
            "loss": 1.0,
        }
        for n in range(trials)
        for r in (1, 2)
        for split in ("validation", "test")
    ]
    facts = {
        "objective": {"metric": "accuracy", "direction": "maximize"},
        "best": {"trial": 3, "by_client": {"client": [0, 1], "value": [0.9, 0.2], "size": [5, 6]}},
        "space": SPACE.to_dict(),
        "client_names": ["north", "south"],
        "trials": [
            {"trial": n, "config": c.to_dict(), "score": score(c), "rounds": 2, "path": []}
            for n, c in enumerate(configs)
        ],
        "policies": [],
    }
    return facts, rows


def test_the_hyperparameter_that_decides_is_the_important_one():
    found = importances(Story(*made()))
    assert next(iter(found)) == "client.momentum"
    assert found["client.momentum"] > 0.9
    assert sum(found.values()) == pytest.approx(1)


def test_rounds_of_training_are_not_taken_for_a_hyperparameter():
    facts, rows = made(60, score=lambda config: 0.0)
    for n, trial in enumerate(facts["trials"]):  # who trains long scores high; momentum does little
        trial["rounds"] = 1 + 9 * (n % 2)
        trial["score"] = trial["rounds"] / 10 + 0.05 * trial["config"]["client"]["momentum"]
    assert next(iter(importances(Story(facts, rows)))) == "client.momentum"


def test_every_figure_is_plotlys():
    plot = Plots(*made())
    for name in ("history", "curves", "edf", "importance", "slice", "contour", "parallel", "clients"):
        figure = getattr(plot, name)()
        assert isinstance(figure, go.Figure), name
        assert len(figure.data), name
    assert "history" in repr(plot)


def test_history_holds_the_validation_scores_and_the_best_so_far():
    facts, rows = made(3)
    rows[0]["accuracy"], rows[4]["accuracy"] = 0.8, 0.3
    points, best = Plots(facts, rows).history().data
    assert list(points.y) == [0.8, 0.2, 0.3, 0.2, 0.1, 0.2]
    assert list(best.y) == [0.8] * 6
    facts["objective"] = {"metric": "error", "direction": "minimize"}
    assert list(Plots(facts, rows).history().data[1].y) == pytest.approx([0.2] * 6)


def test_edf_is_the_share_of_trials():
    facts, rows = made(4)
    for trial, score in zip(facts["trials"], [0.4, 0.1, None, 0.3], strict=True):
        trial["score"] = score
    [line] = Plots(facts, rows).edf().data
    assert list(line.x) == [0.1, 0.3, 0.4]
    assert list(line.y) == pytest.approx([1 / 3, 2 / 3, 1])


def test_clients_stand_under_their_names_the_worst_off_first():
    [bars] = Plots(*made()).clients().data
    assert (list(bars.x), list(bars.y)) == (["south", "north"], [0.2, 0.9])


def test_what_cannot_be_drawn_says_why():
    plot = Plots(*made(3))
    with pytest.raises(InputError, match="importance needs at least 4 trials with a score, the run has 3"):
        plot.importance()
    with pytest.raises(InputError, match=r"unknown hyperparameter 'lr'; known: client.batch_size"):
        plot.slice(["lr"])
    with pytest.raises(InputError, match="no trial became a copy"):
        plot.lineage()
    with pytest.raises(InputError, match="no trial has a client policy that learns"):
        plot.policy()


def test_policies_and_copies_of_real_runs():
    data = fh.load("digits", clients=10, partition={"kind": "iid"})
    space = fh.Space(client={"lr": fh.Float(1e-2, 1.0, log=True)}, server={"lr": fh.Float(0.5, 1.0)})
    with fh.simulate("linear", data, workers=0) as federation:
        arms = fh.tune(federation, space, fh.FedEx(trials=2), rounds=3, total=6, cohort=3)
        heat = arms.plot.policy().data[0]
        assert list(heat.x) == [0, 1, 2, 3]
        assert np.array(heat.z).sum(axis=0) == pytest.approx(np.ones(4), abs=1e-4)
        population = fh.tune(
            federation, space, fh.FedPop(population=3, interval=2), rounds=6, total=18, cohort=3
        )
        if len(population.lineage):
            assert len(population.plot.lineage().data) == 2
        assert set(arms.plot.clients().data[0].x) == {str(c) for c in range(10)}
