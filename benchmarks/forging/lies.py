"""Fifty lies of one client, and how each changes what it sends."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field
from typing import Any

from fedhpo.testing.attacks import Attack

_HUGE = (1e308, 1e300, 1e160, 1e100, 1e39, 3e38, 1e30, 1e10)
_TINY = (5e-324, 1e-300, 0.0, -0.0, -1e-9)
_LOSSES = (*_HUGE, *(-value for value in _HUGE), *_TINY, math.nan, math.inf, -math.inf, 10**400)
_SHARES = (1e308, -1e308, 2.0, -1.0, 1.0, 0.0, 1e-300, math.nan, math.inf, -math.inf)
_SIZES = (0, -1, 2**31, 2**63, 10**30, 10**400, 1)
#: What is forged, and with what: 50 cases.
VALUES: tuple[tuple[str, Any], ...] = (
    *(("loss", value) for value in _LOSSES),
    *(("accuracy", value) for value in _SHARES),
    *(("size", value) for value in _SIZES),
    ("all", 1e308),
    ("all", math.inf),
    ("all", -1e308),
    ("old", None),
    ("first", None),
    ("repeated", None),
    ("another trial's", None),
    ("old, unnamed", None),
)
#: Which of the replies seen so far is sent again, where a reply is no more than two scores.
_PLACES = {"old": -2, "first": 0, "repeated": -2, "another trial's": -3, "old, unnamed": -2}
#: Which facts of a reply a lie is about.
_FACTS = {"loss": ("loss",), "accuracy": ("accuracy",), "size": ("size",), "all": ("loss", "accuracy")}


@dataclass
class Lie(Attack):
    """Forged scores and sizes; of a reply that came before, those of that one."""

    what: str
    value: Any
    seen: list[tuple[float, float]] = field(default_factory=list)
    replies: list[dict[str, Any]] = field(default_factory=list)

    def size(self, rows: int) -> int:
        return self.value if self.what == "size" else rows

    def score(self, loss: float, accuracy: float) -> tuple[float, float]:
        self.seen.append((loss, accuracy))
        if self.what in ("loss", "accuracy", "all"):
            number = _float(self.value)
            return (
                number if self.what in ("loss", "all") else loss,
                number if self.what in ("accuracy", "all") else accuracy,
            )
        place = _PLACES.get(self.what)
        return (loss, accuracy) if place is None else self.seen[max(place, -len(self.seen))]

    def answer(self, honest: Any) -> Any:
        """In place of the answer to a query: a local search's losses or weights, or a profile's cell."""
        if isinstance(honest, int):
            return honest if self.value is None else self.value
        told = copy.deepcopy(honest)
        for name in ("losses", "weights"):
            if name not in told:
                continue
            if self.what in ("loss", "accuracy", "all"):
                told[name] = [self.value] * len(told[name])
            elif self.what != "size":  # of other configs than those that it tells them of
                told[name] = told[name][::-1] if self.what == "first" else told[name][1:] + told[name][:1]
        if "size" in told and self.what == "size":
            told["size"] = self.value
        return told

    def reply(self, honest: dict[str, Any]) -> dict[str, Any]:
        """In place of a reply over Flower."""
        told = copy.deepcopy(honest)
        for name in honest:
            if any(part in name for part in _FACTS.get(self.what, ())):
                told[name] = self.value
        if "answer" in told:
            told["answer"] = self.answer(told["answer"])
        self.replies.append(honest)
        if self.value is not None or "trial" not in honest:
            return told
        same = [one for one in self.replies[:-1] if one.keys() == honest.keys()]
        others = [one for one in same if one["trial"] != honest["trial"]]
        own = [one for one in same if one["trial"] == honest["trial"]]
        chosen = others if self.what == "another trial's" else own[:1] if self.what == "first" else own
        if chosen and self.what != "repeated":
            told = {**chosen[-1], **({"arrays": honest["arrays"]} if "arrays" in honest else {})}
        if self.what == "old, unnamed":
            told.pop("task", None)
        return told


def _float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf
