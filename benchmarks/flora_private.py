"""What does FLoRA recommend under local privacy? An SVM at three parties of seven tables.

    FEDHPO_DATA=... OMP_NUM_THREADS=1 python benchmarks/flora_private.py [FILE] [--seeds 0 1 2 3]

A quarter of the rows of each set is held out; of the others at most 300 go to three parties, class by class.
Balanced accuracy on the held-out rows, in points, of one training with: the default config; what FLoRA
recommends without privacy (100 configs a party, TPE); what it recommends with `LocalPrivacy` (100 configs,
`unit = "party"`) at several epsilons, the mean over draws of its noise. What a party measured is kept for
these draws: the rows stay the same, and only the choice and the noise are drawn anew.

What a party goes by (a smooth surface of its own losses, a margin for the default), how many configs it
chooses (1, for all of epsilon) and which epsilon is refused were fixed on seeds 100 to 107, which are not
reported. The exit code is 1 unless, at epsilon 10, FLoRA is within 2 points of the one
without privacy and above the default config on 4 of the 7 sets. With FILE each cell is a line of it and is
not done again.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

import fedhpo as fh
from fedhpo.core.errors import InputError
from fedhpo.core.streams import stream
from fedhpo.data.load import DATASETS
from fedhpo.data.sets.request import Request
from fedhpo.data.sets.tabular import TABLES
from fedhpo.federations.pooled import PooledLearners
from fedhpo.learners import SVM
from fedhpo.queries.local_search import PartySearch
from fedhpo.space.config import Config

CONFIGS, FOLDS, PARTIES, ROWS, HELD_OUT, DRAWS = 100, 3, 3, 300, 500, 4
EPSILONS = (10.0, 5.0, 3.0, 1.0)
#: At epsilon 10: points below the one without privacy, and on how many sets.
WITHIN, SETS = 2.0, 4


class Remembering(PooledLearners):
    """Parties that measure a config once; `draw` numbers what their noise is drawn for."""

    def __init__(self, data: Any) -> None:
        super().__init__(data, SVM, workers=0)
        self.draw, self._known = 0, dict[tuple[int, Config], float]()

    def query(self, task: Any, clients: Any) -> list[Any]:
        """As the parties answer, from what they measured before if `task` tries nothing else."""
        if not task.listed:
            return super().query(task, clients)
        wanted = replace(task, privacy=None, best=None)
        if not self._known:
            for answer in super().query(wanted, clients):
                configs = map(Config.from_dict, answer.content["configs"])
                for config, loss in zip(configs, answer.content["losses"], strict=True):
                    self._known[answer.client, config] = loss
        return [self._answer(task, int(party)) for party in clients]

    def _answer(self, task: Any, party: int) -> Any:
        size = len(self._data.train.rows(party))
        search = PartySearch(task, party + PARTIES * self.draw, size)  # another number, other noise
        while (config := search.ask()) is not None:
            search.tell(self._known[party, config])
        return replace(search.answer(), client=party)


def data_of(name: str, seed: int, count: int = PARTIES, rows_of_all: int = ROWS) -> Any:
    """So many parties, and one more that holds the rows that are held out."""
    samples = DATASETS[name].read(Request(clients=None, seed=0))
    x, y = np.asarray(samples.x), np.asarray(samples.y)
    rng = stream(seed, "flora private", name)
    by_class = [rng.permutation(np.flatnonzero(y == label)) for label in np.unique(y)]
    held = np.concatenate([rows[: len(rows) // 4] for rows in by_class])
    share = min(1.0, rows_of_all / (len(y) - len(held)))
    kept = [rows[len(rows) // 4 :] for rows in by_class]
    # A rare class keeps enough rows for the folds of each party.
    kept = [rows[: max(round(share * len(rows)), 2 * count * FOLDS)] for rows in kept]
    train = np.concatenate(kept)
    held = rng.permutation(held)[:HELD_OUT]
    parties = [{"train": (x[train[p::count]], y[train[p::count]])} for p in range(count)]
    return fh.from_clients([*parties, {"validation": (x[held], y[held])}], classes=2, name=name)


def tuned(federation: Remembering, seed: int, **settings: Any) -> tuple[float, float]:
    """The scores of what FLoRA recommends, and of the default config."""
    assert SVM.space is not None
    method = fh.FLoRA(configs=CONFIGS, folds=FOLDS, diagnose=False, **settings)
    result = fh.tune(federation, SVM.space, method, rounds=1, cohort=PARTIES, seed=seed, baseline=True)
    # Not the best score: that is the default's own where nothing better was found, judged by the same rows.
    # Trial 0 is the default, the last one what is recommended, unless that is the default too.
    return 100 * float(result.trials[-1]["score"]), 100 * float(result.trials[0]["score"])


def cell(seed: int, name: str) -> dict[str, float]:
    """The scores of one set and seed, by what was done."""
    with Remembering(data_of(name, seed)) as federation:
        clear, default = tuned(federation, seed)
        found = {"default": default, "no privacy": clear}
        for epsilon in EPSILONS:
            if refused(epsilon):
                continue
            privacy, scores = fh.LocalPrivacy(epsilon=epsilon, unit="party"), []
            for federation.draw in range(DRAWS):
                scores.append(tuned(federation, seed, privacy=privacy)[0])
            found[f"epsilon {epsilon:g}"] = float(np.mean(scores))
    return found


def refused(epsilon: float) -> str:
    """Why FLoRA refuses this epsilon; empty if it does not."""
    try:
        fh.FLoRA(configs=CONFIGS, privacy=fh.LocalPrivacy(epsilon=epsilon, unit="party"))
    except InputError as error:
        return str(error)
    return ""


def least_epsilon() -> float:
    """The smallest epsilon that is not refused, to two decimals."""
    return next(step / 100 for step in range(1, 10_000) if not refused(step / 100))


def show(cells: dict[tuple[str, int], dict[str, float]], seeds: Sequence[int]) -> int:
    """Print the table; on how many sets the limit is kept."""
    names = list(next(iter(cells.values())))
    print("| set | " + " | ".join(names) + " | within 2 points, above the default |")
    print("| --- |" + " --- |" * (len(names) + 1))
    kept = 0
    for name in TABLES:
        table = np.array([[cells[name, seed][way] for way in names] for seed in seeds])
        mean = dict(zip(names, table.mean(axis=0), strict=True))
        private = mean[f"epsilon {EPSILONS[0]:g}"]
        good = private >= mean["no privacy"] - WITHIN and private > mean["default"]
        kept += good
        shown = " | ".join(f"{mean[way]:.1f}" for way in names)
        print(f"| {name} | {shown} | {'yes' if good else 'no'} |")
    means = np.array([[one[way] for way in names] for one in cells.values()]).mean(axis=0)
    print("| mean | " + " | ".join(f"{value:.1f}" for value in means) + f" | {kept} of {len(TABLES)} |")
    return kept


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("file", type=Path, nargs="?")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3])
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    begun, cells = time.monotonic(), dict[tuple[str, int], dict[str, float]]()
    if options.file is not None and options.file.is_file():
        lines = map(json.loads, options.file.read_text().splitlines())
        cells = {(line["set"], line["seed"]): line["scores"] for line in lines}
    with ProcessPoolExecutor(options.workers, get_context("spawn")) as pool:
        todo = [(seed, name) for seed, name in product(options.seeds, TABLES) if (name, seed) not in cells]
        asked = {pool.submit(cell, *one): one for one in todo}
        for done in as_completed(asked):
            seed, name = asked[done]
            cells[name, seed] = done.result()
            if options.file is not None:
                with options.file.open("a") as file:
                    print(json.dumps({"set": name, "seed": seed, "scores": cells[name, seed]}), file=file)
    cells = {(name, seed): cells[name, seed] for seed, name in product(options.seeds, TABLES)}
    print(f"balanced accuracy on held-out rows, seeds {options.seeds}, {DRAWS} draws of noise each")
    kept = show(cells, options.seeds)
    for epsilon in EPSILONS:
        if why := refused(epsilon):
            print(f"epsilon {epsilon:g} is refused: {why}")
    print(f"with {CONFIGS} configs every epsilon below {least_epsilon():g} is refused")
    met = kept >= SETS
    print(
        f"limit: {SETS} sets; {'met' if met else 'missed'} in {(time.monotonic() - begun) / 60:.1f} minutes"
    )
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
