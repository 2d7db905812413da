"""`fedhpo ui`: all runs below a directory in the browser, live."""

from __future__ import annotations

import argparse
import contextlib
import html
import os
import tempfile
import webbrowser
from pathlib import Path

from fedhpo.cli import OK
from fedhpo.cli.output import print_json


def run(options: argparse.Namespace) -> int:
    """Serve the page until Ctrl-C."""
    from fedhpo.core.errors import InputError
    from fedhpo.ui import serve

    directory = Path(options.directory)
    if not directory.is_dir():
        raise InputError(f"DIR = {str(directory)!r}: no such directory")
    with contextlib.ExitStack() as stack:

        def ready(address: str) -> None:
            what = "shows, stops and resumes" if options.control else "shows"
            if options.json:
                print_json({"address": address})
            else:
                print(f"{address} {what} the runs below {directory}; Ctrl-C ends it", flush=True)
            if options.open:
                folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="fedhpo-"))
                webbrowser.open(redirection(address, Path(folder)).as_uri())

        serve(directory, port=options.port, control=options.control, ready=ready)
    return OK


def redirection(address: str, folder: Path) -> Path:
    """A page that leads to the address, for this user's eyes only.

    A browser's arguments stand in the list of processes, where all users of the machine read them: so the
    browser is given this file, not the address with its token.
    """
    page = folder / "open.html"
    content = f'<!doctype html><meta http-equiv="refresh" content="0; url={html.escape(address)}">\n'
    with open(os.open(page, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(content)
    return page
