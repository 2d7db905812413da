"""The page's server: what it answers, to whom, and what the browser may do with it.

It reads, for whoever has the token (see `fedhpo.ui.access`). Only with `--control` may the page ask to stop
or resume a run.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import cache
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from fedhpo.agents.calls import calls_table
from fedhpo.core.errors import FedhpoError, InputError
from fedhpo.core.version import VERSION
from fedhpo.pages.numbers import finite
from fedhpo.report.compare import comparison
from fedhpo.ui.access import Access
from fedhpo.ui.control import Control
from fedhpo.ui.leaderboard import leaderboard
from fedhpo.ui.runs import Runs
from fedhpo.ui.watched import heading, told

#: Seconds between two looks at a run's files, and between two words that keep a connection open.
_LOOK, _BEAT = 1.0, 15.0
#: Runs on one page of comparison.
_COMPARED = 8
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
_KINDS = {"js": "text/javascript", "css": "text/css", "html": "text/html", "svg": "image/svg+xml"}
#: Files that the report and this page share, by the name under which they are served.
_SHARED = {
    "plotly.js": ("fedhpo.pages.vendor", "plotly-cartesian.min.js"),
    "draw.js": ("fedhpo.pages", "draw.js"),
    "sort.js": ("fedhpo.pages", "sort.js"),
    "theme.js": ("fedhpo.pages", "theme.js"),
    "style.css": ("fedhpo.pages", "style.css"),
}


def make_app(
    runs: Runs, token: str, control: Control | None = None, hosts: tuple[str, ...] = ()
) -> Starlette:
    """The application; `hosts` are names besides this machine's own by which it may be called."""
    pages = Pages(runs, control)
    routes = [
        Route("/", pages.index),
        Route("/static/{name}", pages.static),
        Route("/api/runs", pages.listed),
        Route("/api/run", pages.run),
        Route("/api/trial", pages.trial),
        Route("/api/compare", pages.compare),
        Route("/api/events", pages.events),
        Route("/api/control", pages.control, methods=["POST"]),
    ]
    # Another site may give its own name this address; the browser then still says that name.
    allowed = ["127.0.0.1", "localhost", "[::1]", *hosts]
    middleware = [
        Middleware(_Guarded),
        Middleware(TrustedHostMiddleware, allowed_hosts=allowed, www_redirect=False),
        Middleware(Access, token=token),
        Middleware(GZipMiddleware, minimum_size=1000, compresslevel=5),
    ]
    handlers: dict[Any, Any] = {FedhpoError: _refused, Exception: _broken}
    return Starlette(routes=routes, middleware=middleware, exception_handlers=handlers)


class _Guarded:
    """Sets the headers that tell the browser what the page may do, on every answer."""

    def __init__(self, app: Callable[..., Awaitable[None]]) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def guarded(message: Any) -> None:
            if message["type"] == "http.response.start":
                more = [(name.lower().encode(), value.encode()) for name, value in _HEADERS.items()]
                message["headers"] = [*message["headers"], *more]
            await send(message)

        await self._app(scope, receive, guarded if scope["type"] == "http" else send)


class Pages:
    """What each address answers. Work goes to threads, so that one long record keeps nobody waiting."""

    def __init__(self, runs: Runs, control: Control | None) -> None:
        self._runs, self._control = runs, control

    async def index(self, request: Request) -> Response:
        """The one page, which its modules fill."""
        return _file(request, "fedhpo.ui.static", "index.html")

    async def static(self, request: Request) -> Response:
        """Programs and styles that fedhpo brings along."""
        name = request.path_params["name"]
        if name in _SHARED:
            return _file(request, *_SHARED[name])
        if not re.fullmatch(r"[a-z]+\.(js|css|svg)", name):
            raise HTTPException(404)
        return _file(request, "fedhpo.ui.static", name)

    async def listed(self, request: Request) -> Response:
        """All runs, a line each."""

        def made() -> dict[str, Any]:
            return {
                "runs": self._runs.listed(),
                "directory": str(self._runs.directory),
                "version": VERSION,
                "control": self._control is not None,
                "leaderboard": leaderboard(self._runs.directory),
                "calls": calls_table(self._runs.directory),
            }

        return await _answer(made)

    async def run(self, request: Request) -> Response:
        """A run: what happens now, and its sections."""

        def made(name: str, have: list[str]) -> dict[str, Any]:
            watched = self._runs.watched(name)
            look = watched.look()
            sections, more = watched.sections(look)
            found = {**heading(look), "sections": told(sections, have), "more": more}
            note = self._control.note(name) if self._control else ""
            return found | {"control": self._control is not None, "note": note}

        return await _answer(made, _name(request), _have(request))

    async def trial(self, request: Request) -> Response:
        """A trial of a run."""

        def made(name: str, number: int, have: list[str]) -> dict[str, Any]:
            watched = self._runs.watched(name)
            look = watched.look()
            return {**heading(look), "sections": told(watched.trial(look, number), have)}

        text = request.query_params.get("trial", "")
        if not re.fullmatch(r"\d{1,9}", text):
            raise InputError(f"trial = {text[:40]!r}: must be a whole number")
        return await _answer(made, _name(request), int(text), _have(request))

    async def compare(self, request: Request) -> Response:
        """Several runs side by side."""

        def made(names: list[str], have: list[str]) -> dict[str, Any]:
            looks = [self._runs.watched(name).look() for name in names]
            sections = comparison([look.view for look in looks])
            share = min(look.share for look in looks)
            title = {"title": "Comparison", "subtitle": f"{len(names)} runs", "share": share}
            return title | {"now": None, "sections": told(sections, have)}

        names = list(dict.fromkeys(request.query_params.getlist("name")))
        if not 2 <= len(names) <= _COMPARED:
            raise InputError(f"name: between 2 and {_COMPARED} runs can be compared, not {len(names)}")
        return await _answer(made, names, _have(request))

    async def events(self, request: Request) -> Response:
        """Server-sent events: a word whenever the files of these runs, or of any, have changed."""
        names: list[str | None] = [*request.query_params.getlist("name")] or [None]

        def stamps() -> Any:
            return [self._runs.stamp(name) for name in names]

        async def words() -> AsyncIterator[str]:
            last, beat = None, 0.0
            while not await request.is_disconnected():
                try:
                    stamp = await run_in_threadpool(stamps)
                except FedhpoError:  # its directory has gone
                    stamp = "gone"
                if stamp != last:
                    yield "data: changed\n\n"
                    last, beat = stamp, 0.0
                elif beat >= _BEAT:
                    yield ": still here\n\n"
                    beat = 0.0
                await asyncio.sleep(_LOOK)
                beat += _LOOK

        return StreamingResponse(words(), media_type="text/event-stream")

    async def control(self, request: Request) -> Response:
        """Stop or resume a run."""
        if self._control is None:
            return _json({"error": "this page only reads: start it with --control"}, 403)
        name, action = _name(request), request.query_params.get("action", "")
        path = self._runs.path(name)
        if action == "stop":
            said = await run_in_threadpool(self._control.stop, path)
        elif action == "resume":
            said = await run_in_threadpool(self._control.resume, name, path)
        else:
            raise InputError(f"action = {action[:40]!r}: must be stop or resume")
        return _json({"said": said})


async def _answer(made: Callable[..., dict[str, Any]], *arguments: Any) -> Response:
    """What a function gives, made in a thread, and how long it took: pages ask the rarer, the longer."""

    def timed() -> dict[str, Any]:
        begun = time.thread_time()
        found = made(*arguments)
        return {**found, "took": 1000 * (time.thread_time() - begun)}

    return _json(await run_in_threadpool(timed))


def _name(request: Request) -> str:
    return str(request.query_params.get("name", ""))


def _have(request: Request) -> list[str]:
    return str(request.query_params.get("have", "")).split(",")


def _file(request: Request, package: str, name: str) -> Response:
    """A file that fedhpo brings along; not sent again to a browser that has it."""
    try:
        plain, packed, tag = _content(package, name)
    except FileNotFoundError:
        raise HTTPException(404) from None
    headers = {"ETag": tag, "Vary": "Accept-Encoding"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    kind = _KINDS[name.rpartition(".")[2]]
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(packed, headers=headers | {"Content-Encoding": "gzip"}, media_type=kind)
    return Response(plain, headers=headers, media_type=kind)


@cache
def _content(package: str, name: str) -> tuple[bytes, bytes, str]:
    """A file, the same compressed, and a tag of its content: made once, as plotly is large."""
    content = (files(package) / name).read_bytes()
    tag = hashlib.blake2b(content, digest_size=12).hexdigest()
    return content, gzip.compress(content, 6, mtime=0), f'"{tag}"'


def _json(value: Any, status: int = 200) -> Response:
    content = json.dumps(finite(value), separators=(",", ":"), ensure_ascii=False)
    # Of a file name that is not UTF-8 Python keeps half a character: it becomes JSON's own escape.
    return Response(content.encode("utf-8", "backslashreplace"), status, media_type="application/json")


async def _refused(request: Request, error: Exception) -> Response:
    return _json({"error": str(error)}, 404 if isinstance(error, InputError) else 409)


async def _broken(request: Request, error: Exception) -> Response:
    return _json({"error": f"{type(error).__name__}: {error}"[:300]}, 500)
