"""Does local search use all cores? FLoRA's three parties with boosted trees on EEG eye state.

    FEDHPO_DATA=... python benchmarks/local_search.py [--configs 100] [--folds 10] [--workers 2] [--json]

Each party tries `configs` configs of HGB over `folds` folds by TPE, on one worker process and on several,
both started beforehand. What the parties send must be the same. The speed-up is the ratio of wall times, and
means something only on an idle machine. The CPU seconds of the workers (w) and of the process that searches
(s) are shown too: two cores can be at most 2 w / (w + s) times as fast as one.
"""

from __future__ import annotations

import argparse
import json
import time

import psutil

import fedhpo as fh
from fedhpo.learners import HGB
from fedhpo.workers.spawn import cores

DATA = "eeg_eye_state"


def cpu(pids: list[int]) -> float:
    """CPU seconds that these processes have used."""
    return sum(sum(psutil.Process(pid).cpu_times()[:2]) for pid in pids)


def search(workers: int, options: argparse.Namespace) -> tuple[float, float, float, list[object]]:
    """Wall seconds, CPU seconds of the workers and of this process, and what the parties send."""
    data = fh.load(DATA, clients=3, split={"kind": "inside", "validation": 0.0, "test": 0.0})
    assert HGB.space is not None
    with fh.LearnerFederation(data, HGB, workers=workers) as federation:
        warm = fh.LocalSearch(HGB.space, configs=1, folds=max(2, workers))
        federation.query(warm, federation.train_clients)
        query = fh.LocalSearch(HGB.space, configs=options.configs, folds=options.folds)
        before, own, begun = cpu(federation.pids), time.process_time(), time.perf_counter()
        answers = federation.query(query, federation.train_clients)
        wall, own = time.perf_counter() - begun, time.process_time() - own
        return wall, cpu(federation.pids) - before, own, [answer.content for answer in answers]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--configs", type=int, default=100)
    parser.add_argument("--folds", type=int, default=10)
    parser.add_argument("--workers", type=int, default=cores())
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    one, _, _, alone = search(1, options)
    several, work, own, together = search(options.workers, options)
    found = {
        "configs": options.configs,
        "folds": options.folds,
        "workers": options.workers,
        "seconds_on_one": round(one, 2),
        "seconds_on_several": round(several, 2),
        "speed_up": round(one / several, 3),
        "cpu_of_workers": round(work, 2),
        "cpu_of_search": round(own, 2),
        "bound_on_two_cores": round(2 * work / (work + own), 3),
        "same_pairs": alone == together,
    }
    if options.json:
        print(json.dumps(found))
        return
    print(f"3 parties x {options.configs} configs x {options.folds} folds of HGB on {DATA}")
    print(f"1 worker {one:.1f} s, {options.workers} workers {several:.1f} s: {one / several:.2f}x")
    print(
        f"CPU: workers {work:.1f} s, search {own:.2f} s: at most {found['bound_on_two_cores']}x on two cores"
    )
    print(f"same pairs: {alone == together}")


if __name__ == "__main__":
    main()
