"""Selection under lying scores: what a study by successive halving chooses, by how it puts scores together.

Clients train honestly and lie when they score. The test accuracy of the chosen model is what counts.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import fedhpo as fh
from fedhpo.engine.flat import FlatModel
from fedhpo.federations.simulated import SimulatedFederation
from fedhpo.protocol.objective import Objective
from fedhpo.testing.attacks import Attack, InvertedScores, ThresholdScores, hostile
from hostility.cells import SEEDS, SPLITS
from hostility.training import digits

#: How scores are put together, by the name of the rule in training that goes with it.
OVER = {
    "mean": Objective(weighting="uniform"),
    "median": Objective(over="median"),
    "safe": Objective(over="trimmed"),
}
SHARES = (0.1, 0.25, 0.4)
#: Lies, with the thresholds that a liar may choose.
LIES: dict[str, tuple[Attack, ...]] = {
    "inverted": (InvertedScores(),),
    "threshold": (ThresholdScores(0.5), ThresholdScores(0.8)),
}
SPACE = fh.Space(client={"lr": fh.Float(0.003, 3.0, log=True), "batch_size": fh.Choice([8, 16, 64])})


@dataclass(frozen=True)
class Choice:
    """One study."""

    split: str
    over: str
    lie: str
    share: float
    strength: int
    seed: int


class Choices:
    """The test accuracy of what was chosen, one JSON object a line."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.found: dict[Choice, float] = {}
        if path.exists():
            for line in path.read_text().splitlines():
                given = json.loads(line)
                accuracy = given.pop("accuracy")
                self.found[Choice(**given)] = accuracy

    def add(self, choice: Choice, accuracy: float) -> None:
        """Write down what came out."""
        with self._path.open("a") as file:
            file.write(json.dumps({**asdict(choice), "accuracy": accuracy}) + "\n")
        self.found[choice] = accuracy


def _planned(shares: Sequence[float]) -> list[Choice]:
    found = []
    for seed in SEEDS:
        for split in SPLITS:
            for over in OVER:
                found.append(Choice(split, over, "none", 0.0, 0, seed))
                found += [
                    Choice(split, over, lie, share, strength, seed)
                    for share in shares
                    for lie, attacks in LIES.items()
                    for strength in range(len(attacks))
                ]
    return found


def choices(log: Choices, end: float, shares: Sequence[float]) -> bool:
    """Run the studies with these shares of liars that are left; returns whether all is done."""
    for choice in _planned(shares):
        if choice in log.found:
            continue
        if time.monotonic() > end:
            return False
        log.add(choice, chosen(choice))
        print(f"selection: {choice}", file=sys.stderr, flush=True)
    return True


def chosen(choice: Choice) -> float:
    """The test accuracy, at honest scores, of the model that the study ends with."""
    with fh.simulate("mlp", digits(choice.split, choice.seed), workers=0) as federation:
        if choice.share:
            hostile(federation, LIES[choice.lie][choice.strength], share=choice.share, seed=choice.seed)
        result = fh.tune(
            federation,
            SPACE,
            fh.SHA(trials=9),
            rounds=9,
            total=60,
            cohort=20,
            seed=choice.seed,
            objective=OVER[choice.over],
        )
        return honest_accuracy(federation, result.model)


def honest_accuracy(federation: SimulatedFederation, model: Any) -> float:
    """What a model is worth on test rows, asked of honest clients: a report's scores pass the liars too."""
    federation.adversary = None
    federation.start(10**6, {}, 0)
    state = federation.state(10**6)
    weights = FlatModel(model).vector()
    federation.restore(10**6, type(state)({**state.arrays, "weights": weights}, state.facts))
    [scores] = federation.evaluate([10**6], federation.test_clients, "test")
    return scores.mean("accuracy")
