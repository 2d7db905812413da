"""Trainings at the clients, all ways to set their hyperparameters side by side, tested as they go."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedhpo.core.streams import derive, stream
from fedhpo.protocol.federation import ClientSide, Federation, Work
from fedhpo_papers.fedtune.sets import Setting

#: What clients get: the same for all, a rule, or each client its own.
Way = Mapping[str, Any] | ClientSide | Sequence[Mapping[str, Any]]
_POINTS = 10


def train(
    federation: Federation,
    ways: Mapping[str, Way],
    setting: Setting,
    seed: int,
    server: Mapping[str, Any] | None = None,
) -> dict[str, dict[str, Any]]:
    """Train a model in each way, as a set's setting says; where training diverged the accuracy is None."""
    found = trainings(
        federation,
        ways,
        rounds=setting.rounds,
        cohort=setting.cohort,
        model=setting.shape,
        seed=seed,
        server=server,
    )
    return {
        name: {**one, "accuracy": None if math.isnan(one["accuracy"]) else one["accuracy"]}
        for name, one in found.items()
    }


def trainings(
    federation: Federation,
    ways: Mapping[str, Way],
    *,
    rounds: int,
    cohort: int,
    model: Mapping[str, Any],
    seed: int,
    server: Mapping[str, Any] | None = None,
    last: int = 5,
) -> dict[str, dict[str, Any]]:
    """Train a model in each way: the same first model, cohorts and batches for all.

    The accuracy is the mean over the `last` rounds, in percent, NaN where training diverged; the paper
    takes the best round by test accuracy, which favours whoever is noisy.
    """
    tester = int(federation.test_clients[0])
    names = list(ways)
    going = set(names)
    curves: dict[str, list[tuple[int, float]]] = {name: [] for name in names}
    for trial, _ in enumerate(names):
        federation.start(trial, dict(model), derive(seed, "model"))
    every = max(1, rounds // _POINTS)
    try:
        for number in range(1, rounds + 1):
            rng = stream(seed, "cohort", number)
            members = [int(c) for c in rng.choice(federation.train_clients, cohort, replace=False)]
            work = [
                Work(trial, members, _for(ways[name], members), dict(server or {}), scores=())
                for trial, name in enumerate(names)
                if name in going
            ]
            for report in federation.round(work) if work else []:
                if not report.applied:
                    going.discard(names[report.trial])
            if number % every == 0 or number > rounds - last:
                numbers = [trial for trial, name in enumerate(names) if name in going]
                for scores in federation.evaluate(numbers, [tester], "test"):
                    curves[names[scores.trial]].append((number, 100 * float(scores.accuracy[0])))
    finally:
        for trial in list(federation.trials):
            federation.stop(trial)
    return {
        name: {
            "curve": curves[name],
            "accuracy": float(np.mean([y for _, y in curves[name][-last:]])) if name in going else math.nan,
        }
        for name in names
    }


def _for(way: Way, cohort: Sequence[int]) -> Way:
    return [way[client] for client in cohort] if isinstance(way, Sequence) else way
