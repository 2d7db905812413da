"""Reproductions: one module per paper, its experiments run again and its claims judged.

Each module has `SCALES` (by name), `PARTS`, `run`, which goes on where it was stopped and returns
what it found, and `page`, which writes the page again from the data that `run` kept.
"""

from __future__ import annotations

import importlib
from types import ModuleType

from fedhpo.core.errors import unknown_name

#: The module of each reproduction, by the name that the command line knows it by.
REPRODUCTIONS = {
    "fedex-critique": "fedhpo.reproduce.fedex_critique.command",
    "fedex-femnist": "fedhpo.reproduce.fedex_femnist.command",
    "fedpop": "fedhpo.reproduce.fedpop.command",
    "noisy-eval": "fedhpo.reproduce.noisy_eval.command",
    "fedtune": "fedhpo.reproduce.fedtune.command",
    "flora": "fedhpo.reproduce.flora.command",
}


def reproduction(name: str) -> ModuleType:
    """The module of a reproduction.

    >>> sorted(reproduction("fedex-critique").SCALES)
    ['cnn', 'default', 'paper', 'smoke']
    """
    if name not in REPRODUCTIONS:
        raise unknown_name("reproduction", name, REPRODUCTIONS)
    return importlib.import_module(REPRODUCTIONS[name])
