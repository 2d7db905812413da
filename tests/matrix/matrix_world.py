"""Data of 48 clients for every trainee: enough for cohorts of 40."""

import golden_world
import numpy as np

import fedhpo as fh


def clients():
    """Six features and three classes."""
    return golden_world.many_clients()


def parties():
    """Four features and two classes, 20 rows each, for learners."""
    rng = np.random.default_rng(22)
    rows = golden_world._rows
    return fh.from_clients(
        [{"train": rows(rng, 20, 2, 4), "validation": rows(rng, 8, 2, 4)} for _ in range(48)], classes=2
    )
