"""Cells in NVFlare's own simulator: every general key once, over sites that are processes of their own."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from fedhpo.study import Study
from settings_cells import judge, keys
from settings_cells.contexts import TORCH, Context
from settings_cells.places import Seen

_NAME = "nvflare"
_JOB = Path(__file__).with_name("nvflare_job.py")
#: `collab.clients`, inside the job.
SITES: list[Any] = []
#: Seconds that a reply takes at least where it is held back; without that it takes less.
_HELD = 0.5


@cache
def cells() -> Sequence[judge.Cell]:
    """Every general key once."""
    context = Context(_NAME, {**TORCH, "nvflare": {"patience": 5.0}}, over_nvflare)
    return tuple(judge.Cell(context, key) for key in keys.general())


def is_its(name: str) -> bool:
    """Whether a cell belongs here."""
    return name.endswith(f" | {_NAME}")


def judged_all(names: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Run a job that judges these cells."""
    with tempfile.TemporaryDirectory(prefix="fedhpo-settings-") as folder:
        wanted, found = Path(folder, "names.json"), Path(folder, "results.json")
        wanted.write_text(json.dumps(list(names)))
        job = subprocess.run(
            [sys.executable, str(_JOB), str(wanted), str(found)], cwd=folder, capture_output=True, text=True
        )
        if not found.is_file():
            said = f"{job.stdout[-2000:]}{job.stderr[-2000:]}"
            raise RuntimeError(f"the job ended with {job.returncode}: {said}")
        results = json.loads(found.read_text())
    return {name: tuple(results.get(name, (judge.FAILED, "the job ended before it"))) for name in names}


class Watched:
    """A site's client of the cell's study: what it is asked is noted, and two fail the first time."""

    def __init__(self, proxy: Any, tables: Any, log: list[Any]) -> None:
        self.name, self._proxy, self._log = proxy.name, proxy, log
        self._ask = json.dumps(tables, default=str)
        self._fails = proxy.name in ("site-3", "site-5")

    def __call__(self, *, timeout: float) -> Any:
        return SimpleNamespace(answer=partial(self._answer, timeout))

    def _answer(self, timeout: float, kind: str, text: str, models: Any) -> Any:
        if self._fails and kind == "train":
            from nvflare.collab import CollabCallError

            self._fails = False
            if self.name == "site-3":  # it cannot be reached, which may pass
                raise CollabCallError(self.name, "answer", "no power")
            raise RuntimeError("no power")
        begun = time.monotonic()
        reply = self._proxy(timeout=timeout).cell(self._ask, kind, text, models)
        held = kind == "train" and time.monotonic() - begun >= _HELD
        self._log.append((self.name, kind, len(models), held))
        return reply


def over_nvflare(study: Study, path: Path) -> Seen:
    """Over the sites of the job."""
    from fedhpo.nvflare.server import federation_of

    log: list[Any] = []
    sites = [Watched(site, study.given, log) for site in SITES]
    with federation_of(sites, study, path, repeatable=True) as federation:
        return study.tune(path, federation=federation).facts, sorted(log)
