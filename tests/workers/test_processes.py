"""The pool of processes and what it holds: deaths, cancelled jobs, jobs and results that cannot be sent."""

import os
import time

import psutil
import pytest

from fedhpo.workers.processes import Processes, WorkersUnavailable, map_in_processes, pickled


def prepare(power):
    """Raises numbers to a power; "die" ends the process, "sleep" takes for ever."""

    def handle(job):
        if job == "die":
            os._exit(3)
        if job == "sleep":
            time.sleep(600)
        if job == "result":
            return lambda: None
        return job**power

    return handle


def broken(own):
    raise RuntimeError("not ready")


def dying(own):
    os._exit(5)


class _Log:
    """Which jobs are packed: each that was must end or be dropped."""

    def __init__(self):
        self.packed = []

    def pool(self, count):
        return Processes(count, prepare, pickled(2), pack=self.pack, drop=self.packed.remove)

    def pack(self, job):
        self.packed.append(job)
        return job


@pytest.fixture
def log():
    return _Log()


@pytest.fixture
def pool(log):
    pool = log.pool(2)
    yield pool
    pool.close()


def test_every_job_ends_once(pool):
    tickets = {pool.submit(number): number for number in range(20)}
    ended = [pool.next() for _ in tickets]
    assert {e.ticket: e.job for e in ended} == tickets
    assert all(e.value == e.job**2 and not e.failure for e in ended)
    assert pool.next(0.0) is None


def test_a_job_that_kills_its_workers_fails_after_two_and_takes_no_other_with_it(pool):
    before = set(pool.pids)
    deadly = pool.submit("die")
    others = [pool.submit(number) for number in range(6)]
    ended = {e.ticket: e for e in (pool.next() for _ in range(7))}
    assert ended[deadly].failure.text == "the worker process died twice at this task (exit code 3)"
    assert [ended[ticket].value for ticket in others] == [n * n for n in range(6)]
    assert len(set(pool.pids)) == 2
    assert before != set(pool.pids)


def test_what_a_dead_worker_held_is_packed_again(pool, log):
    for number in range(4):
        pool.submit(number)
    os.kill(pool.pids[0], 9)
    ended = [pool.next() for _ in range(4)]
    assert [one.failure for one in ended] == [None] * 4
    assert sorted(one.value for one in ended) == [0, 1, 4, 9]
    assert sorted(log.packed) == [0, 1, 2, 3]  # dropped before they were packed once more


def test_a_job_that_meets_a_second_dead_worker_has_not_failed(pool, log):
    first, second = pool._workers
    slow = pool.submit("sleep")  # held by the first
    quick = pool.submit(3)  # done by the second, which then dies too, before anybody looks
    while not second.pipe.poll():
        time.sleep(0.01)
    for worker in (first, second):
        worker.process.kill()
        worker.process.join()
    assert pool.next().ticket == quick
    assert pool.next(1.0) is None  # the first job is done again: it has not "died twice"
    assert log.packed == [3, "sleep"]
    pool.cancel([slow])


def test_a_job_sent_to_a_worker_that_dies_before_it_begins_has_not_failed(pool):
    first, second = (psutil.Process(pid) for pid in pool.pids)
    for worker in (first, second):  # as if about to die: what is sent to them arrives, and is never read
        worker.suspend()
    job = pool.submit(3)
    assert job in pool._workers[0].held
    first.kill()
    while job not in pool._workers[1].held:  # until the death is noticed
        assert pool.next(0.05) is None
    second.kill()
    done = pool.next()
    assert (done.failure, done.value) == (None, 9)


def test_a_cancelled_job_is_never_heard_of_again(pool, log):
    slow = [pool.submit("sleep") for _ in range(3)]
    kept = [pool.submit(number) for number in (2, 3)]
    before = set(pool.pids)
    pool.cancel(slow)
    assert {pool.next().ticket for _ in kept} == set(kept)
    assert pool.next(0.0) is None
    assert not before & set(pool.pids)
    assert sorted(log.packed) == [2, 3]


def slow_again(flag):
    """Ready at once for the first time, later after a minute."""
    if flag.exists():
        time.sleep(60)
    flag.touch()
    return abs


def test_a_time_limit_holds_while_a_worker_is_replaced(tmp_path):
    pool = Processes(1, slow_again, pickled(tmp_path / "flag"))
    os.kill(pool.pids[0], 9)
    pool.submit(-7)
    begin = time.monotonic()
    assert pool.next(0.5) is None
    assert time.monotonic() - begin < 30
    pool.close()


def test_jobs_and_results_that_cannot_be_sent_fail_alone(pool, log):
    bad, worse, good = pool.submit(lambda: None), pool.submit("result"), pool.submit(5)
    ended = {e.ticket: e for e in (pool.next() for _ in range(3))}
    assert "cannot be sent to a worker process" in ended[bad].failure.text
    assert "its result cannot be sent" in ended[worse].failure.text
    assert ended[good].value == 25
    assert sorted(map(str, log.packed)) == ["5", "result"]


def test_an_exception_is_the_jobs_failure_and_names_the_line(pool):
    pool.submit("text")
    assert pool.next().failure.text.startswith("TypeError: unsupported operand")


@pytest.mark.parametrize(
    ("start", "message"),
    [(broken, "RuntimeError: not ready"), (dying, r"ended at once \(exit code 5\)")],
)
def test_nobody_is_left_when_a_worker_is_not_ready(start, message):
    before = {p.pid for p in psutil.Process().children()}
    with pytest.raises(WorkersUnavailable, match=message):
        Processes(2, start, pickled(None))
    left = {p.pid for p in psutil.Process().children() if p.status() != psutil.STATUS_ZOMBIE} - before
    assert not {p for p in left if "resource_tracker" not in " ".join(psutil.Process(p).cmdline())}


def test_a_worker_that_dies_while_it_starts_again_is_replaced(pool):
    first = pool.pids[0]
    os.kill(first, 9)
    while pool.pids[0] == first:  # until the death is noticed
        assert pool.next(0.05) is None
    os.kill(pool.pids[0], 9)
    for number in range(6):
        pool.submit(number)
    assert sorted(pool.next().value for _ in range(6)) == [0, 1, 4, 9, 16, 25]


def test_what_cannot_be_pickled_is_said():
    with pytest.raises(WorkersUnavailable, match="lambda"):
        pickled(lambda: None)


def test_a_map_keeps_the_order_and_raises_what_the_function_raised():
    assert map_in_processes(abs, range(-9, 0), 2, together=2) == [9, 8, 7, 6, 5, 4, 3, 2, 1]
    assert map_in_processes(abs, [], 2) == []
    with pytest.raises(ValueError, match="invalid literal"):
        map_in_processes(int, ["1", "2", "x"], 2, together=1)
