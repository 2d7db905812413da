"""A run's directory from elsewhere: reading it imports nothing, follows no link, and runs no name."""

import json
import re
import shutil
import sqlite3
import sys
from dataclasses import dataclass

import pytest

import fedhpo as fh
from fedhpo.cli import main
from fedhpo.core.digests import digest, row_digest
from fedhpo.core.run_errors import RunError
from fedhpo.protocol.sections import figure, section, table
from fedhpo.run.checkpoints import Checkpoints
from fedhpo.run.record import StateFile
from fedhpo.study.recorded import recorded_study
from fedhpo.testing import ToyFederation

ATTACK = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    space = fh.Space(client={"lr": fh.Float(1e-3, 1.0, log=True)}, server={"lr": 1.0})
    for name, method in (
        ("pop", fh.FedPop(population=3, interval=1)),
        ("ex", fh.FedEx(schedule="fixed", trials=2, arms=3)),
    ):
        fh.tune(ToyFederation(6), space, method, rounds=3, total=12, cohort=3, run=folder / name)
    fh.tune(ToyFederation(6), space, Telling(), rounds=3, total=12, cohort=3, run=folder / "own")
    return folder


@dataclass(frozen=True)
class Telling(fh.Preset):
    """A method that brings sections of its own."""

    def tuner(self):
        return fh.Tuner(fh.schedules.FixedLength(2))

    def sections(self, search):
        traces = [{"x": [1, 2], "y": [0.5, 0.7], "name": "curve", "text": ["a", "b"]}]
        picture = figure(traces, {"title": {"text": "picture"}, "xaxis": {"title": {"text": "round"}}})
        return [section("Told", "a paragraph", table(["name", "value"], [["cell", 1.5], [None, 2]]), picture)]


def hostile(runs, tmp_path, name, change):
    """A copy of a run; `change` is applied to every string in its record's facts and its result."""
    target = tmp_path / "runs" / name
    shutil.copytree(runs / name, target)

    def changed(value):
        if isinstance(value, dict):
            return {key: changed(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [changed(inner) for inner in value]
        return change(value) if isinstance(value, str) else value

    result = json.loads((target / "result.json").read_text())
    kept = {key: result[key] for key in ("objective", "status")}
    (target / "result.json").write_text(json.dumps({**changed(result), **kept}))
    (target / "study.toml").write_text(change("study"))

    def hostile_fact(key, value):
        if key == "outputs":
            return value | {"result.json": digest((target / "result.json").read_bytes()).hex()}
        if key == "study":  # a metric that is none is refused before anything is drawn
            return changed(value) | {"objective": value["objective"]}
        return value if key in ("status", "format", "id", "head", "checkpoint") else changed(value)

    rewrite(target, hostile_fact)
    return target


def rewrite(target, change):
    """Other facts in a record, with digests that fit them: whoever wrote it could make those too."""
    with sqlite3.connect(target / "record.sqlite") as database:
        for key, value in database.execute("SELECT key, value FROM meta").fetchall():
            text = json.dumps(change(key, json.loads(value)), sort_keys=True, separators=(",", ":"))
            row = (text, row_digest("meta", (key, text)), key)
            database.execute("UPDATE meta SET value = ?, digest = ? WHERE key = ?", row)
    database.close()


@pytest.mark.parametrize("name", ["pop", "ex", "own"])
def test_nothing_that_a_run_names_is_imported(runs, tmp_path, monkeypatch, name, capsys):
    (tmp_path / "evil.py").write_text(
        f"open({str(tmp_path / 'marker')!r}, 'w').close()\nload = Net = print\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    target = hostile(runs, tmp_path, name, lambda text: "evil:load")
    study = {
        "data": {"name": "evil:load"},
        "model": {"name": "estimator", "path": "evil:Net"},
        "method": {"name": "evil:Method", "schedule": {"name": "evil:load"}},
        "server": {"optimiser": "evil:load"},
    }
    rewrite(target, lambda key, value: value | {"study": study} if key == "study" else value)
    assert main(["report", str(target)]) in (0, 2)
    assert main(["runs", str(tmp_path / "runs")]) == 0
    assert recorded_study(target).asked["data"] == {"name": "evil:load"}
    assert not (tmp_path / "marker").exists()
    assert "evil" not in sys.modules


@pytest.mark.parametrize("name", ["pop", "ex", "own"])
def test_names_are_shown_never_run(runs, tmp_path, name):
    target = hostile(runs, tmp_path, name, lambda text: text + ATTACK)
    assert main(["report", str(target)]) == 0
    page = (target / "report.html").read_text(encoding="utf-8")
    assert "&lt;script&gt;alert(1)" in page  # it was shown, so that this test has tried something
    assert "<script>alert(1)" not in page
    assert "<img src=x" not in page


def test_sections_of_a_method_are_drawn_as_data(runs, tmp_path):
    target = hostile(runs, tmp_path, "own", str)
    assert main(["report", str(target)]) == 0
    page = (target / "report.html").read_text(encoding="utf-8")
    own = page[page.index("<h2>Told</h2>") :].partition("</section>")[0]
    assert "<p>a paragraph</p>" in own
    assert '<td class="n " data-key="1.5">1.5</td>' in own
    [drawn] = re.findall(r'class="figure">(.*?)</script>', own, re.DOTALL)
    assert json.loads(drawn)["data"][0]["y"] == [0.5, 0.7]
    assert json.loads(drawn)["layout"]["height"] == 360


def test_texts_in_figures_are_no_tags(runs, tmp_path):
    target = hostile(runs, tmp_path, "own", lambda text: text if len(text) > 7 else f"<a href='x'>{text}</a>")
    assert main(["report", str(target)]) == 0
    page = (target / "report.html").read_text(encoding="utf-8")
    figures = re.findall(r'class="figure">(.*?)</script>', page, re.DOTALL)
    [drawn] = [json.loads(text) for text in figures if "&lt;a href" in text]
    assert drawn["data"][0]["name"] == "&lt;a href=&#x27;x&#x27;&gt;curve&lt;/a&gt;"


@pytest.mark.parametrize(
    "sections",
    [3, [3], [{"title": "a"}], [{"title": "a", "parts": [{"html": "<b>"}]}], [{"title": "a", "parts": 1}]],
)
def test_sections_that_are_none_are_damage(runs, tmp_path, sections, capsys):
    target = hostile(runs, tmp_path, "own", str)
    result = json.loads((target / "result.json").read_text()) | {"sections": sections}
    (target / "result.json").write_text(json.dumps(result))
    content = digest((target / "result.json").read_bytes()).hex()
    rewrite(target, lambda key, value: value | {"result.json": content} if key == "outputs" else value)
    assert main(["report", str(target)]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_the_page_allows_its_own_programs_only(runs, tmp_path):
    import base64
    import hashlib

    target = hostile(runs, tmp_path, "pop", str)
    assert main(["report", str(target)]) == 0
    page = (target / "report.html").read_text(encoding="utf-8")
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)[1]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-inline" not in policy.partition("script-src")[2].partition(";")[0]
    programs = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in programs]
    assert len(digests) == 4
    assert all(f"'sha256-{digest}'" in policy for digest in digests)
    assert page.index("Content-Security-Policy") < page.index("<script")
    figures = re.findall(r'<script type="application/json" class="figure">(.*?)</script>', page, re.DOTALL)
    assert len(figures) > 3
    assert all({"data", "layout"} <= set(json.loads(figure)) for figure in figures)


def test_links_are_neither_read_nor_written_through(runs, tmp_path, capsys):
    target = hostile(runs, tmp_path, "pop", str)
    secret = tmp_path / "secret"
    secret.write_text("mine")
    (target / "report.html").unlink(missing_ok=True)
    (target / "report.html").symlink_to(secret)
    assert main(["report", str(target)]) == 0
    assert secret.read_text() == "mine"
    assert not (target / "report.html").is_symlink()
    (target / "study.toml").unlink()
    (target / "study.toml").symlink_to(secret)
    assert main(["report", str(target)]) == 2
    assert "study.toml is a link" in capsys.readouterr().err


def test_checkpoints_lie_in_the_run(tmp_path):
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "outside.safetensors").write_text("mine")
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    (tmp_path / "checkpoints" / "link").symlink_to(tmp_path / "outside.safetensors")
    for name in ("../outside.safetensors", str(tmp_path / "outside.safetensors"), "link", "..", ""):
        file = StateFile(name, 4, digest(b"mine").hex())
        with pytest.raises(RunError, match="lies elsewhere"):
            checkpoints.read(file)
        with pytest.raises(RunError, match="lies elsewhere"):
            checkpoints.damaged([file])
    with pytest.raises(RunError, match="lies elsewhere"):
        checkpoints.delete(["../outside.safetensors"])
    assert (tmp_path / "outside.safetensors").read_text() == "mine"


@pytest.mark.parametrize(
    ("changes", "refused"),
    [
        ({"model": {"name": "estimator", "path": "evil:Net"}}, True),
        ({"method": {"name": "evil:Net"}}, False),
        ({"method": {"schedule": {"name": "evil:Net"}}}, False),
        ({"server": {"optimiser": "evil:Net"}}, True),
        ({"proxy": {"data": {"name": "digits"}, "method": {"name": "evil:Net"}}}, True),
    ],
)
def test_a_table_names_nothing_to_import(tmp_path, monkeypatch, changes, refused):
    import io
    import zipfile

    from fedhpo.research.tables.shipped import shipped_tables

    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'marker')!r}, 'w').close()\nNet = print\n")
    monkeypatch.syspath_prepend(tmp_path)
    content = shipped_tables()["stackexchange"].read_bytes()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(tmp_path / "a.table", "w") as new:
        for name in old.namelist():
            inner = old.read(name)
            if name == "header.json":
                header = json.loads(inner)
                header["study"] |= changes
                inner = json.dumps(header).encode()
            new.writestr(name, inner)
    if refused:
        with pytest.raises(fh.InputError, match="never run"):
            fh.load_table(tmp_path / "a.table")
    else:  # a table needs no method
        assert fh.load_table(tmp_path / "a.table").study.method == fh.Auto()
    assert not (tmp_path / "marker").exists()
