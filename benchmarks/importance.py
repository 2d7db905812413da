"""Importance beside Optuna's fANOVA, on random searches over recorded tables.

    python benchmarks/importance.py [--trials 60] [--seeds 5] [--tables cifar10 femnist mnist stackexchange]

Each run is a random search on a table. Two hyperparameters are told apart where their importances differ by
more than two standard errors (of their difference, as if both were independent). The script counts the pairs
told apart, and those that fANOVA orders the other way round; the exit code is 1 if there is one.

fANOVA is asked in the space's own scale: places in the unit cube, so that a log range counts by its decades,
as it was searched. Optuna's evaluator, given a log distribution, takes the values linearly
(`transform_log=False`), and then nearly all of a range of 1e-6 to 1e-1 is its last decade. How many pairs
this orders otherwise is printed beside it.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from typing import Any

import numpy as np

import fedhpo as fh
from fedhpo.core.errors import NothingToDrawError
from fedhpo.figures.importance import importances
from fedhpo.figures.view import RunView
from fedhpo.research.tables.shipped import load_table
from fedhpo.tuning.export import _distributions, _plain

TABLES = ("cifar10", "femnist", "mnist", "stackexchange")
#: fANOVA is random too: the mean over so many seeds.
SEEDS = 3


def fanova(trials: list[tuple[dict[str, Any], float]], distributions: dict[str, Any]) -> dict[str, float]:
    """Optuna's fANOVA of these trials, as a mean over seeds."""
    import optuna

    study = optuna.create_study(direction="minimize")
    for params, score in trials:
        study.add_trial(optuna.trial.create_trial(values=[score], params=params, distributions=distributions))
    found = [optuna.importance.FanovaImportanceEvaluator(seed=s).evaluate(study) for s in range(SEEDS)]
    return {name: float(np.mean([one[name] for one in found])) for name in distributions}


def compared(table: str, seed: int, trials: int) -> dict[str, int] | None:
    """Pairs that one run tells apart, and those of them that fANOVA orders otherwise."""
    import optuna

    known = load_table(table)
    rounds, space = max(known.rounds), known.study.space
    budget = {"rounds": rounds, "total": trials * rounds, "cohort": 10}
    result = fh.tune(
        fh.TabularFederation(known), space, fh.RandomSearch(), objective="error", seed=seed, **budget
    )
    try:
        sample, found = importances(RunView.of_result(result.facts, result.history))
    except NothingToDrawError as error:
        print(f"{table:14} seed {seed}: {error}")
        return None
    unit = optuna.distributions.FloatDistribution(0.0, 1.0)
    places = [dict(zip(sample.names, map(float, point), strict=True)) for point in sample.points]
    own = fanova(list(zip(places, sample.scores.tolist(), strict=True)), dict.fromkeys(sample.names, unit))
    rows = {row["trial"]: row for row in result.trials}
    listed = _distributions(space, optuna.distributions)
    params = [{name: _plain(rows[one["trial"]][name]) for name in listed} for one in sample.trials]
    linear = fanova(list(zip(params, sample.scores.tolist(), strict=True)), listed)
    counts = {"pairs": 0, "otherwise": 0, "otherwise, log ranges taken linearly": 0}
    for a, first in enumerate(sample.names):
        for b, second in enumerate(sample.names):
            if found.values[a] - found.values[b] > 2 * np.hypot(found.errors[a], found.errors[b]):
                counts["pairs"] += 1
                counts["otherwise"] += own[first] < own[second]
                counts["otherwise, log ranges taken linearly"] += linear[first] < linear[second]
    shown = ", ".join(
        f"{name} {value:.2f}±{error:.2f} ({own[name]:.2f})"
        for name, value, error in zip(sample.names, found.values, found.errors, strict=True)
    )
    print(f"{table:14} seed {seed}: {shown}", flush=True)
    return counts


def main() -> int:
    """Run them all, and print the sums."""
    import optuna

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--tables", nargs="+", default=TABLES)
    asked = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore")
    print("importance ± standard error (fANOVA in the space's own scale)")
    found = [compared(table, seed, asked.trials) for table in asked.tables for seed in range(asked.seeds)]
    known = [one for one in found if one is not None]
    sums = {key: sum(one[key] for one in known) for key in known[0]}
    print(f"{len(found)} runs, {len(known)} with figures; {', '.join(f'{v} {k}' for k, v in sums.items())}")
    return 1 if sums["otherwise"] else 0


if __name__ == "__main__":
    sys.exit(main())
