"""The figures of a verdict, read from its words: `mnist +6.0 ± 3.1; imdb -0.5`, `+0.7 [+0.3, +1.2] (24)`."""

from __future__ import annotations

import re
from dataclasses import replace

from fedhpo_papers.shared.forest import Estimate

_NUMBER = r"[+-]?\d+(?:\.\d+)?"
_ERROR = r" ± (\d+(?:\.\d+)?)"
_INTERVAL = rf" \[({_NUMBER}), ({_NUMBER})\] \(\d+\)(?: of \d+ worlds)?"
_CASE = re.compile(rf"^(?:([^±=]*?[^\s:±=]):? )?({_NUMBER})(?:{_ERROR}|{_INTERVAL})?(?: points)?$")
_COUNT = re.compile(r"^\d+ of \d+: ")


def estimates(here: str, paper: str = "") -> list[Estimate]:
    """A difference for each case, or none if the words say something else.

    The paper's figures stand beside them where they are as many, or name the same cases.

    >>> for one in estimates("mnist +6.0 ± 3.1; cifar10: -0.5", "cifar10 +4.19; mnist +5.74"):
    ...     print(one.name, one.value, one.error, one.paper)
    mnist 6.0 3.1 5.74
    cifar10 -0.5 None 4.19
    >>> estimates("sgm 17/0/3; aplm 18/0/2")
    []
    """
    found = _cases(_COUNT.sub("", here)) or []
    if len(found) < 2 and not any(one.error is not None or one.interval or "+" in here for one in found):
        return []
    told = _cases(paper) or []
    named = {one.name: one.value for one in told if one.name}
    places = [one.value for one in told if not one.name] if len(told) == len(found) else []
    return [
        replace(one, paper=named.get(one.name, places[place] if place < len(places) else None))
        for place, one in enumerate(found)
    ]


def _cases(words: str) -> list[Estimate] | None:
    found = []
    for piece in words.split(";"):
        match = _CASE.match(piece.strip())
        if match is None:
            return None
        name, value, error, low, high = match.groups()
        found.append(
            Estimate(
                (name or "").rstrip(":"),
                float(value),
                None if error is None else float(error),
                interval=None if low is None else (float(low), float(high)),
            )
        )
    return found


def summary(found: list[Estimate]) -> str:
    """How many cases are above and below zero beyond doubt.

    >>> summary([Estimate("a", 1.0, 0.2), Estimate("b", 0.1, 0.2)])
    '2 cases: 1 above zero, 0 below, 1 open'
    """
    sides = [one.side for one in found]
    counts = f"{sides.count(1)} above zero, {sides.count(-1)} below, {sides.count(0)} open"
    return f"{len(found)} case{'s' * (len(found) != 1)}: {counts}"
