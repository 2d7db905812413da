"""A private answer must be one that can be: scores in [0, 1], and no gain that is only noise.

16 configs with the same scores at each of 30 clients, epsilon 1: nothing can be gained.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import fedhpo as fh
from fedhpo.testing import ToyFederation

STUDIES = 8


class Same(ToyFederation):
    """Clients that score all configs the same."""

    def evaluate(self, trials: Any, clients: Any, split: Any = "validation") -> Any:
        """About 0.5, whatever was trained."""
        found = super().evaluate(trials, clients, split)
        for scores in found:
            scores.accuracy[:] = 0.4 + 0.2 * np.asarray(scores.clients) / len(self.train_clients)
        return found


def main() -> int:
    """Exit 1 where a score or a gain cannot be, or an improvement is claimed more than once."""
    space = fh.Space(client={"lr": fh.Float(1e-3, 10.0, log=True, default=0.1)})
    impossible, claimed, seen = 0, 0, []
    for seed in range(STUDIES):
        result = fh.tune(
            Same(clients=30),
            space,
            fh.RandomSearch(trials=16),
            rounds=1,
            total=16,
            cohort=2,
            seed=seed,
            evaluation=fh.Evaluator(privacy=fh.Privacy(1.0)),
        )
        scores = [row["score"] for row in result.trials]
        gain = 0.0 if result.gain is None else result.gain["value"]
        impossible += not (0 <= result.best_score <= 1 and all(0 <= one <= 1 for one in scores))
        impossible += not -1 <= gain <= 1
        claimed += result.improved is True
        seen.append(f"{result.best_score:.2f}")
    print(f"best scores {', '.join(seen)}; impossible {impossible}, 'improved' {claimed} of {STUDIES}")
    return int(impossible > 0 or claimed > 1)


if __name__ == "__main__":
    sys.exit(main())
