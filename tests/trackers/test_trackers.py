"""Trackers: what they are told, and what each package's own reader then shows.

The packages are not installed here: `make test-trackers` runs this file in an environment of each.
"""

import contextlib
import json
import shutil
import socket
import subprocess
import sys
import time

import pytest

import fedhpo as fh
from fedhpo.core.errors import MissingExtraError
from fedhpo.trackers import MLflow, TensorBoard, Tracker, Trackio, WandB

SPACE = fh.Space(client={"lr": fh.Float(0.05, 1.0, log=True)})


def search(*trackers, run=None, callbacks=(), **more):
    with fh.simulate("linear", fh.load("digits", clients=6), workers=0) as federation:
        given = [*trackers, *callbacks]
        options = {"rounds": 3, "total": 12, "cohort": 3, "run": run} | more
        return fh.tune(federation, SPACE, fh.SHA(trials=4, rate=2), callbacks=given, **options)


class Notes(Tracker):
    def __init__(self):
        super().__init__()
        self.begun, self.points, self.ended = {}, {}, {}

    def begin(self, trial, config):
        assert trial not in self.begun
        self.begun[trial] = dict(config)

    def log(self, trial, step, values):
        self.points.setdefault(trial, []).append((step, dict(values)))

    def end(self, trial, facts):
        self.ended[trial] = dict(facts)


def test_each_trial_is_begun_once_told_live_and_ended():
    notes = Notes()
    result = search(notes, metrics=["f1_macro"])
    assert sorted(notes.begun) == [row["trial"] for row in result.trials]
    assert notes.begun[0] == {"client.lr": SPACE.default().client["lr"]}
    assert sum(facts["best"] for facts in notes.ended.values()) == 1
    last = {row["trial"]: (row["rounds"], row["score"]) for row in result.trials}
    for trial, points in notes.points.items():
        step, values = points[-1]
        assert (step, values["validation/accuracy"]) == pytest.approx(last[trial])
        assert {"validation/loss", "validation/f1_macro", "rounds_spent"} <= values.keys()


@pytest.mark.parametrize("events", range(1, 8))
def test_what_the_record_holds_is_not_told_again(events, tmp_path):
    first, second, whole = Notes(), Notes(), Notes()
    seen = []

    def stop(event):
        seen.append(event)
        return len(seen) >= events

    assert search(first, run=tmp_path / "run", callbacks=[stop]).status == "stopped"
    assert search(second, run=tmp_path / "run").status == "finished"
    search(whole)
    told = [(t, p[0]) for notes in (first, second) for t, points in notes.points.items() for p in points]
    assert sorted(told) == sorted((t, p[0]) for t, points in whole.points.items() for p in points)


@pytest.mark.parametrize(("tracker", "package"), [(MLflow, "mlflow"), (WandB, "wandb"), (Trackio, "trackio")])
def test_a_tracker_that_is_not_installed_names_its_extra(tracker, package, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, package, None)
    made = tracker()
    begin = made.begin if package != "trackio" else lambda *_: made.log(0, 1, {})
    with pytest.raises(MissingExtraError, match=rf"\[{package}\]"):
        begin(0, {})


def expected(result):
    return {row["trial"]: row for row in result.trials}


def test_tensorboard(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    result = search(TensorBoard(tmp_path / "logs"))
    for trial, row in expected(result).items():
        shown = EventAccumulator(str(tmp_path / "logs" / f"trial-{trial}"))
        shown.Reload()
        last = shown.Scalars("validation/accuracy")[-1]
        assert (last.step, last.value) == (row["rounds"], pytest.approx(row["score"], abs=1e-6))


def test_mlflow(tmp_path):
    pytest.importorskip("mlflow")
    from mlflow import MlflowClient

    uri = f"sqlite:///{tmp_path / 'store.db'}"
    result = search(MLflow("digits", uri))
    client = MlflowClient(uri)
    runs = client.search_runs([client.get_experiment_by_name("digits").experiment_id])
    rows = expected(result)
    assert len(runs) == len(rows)
    for run in runs:
        row = rows[int(run.data.tags["fedhpo.trial"])]
        assert float(run.data.params["client.lr"]) == pytest.approx(row["client.lr"])
        points = client.get_metric_history(run.info.run_id, "validation/accuracy")
        assert (points[-1].step, points[-1].value) == (row["rounds"], pytest.approx(row["score"]))
        assert run.info.status == "FINISHED"


def records_of(data):
    """The records of W&B's offline file: LevelDB's log in blocks of 32 KB, after a header of 7 bytes."""
    assert data[:4] == b":W&B"
    place, begun = 7, b""
    while place + 7 <= len(data):
        left = 32768 - place % 32768
        if left < 7:  # the rest of a block is padding
            place += left
            continue
        length, kind = int.from_bytes(data[place + 4 : place + 6], "little"), data[place + 6]
        begun += data[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):  # a whole record, or the last part of one
            yield begun
            begun = b""


def test_wandb(tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_SILENT", "true")
    result = search(WandB("digits", group="g", directory=str(tmp_path)))
    from wandb.proto import wandb_internal_pb2

    found = {}
    for file in tmp_path.rglob("*.wandb"):
        name, scores = None, []
        for data in records_of(file.read_bytes()):
            record = wandb_internal_pb2.Record()
            record.ParseFromString(data)
            if record.HasField("run"):
                name = record.run.display_name
            for item in record.history.item if record.HasField("history") else ():
                if (item.key or "/".join(item.nested_key)) == "validation/accuracy":
                    scores.append(json.loads(item.value_json))
        found[name] = scores
    assert set(found) == {f"trial-{trial}" for trial in expected(result)}
    for trial, row in expected(result).items():
        assert found[f"trial-{trial}"][-1] == pytest.approx(row["score"])


def test_trackio(tmp_path, monkeypatch):
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path))
    trackio = pytest.importorskip("trackio")
    result = search(Trackio("digits"))
    for trial, row in expected(result).items():
        points = trackio.SQLiteStorage.get_logs("digits", f"trial-{trial}")
        scores = [(p["step"], p["validation/accuracy"]) for p in points if "validation/accuracy" in p]
        assert scores[-1] == (row["rounds"], pytest.approx(row["score"]))


def test_dashboard_shows_an_exported_run_in_a_browser(tmp_path):
    """Optuna's own page, in Chromium, beside what the run says."""
    pytest.importorskip("optuna_dashboard")
    browsers = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("there is no chromium on this machine")
    from fedhpo.tuning.export import export

    result = search()
    storage = f"sqlite:///{tmp_path / 'trials.db'}"
    assert export(result, "optuna", storage, "digits") == len(result.trials)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    code = "import sys; from optuna_dashboard._cli import main; sys.exit(main())"
    command = [sys.executable, "-c", code, storage, "--host", "127.0.0.1", "--port", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(150):  # it imports for a while
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.2)
        with browsers.sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": 1400, "height": 1000})
            page.goto(f"http://127.0.0.1:{port}/dashboard/studies/1")
            best = f"{max(row['score'] for row in result.trials if row['rounds'] == 3):.4f}"[:5]
            browsers.expect(page.get_by_text(best).first).to_be_visible(timeout=60_000)
            page.screenshot(path=tmp_path / "dashboard.png")
            page.goto(f"http://127.0.0.1:{port}/dashboard/studies/1/trials")
            browsers.expect(page.get_by_text("client.lr").first).to_be_visible(timeout=60_000)
            browser.close()
    finally:
        server.terminate()
        server.wait()
    assert (tmp_path / "dashboard.png").stat().st_size > 10_000
