"""Figures from plain data: what they hold, where they are left out, and that plotly accepts them."""

import plotly.graph_objects as go
import pytest

from fedhpo.pages import plots
from fedhpo.pages.figure import RAMP, WINNER, as_json, plotly_js, thinned

NAMED = [
    ("client.lr", {"low": 0.01, "high": 1.0, "log": True}),
    ("client.rule", {"choices": ["a", "b", "c"]}),
]


def trial(number, score, lr, rule, rounds=5):
    config = {"client": {"lr": lr, "rule": rule}}
    return {"trial": number, "score": score, "rounds": rounds, "config": config}


TRIALS = [
    trial(0, 0.2, 0.01, "a"),
    trial(1, 0.8, 0.1, "b"),
    trial(2, None, 1.0, "c"),
    trial(3, 0.6, 1.0, "c"),
]


def test_the_best_so_far_never_gets_worse():
    found = plots.history(TRIALS, "accuracy", maximise=True, winner=1, own=0)
    assert found["data"][0]["y"] == [0.2, 0.8, 0.8]
    assert found["data"][1]["x"] == [0, 1, 3]
    assert plots.history(TRIALS, "loss", maximise=False)["data"][0]["y"] == [0.2, 0.2, 0.2]


def test_two_trials_say_nothing():
    assert plots.history(TRIALS[:2], "accuracy", maximise=True) is None
    assert plots.parallel(NAMED, TRIALS[:2], "accuracy", maximise=True) is None
    assert plots.parallel([], TRIALS, "accuracy", maximise=True) is None


def test_a_line_crosses_every_axis_where_its_value_lies():
    found = plots.parallel(NAMED, TRIALS, "accuracy", maximise=True, winner=1)
    lines = [(trace["line"]["color"], trace["y"][:-1]) for trace in found["data"]]
    assert lines == [
        (RAMP[0], [0.0, 0.0, 0.0]),  # the worst, at the low ends
        (RAMP[1], [1.0, 1.0, pytest.approx(2 / 3)]),
        (WINNER, [0.5, 0.5, 1.0]),  # drawn last, over the others
    ]
    assert found["layout"]["xaxis"]["ticktext"] == ["client.lr", "client.rule", "accuracy"]


@pytest.mark.parametrize("metric", ["accuracy", "loss"])
def test_plotly_accepts_them(metric):
    grid = [[0.1, 0.2], [0.3, 0.4]]
    figures = [
        plots.history(TRIALS, metric, maximise=metric == "accuracy", winner=1, own=0),
        plots.parallel(NAMED, TRIALS, metric, maximise=True, winner=1),
        plots.importance_bars({"client.lr": 0.7, "client.rule": 0.3}),
        plots.landscape(*NAMED, grid, TRIALS, metric, winner=1),
        plots.spread({"winner": [0.3, 0.1], "yours": [0.2]}, metric),
    ]
    for figure in figures:
        assert len(go.Figure(figure).data) == len(figure["data"])


def test_the_bundle_draws_every_kind_of_trace_that_we_use():
    program = plotly_js()
    assert program.startswith("/**\n* plotly.js (cartesian - minified) v")
    for kind in ("scatter", "bar", "heatmap", "contour"):
        assert f'name:"{kind}"' in program
    assert 'name:"parcoords"' not in program  # hence lines


def test_clients_are_sorted_and_shares_go_to_all():
    trace = plots.spread({"winner": [0.3, 0.1, 0.2, 0.4]}, "accuracy")["data"][0]
    assert trace["y"] == [0.1, 0.2, 0.3, 0.4]
    assert trace["x"] == [25, 50, 75, 100]


def test_thinned_lines_keep_their_ends():
    assert thinned(list(range(1000)), 10)[0] == 0
    assert thinned(list(range(1000)), 10)[-1] == 999
    assert len(thinned(list(range(1000)), 10)) == 10
    assert thinned([1, 2], 10) == [1, 2]


def test_json_holds_no_markup_and_nothing_infinite():
    assert as_json({"a": ["<b>", float("inf"), 0.12345678, 2.0]}) == '{"a":["\\u003cb>",null,0.123457,2]}'
