"""The page's server: what it tells, whom it refuses, and that a damaged run breaks nothing."""

import asyncio
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
from fedhpo.core.errors import InputError
from fedhpo.run import Run
from fedhpo.testing import ToyFederation
from fedhpo.ui.control import Control
from fedhpo.ui.runs import Runs

pytest.importorskip("starlette", reason="the extra ui is not installed")
httpx = pytest.importorskip("httpx", reason="httpx is not installed")

SPACE = fh.Space(client={"lr": fh.Float(1e-3, 1.0, log=True)}, server={"lr": 1.0})


def tune(path, method=None, **more):
    settings = {"rounds": 4, "total": 12, "cohort": 3} | more
    return fh.tune(ToyFederation(8), SPACE, method or fh.SHA(trials=3), **settings, run=path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    tune(folder / "first")
    tune(folder / "group" / "second", fh.FedPop(population=3, interval=1))
    tune(folder / "halted", callbacks=[lambda event: event.kind == "evaluate"])
    (folder / "broken").mkdir()
    content = (folder / "first" / "record.sqlite").read_bytes()
    (folder / "broken" / "record.sqlite").write_bytes(content[:5000])
    (folder / "empty").mkdir()
    return folder


class Client:
    """Asks the application without a socket."""

    def __init__(self, app):
        self.app = app

    def get(self, path, **more):
        return asyncio.run(self._ask("GET", path, more))

    def post(self, path, **more):
        return asyncio.run(self._ask("POST", path, more))

    async def _ask(self, method, path, more):
        transport = httpx.ASGITransport(app=self.app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8265") as client:
            return await client.request(method, path, **more)


def client(folder, control=None):
    from fedhpo.ui.app import make_app

    return Client(make_app(Runs(folder), control))


def test_the_list_has_every_run_and_says_which_are_damaged(folder):
    found = {run["name"]: run for run in client(folder).get("/api/runs").json()["runs"]}
    assert {name: run["status"] for name, run in found.items()} == {
        "first": "finished",
        "group/second": "finished",
        "halted": "stopped",
        "broken": "damaged",
    }
    assert found["first"]["method"] == "sha"
    assert found["first"]["total"] == 12
    assert "record.sqlite" in found["broken"]["reason"]
    result = fh.tune(
        ToyFederation(8), SPACE, fh.SHA(trials=3), rounds=4, total=12, cohort=3, run=folder / "first"
    )
    assert found["first"]["score"] == result.facts["best"]["validation"]["value"]


def test_a_run_has_the_sections_of_its_report(folder):
    told = client(folder).get("/api/run", params={"name": "first"}).json()
    titles = [section["title"] for section in told["sections"]]
    assert titles[:2] == ["Result", "History"]
    assert {"Learning curves", "Trials", "Clients", "Cost", "How it went"} <= set(titles)
    assert told["share"] == 1.0
    assert (told["now"]["rounds"], told["now"]["total"]) == (8, 12)
    assert not told["control"]


def test_sections_that_the_page_has_are_not_sent_again(folder):
    page = client(folder)
    first = page.get("/api/run", params={"name": "first"}).json()["sections"]
    have = ",".join(section["digest"] for section in first)
    again = page.get("/api/run", params={"name": "first", "have": have}).json()["sections"]
    assert [section["digest"] for section in again] == [section["digest"] for section in first]
    assert not any("html" in section for section in again)


def test_a_trial_and_a_comparison(folder):
    page = client(folder)
    trial = page.get("/api/trial", params={"name": "group/second", "trial": "1"}).json()
    assert trial["sections"][0]["title"] == "Summary"
    assert "client.lr" in trial["sections"][0]["html"]
    names = [("name", "first"), ("name", "group/second")]
    compared = page.get("/api/compare", params=names).json()["sections"]
    assert [one["title"] for one in compared][:2] == ["Results", "Score of the leading trial"]
    assert page.get("/api/compare", params=names[:1]).status_code == 404


@pytest.mark.parametrize(
    ("path", "parameters"),
    [
        ("/api/run", {"name": "../secret"}),
        ("/api/run", {"name": "/etc"}),
        ("/api/run", {"name": "empty"}),
        ("/api/trial", {"name": "first", "trial": "99"}),
        ("/api/trial", {"name": "first", "trial": "x"}),
        ("/static/..%2fapp.py", {}),
        ("/static/__init__.py", {}),
        ("/nothing", {}),
    ],
)
def test_nothing_else_can_be_reached(folder, path, parameters):
    assert client(folder).get(path, params=parameters).status_code == 404


def test_a_damaged_run_says_why(folder):
    answer = client(folder).get("/api/run", params={"name": "broken"})
    assert answer.status_code == 409
    assert "damaged" in answer.json()["error"]


def test_links_lead_nowhere(folder, tmp_path):
    tune(tmp_path / "elsewhere" / "run")
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "linked").symlink_to(tmp_path / "elsewhere" / "run")
    (tmp_path / "runs" / "half").mkdir()
    (tmp_path / "runs" / "half" / "record.sqlite").symlink_to(
        tmp_path / "elsewhere" / "run" / "record.sqlite"
    )
    found = client(tmp_path / "runs").get("/api/runs").json()["runs"]
    assert [(run["name"], run["status"]) for run in found] == [("half", "damaged")]
    assert "is a link" in found[0]["reason"]


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example:8265", "fedhpo"])
def test_other_names_for_this_machine_are_refused(folder, host):
    assert client(folder).get("/api/runs", headers={"host": host}).status_code == 400


@pytest.mark.parametrize("path", ["/", "/static/app.js", "/static/plotly.js", "/api/runs", "/nothing"])
def test_every_answer_is_guarded(folder, path):
    headers = client(folder).get(path).headers
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; ")
    assert "unsafe-eval" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cross-origin-resource-policy"] == "same-origin"


def test_the_page_loads_only_what_it_brings(folder):
    page = client(folder)
    for name in re.findall(r'(?:src|href)="([^"#]+)"', page.get("/").text):
        assert name.startswith("static/")
        assert page.get(f"/{name}").status_code == 200


def test_without_control_nothing_can_be_stopped(folder):
    answer = client(folder).post("/api/control", params={"name": "first", "action": "stop"})
    assert answer.status_code == 403


def test_with_control_only_the_token_counts(folder):
    control = Control()
    page = client(folder, control)
    asked = {"name": "first", "action": "stop"}
    for token in ("", "x" + control.token[1:], control.token + " ", "é"):
        headers = {"x-token": token.encode()}
        assert page.post("/api/control", params=asked, headers=headers).status_code == 403
    headers = {"x-token": control.token}
    answer = page.post("/api/control", params=asked, headers=headers)
    assert answer.status_code == 404
    assert "no process works on run first" in answer.json()["error"]
    answer = page.post("/api/control", params=asked | {"action": "rm"}, headers=headers)
    assert "must be stop or resume" in answer.json()["error"]


def test_stop_goes_to_the_process_that_holds_the_run(folder, tmp_path):
    shutil.copytree(folder / "halted", tmp_path / "halted")
    program = (
        "import sys, time; from pathlib import Path; from fedhpo.run.lock import Lock; "
        "lock = Lock(Path(sys.argv[1])); print('held', flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "halted" / "lock")], stdout=subprocess.PIPE
    )
    try:
        assert holder.stdout.readline() == b"held\n"
        control = Control()
        page = client(tmp_path, control)
        answer = page.post(
            "/api/control",
            params={"name": "halted", "action": "stop"},
            headers={"x-token": control.token},
        )
        assert answer.status_code == 200
        assert holder.wait(10) == -signal.SIGTERM
    finally:
        holder.kill()
        holder.stdout.close()


def test_a_run_that_cannot_be_resumed_says_why(folder):
    control = Control()
    page = client(folder, control)  # begun from Python: there is no study to build it from
    asked = {"name": "halted", "action": "resume"}
    assert page.post("/api/control", params=asked, headers={"x-token": control.token}).status_code == 200
    end = time.monotonic() + 30
    note = ""
    while not note and time.monotonic() < end:
        time.sleep(0.2)
        note = page.get("/api/run", params={"name": "halted"}).json()["note"]
    assert note.startswith("fedhpo: ")


def test_reading_does_not_hinder_the_writer(tmp_path):
    """While a run is written, looking at it again and again neither fails nor stops it."""
    page = client(tmp_path)
    looks = []

    def look(event):
        if event.kind == "round":
            told = page.get("/api/run", params={"name": "a"}).json()
            looks.append((told["now"]["status"], told["now"]["rounds"]))
        return False

    result = tune(tmp_path / "a", callbacks=[look])
    assert result.status == "finished"
    assert {status for status, _ in looks} == {"running"}
    assert [rounds for _, rounds in looks] == sorted(rounds for _, rounds in looks)
    told = page.get("/api/run", params={"name": "a"}).json()
    assert told["now"]["status"] == "finished"
    assert told["now"]["rounds"] == 8


def test_a_leaderboard_is_shown_where_there_is_one(folder, tmp_path):
    tune(tmp_path / "a")
    page = client(tmp_path)
    assert page.get("/api/runs").json()["leaderboard"] is None
    (tmp_path / "leaderboard.json").write_text(
        '{"title": "Bench", "columns": ["method", "rank"], "rows": [["sha", 1.5], ["short"]]}'
    )
    assert page.get("/api/runs").json()["leaderboard"] == {
        "title": "Bench",
        "columns": ["method", "rank"],
        "rows": [["sha", 1.5]],
    }
    (tmp_path / "leaderboard.json").write_text("{]")
    assert page.get("/api/runs").json()["leaderboard"] is None


def test_the_directory_may_be_a_run_itself(folder):
    found = client(folder / "first").get("/api/runs").json()["runs"]
    assert [run["name"] for run in found] == ["first"]


def test_a_directory_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(InputError, match="no such directory"):
        Runs(tmp_path / "nowhere")


def test_it_serves_this_machine_only(folder):
    command = [sys.executable, "-m", "fedhpo", "ui", str(folder), "--port", "0", "--json"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, env=dict(os.environ))
    try:
        address = json.loads(server.stdout.readline())["address"]
        assert address.startswith("http://127.0.0.1:")
        for _ in range(100):
            try:
                assert httpx.get(f"{address}api/runs", timeout=10).status_code == 200
                break
            except httpx.ConnectError:
                time.sleep(0.1)
        server.send_signal(signal.SIGINT)
        assert server.wait(20) in (0, 130)
    finally:
        server.kill()
        server.stdout.close()


def test_a_run_that_has_not_begun_is_listed(tmp_path):
    Run.create_or_open(tmp_path / "a", {"seed": 0}, "sha", 1).close()
    found = client(tmp_path).get("/api/runs").json()["runs"]
    assert found[0]["name"] == "a"
    assert found[0]["status"] == "damaged"  # it is no study that fedhpo tunes


def test_a_file_that_the_browser_has_is_not_sent_again(folder):
    page = client(folder)
    first = page.get("/static/plotly.js", headers={"accept-encoding": "gzip"})
    assert first.headers["content-encoding"] == "gzip"
    assert int(first.headers["content-length"]) < 600_000 < len(first.content)
    assert len(page.get("/static/plotly.js", headers={"accept-encoding": "identity"}).content) == len(
        first.content
    )
    again = page.get("/static/plotly.js", headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert page.get("/static/app.js").headers["etag"] != first.headers["etag"]
    assert page.get("/static/absent.js").status_code == 404
