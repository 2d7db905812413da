"""Boosted trees trained federated for real, over XGBoost's own collective.

Each party is a process that holds its own rows; what travels between them are sketches of features and sums
of gradients over histogram bins, so that all of them end with the same trees. XGBoost waits for a party that
is gone for ever, or nearly: here the parent watches every party and ends the others when one dies.

Parties on other machines: run `Tracker(parties, host)` where all can reach it, and `join` at each party, with
the tracker's `arguments`.
"""

from __future__ import annotations

import contextlib
import io
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from multiprocessing import connection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedhpo.core.errors import MissingExtraError
from fedhpo.core.user_code import in_words
from fedhpo.protocol.errors import CollectiveError as CollectiveError
from fedhpo.workers.spawn import spawn

Array = NDArray[Any]
LOOPBACK = "127.0.0.1"
#: Seconds after a party's complaint in which the death of another may still be seen.
_GRACE = 1.0


class Tracker:
    """Brings the parties of one training together, in a process of its own that can always be ended.

    A context manager; `arguments` is what each party needs to `join`.
    """

    def __init__(self, parties: int, host: str = LOOPBACK, port: int = 0) -> None:
        self._process, self.pipe = spawn(_track, parties, host, port)
        self._arguments: dict[str, Any] | None = None

    @property
    def arguments(self) -> dict[str, Any]:
        """Where the tracker listens."""
        if self._arguments is None:
            try:
                found, problem = self.pipe.recv()
            except EOFError:
                found, problem = {}, "its process ended"
            if problem:
                raise CollectiveError(f"the tracker could not be started: {problem}")
            self._arguments = dict(found)
        return self._arguments

    def close(self) -> None:
        """End it."""
        _end(self._process, self.pipe)

    def __enter__(self) -> Tracker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def join(
    arguments: Mapping[str, Any], party: int, x: Array, y: Array, parameters: Mapping[str, Any], rounds: int
) -> bytes:
    """Take part in a training with one's own rows; the trained model, the same at every party.

    `party` is its number among them, `parameters` and `rounds` of boosting are the same for all.
    """
    xgboost = _xgboost()
    from xgboost import collective

    # By the task's name parties have the same ranks, and sums the same order, in every training.
    with collective.CommunicatorContext(dmlc_task_id=f"{party:06d}", **arguments):
        booster = xgboost.train(dict(parameters), xgboost.DMatrix(x, y, nthread=1), rounds)
        return bytes(booster.save_raw("ubj"))


def train(
    parties: Mapping[int, tuple[Array, Array]],
    parameters: Mapping[str, Any],
    rounds: int,
    *,
    host: str = LOOPBACK,
    seconds: float | None = None,
    on_start: Any = None,
) -> bytes:
    """Train over the parties' rows, each in a process of its own; the model as XGBoost saves it.

    Raises `CollectiveError` as soon as a party's process ends or fails, and after `seconds`, if given; no
    process is left behind. `on_start` is called with the parties' process ids once all are up.
    """
    end = None if seconds is None else time.monotonic() + seconds
    members: dict[int, tuple[Any, connection.Connection]] = {}
    with contextlib.ExitStack() as stack:
        tracker = stack.enter_context(Tracker(len(parties), host))
        for place, party in enumerate(parties):
            members[party] = spawn(_take_part, place)
            stack.callback(_end, *members[party])
        arguments = tracker.arguments
        for party, (x, y) in parties.items():
            _tell(members, party, (arguments, np.ascontiguousarray(x), y, dict(parameters), rounds))
        if on_start is not None:
            on_start({party: member.pid for party, (member, _) in members.items()})
        return _watch(members, end)


#: A sum of gradients and one of second derivatives, in double precision; an entry of a sketch, in single.
_OF_A_BIN, _OF_A_SKETCH = 2 * 8, 4 * 4


def exchanged(booster: Any, parties: Sequence[Array], bins: int = 256) -> int:
    """The bytes that each party sends, and is sent, while these trees are trained.

    Once a sketch of each feature; then for each tree a histogram of the root and of one child of each split
    (the other child's is the difference). They are computed from the trees, not measured: how XGBoost passes
    them on between parties is left out.
    """
    columns = range(parties[0].shape[1])
    found = [len(np.unique(np.concatenate([x[:, column] for x in parties]))) for column in columns]
    cells = sum(min(bins, count) for count in found)
    trees = booster.get_dump()
    histograms = sum(1 + str(tree).count("[") for tree in trees)
    return _OF_A_SKETCH * cells + _OF_A_BIN * cells * histograms


def _watch(members: Mapping[int, tuple[Any, connection.Connection]], end: float | None) -> bytes:
    """Wait until every party has ended well; the first one that does not ends all."""
    waiting = {pipe: party for party, (_, pipe) in members.items()}
    model = b""
    while waiting:
        left = None if end is None else max(0.0, end - time.monotonic())
        ready = connection.wait(list(waiting), left)
        if not ready:
            raise CollectiveError(f"parties {_listed(waiting)} did not end the federated training in time")
        for pipe in ready:
            assert isinstance(pipe, connection.Connection)
            party = waiting.pop(pipe)
            try:
                model, problem = pipe.recv()
            except (EOFError, OSError):
                problem = f"its process {_ending(members[party][0])}"
            else:
                party, problem = _culprit(members, party, problem)
            if problem:
                raise CollectiveError(
                    f"party {party} did not end the federated training: {problem}; the others were stopped",
                    party,
                )
    return model


def _culprit(
    members: Mapping[int, tuple[Any, connection.Connection]], party: int, problem: str
) -> tuple[int, str]:
    """Whom to blame for a party's problem: itself, unless it only noticed that another one had died."""
    if problem:
        others = {member.sentinel: other for other, (member, _) in members.items() if other != party}
        for sentinel in connection.wait(list(others), _GRACE):
            dead = members[others[sentinel]][0]
            dead.join()
            if dead.exitcode:
                return others[sentinel], f"its process {_ending(dead)}"
    return party, problem


def _tell(members: Mapping[int, tuple[Any, connection.Connection]], party: int, message: Any) -> None:
    with contextlib.suppress(OSError):  # the next wait notices a party that is gone
        members[party][1].send(message)


def _listed(waiting: Mapping[Any, int]) -> str:
    return ", ".join(str(party) for party in sorted(waiting.values()))


def _ending(process: Any) -> str:
    process.join()
    code = process.exitcode
    if code < 0:
        with contextlib.suppress(ValueError):
            return f"was ended by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"


def _end(process: Any, pipe: connection.Connection) -> None:
    process.kill()
    process.join()
    pipe.close()


def _track(pipe: connection.Connection, parties: int, host: str, port: int) -> None:
    """The main function of the tracker's process."""
    try:
        _only_what_is_needed()
        tracker = _xgboost().tracker.RabitTracker(parties, host, port, sortby="task")
        tracker.start()
        pipe.send((tracker.worker_args(), ""))
    except Exception as error:
        pipe.send(({}, in_words(error)))
        return
    with contextlib.suppress(Exception):
        tracker.wait_for()
    with contextlib.suppress(Exception):  # it would be freed anyway, but print what breaks then
        tracker.free()


def _take_part(pipe: connection.Connection, place: int) -> None:
    """The main function of a party's process."""
    try:
        _only_what_is_needed()
        _xgboost()
        arguments, x, y, parameters, rounds = pipe.recv()
        with contextlib.redirect_stdout(io.StringIO()):  # it says its rank
            model, problem = join(arguments, place, x, y, parameters, rounds), ""
    except Exception as error:
        model, problem = b"", f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"
    with contextlib.suppress(OSError):
        pipe.send((model, problem))


def _xgboost() -> Any:
    try:
        import xgboost
        import xgboost.tracker
    except ImportError:
        raise MissingExtraError("xgboost", "tabular") from None
    xgboost.set_config(verbosity=0)
    return xgboost


def _only_what_is_needed() -> None:
    """In a process of ours: xgboost would import scikit-learn, which takes longer than all else here."""
    sys.modules["sklearn"] = None  # type: ignore[assignment]
