"""Report, live page and `result.plot` draw the same figures: equal JSON on the kept runs of 0.2.0."""

import json
import re
import sys
from pathlib import Path

import pytest

import fedhpo as fh
from fedhpo.core.errors import InputError
from fedhpo.pages.figure import as_json
from fedhpo.report import write_report

GOLDEN = Path(__file__).parents[1] / "golden"
RUNS = sorted(path.name.removesuffix(".tar.xz") for path in (GOLDEN / "runs").glob("finished-*.tar.xz"))
#: What each is called on a page.
FIGURES = {"importance": "importance", "history": "history", "parallel": "parallel", "contour": "contour"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """All finished runs, and a longer one in which every figure has something to say."""
    sys.path.insert(0, str(GOLDEN))
    try:
        from golden_runs import unpacked
    finally:
        sys.path.remove(str(GOLDEN))
    folder = tmp_path_factory.mktemp("equal")
    for name in RUNS:
        unpacked(name, folder)
    space = fh.Space(
        client={"lr": fh.Float(1e-3, 10.0, log=True), "momentum": fh.Float(0, 0.9)},
        server={"lr": fh.Float(0.1, 3.0, log=True)},
    )
    federation = fh.testing.ToyFederation(12, noise=0.0)
    fh.tune(federation, space, "random", rounds=2, total=80, cohort=4, run=folder / "longer")
    return folder


def on_page(body):
    """The figures in some HTML, by the name of their element."""
    script = r'<script type="application/json" class="figure">(.*?)</script>'
    found = re.findall(r'<div id="([\w-]+)" style="[^"]*"></div>' + script, body, re.S)
    return {name: json.loads(data) for name, data in found}


def live(folder, name):
    """The live page's sections, once the slow ones are there."""
    from starlette.testclient import TestClient

    from fedhpo.ui.app import make_app
    from fedhpo.ui.runs import Runs

    app = make_app(Runs(folder), "secret")
    client = TestClient(app, base_url="http://127.0.0.1", headers={"x-token": "secret"})
    for _ in range(600):
        answer = client.get("/api/run", params={"name": name}).json()
        if not answer["more"] and answer["share"] >= 1:
            return on_page("".join(one["html"] for one in answer["sections"]))
    raise AssertionError("the page never had all of its parts")


def plotted(result, name):
    """The same figure by `result.plot`, as the browser gets it; None where the run says too little."""
    try:
        made = getattr(result.plot, name)()
    except InputError:
        return None
    found = made.to_plotly_json()
    return json.loads(as_json({"data": found["data"], "layout": found["layout"]}))


@pytest.mark.parametrize("name", [*RUNS, "longer"])
def test_all_three_draw_the_same(folder, name, tmp_path):
    pytest.importorskip("starlette", reason="the extra ui is not installed")
    pytest.importorskip("httpx", reason="httpx is not installed")
    page = on_page(write_report([folder / name], tmp_path / "report.html").read_text(encoding="utf-8"))
    watched = live(folder, name)
    result = fh.load_run(folder / name)
    shown = 0
    for called, element in FIGURES.items():
        own = plotted(result, called)
        assert page.get(element) == own, called
        assert watched.get(element) == own, called
        shown += own is not None
    assert shown == 4 or name != "longer"


def test_the_kept_runs_have_figures_at_all(folder):
    drawn = [name for name in RUNS if plotted(fh.load_run(folder / name), "history") is not None]
    assert len(drawn) > 15
