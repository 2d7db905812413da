"""What `fedhpo advise` predicts of selection, against what selection on the tables comes to."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedhpo.research.advise import check_advice, pilot_of_table
from fedhpo_papers.noisy_eval.search import CONFIGS, Bench

#: Not private, and two budgets.
_EPSILONS = (None, 100.0, 10.0)
#: A pilot as short as that of `fedhpo advise`: so many configs, for this share of a training.
_PILOT, _SHARE = 8, 1 / 20


def advice(bench: Bench) -> list[dict[str, Any]]:
    """A row for each table, budget and number of clients: predicted from all of the table and from a pilot.

    `near` is the probability that the config ranked first is within 0.01 of the best of 16, `regret` how
    much worse it is on average.
    """
    rows = []
    for name, table in bench.tables.items():
        early = max(int(table.rounds[0]), round(_SHARE * int(table.rounds[-1])))
        short = pilot_of_table(table, configs=_PILOT, round=early, seed=bench.seed)
        for epsilon in _EPSILONS:
            pilots = {"predicted": None, "piloted": short if epsilon is None else short.uniform()}
            checked = {
                which: check_advice(
                    table, bench.sizes(name), configs=CONFIGS, epsilon=epsilon, pilot=pilot, seed=bench.seed
                )
                for which, pilot in pilots.items()
            }
            for whole, piloted in zip(checked["predicted"], checked["piloted"], strict=True):
                rows.append(
                    {
                        "table": name,
                        "epsilon": epsilon,
                        "clients": whole["clients"],
                        "measured": whole["measured"],
                        "predicted": whole["predicted"],
                        "piloted": piloted["predicted"],
                    }
                )
    return rows


def misses(rows: list[dict[str, Any]], by: str, what: str = "near") -> float:
    """The mean distance of a prediction from what was measured."""
    return float(np.mean([abs(row[by][what] - row["measured"][what]) for row in rows]))
