"""What FedPop itself takes of a run: the time outside of federation calls, 27 members on the FEMNIST CNN.

    FEDHPO_DATA=... python benchmarks/fedpop.py [--rounds 4] [--members 27]

Apart from that it names what the record takes: writing down each call and its result.
Evo, sets, client vectors and scores of every member in every round must be nothing beside training.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import fedhpo as fh
from fedhpo.run.recorded import RecordedSession

_CALLS = ("start", "fork", "stop", "submit", "next_done", "ready", "round", "evaluate", "query", "state")

#: FedPop's space for FEMNIST, but for one local epoch, with which training takes least.
SPACE = fh.Space(
    client={
        "lr": fh.Float(1e-4, 1.0, log=True),
        "momentum": fh.Float(0.0, 0.99),
        "weight_decay": fh.Float(1e-5, 1e-1, log=True),
        "lr_decay": fh.Float(0.99, 0.9999),
        "epochs": 1,
        "batch_size": fh.Ordinal([8, 16, 32, 64, 128]),
        "dropout": fh.Float(0.0, 0.5),
    },
    server={
        "lr": fh.Float(0.1, 10.0, log=True),
        "momentum": fh.Choice([0.0, 0.9]),
        "lr_decay": fh.Float(0.99, 0.9999),
    },
)


class Clock:
    """Seconds inside wrapped calls, those that they make themselves not counted twice."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._depth = 0

    def wrap(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, timed."""

        def timed(*args: Any, **kwargs: Any) -> Any:
            begun = time.perf_counter()
            self._depth += 1
            try:
                return function(*args, **kwargs)
            finally:
                self._depth -= 1
                if not self._depth:
                    self.seconds += time.perf_counter() - begun

        return timed


def measure(members: int, rounds: int, cohort: int, workers: int | None) -> dict[str, float]:
    """Shares of the run's time."""
    data = fh.load("femnist", clients=100)
    inner, outer = Clock(), Clock()
    with fh.simulate("cnn_femnist", data, server="fedavgm", workers=workers) as federation:
        for name in _CALLS:
            setattr(federation, name, inner.wrap(getattr(federation, name)))
        for name in (*_CALLS, "decide"):
            setattr(RecordedSession, name, outer.wrap(getattr(RecordedSession, name)))
        begun = time.perf_counter()
        method = fh.FedPop(population=members, interval=1)
        result = fh.tune(federation, SPACE, method, rounds=rounds, total=members * rounds, cohort=cohort)
        total = time.perf_counter() - begun
    return {
        "members": members,
        "rounds": rounds,
        "seconds": total,
        "federation": inner.seconds / total,
        "record": (outer.seconds - inner.seconds) / total,
        "fedpop": (total - outer.seconds) / total,
        "milliseconds_per_member_and_round": 1000 * (total - outer.seconds) / result.cost["rounds"],
        "copies": len(result.lineage),
    }


def main() -> None:
    """Print the shares."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--members", type=int, default=27)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--cohort", type=int, default=10)
    parser.add_argument("--workers", type=int)
    options = parser.parse_args()
    print(json.dumps(measure(options.members, options.rounds, options.cohort, options.workers), indent=1))


if __name__ == "__main__":
    main()
