"""The figures of a verdict, read from its words: `cifar10 +4.8 ± 1.1; mnist +6.0 ± 3.1`."""

from __future__ import annotations

import re

from fedhpo.pages.forest import Estimate

_NUMBER = r"[+-]?\d+(?:\.\d+)?"
_CASE = re.compile(rf"^(?:([^±=]*?[^\s:±=]):? )?({_NUMBER})(?: ± (\d+(?:\.\d+)?))?(?: points)?$")
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
    found = _cases(_COUNT.sub("", here))
    if found is None or not any(error is not None or "+" in here or len(found) > 1 for _, _, error in found):
        return []
    told = _cases(paper) or []
    named = {name: value for name, value, _ in told if name}
    places = [value for name, value, _ in told if not name] if len(told) == len(found) else []
    return [
        Estimate(name, value, error, named.get(name, places[place] if place < len(places) else None))
        for place, (name, value, error) in enumerate(found)
    ]


def _cases(words: str) -> list[tuple[str, float, float | None]] | None:
    found = []
    for piece in words.split(";"):
        match = _CASE.match(piece.strip())
        if match is None:
            return None
        name, value, error = match.groups()
        found.append(((name or "").rstrip(":"), float(value), None if error is None else float(error)))
    return found


def summary(found: list[Estimate]) -> str:
    """How many cases are above and below zero beyond doubt.

    >>> summary([Estimate("a", 1.0, 0.2), Estimate("b", 0.1, 0.2)])
    '2 cases: 1 above zero, 0 below, 1 open'
    """
    sides = [one.side for one in found]
    counts = f"{sides.count(1)} above zero, {sides.count(-1)} below, {sides.count(0)} open"
    return f"{len(found)} case{'s' * (len(found) != 1)}: {counts}"
