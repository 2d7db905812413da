"""Figures of a result: what they hold, what they refuse, and that plotly accepts them."""

import numpy as np
import plotly.graph_objects as go
import pytest

import fedhpo as fh
from fedhpo import figures
from fedhpo.core.errors import InputError
from fedhpo.figures.importance import by_importance, importances, tame
from fedhpo.figures.view import RunView
from fedhpo.pages.figure import RAMP, WINNER
from fedhpo.plots import Plots
from fedhpo.testing import ToyFederation

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
            "bytes_down": 0,
            "bytes_up": 1000 * (2 * n + r),
            "seconds": 60.0 * n,
            "trial": n,
            "round": r,
            "accuracy": score(config) * r / 2,
            "loss": 1.0,
        }
        for n, config in enumerate(configs)
        for r in (1, 2)
        for split in ("validation", "test")
    ]
    facts = {
        "objective": {"metric": "accuracy", "direction": "maximize"},
        "best": {
            "trial": 3,
            "rounds": 2,
            "by_client": {"client": [0, 1, 2], "value": [0.9, 0.2, 0.5], "size": [5, 6, 7]},
        },
        "gain": None,
        "space": SPACE.to_dict(),
        "client_names": ["north", "south", "west"],
        "trials": [
            {
                "trial": n,
                "config": c.to_dict(),
                "score": score(c),
                "rounds": 2,
                "path": [],
                "status": "finished",
            }
            for n, c in enumerate(configs)
        ],
        "policies": [],
    }
    return facts, rows


def test_the_hyperparameter_that_decides_is_the_important_one():
    view = RunView.of_result(*made())
    sample, found = importances(view)
    assert by_importance(view)[0] == "client.momentum"
    momentum = sample.names.index("client.momentum")
    assert found.values[momentum] > 0.8
    assert (np.delete(found.values, momentum) < 0.1).all()


def test_rounds_of_training_are_not_taken_for_a_hyperparameter():
    """The method trains those with a small learning rate longer; at equal rounds only momentum matters."""
    facts, rows = made(60, score=lambda config: config.client["momentum"])
    short = {t["trial"] for t in facts["trials"] if t["config"]["client"]["lr"] > 0.03}
    rows = [row for row in rows if row["round"] == 1 or row["trial"] not in short]
    for trial in facts["trials"]:
        if trial["trial"] in short:
            trial["rounds"], trial["score"] = 1, trial["score"] / 2
    view = RunView.of_result(facts, rows)
    sample, _ = importances(view)
    assert (sample.round, len(sample.trials)) == (1, 60)
    assert by_importance(view)[0] == "client.momentum"


def test_a_diverged_trial_hides_nothing():
    scores = np.linspace(0, 1, 41)
    assert tame(np.append(scores, -1e12), maximise=True)[-1] == pytest.approx(0.25 - 3 * 0.5, abs=0.1)
    assert tame(scores, maximise=True).tolist() == scores.tolist()


def test_chance_gets_no_figure():
    rng = np.random.default_rng(1)
    plot = Plots(*made(40, score=lambda config: float(rng.random())))
    with pytest.raises(InputError, match=r"do not explain their scores at round 2; .* told from chance"):
        plot.importance()


def test_every_figure_is_plotlys():
    plot = Plots(*made())
    names = ("history", "leading", "curves", "edf", "importance", "slice", "contour", "parallel", "clients")
    for name in (*names, "cost"):
        figure = getattr(plot, name)()
        assert isinstance(figure, go.Figure), name
        assert len(figure.data), name
        assert figure.layout.template.to_plotly_json() == {}, name  # it looks as in the report
    assert all(name in repr(plot) for name in names)


def test_history_is_trials_in_order_and_the_best_so_far():
    facts, rows = made(4)
    for trial, score in zip(facts["trials"], [0.4, 0.8, None, 0.3], strict=True):
        trial["score"] = score
    best, points = Plots(facts, rows).history().data
    assert (list(points.x), list(points.y)) == ([0, 1, 3], [0.4, 0.8, 0.3])
    assert list(best.y) == [0.4, 0.8, 0.8]
    facts["objective"] = {"metric": "error", "direction": "minimize"}
    assert list(Plots(facts, rows).history().data[0].y) == [0.4, 0.4, 0.3]


def test_the_leading_trial_stands_against_what_was_spent():
    facts, rows = made(4)
    plot = Plots(facts, rows)
    by_rounds, by_bytes = (plot.leading(by).data[0] for by in ("rounds", "bytes"))
    assert list(by_bytes.x) == pytest.approx([x / 1000 for x in by_rounds.x])
    assert list(by_bytes.y) == list(by_rounds.y)


def test_a_line_crosses_every_axis_where_its_value_lies():
    facts, rows = made(3)
    values = [(0.2, 0.001, 8, 0.0), (0.8, 1.0, 16, 0.45), (0.6, 1.0, 8, 0.9)]
    for trial, (score, lr, size, momentum) in zip(facts["trials"], values, strict=True):
        trial["score"], trial["config"] = (
            score,
            {"client": {"lr": lr, "batch_size": size, "momentum": momentum}},
        )
    facts["best"]["trial"] = 1
    found = figures.parallel(RunView.of_result(facts, rows))
    lines = [(trace["line"]["color"], trace["y"][:-1]) for trace in found["data"]]
    assert lines == [
        (RAMP[0], [0.0, 0.0, 0.0, 0.0]),  # the worst, at the low ends
        (RAMP[1], [0.0, 1.0, 1.0, pytest.approx(2 / 3)]),
        (WINNER, [1.0, 1.0, 0.5, 1.0]),  # drawn last, over the others
    ]
    assert found["layout"]["xaxis"]["ticktext"] == [*SPACE.names, "accuracy"]


def test_colours_of_a_contour_span_the_scores_that_it_shows():
    facts, rows = made(40)
    ground, dots = Plots(facts, rows).contour("client.lr", "client.momentum").data
    scores = [trial["score"] for trial in facts["trials"]]
    assert (ground.zmin, ground.zmax) == pytest.approx((min(scores), max(scores)))
    assert (dots.marker.cmin, dots.marker.cmax) == (ground.zmin, ground.zmax)
    assert ground.colorbar.title.text == "accuracy,<br>round 2"
    assert np.ptp(np.array(ground.z).mean(axis=1)) > 5 * np.ptp(
        np.array(ground.z).mean(axis=0)
    )  # up: momentum
    axes = Plots(facts, rows).contour("client.lr", "client.momentum").layout
    assert axes.xaxis.ticktext == ("0.001", "0.01", "0.1", "1")  # a log scale, as in the space
    assert axes.xaxis.tickvals == pytest.approx([0, 1 / 3, 2 / 3, 1])


def test_edf_is_the_share_of_trials():
    facts, rows = made(4)
    for trial, score in zip(facts["trials"], [0.4, 0.1, None, 0.3], strict=True):
        trial["score"] = score
    [line] = Plots(facts, rows).edf().data
    assert list(line.x) == [0.1, 0.3, 0.4]
    assert list(line.y) == pytest.approx([1 / 3, 2 / 3, 1])


def test_clients_are_sorted_and_have_their_names():
    [line] = Plots(*made()).clients().data
    assert list(line.y) == [0.2, 0.5, 0.9]
    assert list(line.x) == pytest.approx([100 / 3, 200 / 3, 100])
    assert list(line.text) == ["client south", "client west", "client north"]


def test_what_cannot_be_drawn_says_why():
    plot = Plots(*made(3))
    with pytest.raises(InputError, match=r"at least 12 trials with a score after equally many rounds, .* 3"):
        plot.importance()
    with pytest.raises(InputError, match=r"unknown hyperparameter 'lr'; known: client.batch_size"):
        plot.slice(["lr"])
    with pytest.raises(InputError, match=r"contour needs two hyperparameters, both are client\.lr"):
        plot.contour("client.lr", "client.lr")
    with pytest.raises(InputError, match="no trial became a copy"):
        plot.lineage()
    with pytest.raises(InputError, match="no trial has a client policy that learns"):
        plot.policy()
    with pytest.raises(InputError, match="history needs at least 3 trials with a score, the run has 2"):
        Plots(*made(2)).history()


def test_policies_and_copies_of_real_runs():
    data = fh.load("digits", clients=10, partition={"kind": "iid"})
    space = fh.Space(client={"lr": fh.Float(1e-2, 1.0, log=True)}, server={"lr": fh.Float(0.5, 1.0)})
    with fh.simulate("linear", data, workers=0) as federation:
        arms = fh.tune(federation, space, fh.FedEx(trials=2), rounds=3, total=6, cohort=3)
        heat = arms.plot.policy().data[0]
        assert list(heat.x) == [0, 1, 2, 3]
        assert np.array(heat.z).sum(axis=0) == pytest.approx(np.ones(4), abs=1e-2)
        population = fh.tune(
            federation, space, fh.FedPop(population=3, interval=2), rounds=6, total=18, cohort=3
        )
        assert len(population.lineage)
        assert "copied trial" in population.plot.lineage().data[-1].text[0]
        assert set(arms.plot.clients().data[0].text) == {f"client {c}" for c in range(10)}


def test_a_timeline_has_every_round_of_a_kept_run(tmp_path):
    space = fh.Space(client={"lr": fh.Float(1e-2, 1.0, log=True)}, server={"lr": 1.0})
    method = fh.RandomSearch(side_by_side=1)
    result = fh.tune(ToyFederation(6), space, method, rounds=3, total=9, cohort=3, run=tmp_path / "a")
    lines = result.plot.timeline().data
    assert len(lines) == 3
    assert [line.text[0] for line in lines] == ["3 rounds"] * 3
    ends = [line.x[1] for line in lines]
    assert all(before <= after.x[0] for before, after in zip(ends, lines[1:], strict=False))  # one by one
    unkept = fh.tune(ToyFederation(6), space, method, rounds=3, total=9, cohort=3)
    with pytest.raises(InputError, match="a kept run has them"):
        unkept.plot.timeline()
