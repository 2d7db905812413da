"""A party that dies in a federated training of boosted trees: how long until the error is there?

    python benchmarks/kills.py [--kills 20] [--json]

Three parties train over XGBoost's collective, without an end; one of them, each in turn, gets SIGKILL at a
random moment: while it starts, while the parties find each other, or while they train. Printed are the
seconds from the kill to the error, and processes that were left behind (none).
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import threading
import time

import numpy as np
import psutil

from fedhpo.learners.boosted import BoostedTrees
from fedhpo.learners.collective import CollectiveError, train


def one(party: int, delay: float) -> dict[str, float | int | str]:
    rng = np.random.default_rng(party)
    x = rng.normal(size=(600, 10)).astype(np.float32)
    y = (x[:, 0] > 0).astype(int)
    started: dict[int, int] = {}
    killed: list[float] = []

    def shoot(pid: int) -> None:
        killed.append(time.monotonic())
        os.kill(pid, signal.SIGKILL)

    def on_start(pids: dict[int, int]) -> None:
        started.update(pids)
        threading.Timer(delay, shoot, (pids[party],)).start()

    try:
        train(
            {p: (x[p::3], y[p::3]) for p in range(3)}, BoostedTrees().parameters(2), 10**9, on_start=on_start
        )
        said = "no error"
    except CollectiveError as error:
        said = str(error)
    took = time.monotonic() - killed[0]
    left = sum(psutil.pid_exists(pid) for pid in started.values())
    return {"party": party, "after": round(delay, 2), "seconds": round(took, 3), "left": left, "said": said}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    rows = [one(number % 3, float(rng.uniform(0, 4))) for number in range(options.kills)]
    slowest = max(float(row["seconds"]) for row in rows)
    named = sum(
        f"party {row['party']} " in str(row["said"]) and "SIGKILL" in str(row["said"]) for row in rows
    )
    if options.json:
        print(json.dumps({"kills": rows, "slowest": slowest, "named": named}))
        return
    for row in rows:
        print(f"party {row['party']} after {row['after']:4.2f} s: {row['seconds']:6.3f} s, {row['said']}")
    left = sum(int(row["left"]) for row in rows)
    print(f"{named} of {len(rows)} named the party; slowest {slowest:.3f} s; processes left: {left}")


if __name__ == "__main__":
    main()
