"""Reproductions: one module per paper, its experiments run again and its claims judged.

Each module has `SCALES` (by name), `PARTS`, `run`, which goes on where it was stopped and returns
what it found, and `page`, which writes the page again from the data that `run` kept.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

from fedhpo.core.errors import unknown_name

#: The module of each reproduction, by the name that the command line knows it by.
REPRODUCTIONS = {
    "fedex-critique": "fedhpo_papers.fedex_critique.command",
    "fedex-femnist": "fedhpo_papers.fedex_femnist.command",
    "fedpop": "fedhpo_papers.fedpop.command",
    "noisy-eval": "fedhpo_papers.noisy_eval.command",
    "fedtune": "fedhpo_papers.fedtune.command",
    "flora": "fedhpo_papers.flora.command",
}


def reproduction(name: str) -> ModuleType:
    """The module of a reproduction.

    >>> sorted(reproduction("fedex-critique").SCALES)
    ['cnn', 'default', 'paper', 'smoke']
    """
    if name not in REPRODUCTIONS:
        raise unknown_name("reproduction", name, REPRODUCTIONS)
    return importlib.import_module(REPRODUCTIONS[name])


def tables() -> Path:
    """The directory of the tables that are too large for fedhpo's own package."""
    here = Path(__file__).parent
    installed = here / "tables"
    return installed if installed.is_dir() else here.parents[1] / "tables"
