"""Worker processes and what they hold: deaths, cancelled jobs, jobs that cannot be sent."""

import os
import time

import pytest

from fedhpo.workers.crew import Crew
from fedhpo.workers.spawn import spawn


def _work(pipe):
    """Squares numbers; "die" ends the process, "sleep" takes for ever."""
    while True:
        try:
            ticket, job = pipe.recv()
        except (EOFError, OSError):
            return
        if job == "die":
            os._exit(3)
        if job == "sleep":
            time.sleep(600)
        pipe.send((ticket, job * job, ""))


class _Log:
    """Which jobs are packed: each that was must end or be dropped."""

    def __init__(self):
        self.packed, self.greeted = [], 0

    def crew(self, count):
        return Crew(count, lambda: spawn(_work), self.pack, greet=self.greet, drop=self.packed.remove)

    def pack(self, job):
        if callable(job):
            return job  # a local function, which cannot be pickled
        self.packed.append(job)
        return job

    def greet(self, hired):
        self.greeted += 1


@pytest.fixture
def log():
    return _Log()


@pytest.fixture
def crew(log):
    crew = log.crew(2)
    yield crew
    crew.close()


def test_every_job_ends_once(crew):
    tickets = {crew.submit(number): number for number in range(20)}
    ended = [crew.next() for _ in tickets]
    assert {e.ticket: e.job for e in ended} == tickets
    assert all(e.value == e.job**2 and not e.failure for e in ended)
    assert crew.next(0.0) is None


def test_a_job_that_kills_its_workers_fails_after_two_and_takes_no_other_with_it(crew, log):
    deadly = crew.submit("die")
    others = [crew.submit(number) for number in range(6)]
    ended = {e.ticket: e for e in (crew.next() for _ in range(7))}
    assert ended[deadly].failure == "the worker process died twice at this task (exit code 3)"
    assert [ended[ticket].value for ticket in others] == [n * n for n in range(6)]
    assert log.greeted == 2 + 2  # two at first, and one for each death


def test_what_a_dead_worker_held_is_packed_again(crew, log):
    for number in range(4):
        crew.submit(number)
    for pid in crew.pids:
        os.kill(pid, 9)
    assert sorted(crew.next().value for _ in range(4)) == [0, 1, 4, 9]
    assert sorted(log.packed) == [0, 1, 2, 3]  # dropped before they were packed once more


def test_a_cancelled_job_is_never_heard_of_again(crew, log):
    slow = [crew.submit("sleep") for _ in range(3)]
    kept = [crew.submit(number) for number in (2, 3)]
    before = set(crew.pids)
    crew.cancel(slow)
    assert {crew.next().ticket for _ in kept} == set(kept)
    assert crew.next(0.0) is None
    assert not before & set(crew.pids)
    assert sorted(log.packed) == [2, 3]


def test_a_job_that_cannot_be_sent_fails_alone(crew):
    bad, good = crew.submit(lambda: None), crew.submit(5)
    ended = {e.ticket: e for e in (crew.next(), crew.next())}
    assert "cannot be sent to a worker process" in ended[bad].failure
    assert ended[good].value == 25


def test_nobody_is_left_when_a_worker_is_not_ready():
    hired = []

    def hire():
        hired.append(spawn(_work))
        return hired[-1]

    def greet(one):
        raise RuntimeError("not ready")

    with pytest.raises(RuntimeError, match="not ready"):
        Crew(2, hire, lambda job: job, greet=greet)
    assert [process.is_alive() for process, _ in hired] == [False, False]
