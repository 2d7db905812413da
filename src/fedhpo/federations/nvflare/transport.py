"""NVFlare's Collab API as a transport: each message is a call of a method that the client publishes.

A call waits for its reply in a thread of its own, so that clients work side by side. NVFlare has decoded a
reply before it is seen here (its own format, nothing pickled); names, types and shapes are checked before
use.
"""

from __future__ import annotations

import contextvars
import queue
import threading
import time
import uuid
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from fedhpo.core.errors import InputError
from fedhpo.federations.remote.messages import HELLO, QUERY, to_text
from fedhpo.federations.remote.plain import PlainReply, plain
from fedhpo.federations.remote.transport import Outgoing, Trouble
from fedhpo.protocol.reasons import Reason, Why, ours

#: What this runtime is called in studies and results.
RUNTIME = "nvflare"
#: A site that did not reply is asked whether it is there: seconds for that, and between two such calls.
_THERE, _AGAIN = 60.0, 1.0


class Proxy(Protocol):
    """A client as the Collab API shows it: called with options, it has the methods that the client has."""

    @property
    def name(self) -> str:
        """Its site's name."""

    def __call__(self, *, timeout: float) -> Any:
        """The same, for calls that may take so long."""


class CollabTransport:
    """Messages to the sites of a job. NVFlare fixes the list of them when the job starts."""

    runtime = RUNTIME

    def __init__(self, clients: Iterable[Proxy]) -> None:
        self._sites = dict(enumerate(sorted(clients, key=lambda proxy: proxy.name), start=1))
        self._came: queue.SimpleQueue[PlainReply | BaseException] = queue.SimpleQueue()
        self._bell = threading.Event()
        self._away: set[int] = set()

    def check(self, wanted: int) -> None:
        """Refuse to wait for more sites than the job has."""
        if len(self._sites) < wanted:
            raise InputError(
                f"nvflare.clients = {wanted}: the job has {len(self._sites)}, and none can join a job that "
                f"runs; submit it with min_clients = {wanted}, or ask for fewer"
            )

    def nodes(self) -> Iterable[int]:
        """The sites of the job, but for those that let a call time out and have not replied since.

        NVFlare does not say which have gone: without this a dead one would cost every round its deadline.
        """
        return [node for node in self._sites if node not in self._away]

    def push(self, messages: Sequence[Outgoing]) -> list[str | None]:
        """Call each site, in a thread with this job's context."""
        names = []
        for message in messages:
            name = str(uuid.uuid4())
            names.append(name)
            context = contextvars.copy_context()
            threading.Thread(target=context.run, args=(self._call, name, message), daemon=True).start()
        return list(names)

    def pull(self, names: Iterable[str]) -> Iterable[PlainReply]:
        """Replies that have come."""
        found: list[PlainReply] = []
        while True:
            try:
                one = self._came.get_nowait()
            except queue.Empty:
                return found
            if isinstance(one, BaseException):
                raise one
            found.append(one)

    def close(self) -> None:
        """The job ends by itself."""

    def wait(self, seconds: float) -> None:
        """Rest so long, or until a reply comes."""
        self._bell.wait(seconds)
        self._bell.clear()

    def _call(self, name: str, message: Outgoing) -> None:
        from nvflare.collab.api.exceptions import RunAborted

        try:
            models = {key: plain(parcel.content) for key, parcel in message.models.items()}
            site = self._sites[message.node](timeout=message.seconds)
            content = site.answer(message.kind, to_text(message.facts), models)
            self._came.put(PlainReply(name, message.node, content))
        except RunAborted as end:
            self._came.put(end)
        except Exception as error:
            trouble = trouble_of(error)
            if trouble is None:
                late = ours(Why.LATE, f"no reply within {message.seconds:g} s")
                trouble = Trouble(late, missing=True, passing=False)
                self._lose(message.node)
            self._came.put(PlainReply(name, message.node, trouble=trouble))
        finally:
            self._bell.set()

    def _lose(self, node: int) -> None:
        """Leave a site out until it replies; this asks whether it is there, in a thread of its own."""
        if node not in self._away:
            self._away.add(node)
            context = contextvars.copy_context()
            threading.Thread(target=context.run, args=(self._find, node), daemon=True).start()

    def _find(self, node: int) -> None:
        from nvflare.collab.api.exceptions import RunAborted

        nothing = to_text({"client": -1, "tasks": []})
        while True:
            try:
                self._sites[node](timeout=_THERE).answer(f"{QUERY}.{HELLO}", nothing, {})
            except RunAborted:
                return
            except Exception:
                time.sleep(_AGAIN)
            else:
                self._away.discard(node)
                return


def trouble_of(error: Exception) -> Trouble | None:
    """What a call that failed means; None of one that timed out."""
    from nvflare.collab import CollabCallError

    if not isinstance(error, CollabCallError):
        failed = f"the call failed: {type(error).__name__}: {str(error)[:500]}"
        return Trouble(Reason(Why.RAISED, failed), False, False)
    if error.cause_type == "TimeoutError" and not error.remote_traceback:
        return None
    if error.cause_type and error.cause_type != "str":
        failed = f"the client raised {error.cause_type}: {str(error.cause)[:500]}"
        return Trouble(Reason(Why.RAISED, failed), False, False)
    gone = f"the client cannot be reached: {str(error.cause)[:500]}"
    return Trouble(Reason(Why.GONE, gone), True, True)
