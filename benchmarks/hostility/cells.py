"""What is tried: rules, attacks with the strengths that attackers may choose, shares, splits; and the log."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from fedhpo.aggregation.aggregation import Aggregation
from fedhpo.aggregation.presets import SAFE, STRICT
from fedhpo.testing.attacks import (
    Attack,
    InnerProduct,
    LittleIsEnough,
    Noise,
    NotANumber,
    SignFlip,
    SizeLie,
    Together,
)

SPLITS: Mapping[str, dict[str, object]] = {
    "iid": {"kind": "iid"},
    "dirichlet 0.5": {"kind": "dirichlet", "alpha": 0.5},
}
RULES: Mapping[str, Aggregation] = {
    "safe": SAFE,
    "strict": STRICT,
    "mean": Aggregation(),
    "median": Aggregation(rule="median"),
    "nnm": Aggregation(rule="nnm", trim=0.25),
    "multi_krum": Aggregation(rule="multi_krum", trim=0.25),
    "trimmed_mean": Aggregation(rule="trimmed_mean", trim=0.25),
    "norm_clipping": Aggregation(rule="norm_clipping"),
    "centred_clipping": Aggregation(rule="centred_clipping"),
    "direction_filter": Aggregation(rule="direction_filter", trim=0.25),
}
#: Of data, of the first model and of who is hostile. Seeds 0 to 4 were used while the rules were made.
SEEDS = (5, 6, 7, 8, 9)
SHARES = (0.1, 0.25, 0.4)
NONE, LABELS = "none", "label flip"


def _size_lie(strength: float) -> Attack:
    return Together((SizeLie(100_000), SignFlip(strength)))


#: Attacks on training by name, each with the strengths that are searched; labels are flipped in the data.
ATTACKS: Mapping[str, tuple[object, tuple[float, ...]]] = {
    "sign flip": (SignFlip, (0.3, 1.0, 10.0)),
    "noise": (Noise, (10.0,)),
    "a little is enough": (LittleIsEnough, (0.5, 1.5)),
    "inner product": (InnerProduct, (0.3, 1.0)),
    "nan": (lambda _: NotANumber(), (1.0,)),
    "size lie": (_size_lie, (10.0,)),
    LABELS: (lambda _: Attack(), (1.0,)),
}


def attack_of(name: str, strength: float) -> Attack:
    """The attack at a strength."""
    made: Attack = ATTACKS[name][0](strength)  # type: ignore[operator]
    return made


@dataclass(frozen=True)
class Cell:
    """One training."""

    split: str
    rule: str
    attack: str
    share: float
    strength: float
    seed: int


def stages() -> list[tuple[str, float]]:
    """Rules and shares in the order in which they are tried: what limits are set for first."""
    first = [("safe", 0.25), ("strict", 0.4), ("mean", 0.25), ("median", 0.25)]
    return list(dict.fromkeys([*first, *((rule, share) for share in (0.25, 0.1, 0.4) for rule in RULES)]))


def cells(
    split: str, rule: str, share: float, seed: int, worst: Mapping[str, float] | None
) -> Iterator[Cell]:
    """The trainings of a split, a rule, a share and a seed; `worst` names the strength of each attack. All
    strengths are tried where it is None."""
    yield Cell(split, rule, NONE, 0.0, 0.0, seed)
    for attack, (_, strengths) in ATTACKS.items():
        for strength in strengths:
            if worst is None or worst[attack] == strength:
                yield Cell(split, rule, attack, share, strength, seed)


class Log:
    """Accuracies by cell, one JSON object a line; what is in it is not done again."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.found: dict[Cell, float] = {}
        if path.exists():
            for line in path.read_text().splitlines():
                given = json.loads(line)
                accuracy = given.pop("accuracy")
                self.found[Cell(**given)] = accuracy

    def add(self, found: Mapping[Cell, float]) -> None:
        """Write down what came out."""
        with self._path.open("a") as file:
            file.writelines(json.dumps({**asdict(c), "accuracy": a}) + "\n" for c, a in found.items())
        self.found |= found

    def worst(self, split: str, rule: str, share: float) -> dict[str, float] | None:
        """The strength of each attack that did most harm with the first seed; None until all were tried."""
        tried = list(cells(split, rule, share, SEEDS[0], None))
        if not all(cell in self.found for cell in tried):
            return None
        best: dict[str, Cell] = {}
        for cell in tried:
            if cell.attack not in best or self.found[cell] < self.found[best[cell.attack]]:
                best[cell.attack] = cell
        return {attack: cell.strength for attack, cell in best.items()}
