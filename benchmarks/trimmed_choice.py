"""What choosing by trimmed paired differences costs, and what it saves: replays of the shipped tables.

    python benchmarks/trimmed_choice.py [--studies 100]

A study is 8 or 20 clients and 16 configs of a table, drawn at random, scored after the last round. It chooses
by means, or as runs over real clients do (`evaluation.choice = "trimmed"`). Regret is in points of the
objective (accuracy by size) at the honest clients: that of their best config minus that of the chosen one.

- none: nobody lies. What is lost against the mean, which has no regret, is the price.
- unlike: a fifth of the clients are honest and unlike the rest: their scores are of the same configs in
  another order, so that what is good elsewhere is not good there.
- inverted, favourite, threshold: an eighth of the clients lie: 1 minus the truth; 1 for two bad configs and 0
  for all others; 1 for what is below the middle and 0 for what is above.

Without liars the mean over the tables may be at most 0.5 points, for either number of clients; with liars,
one point. Exits 1 where a limit is missed. Two to four minutes.
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np
from numpy.typing import NDArray

from fedhpo.aggregation.sizes import WEIGHT_CAP
from fedhpo.protocol.middle import robust_rank
from fedhpo.research.tables import load_table, shipped_tables
from fedhpo.search.paired import TRIM

CLIENTS, CONFIGS = (8, 20), 16
CASES = ("none", "unlike", "inverted", "favourite", "threshold")
#: Points, of the mean over tables: without liars, and with them.
HONEST_LIMIT, LIAR_LIMIT = 0.5, 1.0

Floats = NDArray[np.float64]


def told(truth: Floats, honest: Floats, case: str, rng: np.random.Generator) -> Floats:
    """What clients say, of their scores by config (rows) and client; liars come first."""
    found, count = truth.copy(), truth.shape[1] // 8
    if case == "inverted":
        found[:, :count] = 1 - truth[:, :count]
    elif case == "favourite":
        found[:, :count] = 0.0
        found[[int(honest.argmin()), int(rng.integers(len(truth)))], :count] = 1.0
    elif case == "threshold":
        found[:, :count] = (honest < np.median(honest))[:, None]
    return found


def study(scores: Floats, sizes: Floats, clients: int, case: str, rng: np.random.Generator) -> Floats:
    """The regret of one study: by the mean, and trimmed."""
    who = rng.choice(len(sizes), clients, replace=False)
    truth = scores[np.ix_(rng.choice(len(scores), CONFIGS, replace=False), who)]
    weights = np.minimum(sizes[who], WEIGHT_CAP * np.median(sizes[who]))
    first = clients // 8 if case in CASES[2:] else 0
    if case == "unlike":
        some = round(clients / 5)
        truth[:, :some] = truth[rng.permutation(CONFIGS)][:, :some]
    honest = truth[:, first:] @ weights[first:] / weights[first:].sum()
    weights[:first] = WEIGHT_CAP * np.median(sizes[who])  # a liar claims as many rows as it may
    said = told(truth, honest, case, rng)
    by_mean = int((said @ weights).argmax())
    trimmed = int(robust_rank(-said, "trimmed", TRIM, weights).argmin())
    return 100 * (honest.max() - honest[[by_mean, trimmed]])


def main() -> int:
    """All cells, one line each; 1 where a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--studies", type=int, default=100, help="for each table, case and number of clients")
    options = parser.parse_args()
    begun, missed = time.perf_counter(), []
    tables = {name: load_table(name) for name in shipped_tables()}
    print(f"regret in points, mean and trimmed, {options.studies} studies each; trim = {TRIM:g}")
    for clients in CLIENTS:
        for case in CASES:
            found = {}
            for place, (name, table) in enumerate(tables.items()):
                scores = 1 - table.wrong[0][:, -1, :] / table.counted[0]
                sizes = table.validation_sizes[table.validation_clients].astype(np.float64)
                rng = np.random.default_rng([clients, CASES.index(case), place])
                regrets = [study(scores, sizes, clients, case, rng) for _ in range(options.studies)]
                found[name] = np.mean(regrets, axis=0)
            by_mean, trimmed = np.mean(list(found.values()), axis=0)
            limit = HONEST_LIMIT if case in CASES[:2] else LIAR_LIMIT
            worst = max(found, key=lambda name: found[name][1])
            verdict = "" if trimmed <= limit else f"  MISSED: at most {limit:g}"
            missed += [case] if trimmed > limit else []
            print(
                f"{clients:3} clients, {case:<9}  mean {by_mean:6.2f}  trimmed {trimmed:5.2f}  "
                f"(worst table: {worst} {found[worst][1]:.2f}, by the mean {found[worst][0]:.2f}){verdict}"
            )
    print(f"{time.perf_counter() - begun:.0f} s; {len(missed)} limits missed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
