"""The pages in a real browser: Chromium through playwright; skipped with a word where either is absent."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest

import fedhpo as fh
from fedhpo.report import write_report
from fedhpo.run.lock import is_held
from fedhpo.testing import ToyFederation

pytest.importorskip("starlette", reason="the extra ui is not installed")
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
if CHROMIUM is None:
    pytest.skip("there is no chromium on this machine", allow_module_level=True)

playwright.expect.set_options(timeout=20_000)  # a loaded machine takes its time
ATTACK = "<img src=x onerror=alert(1)>"
SPACE = fh.Space(
    client={"lr": fh.Float(1e-3, 1.0, log=True), "rule": fh.Choice([ATTACK, "b"])},
    server={"lr": fh.Float(0.1, 3.0, log=True)},
)
GROWING = """
import sys, fedhpo as fh
from fedhpo.testing import ToyFederation
space = fh.Space(client={"lr": fh.Float(1e-3, 1.0, log=True)}, server={"lr": 1.0})
method = fh.RandomSearch(side_by_side=1)
fh.tune(ToyFederation(8, seconds=0.15), space, method, rounds=3, total=30, cohort=3, run=sys.argv[1])
"""
STUDY = """
seed = 0
[data]
name = "digits"
clients = 8
[model]
name = "linear"
[space.client]
lr = { low = 1e-3, high = 1.0, log = true }
[method]
name = "random"
[budget]
rounds = 40
total = 400
cohort = 3
"""
PHONE = {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    federation = ToyFederation(12, failing=0.05)
    for name, method in (
        ("alpha", fh.SHA(trials=14)),
        ("beta", fh.FedPop(population=4, interval=2)),
        ("gamma", fh.FedEx(schedule="fixed", trials=2, arms=3)),
        (f"attack {ATTACK}", fh.SHA(trials=4)),
    ):
        fh.tune(federation, SPACE, method, rounds=6, total=36, cohort=4, run=folder / name)
    (folder / "broken").mkdir()
    (folder / "broken" / "record.sqlite").write_bytes(
        (folder / "alpha" / "record.sqlite").read_bytes()[:5000]
    )
    return folder


@pytest.fixture(scope="module")
def address(folder):
    command = [sys.executable, "-m", "fedhpo", "ui", str(folder), "--port", "0", "--json", "--control"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE)
    yield json.loads(server.stdout.readline())["address"]
    server.terminate()
    server.wait(20)
    server.stdout.close()


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@pytest.fixture
def visit(browser):
    """Opens pages, and at the end sees that none had an error, a dialogue, or a word with another machine."""
    contexts, trouble = [], []

    def opened(url, **settings):
        context = browser.new_context(**{"viewport": {"width": 1200, "height": 900}} | settings)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("console", lambda m: trouble.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on("dialog", lambda dialog: (trouble.append(f"dialogue {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda r: None if _is_ours(r.url) else trouble.append(f"asked {r.url}"))
        page.goto(url)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert trouble == []


def _is_ours(url):
    return url.startswith(("http://127.0.0.1:", "file://", "data:", "blob:"))


QUESTIONS = ["Is it better?", "How sure?", "What did it cost?", "Stop now?"]


def decides(page):
    """All four answers stand in the first 800 px, and no figure of them twice."""
    cards = page.locator(".cards .card")
    assert cards.locator("div").all_inner_texts() == QUESTIONS
    assert all(box["y"] + box["height"] <= 800 for box in (one.bounding_box() for one in cards.all()))
    assert all(text.strip() for text in cards.locator("strong").all_inner_texts())
    figures = re.findall(r"\d[\d,.]*\d", " ".join(cards.all_inner_texts()))
    assert len(figures) == len(set(figures)), figures


def no_overflow(page):
    return page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_list_is_searched_sorted_and_walked_by_keys(visit, address):
    page = visit(address)
    rows = page.locator("table.runs tbody tr")
    playwright.expect(rows).to_have_count(5)
    playwright.expect(page.locator("tr", has_text="broken").locator(".status")).to_have_text("damaged")
    page.keyboard.press("/")
    page.keyboard.type("fedpop fin")
    playwright.expect(rows).to_have_count(1)
    page.keyboard.press("Escape")
    page.get_by_role("searchbox").fill("")
    playwright.expect(rows).to_have_count(5)
    page.locator("th", has_text="method").click()
    methods = [row.split("\n")[0] for row in page.locator("tbody td:nth-child(4)").all_inner_texts()]
    assert methods[:4] == sorted(methods[:4])
    page.keyboard.press("j")
    name = page.locator("tr.at .name a").inner_text()
    page.keyboard.press("Enter")
    playwright.expect(page.locator("#title")).to_have_text(name)
    page.keyboard.press("u")
    playwright.expect(rows).to_have_count(5)


def test_a_run_shows_what_its_report_shows(visit, address):
    page = visit(f"{address}#/run/alpha")
    for part in ("part-result", "part-history", "part-learning-curves", "part-what-mattered", "part-trials"):
        playwright.expect(page.locator(f"#{part}")).to_be_attached()
    playwright.expect(page.locator("#part-history .js-plotly-plot")).to_have_count(2)
    field = page.locator("#part-trials input")
    field.fill("winner")
    playwright.expect(page.locator("#part-trials tbody tr:not([hidden])")).to_have_count(1)
    field.fill("")
    page.locator("#part-trials td a", has_text=re.compile("^0$")).click()
    playwright.expect(page.locator("#title")).to_have_text("Trial 0")
    playwright.expect(page.locator("#part-summary")).to_contain_text("your own config")


def test_a_run_grows_while_it_is_watched(visit, address, folder):
    process = subprocess.Popen([sys.executable, "-W", "ignore", "-c", GROWING, str(folder / "grows")])
    try:
        page = visit(address)
        page.locator("table.runs a", has_text="grows").click()  # it appears in the list by itself
        playwright.expect(page.locator("#now .status")).to_have_text("running")
        playwright.expect(page.locator("#part-history .js-plotly-plot").first).to_be_visible()
        page.set_viewport_size({"width": 1280, "height": 800})
        decides(page)
        seen = {page.locator("#part-result .card:nth-child(3) strong").inner_text()}
        end = time.monotonic() + 60
        while len(seen) < 3:
            assert time.monotonic() < end, seen
            page.wait_for_timeout(100)
            seen.add(page.locator("#part-result .card:nth-child(3) strong").inner_text())
        playwright.expect(page.locator("#now .status")).to_have_text("finished")
        playwright.expect(page.locator("#part-result .card:nth-child(3) strong")).to_have_text("30 rounds")
        playwright.expect(page.locator("#part-trials tbody tr")).to_have_count(10)
    finally:
        process.kill()
        process.wait()


def test_live_page_and_report_answer_four_questions_first(visit, address, folder, tmp_path):
    wide = {"viewport": {"width": 1280, "height": 800}}
    page = visit(f"{address}#/run/alpha", **wide)
    page.wait_for_selector("#part-result .card")
    decides(page)
    report = visit(write_report([folder / "alpha"], tmp_path / "r.html").as_uri(), **wide)
    decides(report)
    comparison = visit(
        write_report([folder / "alpha", folder / "beta"], tmp_path / "c.html").as_uri(), **wide
    )
    decides(comparison)
    empty = (
        "[...document.querySelectorAll('script.figure')].filter(s => !JSON.parse(s.textContent).data.length)"
    )
    for name, shown in (("r.html", report), ("c.html", comparison)):
        assert shown.evaluate(f"{empty}.length") == 0
        assert no_overflow(visit((tmp_path / name).as_uri(), viewport=PHONE))


def test_runs_are_compared(visit, address):
    page = visit(address)
    for name in ("alpha", "beta"):
        page.get_by_label(f"compare {name}").check()
    page.get_by_text("compare 2 runs").click()
    playwright.expect(page.locator("script.figure")).to_have_count(3)
    assert page.locator("#part-tuned-configs th").all_inner_texts() == ["hyperparameter", "alpha", "beta"]
    page.set_viewport_size({"width": 1280, "height": 800})
    decides(page)
    page.reload()
    playwright.expect(page.locator("script.figure")).to_have_count(3)


def test_names_of_a_run_are_text(visit, address):
    page = visit(address)
    link = page.locator("table.runs a", has_text=ATTACK)
    playwright.expect(link).to_have_text(f"attack {ATTACK}")
    link.click()
    playwright.expect(page.locator("#title")).to_have_text(f"attack {ATTACK}")
    playwright.expect(page.locator("#part-trials")).to_contain_text(ATTACK)
    playwright.expect(page.locator(".js-plotly-plot").first).to_be_visible()
    for _ in range(12):
        page.mouse.wheel(0, 700)
        page.wait_for_timeout(60)
    assert page.locator("img").count() == 0


@pytest.mark.parametrize("where", ["", "#/run/alpha", "#/compare/alpha/beta"])
def test_dark_follows_the_system_and_the_button(visit, address, where):
    page = visit(address + where, color_scheme="dark")
    page.wait_for_selector("table.runs tbody tr, .js-plotly-plot")
    ground = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(ground) == "rgb(15, 20, 24)"
    tick = page.locator(".xtick text").first
    if where:
        assert tick.evaluate("element => getComputedStyle(element).fill") == "rgb(228, 233, 238)"
    page.locator("#theme").click()
    assert page.evaluate(ground) == "rgb(245, 247, 248)"
    if where:
        assert tick.evaluate("element => getComputedStyle(element).fill") == "rgb(31, 41, 51)"


def test_a_phone_shows_all_pages_without_scrolling_sideways(visit, address):
    page = visit(address, viewport=PHONE)
    for where in ("", "#/run/alpha", "#/run/beta/trial/1", "#/compare/alpha/beta"):
        page.goto(address + where)
        page.wait_for_selector("table.runs tbody tr, .js-plotly-plot")
        assert no_overflow(page), where
    page.goto(f"{address}#/run/alpha")
    row = page.locator("#part-trials tbody tr").first
    more = row.locator("td.more").first
    playwright.expect(more).to_be_hidden()
    row.locator("td").nth(2).click()
    playwright.expect(more).to_be_visible()


def test_a_killed_run_is_resumed_from_the_page(visit, address, folder, tmp_path):
    # Long enough that it never ends by itself before it is killed.
    (tmp_path / "study.toml").write_text(STUDY.replace("total = 400", "total = 20000"))
    study, options = str(tmp_path / "study.toml"), ["--runs", str(folder), "--workers", "0", "--quiet"]
    nowhere = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen([sys.executable, "-m", "fedhpo", "tune", study, *options], **nowhere)
    try:
        page = visit(f"{address}#/")
        page.locator("table.runs a", has_text="study").click(timeout=60_000)
        status = page.locator("#now .status")
        playwright.expect(page.locator("#part-result .card:nth-child(3) strong")).to_have_text(
            re.compile(r"^[\d,]{2,} ")
        )
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        playwright.expect(status).to_have_text("stopped")
        page.get_by_role("button", name="resume").click()
        playwright.expect(status).to_have_text("running", timeout=60_000)
        playwright.expect(page.locator("#now .warning")).to_be_hidden()
        page.get_by_role("button", name="stop").click()
        playwright.expect(status).to_have_text(re.compile("stopped|finished"), timeout=60_000)
    finally:
        process.kill()
        process.wait()
        _end(folder / "study")


def _end(path):
    """No process is left on the run."""
    end = time.monotonic() + 20
    while is_held(path / "lock") and time.monotonic() < end:
        time.sleep(0.1)
    assert not is_held(path / "lock")


@pytest.mark.parametrize("settings", [{}, {"color_scheme": "dark"}, {"viewport": PHONE}])
def test_the_report_is_the_same_frozen(visit, folder, tmp_path, settings):
    output = write_report([folder / "alpha"], tmp_path / "report.html")
    page = visit(output.as_uri(), **settings)
    playwright.expect(page.locator(".answer")).to_contain_text("config")
    playwright.expect(page.locator(".js-plotly-plot").first).to_be_visible()
    assert no_overflow(page)
    page.locator("section", has_text="Trials").locator("input").fill("your config")
    playwright.expect(page.locator("table.folds tbody tr:not([hidden])")).to_have_count(1)
