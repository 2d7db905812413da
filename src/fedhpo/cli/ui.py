"""`fedhpo ui`: all runs below a directory in the browser, live."""

from __future__ import annotations

import argparse
import json
import webbrowser
from pathlib import Path

from fedhpo.cli import OK


def run(options: argparse.Namespace) -> int:
    """Serve the page until Ctrl-C."""
    from fedhpo.core.errors import InputError
    from fedhpo.ui import serve

    directory = Path(options.directory)
    if not directory.is_dir():
        raise InputError(f"DIR = {str(directory)!r}: no such directory")

    def ready(address: str) -> None:
        what = "shows, stops and resumes" if options.control else "shows"
        text = f"{address} {what} the runs below {directory}; Ctrl-C ends it"
        print(json.dumps({"address": address}) if options.json else text, flush=True)
        if options.open:
            webbrowser.open(address)

    serve(directory, port=options.port, control=options.control, ready=ready)
    return OK
