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
from fedhpo.federations.apps.app_file import CLIENT, FILE, SERVER, AppFile

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
    # Flower takes the app to another place, often on another machine: the study finds it there.
    own = f'study = {dict(study)!r}\nstudy["app"]["path"] = str(Path(__file__).parent)\n'
    for name, component, function, lines in (
        (CLIENT, "clientapp", "wrap", "app = wrap(own, module=__name__)\n"),
        (SERVER, "serverapp", "tuned", f"{own}app = tuned(own, Study.from_dict(study))\n"),
    ):
        text = _module(app.components[component], function, lines, setup)
        (directory / f"{name}.py").write_text(text, encoding="utf-8")
    file = directory / FILE
    file.write_text(_changed(file.read_text(encoding="utf-8"), run, app.own), encoding="utf-8")


def _module(component: str, function: str, lines: str, setup: str | None) -> str:
    """A module around one of the app's components."""
    module, _, attribute = component.partition(":")
    server = function == "tuned"
    parts = [
        f'"""Made by fedhpo around {component}."""\n',
        "import sys",
        "from pathlib import Path\n" if server else "",
        f"sys.path.append({os.getcwd()!r})  # modules that the study names are found there",
        ""
        if setup is None
        else f"from fedhpo.federations.apps.loaded import prepare\n\nprepare({setup!r})\n",
        f"from fedhpo.flower import {function}",
        "from fedhpo.study import Study" if server else "",
        f"from {module} import {attribute} as own\n",
        lines,
    ]
    return "\n".join(part for part in parts if part)


def _changed(text: str, run: Path, components: Mapping[str, str]) -> str:
    """The app's file with the two components replaced, and kept aside, and a `run-dir`.

    >>> text = '[tool.flwr.app.components]\\nserverapp = "a.s:app"\\nclientapp = "a.c:app"\\n'
    >>> print(_changed(text, Path("/tmp/run"), {"serverapp": "a.s:app", "clientapp": "a.c:app"}))
    [tool.flwr.app.components]
    serverapp = "fedhpo_server_app:app"
    clientapp = "fedhpo_client_app:app"
    <BLANKLINE>
    [tool.flwr.app.config]
    run-dir = "/tmp/run"
    <BLANKLINE>
    [tool.fedhpo.components]
    clientapp = "a.c:app"
    serverapp = "a.s:app"
    <BLANKLINE>
    """
    own = "\n".join(f"{key} = {json.dumps(component)}" for key, component in sorted(components.items()))
    for key, module in (("serverapp", SERVER), ("clientapp", CLIENT)):
        text = re.sub(rf"(?m)^(\s*{key}\s*=\s*).*$", rf'\g<1>"{module}:app"', text)
    line = f"run-dir = {json.dumps(str(run.absolute()))}"
    header = "[tool.flwr.app.config]"
    if re.search(rf"(?m)^{re.escape(header)}\s*$", text):
        text = re.sub(rf"(?m)^{re.escape(header)}\s*$", f"{header}\n{line}", text, count=1)
    else:
        text = f"{text.rstrip()}\n\n{header}\n{line}\n"
    text = f"{text.rstrip()}\n\n[tool.fedhpo.components]\n{own}\n"
    # A list of files to take along would leave the two new ones out, without a word.
    text = re.sub(r"(?ms)^\s*fab-include\s*=\s*\[.*?\]\s*$", "", text)
    found = tomllib.loads(text)["tool"]["flwr"]["app"]
    expected = {"serverapp": f"{SERVER}:app", "clientapp": f"{CLIENT}:app"}
    if found["components"] != expected or "run-dir" not in found["config"]:
        raise InputError(f"{FILE} cannot be changed: write components and config as plain tables")
    return text
