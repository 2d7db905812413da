"""Figures as data for the browser, and the program that draws them."""

from fedhpo.pages.figure import as_json, plotly_js, thinned


def test_the_bundle_draws_every_kind_of_trace_that_we_use():
    program = plotly_js()
    assert program.startswith("/**\n* plotly.js (cartesian - minified) v")
    for kind in ("scatter", "bar", "heatmap", "contour"):
        assert f'name:"{kind}"' in program
    assert 'name:"parcoords"' not in program  # hence lines


def test_thinned_lines_keep_their_ends():
    assert thinned(list(range(1000)), 10)[0] == 0
    assert thinned(list(range(1000)), 10)[-1] == 999
    assert len(thinned(list(range(1000)), 10)) == 10
    assert thinned([1, 2], 10) == [1, 2]


def test_json_holds_no_markup_and_nothing_infinite():
    assert as_json({"a": ["<b>", float("inf"), 0.12345678, 2.0]}) == '{"a":["\\u003cb>",null,0.123457,2]}'
