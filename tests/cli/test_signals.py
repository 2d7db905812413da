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
from fedhpo.run import open_read
from fedhpo.run.lock import is_held
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


def tune(run=None, callbacks=(), **more):
    settings = {"rounds": 20, "total": 40, "cohort": 3, "run": run, "callbacks": callbacks}
    return fh.tune(ToyFederation(), SPACE, "random", **settings, **more)


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


@pytest.mark.parametrize(
    ("number", "raised", "word"),
    [(signal.SIGTERM, SystemExit, "terminated"), (signal.SIGINT, KeyboardInterrupt, "interrupted")],
)
def test_a_signal_stops_after_the_round_and_the_run_goes_on_as_if_uncut(
    tmp_path, term_handler, number, raised, word
):
    whole = tune()
    with pytest.raises(raised) as caught:
        tune(tmp_path / "run", [send(number)])
    assert getattr(caught.value, "code", 143) == 143
    with open_read(tmp_path / "run") as run:  # the record is closed, with what was found so far
        assert [stop["reason"] for stop in run.record.stops()] == [word]
        found = run.so_far()
    assert (found["status"], found["reason"], found["cost"]["rounds"]) == ("stopped", word, 2 * 3)
    assert not is_held(tmp_path / "run" / "lock")
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    again = tune(tmp_path / "run")
    assert again.status == "finished"
    assert again.facts["trials"] == whole.facts["trials"]


def test_ctrl_c_returns_the_result_so_far_to_whoever_asked_for_it(tmp_path, term_handler):
    cut = tune(tmp_path / "run", [send(signal.SIGINT)], on_interrupt="return")
    assert (cut.status, cut.facts["reason"], cut.cost["rounds"]) == ("stopped", "interrupted", 2 * 3)
    with pytest.raises(SystemExit):  # SIGTERM ends the process all the same
        tune(callbacks=[send(signal.SIGTERM)], on_interrupt="return")
    with pytest.raises(fh.InputError, match=r"on_interrupt must be 'raise', .*, not 'partial'"):
        tune(on_interrupt="partial")


def test_a_signal_that_comes_when_all_is_done_is_not_lost(tmp_path, term_handler):
    def at_the_end(event):
        if event.kind == "finish":
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(SystemExit):
        tune(tmp_path / "run", [at_the_end])
    with open_read(tmp_path / "run") as run:
        assert run.status == "finished"


def test_a_handler_of_the_user_gets_the_signal_once_the_record_is_closed(tmp_path, term_handler):
    heard = []

    def mine(number, frame):
        heard.append((number, is_held(tmp_path / "run" / "lock")))

    signal.signal(signal.SIGTERM, mine)
    result = tune(tmp_path / "run", [send(signal.SIGTERM)])
    assert result.facts["reason"] == "terminated"  # the handler returned, and so does the call
    assert heard == [(signal.SIGTERM, False)]
    assert signal.getsignal(signal.SIGTERM) is mine
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_handler_of_the_user_gets_the_second_signal_at_once(term_handler):
    heard = []

    def mine(number, frame):
        heard.append(number)

    signal.signal(signal.SIGTERM, mine)

    def twice(event):
        if event.kind == "round" and not heard:
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGTERM)
            assert heard == [signal.SIGTERM]

    assert tune(callbacks=[twice]).facts["reason"] == "terminated"
    assert heard == [signal.SIGTERM] * 2


def test_an_ignored_signal_stays_ignored(term_handler):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    assert tune(callbacks=[send(signal.SIGTERM)]).status == "finished"


def test_a_search_inside_a_search_stops_with_it(tmp_path, term_handler):
    """The proxy search of a method: one signal stops both in order, a second one both at once."""

    def proxied(callback, name):
        method = fh.ProxySearch(federation=ToyFederation(), method="random", total=40, callbacks=[callback])
        return fh.tune(ToyFederation(), SPACE, method, rounds=20, cohort=3, run=tmp_path / name)

    with pytest.raises(SystemExit):
        proxied(send(signal.SIGTERM), "once")
    with open_read(tmp_path / "once") as run:
        assert [stop["reason"] for stop in run.record.stops()] == ["terminated"]
    after = []

    def twice(event):
        if event.kind == "round":
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGTERM)
            after.append("unreached")

    with pytest.raises(SystemExit):
        proxied(twice, "twice")
    assert not after


@pytest.mark.parametrize("before", [False, True])
def test_sigterm_stops_at_once_before_the_search_and_when_it_comes_again(
    tmp_path, monkeypatch, term_handler, before
):
    def preflight(self, *arguments):
        os.kill(os.getpid(), signal.SIGTERM)

    if before:
        monkeypatch.setattr(ToyFederation, "preflight", preflight)
    rounds = []

    def twice(event):
        if event.kind == "round":
            rounds.append(event)
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGTERM)
            rounds.append("unreached")

    with pytest.raises(SystemExit) as caught:
        tune(tmp_path / "run", [twice])
    monkeypatch.undo()
    assert caught.value.code == 143
    assert len(rounds) == (0 if before else 1)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert tune(tmp_path / "run").status == "finished"


SCRIPT = """
import sys
import fedhpo as fh
from fedhpo.testing import ToyFederation

if __name__ == "__main__":
    federation = ToyFederation(seconds=0.01)
    space = fh.Space(client={"lr": fh.Float(0.01, 1.0, log=True)})
    say = lambda event: print(event.kind, flush=True)
    try:
        fh.tune(federation, space, "random", rounds=20000, total=40000, cohort=3, run="run", callbacks=[say])
    except KeyboardInterrupt:
        print("caught", flush=True)
        sys.exit(5)
    print("went on", flush=True)
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 5)])
def test_a_script_does_not_go_on(tmp_path, number, code):
    (tmp_path / "script.py").write_text(SCRIPT)
    script = subprocess.Popen([sys.executable, "script.py"], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    assert "round\n" in iter(script.stdout.readline, ""), "the script ended before its first round"
    script.send_signal(number)
    told = script.communicate(timeout=60)[0]
    assert script.returncode == code
    assert "went on" not in told
    assert ("caught" in told) == (number == signal.SIGINT)
    with open_read(tmp_path / "run") as run:
        assert run.record.get("status") == "stopped"


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
    wait_until_gone(workers)


def wait_until_gone(pids):
    end = time.monotonic() + 10
    while any(os.path.exists(f"/proc/{pid}") for pid in pids) and time.monotonic() < end:
        time.sleep(0.05)
    assert not [pid for pid in pids if os.path.exists(f"/proc/{pid}")]
