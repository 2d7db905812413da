"""What a rule costs the server: the time to put a cohort's updates together."""

from __future__ import annotations

import time
from collections.abc import Mapping

import numpy as np

from fedhpo.aggregation.aggregation import Aggregation
from hostility.cells import RULES

CLIENTS, NUMBERS, TIMES = 20, 100_000, 3


def seconds(how: Aggregation, clients: int = CLIENTS, numbers: int = NUMBERS) -> float:
    """The shortest of a few times, as on a machine that does nothing else."""
    updates = np.random.default_rng(0).normal(size=(clients, numbers)).astype(np.float32)
    found = []
    for _ in range(TIMES):
        aggregate = how.start({}, range(clients))
        begin = time.perf_counter()
        for member, update in enumerate(updates):
            aggregate.add(update, 10, member)
        aggregate.mean()
        found.append(time.perf_counter() - begin)
    return min(found)


def table(rules: Mapping[str, Aggregation] = RULES) -> list[str]:
    """As Markdown."""
    return [
        f"\nThe server's time for {CLIENTS} updates of {NUMBERS:,} numbers\n",
        "| " + " | ".join(rules) + " |",
        "|" + " --- |" * len(rules),
        "| " + " | ".join(f"{1000 * seconds(how):.2g} ms" for how in rules.values()) + " |",
    ]
