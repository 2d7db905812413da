"""What must hold: the safe rule is cheap and withstands a quarter, the strict one two fifths if crude."""

from __future__ import annotations

import statistics

from hostility.cells import ATTACKS, NONE, SPLITS, Log
from hostility.selection import LIES, Choices
from hostility.tables import accuracy, chosen

#: Points that may be lost.
CHEAP, MUCH, WANTED = 1.0, 5.0, 10.0
#: Attacks that hide among clients whose data differ: a loss of 10 points is wanted there, and not required.
HIDING = ("a little is enough", "inner product")
CRUDE = ("sign flip", "noise", "nan", "size lie")


def broken(log: Log, choices: Choices, seeds: int) -> list[str]:
    """The limits that what was measured breaks; what has not all its seeds is not judged."""
    found = []
    for split in SPLITS:
        honest = accuracy(log, split, "mean", NONE, 0.0)
        limits = [("safe", NONE, 0.0, CHEAP)]
        limits += [
            ("safe", attack, 0.25, MUCH) for attack in ATTACKS if split == "iid" or attack not in HIDING
        ]
        limits += [("strict", attack, 0.4, MUCH) for attack in CRUDE]
        for rule, attack, share, most in limits:
            measured = accuracy(log, split, rule, attack, share)
            if len(honest) < seeds or len(measured) < seeds:
                continue
            lost = 100 * (statistics.mean(honest) - statistics.mean(measured))
            if lost > most:
                found.append(
                    f"{rule}, {split}, {attack} at {share:.0%}: {lost:.1f} points lost, at most {most:g}"
                )
        best = chosen(choices, split, "mean", "none", 0.0)
        for lie in LIES:
            measured = chosen(choices, split, "safe", lie, 0.25)
            if len(best) < seeds or len(measured) < seeds:
                continue
            lost = 100 * (statistics.mean(best) - statistics.mean(measured))
            if lost > MUCH:
                found.append(f"selection, {split}, {lie} at 25%: {lost:.1f} points lost, at most {MUCH:g}")
    return found
