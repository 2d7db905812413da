"""The page's server: what it tells, whom it refuses, and that a damaged run breaks nothing."""

import asyncio
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

import fedhpo as fh
from fedhpo.cli.ui import redirection
from fedhpo.core.errors import InputError
from fedhpo.run import Run, list_runs
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

    def __init__(self, app, headers=None):
        self.app, self.headers = app, headers or {}

    def get(self, path, **more):
        return asyncio.run(self._ask("GET", path, more))

    def post(self, path, **more):
        return asyncio.run(self._ask("POST", path, more))

    async def _ask(self, method, path, more):
        transport = httpx.ASGITransport(app=self.app, raise_app_exceptions=False)
        more["headers"] = self.headers | (more.get("headers") or {})
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8265") as client:
            return await client.request(method, path, **more)


TOKEN = "the-token"


def client(folder, control=None, token=TOKEN):
    """Asks with the token as a program does, or with what is given in its place."""
    from fedhpo.ui.app import make_app

    return Client(make_app(Runs(folder), TOKEN, control), {"x-token": token})


PATHS = ["/", "/api/runs", "/api/run?name=first", "/api/trial?name=first&trial=0", "/api/events", "/nothing"]


@pytest.mark.parametrize("path", [*PATHS, "/api/compare?name=first&name=halted"])
@pytest.mark.parametrize("token", ["", "x" + TOKEN[1:], TOKEN + " ", "é".encode()])
def test_without_the_token_nothing_is_read(folder, path, token):
    answer = client(folder, token=token).get(path)
    assert answer.status_code == 403
    assert "open the whole address that `fedhpo ui` printed" in answer.text
    assert str(folder) not in answer.text
    assert "set-cookie" not in answer.headers


def test_the_token_in_the_address_becomes_a_cookie(folder):
    page = client(folder, token="")
    answer = page.get("/", params={"token": TOKEN})
    assert (answer.status_code, answer.headers["location"]) == (303, "./")
    cookie = answer.headers["set-cookie"]
    assert {"HttpOnly", "SameSite=lax", "Path=/"} <= set(cookie.split("; "))
    kept = {"cookie": cookie.partition(";")[0]}
    assert page.get("/", headers=kept).status_code == 200
    assert page.get("/api/runs", headers=kept).status_code == 200
    other = {"cookie": kept["cookie"] + "x"}
    assert page.get("/api/runs", headers=other).status_code == 403
    assert page.get("/api/runs", params={"token": TOKEN}).status_code == 403  # only the page takes it


def test_another_sites_page_cannot_stop_a_run_by_the_cookie(folder):
    page = client(folder, Control(), token="")
    kept = {"cookie": page.get("/", params={"token": TOKEN}).headers["set-cookie"].partition(";")[0]}
    asked = {"name": "first", "action": "stop"}
    assert page.post("/api/control", params=asked, headers=kept).status_code == 403
    answer = page.post("/api/control", params=asked, headers=kept | {"x-fedhpo": "1"})
    assert answer.status_code == 404
    assert "no process works on run first" in answer.json()["error"]


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
    assert [one["title"] for one in compared][:2] == ["Verdict", "Tuned configs"]
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


def test_with_control_an_unknown_action_is_refused(folder):
    answer = client(folder, Control()).post("/api/control", params={"name": "first", "action": "rm"})
    assert "must be stop or resume" in answer.json()["error"]


@pytest.fixture
def held(folder, tmp_path):
    """A run that a process holds: its path, and the process."""
    shutil.copytree(folder / "halted", tmp_path / "halted")
    program = (
        "import sys, time; from pathlib import Path; from fedhpo.run.lock import Lock; "
        "lock = Lock(Path(sys.argv[1])); print('held', flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "halted" / "lock")], stdout=subprocess.PIPE
    )
    assert holder.stdout.readline() == b"held\n"
    yield tmp_path / "halted", holder
    holder.kill()
    holder.wait()
    holder.stdout.close()


def stop(path):
    page = client(path.parent, Control())
    return page.post("/api/control", params={"name": path.name, "action": "stop"})


def test_stop_goes_to_the_process_that_holds_the_run(held):
    path, holder = held
    assert json.loads((path / "lock").read_text())["pid"] == holder.pid
    assert stop(path).status_code == 200
    assert holder.wait(10) == -signal.SIGTERM


def test_stop_hits_no_stranger(held):
    path, holder = held
    named = json.loads((path / "lock").read_text())
    stranger = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        for content, why in (
            (json.dumps(named | {"pid": stranger.pid}), "has ended and its number may be another's"),
            (
                json.dumps(named | {"host": "elsewhere"}),
                f"process {holder.pid} on elsewhere: stop it",
            ),
            (str(stranger.pid), "neither its host nor its start"),
            ('{"pid": 1}', "does not name the process"),
            ("not JSON", "does not name the process"),
        ):
            (path / "lock").write_text(content)
            answer = stop(path)
            assert answer.status_code == 404
            assert why in answer.json()["error"]
        assert (stranger.poll(), holder.poll()) == (None, None)
    finally:
        stranger.kill()
        stranger.wait()


def listed(folder):
    return {run["name"]: run["status"] for run in client(folder).get("/api/runs").json()["runs"]}


def test_a_name_that_is_not_utf8_is_listed_and_opened(folder, tmp_path):
    shutil.copytree(folder / "first", tmp_path / os.fsdecode(b"bad\xff\xfename"))
    assert listed(tmp_path) == {"bad\\xff\\xfename": "finished"}
    told = client(tmp_path).get("/api/run", params={"name": "bad\\xff\\xfename"})
    assert told.json()["sections"][0]["title"] == "Result"
    (tmp_path / "bad\\xff\\xfename").mkdir()  # a name that reads the same
    shutil.copy(folder / "first" / "record.sqlite", tmp_path / "bad\\xff\\xfename")
    assert len(listed(tmp_path)) == 2


@pytest.mark.parametrize("name", ["lock", "record.sqlite", "record.sqlite-wal", "result.json", "study.json"])
@pytest.mark.parametrize("kind", ["pipe", "socket", "directory"])
def test_what_is_not_a_file_neither_breaks_nor_hangs_the_list(folder, tmp_path, monkeypatch, name, kind):
    for run in ("a", "b"):
        shutil.copytree(folder / "first", tmp_path / run)
    monkeypatch.chdir(tmp_path / "a")  # the name of a socket must be short
    if os.path.exists(name):
        os.remove(name)
    if kind == "pipe":
        os.mkfifo(name)
    elif kind == "directory":
        os.mkdir(name)
    else:
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(name)
    if kind == "pipe":
        os.mkfifo(tmp_path / "leaderboard.json")
    found = listed(tmp_path)
    assert found["b"] == "finished"
    if kind != "directory":
        assert found["a"] == "damaged"
        reasons = [facts.get("reason", "") for facts in list_runs(tmp_path) if facts["name"] == "a"]
        assert kind in reasons[0] or name == "record.sqlite"
    if name == "lock":
        os.rmdir(name) if kind == "directory" else os.remove(name)
        assert listed(tmp_path)["a"] == "finished"


def test_a_run_that_cannot_be_resumed_says_why(folder):
    page = client(folder, Control())  # begun from Python: there is no study to build it from
    asked = {"name": "halted", "action": "resume"}
    assert page.post("/api/control", params=asked).status_code == 200
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
        where, token = address.split("?token=")
        assert token not in Path(f"/proc/{server.pid}/cmdline").read_text()
        for _ in range(100):
            try:
                assert httpx.get(f"{where}api/runs", timeout=10).status_code == 403
                with httpx.Client(follow_redirects=True, timeout=10) as browser:
                    shown = browser.get(address)
                    assert (shown.status_code, str(shown.url)) == (200, where)
                    assert len(browser.get(f"{where}api/runs").json()["runs"]) == 4
                break
            except httpx.ConnectError:
                time.sleep(0.1)
        server.send_signal(signal.SIGINT)
        assert server.wait(20) in (0, 130)
    finally:
        server.kill()
        server.stdout.close()


def test_open_shows_the_browser_a_file_of_this_user_alone(tmp_path):
    address = "http://127.0.0.1:8265/?token=abc"
    page = redirection(address, tmp_path)
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    assert f'content="0; url={address}"' in page.read_text()
    assert "abc" not in page.as_uri()


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
