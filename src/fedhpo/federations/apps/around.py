"""A copy of a user's app with fedhpo's lines around it, for `flwr run`: the app itself stays as it is."""

from __future__ import annotations

import json
import os
import re
import shutil
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedhpo.core.errors import InputError
from fedhpo.federations.apps.app_file import FILE, AppFile

CLIENT, SERVER = "fedhpo_client_app", "fedhpo_server_app"
_LEFT = shutil.ignore_patterns(".git", "__pycache__", ".venv", "runs", "*.pyc")


def write_around(
    app: AppFile, study: Mapping[str, Any], directory: Path, run: Path, setup: str | None = None
) -> None:
    """Write an app that tunes another into a directory; `run` is where the server then keeps the run.

    `study` are the study's tables, which go into the server's module.
    """
    if directory.exists():
        raise InputError(f"DIRECTORY = {str(directory)!r}: is there already; name one that is not")
    shutil.copytree(app.path, directory, ignore=_LEFT)
    place = f"import sys\n\nsys.path.append({os.getcwd()!r})\n"
    ready = ""
    if setup is not None:
        ready = f"from fedhpo.federations.apps.in_process import prepare\n\nprepare({setup!r})\n"
    for name, component, line in (
        (CLIENT, "clientapp", "app = wrap(own)"),
        (SERVER, "serverapp", f"app = tuned(own, Study.from_dict({dict(study)!r}))"),
    ):
        module, _, attribute = app.components[component].partition(":")
        function = line.split()[2].partition("(")[0]
        more = "from fedhpo.study import Study\n" if component == "serverapp" else ""
        text = (
            f'"""Made by fedhpo around {app.components[component]}."""\n\n{place}{ready}\n'
            f"from fedhpo.flower import {function}\n{more}from {module} import {attribute} as own\n\n{line}\n"
        )
        (directory / f"{name}.py").write_text(text, encoding="utf-8")
    file = directory / FILE
    file.write_text(_changed(file.read_text(encoding="utf-8"), run), encoding="utf-8")


def _changed(text: str, run: Path) -> str:
    """The app's file with the two components replaced, and a `run-dir`.

    >>> text = '[tool.flwr.app.components]\\nserverapp = "a.s:app"\\nclientapp = "a.c:app"\\n'
    >>> print(_changed(text, Path("/tmp/run")))
    [tool.flwr.app.components]
    serverapp = "fedhpo_server_app:app"
    clientapp = "fedhpo_client_app:app"
    <BLANKLINE>
    [tool.flwr.app.config]
    run-dir = "/tmp/run"
    <BLANKLINE>
    """
    for key, module in (("serverapp", SERVER), ("clientapp", CLIENT)):
        text = re.sub(rf"(?m)^(\s*{key}\s*=\s*).*$", rf'\g<1>"{module}:app"', text)
    line = f"run-dir = {json.dumps(str(run.absolute()))}"
    header = "[tool.flwr.app.config]"
    if re.search(rf"(?m)^{re.escape(header)}\s*$", text):
        text = re.sub(rf"(?m)^{re.escape(header)}\s*$", f"{header}\n{line}", text, count=1)
    else:
        text = f"{text.rstrip()}\n\n{header}\n{line}\n"
    # A list of files to take along would leave the two new ones out, without a word.
    text = re.sub(r"(?ms)^\s*fab-include\s*=\s*\[.*?\]\s*$", "", text)
    found = tomllib.loads(text)["tool"]["flwr"]["app"]
    expected = {"serverapp": f"{SERVER}:app", "clientapp": f"{CLIENT}:app"}
    if found["components"] != expected or "run-dir" not in found["config"]:
        raise InputError(f"{FILE} cannot be changed: write components and config as plain tables")
    return text
