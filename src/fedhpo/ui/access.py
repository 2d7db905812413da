"""Who may read the page: whoever has the token that `fedhpo ui` printed.

The page is served to this machine, and other users of it can reach it too; without a token they could read
through it what file permissions keep from them.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response

_REFUSED = (
    "this page needs its token: open the whole address that `fedhpo ui` printed, with ?token=...; a program "
    "sends the token as the header X-Token"
)


def new_token() -> str:
    """A token that nobody guesses."""
    return secrets.token_urlsafe(24)


class Access:
    """Lets requests pass that bring the token: in the address once, from then on as a cookie, or as a header.

    Only the programs and styles that fedhpo brings along are there for all.
    """

    def __init__(self, app: Callable[..., Awaitable[None]], token: str) -> None:
        self._app, self._token = app, token
        # Browsers send a cookie to all ports of a machine: each server has one of its own name.
        self._cookie = f"fedhpo-{hashlib.blake2b(token.encode(), digest_size=6).hexdigest()}"

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        path, given = request.url.path, request.query_params.get("token")
        answer: Callable[..., Awaitable[None]] = self._app
        if path == "/" and given is not None and self._is_token(given):
            answer = self._admitted()
        elif not path.startswith("/static/") and not self._brings_token(request):
            answer = _refused(path)
        await answer(scope, receive, send)

    def _brings_token(self, request: Request) -> bool:
        if self._is_token(request.headers.get("x-token", "")):
            return True
        # Another site's page can make a browser send the cookie, but not a header of its own.
        own = request.method in ("GET", "HEAD") or "x-fedhpo" in request.headers
        return own and self._is_token(request.cookies.get(self._cookie, ""))

    def _is_token(self, text: str) -> bool:
        return secrets.compare_digest(text.encode("utf-8", "surrogateescape"), self._token.encode())

    def _admitted(self) -> Response:
        """The page itself, whose address no longer shows the token.

        The cookie is `lax`: a strict one would not come along where another page led here, as with `--open`.
        """
        answer = RedirectResponse("./", 303, {"Cache-Control": "no-store"})
        answer.set_cookie(self._cookie, self._token, path="/", httponly=True, samesite="lax")
        return answer


def _refused(path: str) -> Response:
    if path.startswith("/api/"):
        return JSONResponse({"error": _REFUSED}, 403)
    return PlainTextResponse(f"{_REFUSED}\n", 403)
