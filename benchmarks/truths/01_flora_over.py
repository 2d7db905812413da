"""FLoRA: `over` moves the recommended config; `alpha` and `local_rounds` without effect are refused."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import fedhpo as fh

SPACE = fh.Space(client={"var_smoothing": fh.Float(1e-9, 100.0, log=True)})


def rows(scale: float, noise: float, seed: int) -> tuple[Any, Any]:
    """A party whose classes differ in one feature; how much smoothing suits it follows from the others."""
    rng = np.random.default_rng(seed)
    y = np.arange(60) % 2
    x = rng.normal(size=(60, 6)) * np.array([1, noise, noise, scale, scale, scale])
    x[:, 0] += 1.5 * y
    return x.astype(np.float32), y


def recommended(federation: Any, over: str, surface: str = "aplm", **settings: Any) -> dict[str, Any]:
    """The config that FLoRA trains."""
    method = fh.FLoRA(configs=15, folds=2, surface=surface, diagnose=False, **settings)
    objective = fh.Objective("balanced_accuracy", over=over)
    result = fh.tune(federation, SPACE, method, rounds=1, cohort=3, objective=objective)
    return dict(result.facts["flora"]["config"])


def refused(make: Callable[[], object]) -> bool:
    """Whether it is refused as a user's mistake."""
    try:
        make()
    except fh.InputError:
        return True
    return False


def main() -> int:
    """What is wrong, in one line; 1 where anything is."""
    found = []
    parties = [rows(1.0, 1.0, 0), rows(30.0, 0.1, 1), rows(0.1, 10.0, 2)]
    with fh.LearnerFederation(parties, "sklearn.naive_bayes:GaussianNB", workers=0) as federation:
        mean = recommended(federation, "mean")
        found += [
            f"over = 'worst' with surface = {surface!r} recommends what the mean does"
            for surface in ("aplm", "auto")
            if recommended(federation, "worst", surface) == mean
        ]
        if not refused(lambda: recommended(federation, "mean", local_rounds=7)):
            found.append("local_rounds with learners is accepted")
    if not refused(lambda: fh.FLoRA(surface="aplm", alpha=5.0)):
        found.append("alpha with aplm is accepted")
    print("; ".join(found) or "over moves the recommended config, alpha and local_rounds are refused")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
