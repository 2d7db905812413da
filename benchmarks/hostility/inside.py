"""Lies about scores inside rounds, a tenth of the clients: what FedEx and FedPop end with."""

from __future__ import annotations

import json
import statistics
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import fedhpo as fh
from fedhpo.testing.attacks import hostile
from hostility.cells import SEEDS, SPLITS
from hostility.selection import LIES, SPACE, honest_accuracy
from hostility.training import digits

SHARE = 0.1
METHODS = {"fedex": fh.FedEx(), "fedpop": fh.FedPop(population=3)}


@dataclass(frozen=True)
class Lied:
    """One study; `strength` is the place of the lie among those of its name."""

    method: str
    split: str
    lie: str
    strength: int
    seed: int


class Inside:
    """The test accuracy of what each study ended with, one JSON object a line."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.found: dict[Lied, float] = {}
        for line in path.read_text().splitlines() if path.exists() else ():
            given = json.loads(line)
            accuracy = given.pop("accuracy")
            self.found[Lied(**given)] = accuracy

    def add(self, one: Lied, accuracy: float) -> None:
        """Write down what came out."""
        with self._path.open("a") as file:
            file.write(json.dumps({**asdict(one), "accuracy": accuracy}) + "\n")
        self.found[one] = accuracy

    def table(self) -> list[str]:
        """As Markdown: of several strengths the one that did most harm, mean over seeds (how many)."""
        names = ["none", *LIES]
        lines = [
            f"\nLies about scores inside rounds, {SHARE:.0%} of the clients: test accuracy in points\n",
            "| method | split | " + " | ".join(names) + " |",
            "| --- | --- |" + " --- |" * len(names),
        ]
        for method in METHODS:
            for split in SPLITS:
                cells = []
                for name in names:
                    worst: dict[int, float] = {}
                    for one, accuracy in self.found.items():
                        if (one.method, one.split, one.lie) == (method, split, name):
                            worst[one.seed] = min(accuracy, worst.get(one.seed, 1.0))
                    mean = f"{100 * statistics.mean(worst.values()):.1f} ({len(worst)})" if worst else ""
                    cells.append(mean)
                if any(cells):
                    lines.append(f"| {method} | {split} | " + " | ".join(cells) + " |")
        return lines if len(lines) > 3 else []


def insides(log: Inside, end: float) -> bool:
    """Run the studies that are left; returns whether all is done."""
    for seed in SEEDS:
        for split in SPLITS:
            for method in METHODS:
                planned = [Lied(method, split, "none", 0, seed)]
                planned += [Lied(method, split, lie, n, seed) for lie in LIES for n in range(len(LIES[lie]))]
                for one in planned:
                    if one in log.found:
                        continue
                    if time.monotonic() > end:
                        return False
                    log.add(one, ended_with(one))
                    print(one, file=sys.stderr, flush=True)
    return True


def ended_with(one: Lied) -> float:
    """The test accuracy, at honest scores, of the model that the study ends with."""
    with fh.simulate("mlp", digits(one.split, one.seed), workers=0) as federation:
        if one.lie != "none":
            hostile(federation, LIES[one.lie][one.strength], share=SHARE, seed=one.seed)
        options = {"rounds": 20, "total": 60, "cohort": 20, "seed": one.seed}
        result = fh.tune(federation, SPACE, METHODS[one.method], **options)
        return honest_accuracy(federation, result.model)
