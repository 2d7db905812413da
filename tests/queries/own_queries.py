"""Queries of a user's own, for the tests."""

from dataclasses import asdict, dataclass
from typing import ClassVar

import numpy as np


@dataclass(frozen=True)
class LabelCounts:
    """How many rows of each class a client holds, with noise of its own."""

    noise: float = 0.0
    seed: int = 0
    name: ClassVar[str] = "label_counts"

    def to_dict(self):
        return asdict(self)

    def answer(self, party):
        party.count(samples=len(party.train))
        counts = np.bincount(party.train.y, minlength=party.classes)
        noise = self.noise * party.rng.normal(size=len(counts))
        return {"counts": counts, "noisy": (counts + noise).tolist()}


@dataclass(frozen=True)
class WeightNorm:
    """The norm of a trial's weights, and a row's mean, after both were spoilt for whoever comes next."""

    trial: int
    name: ClassVar[str] = "weight_norm"

    def to_dict(self):
        return asdict(self)

    def answer(self, party):
        norm = float(sum((array**2).sum() for array in party.weights.values()))
        mean = float(party.validation.x.mean()) if len(party.validation) else None
        for array in party.weights.values():
            array[:] = 0
        party.validation.x[:] = 0
        party.count(evaluations=1)
        return {"norm": norm, "mean": mean, "names": sorted(party.weights), "draw": party.rng.random()}


@dataclass(frozen=True)
class Failing:
    """Fails at client 1, and answers with no JSON at client 2."""

    name: ClassVar[str] = "failing"

    def to_dict(self):
        return {}

    def answer(self, party):
        if party.client == 1:
            raise ValueError("no such column")
        return {1} if party.client == 2 else "fine"
