"""`fedhpo new`: a working app to begin with."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from fedhpo.cli import OK


def run(options: argparse.Namespace) -> int:
    """Write the app, and say what to do next."""
    from fedhpo.core.errors import unknown_name
    from fedhpo.flower.template import write_app

    if options.kind != "flower":
        raise unknown_name("kind of app", options.kind, ["flower"])
    directory = Path(options.directory)
    written = write_app(directory)
    if options.json:
        print(json.dumps({"files": [str(path) for path in written]}))
    else:
        package = written[-1].parent.name
        print("\n".join(f"wrote {path}" for path in written))
        print(f"next: cd {directory} && python -m {package}    (or: flwr run .)")
    return OK
