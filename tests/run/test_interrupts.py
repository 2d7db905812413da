"""Ctrl-C between any two lines of the record: what is on disk opens, with all that was written before."""

import contextlib
import itertools
import sys

import pytest

from fedhpo.core.canonical import canonical
from fedhpo.core.run_errors import RunError
from fedhpo.protocol.federation import Cost
from fedhpo.run import record as module
from fedhpo.run.record import Record


class At:
    """Raises `KeyboardInterrupt` at the n-th line that runs in record.py."""

    def __init__(self, place: int) -> None:
        self.left = place

    def __call__(self, frame, event, argument):
        if frame.f_code.co_filename != module.__file__:
            return None
        if event == "line":
            self.left -= 1
            if self.left == 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return self

    def __enter__(self):
        sys.settrace(self)
        return self

    def __exit__(self, *_):
        sys.settrace(None)


def written(record):
    """What a run does: facts, events that wait and events that do not, a release, a stop."""
    record.append("start", canonical({"trial": 0}), commit=False)
    record.append("round", canonical({"trial": 0}), b"report", Cost(rounds=1))
    record.set(status="running", federation={"clients": 3})
    number = record.append("decide noise", canonical(1), epsilon=0.5)
    record.settle(number, b"drawn")
    record.append("stop", canonical({"trial": 0}), commit=False)
    record.set(status="stopped")
    record.stop("interrupted")


def test_after_an_interrupt_anywhere_the_record_is_whole(tmp_path):
    for place in itertools.count(1):
        path = tmp_path / str(place) / "record.sqlite"
        path.parent.mkdir()
        record = Record(path)
        at = At(place)
        with contextlib.suppress(KeyboardInterrupt), at:
            written(record)
        ended = at.left > 0
        with contextlib.suppress(RunError):
            record.set(status="interrupted")  # as the run does on its way out
        record.close()
        again = Record(path)  # raises where head, facts and events do not belong together
        assert len(list(again.events())) == again.last
        if again.last >= 3:
            assert again.spent()["epsilon"] == 0.5
        again.close()
        if ended:
            break
    assert place > 100


def test_after_an_interrupt_in_a_write_nothing_more_is_written(tmp_path):
    record = Record(tmp_path / "record.sqlite")
    with pytest.raises(KeyboardInterrupt), At(12):
        record.set(status="running")
    assert record.interrupted
    with pytest.raises(RunError, match="interrupted while it was written"):
        record.append("round", b"1", b"2")
    record.close()
