"""Pools without processes: jobs end once, failures are reported, cancelled jobs are forgotten."""

import threading

import pytest

from fedhpo.protocol.reasons import Why
from fedhpo.workers.pool import Inline, Threads


def handle(job):
    return 10 / job


@pytest.fixture(params=["inline", "threads"])
def pool(request):
    pool = Inline(handle) if request.param == "inline" else Threads(2, lambda: handle)
    yield pool
    pool.close()


def test_every_job_ends_once_and_a_failure_is_reported(pool):
    tickets = {pool.submit(job): job for job in (1, 2, 0, 5)}
    ended = {e.ticket: e for e in (pool.next() for _ in tickets)}
    assert {ticket: e.job for ticket, e in ended.items()} == tickets
    assert [ended[ticket].value for ticket in tickets] == [10.0, 5.0, None, 2.0]
    failures = [ended[ticket].failure for ticket in tickets]
    assert failures[:2] == [None, None]
    assert failures[2].why == Why.RAISED
    assert failures[2].text.startswith("ZeroDivisionError: division by zero (test_pool.py:")
    assert pool.pids == []


def test_a_cancelled_job_is_never_heard_of_again(pool):
    gone, kept = pool.submit(1), pool.submit(2)
    pool.cancel([gone])
    assert pool.next().ticket == kept


def test_after_an_interruption_the_job_is_still_there():
    moods = iter([KeyboardInterrupt(), None])

    def interrupted(job):
        if (mood := next(moods)) is not None:
            raise mood
        return job

    pool = Inline(interrupted)
    ticket = pool.submit("work")
    with pytest.raises(KeyboardInterrupt):
        pool.next()
    assert (pool.next().ticket, pool._waiting) == (ticket, {})


def test_a_thread_outlives_what_would_end_it_and_a_time_limit_holds():
    def leaving(job):
        raise SystemExit("gone")

    pool = Threads(1, lambda: leaving)
    pool.submit(1)
    assert pool.next().failure.text.startswith("SystemExit: gone (test_pool.py:")
    assert pool.next(0.01) is None
    pool.close()
    assert not any(thread.is_alive() for thread in pool._threads)


def test_what_is_set_around_a_job_holds_for_each():
    held = threading.Lock()
    pool = Inline(lambda job: held.locked(), around=lambda: held)
    pool.submit(1)
    assert pool.next().value is True
    assert not held.locked()
