"""Ctrl-C and SIGTERM: a run stops after the round under way, without a traceback, and can be resumed."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

import fedhpo as fh
from fedhpo import cli
from fedhpo.core.errors import Terminated
from fedhpo.run import open_read
from fedhpo.testing.toy import ToyFederation

SPACE = fh.Space(client={"lr": fh.Float(0.01, 1.0, log=True)})
STUDY = """
[data]
name = "digits"
clients = 10
[model]
name = "linear"
[space.client]
lr = {low = 0.01, high = 1.0, log = true}
[method]
name = "random"
trials = 2
[budget]
rounds = 20000
total = 40000
cohort = 3
"""


def tune(run=None, callbacks=(), rounds=20):
    return fh.tune(
        ToyFederation(), SPACE, "random", rounds=rounds, total=40, cohort=3, run=run, callbacks=callbacks
    )


def send(number, at=3):
    """A callback that sends a signal to this process in some round."""
    seen = []

    def callback(event):
        if event.kind == "round" and not event.replayed:
            seen.append(event)
            if len(seen) == at:
                os.kill(os.getpid(), number)

    return callback


@pytest.fixture
def term_handler():
    """What Python does of itself, put back afterwards."""
    before = signal.getsignal(signal.SIGTERM)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize(("number", "word"), [(signal.SIGTERM, "terminated"), (signal.SIGINT, "interrupted")])
def test_a_signal_stops_after_the_round_and_the_run_goes_on_as_if_uncut(tmp_path, term_handler, number, word):
    whole = tune()
    cut = tune(tmp_path / "run", [send(number)])
    assert (cut.status, cut.facts["reason"], cut.cost["rounds"]) == ("stopped", word, 2 * 3)
    with open_read(tmp_path / "run") as run:
        assert [stop["reason"] for stop in run.record.stops()] == [word]
    again = tune(tmp_path / "run")
    assert again.status == "finished"
    assert again.facts["trials"] == whole.facts["trials"]


def test_handlers_of_the_user_are_put_back_and_get_the_second_signal(term_handler):
    heard = []

    def mine(number, frame):
        heard.append(number)

    signal.signal(signal.SIGTERM, mine)

    def twice(event):
        if event.kind == "round" and not heard:
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGTERM)

    result = tune(callbacks=[twice])
    assert result.facts["reason"] == "terminated"
    assert heard == [signal.SIGTERM]
    assert signal.getsignal(signal.SIGTERM) is mine
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_sigterm_stops_at_once(tmp_path, term_handler):
    def twice(event):
        if event.kind == "round":
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(Terminated):
        tune(tmp_path / "run", [twice])
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert tune(tmp_path / "run").status == "finished"


def test_outside_the_main_thread_signals_are_left_alone(term_handler):
    found = []

    def look(event):
        found.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=lambda: tune(callbacks=[look]))
    thread.start()
    thread.join()
    assert set(found) == {signal.SIG_DFL}


def test_sigterm_of_the_command_line_gives_143(tmp_path, monkeypatch, capsys, term_handler):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.toml").write_text(STUDY)
    study_tune = fh.Study.tune

    def tune_later(self, *arguments, **options):
        options["callbacks"] = [*options["callbacks"], send(signal.SIGTERM)]
        return study_tune(self, *arguments, **options)

    monkeypatch.setattr(fh.Study, "tune", tune_later)
    assert cli.main(["tune", "study.toml", "--workers", "0", "--json"]) == 143
    told = capsys.readouterr()
    assert json.loads(told.out)["reason"] == "terminated"
    assert "fedhpo: terminated; resume with: fedhpo resume runs/study\n" in told.err


def begin(folder, *arguments):
    """The command in a process group of its own, and its standard error once a round has ended."""
    member = subprocess.Popen(
        [sys.executable, "-m", "fedhpo", *arguments],
        cwd=folder,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    assert member.stderr is not None
    heard = member.stderr.readline()
    assert "round" in heard, heard + member.stderr.read()
    return member


def workers_of(member):
    children = f"/proc/{member.pid}/task/{member.pid}/children"
    with open(children) as file:
        return [int(pid) for pid in file.read().split()]


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize(
    ("numbers", "code"),
    [
        ([signal.SIGTERM], {143}),
        ([signal.SIGINT] * 3, {130}),
        # Where the round ends before Ctrl-C is noticed, SIGTERM alone has stopped it.
        ([signal.SIGTERM, signal.SIGINT, signal.SIGINT], {130, 143}),
    ],
)
def test_the_whole_group_is_told_and_nobody_is_left(tmp_path, numbers, code):
    (tmp_path / "study.toml").write_text(STUDY)
    member = begin(tmp_path, "tune", "study.toml", "--workers", "1")
    workers = workers_of(member)
    assert workers
    for place, number in enumerate(numbers):
        time.sleep(0.002 * place)
        os.killpg(member.pid, number)
    told = member.communicate(timeout=60)[1]
    assert member.returncode in code
    assert "Traceback" not in told
    assert "died" not in told  # the worker lived until the round was over
    end = time.monotonic() + 10
    while any(os.path.exists(f"/proc/{pid}") for pid in workers) and time.monotonic() < end:
        time.sleep(0.05)
    assert not [pid for pid in workers if os.path.exists(f"/proc/{pid}")]
