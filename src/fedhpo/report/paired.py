"""Whether one run's winner is better than another's: client by client where both were scored at the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from fedhpo.core.significance import level_of, p_value
from fedhpo.figures.reading import difference, objective_of
from fedhpo.figures.view import RunView


@dataclass(frozen=True)
class Pair:
    """Two runs, the better first: by how much, how surely, and from what; `why` if that is not known."""

    better: RunView
    other: RunView
    value: float = 0.0
    error: float | None = None
    clients: int = 0
    apart: bool = False
    paired: bool = True
    why: str = ""


def pairs_of(views: Sequence[RunView]) -> list[Pair]:
    """All pairs of runs; tests are two-sided at 5%, corrected for the number of pairs."""
    found = list(combinations(views, 2))
    return [_pair(a, b, 2 * len(found)) for a, b in found]


def _pair(first: RunView, second: RunView, tests: int) -> Pair:
    why = _incomparable(first) or _incomparable(second)
    if first.data != second.data:
        why = why or "their data differ"
    if why:
        return Pair(first, second, why=why)
    scores = [view.latest[view.winner or 0][1] for view in (first, second)]
    found = difference(objective_of(first.result["objective"]), *scores)
    if found is None:
        return Pair(first, second, why="no client scored both")
    value, error, clients = found["value"], found["standard_error"], found["clients"]
    better, other = (first, second) if value >= 0 else (second, first)
    p = found["p_value"] if value >= 0 else p_value(-value, error or 0.0, clients)
    apart = error is not None and p is not None and p <= level_of(tests)
    return Pair(better, other, abs(value), error, clients, apart, found["paired"])


def _incomparable(view: RunView) -> str:
    if view.result["best"] is None:
        return f"{view.name} has no score yet"
    if view.result.get("privacy"):
        return f"the scores of {view.name} are private"
    return "" if view.winner in view.latest else f"no client's scores of {view.name} are known"
