"""From which first trial each trial descends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def founders(trials: Iterable[Mapping[str, Any]]) -> dict[int, int]:
    """The trial that each trial's model began as, from the `trials` of a result.

    >>> copied = {"round": 5, "source": 1, "source_step": 0, "left": 5, "config": {}}
    >>> first = {"round": 0, "source": None, "config": {}}
    >>> founders([{"trial": 0, "path": [first, copied]}, {"trial": 1, "path": []}])
    {0: 1, 1: 1}
    """
    paths = {trial["trial"]: trial.get("path") or [{"source": None}] for trial in trials}

    def founder(number: int, step: int) -> int:
        source = paths[number][step]["source"]
        return number if source is None else founder(source, paths[number][step].get("source_step", 0))

    return {number: founder(number, len(path) - 1) for number, path in paths.items()}


def lineages(trials: Iterable[Mapping[str, Any]]) -> int:
    """How many lineages there are among the trials that were trained to the end.

    >>> lineages([{"trial": 0, "status": "finished"}, {"trial": 1, "status": "eliminated"}])
    1
    """
    found = list(trials)
    ancestors = founders(found)
    return len({ancestors[trial["trial"]] for trial in found if trial["status"] == "finished"})
