"""A client that trains and scores with its owner's functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedhpo.core.errors import InputError
from fedhpo.federations.remote.clients import OWN, SPLITS, Hello
from fedhpo.federations.remote.messages import Scored, Task, Trained
from fedhpo.parties.context import Context, named
from fedhpo.parties.party import EvaluateFunction, LabelsFunction, TrainFunction
from fedhpo.parties.rules import rule_of


@dataclass(frozen=True)
class OwnParty:
    """A client with functions of its own."""

    trains: TrainFunction
    scores: EvaluateFunction
    sizes: Callable[[Context], Mapping[str, int]] | None
    labels: LabelsFunction | None
    tells: bool = True
    hyperparameters: tuple[str, ...] | None = None

    def hello(self, context: Context) -> Hello:
        """Who it is, by its node's config."""
        sizes = {"train": 1, "validation": 1} if self.sizes is None else self.sizes(context)
        told = {split: int(sizes.get(split, 0)) for split in SPLITS}
        if not self.tells:
            told = {split: min(rows, 1) for split, rows in told.items()}
        return Hello(*named(context), told, training=OWN, hyperparameters=self.hyperparameters)

    def rows(self, context: Context) -> int:
        """How many it trains on; 1 where it does not say."""
        return 1 if self.sizes is None else int(self.sizes(context).get("train", 0))

    def train(self, arrays: dict[str, NDArray[np.float32]], task: Task, context: Context) -> Trained:
        """Train by the user's function, after a rule was resolved."""
        if task.rule is not None:
            if self.labels is None:
                raise InputError("the client's app does not say what its labels are: client(..., labels=...)")
            config = rule_of(task.rule).resolve(*self.labels(context))
            return replace(
                self.trains(arrays, replace(task, config=config, rule=None), context), samples=None
            )
        return self.trains(arrays, task, context)

    def evaluate(self, arrays: dict[str, NDArray[np.float32]], task: Task, context: Context) -> Scored:
        """Score by the user's function."""
        return self.scores(arrays, task, context)
