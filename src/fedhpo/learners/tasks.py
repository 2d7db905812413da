"""The pieces of work that a worker does: score a config on one fold of a party, fit an estimator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from fedhpo.data import FederatedData
from fedhpo.learners.scoring import Array, Builds, fitted, fold_score
from fedhpo.space.config import Config


class Task(Protocol):
    """Something to do with the parties' rows."""

    def run(self, bench: Bench) -> Any:
        """Do it."""


@dataclass(frozen=True, eq=False)
class Bench:
    """What a worker has at hand: all parties' rows, of which a task takes those that it names."""

    learner: Builds
    data: FederatedData

    def rows(self, parties: Sequence[int], split: str = "train") -> tuple[Array, Array]:
        """Features, one row a sample, and labels of these parties; features as they are, not scaled."""
        found = np.concatenate([getattr(self.data, split).rows(party) for party in parties])
        x = self.data.x[found].reshape(len(found), -1)
        return (x if x.dtype.kind == "f" else x.astype(np.float32)), self.data.y[found]


@dataclass(frozen=True)
class ScoreFold:
    """Score a config on one fold of one party's training rows."""

    party: int
    config: Config
    fold: int
    folds: int
    scoring: str
    seed: int

    def run(self, bench: Bench) -> float:
        """The score; more is better."""
        x, y = bench.rows([self.party])
        return fold_score(
            bench.learner, self.config, x, y, self.folds, self.fold, self.scoring, self.seed % 2**32
        )


@dataclass(frozen=True)
class FitPooled:
    """Fit an estimator on the training rows of several parties, put together in one place."""

    parties: tuple[int, ...]
    config: Config
    seed: int

    def run(self, bench: Bench) -> Any:
        """The estimator."""
        return fitted(bench.learner, self.config, *bench.rows(self.parties), self.seed % 2**32)
