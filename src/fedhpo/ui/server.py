"""Serves the page on this machine until a signal stops it."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from pathlib import Path

from fedhpo.core.errors import InputError, MissingExtraError

#: Of this machine only: who sits elsewhere comes through a tunnel, such as `ssh -L`.
HOST = "127.0.0.1"


def serve(
    directory: str | Path,
    *,
    port: int = 8265,
    control: bool = False,
    ready: Callable[[str], None] = lambda address: None,
) -> None:
    """Serve the page of all runs below a directory; `ready` is told its address, which holds the token.

    Port 0 takes a free one.
    """
    try:
        import uvicorn

        from fedhpo.ui.access import new_token
        from fedhpo.ui.app import make_app
    except ImportError as error:
        raise MissingExtraError("starlette and uvicorn", "ui") from error
    from fedhpo.ui.control import Control
    from fedhpo.ui.runs import Runs

    runs = Runs(Path(directory))
    token, allowed = new_token(), Control() if control else None
    with _listening(port) as listener:
        settings = uvicorn.Config(
            make_app(runs, token, allowed), log_level="warning", access_log=False, timeout_graceful_shutdown=1
        )
        ready(f"http://{HOST}:{listener.getsockname()[1]}/?token={token}")

        class Server(uvicorn.Server):
            async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
                logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # what is cut off is no error
                await super().shutdown(sockets)

        Server(settings).run(sockets=[listener])


def _listening(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
    except OSError as error:
        listener.close()
        raise InputError(f"port = {port}: {error.strerror}; choose another, or 0 for a free one") from None
    return listener
