"""Tables of few parameters: one config for all, and how it changes with a client's profile.

A search in the mixture cannot try every cell by itself: the cells act on one model, and there are too many
of them. So a table is a config and two slopes, and a constant one is the case of slopes 0. `lr` is the
highest rate of the table: whatever the slopes, no cell exceeds it, and rates at which training diverges lie
along one axis of the search.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from fedhpo.core.errors import InputError, unknown_name
from fedhpo.methods.fedtune.profiles import Profiles
from fedhpo.methods.fedtune.reference_table import ReferenceTable
from fedhpo.space import Float, Ordinal, Space
from fedhpo.space.config import Config

#: What changes with the profile: nothing; the rate; how much a client counts; that by FedNova's rule.
SHAPES = ("constant", "rate", "weight", "fednova")
Shape = Literal["constant", "rate", "weight", "fednova"]

#: Doublings are by so much of the index, and by one doubling of the quantity.
INDEX_STEP = 0.3
#: How many doublings a slope may have.
_STEEPEST = 3.0
_KNOBS: Mapping[str, Mapping[str, Float]] = {
    "constant": {},
    "rate": {
        "index_slope": Float(-_STEEPEST, _STEEPEST, default=0.0),
        "quantity_slope": Float(-1.0, 1.0, default=0.0),
    },
    "weight": {"index_slope": Float(-_STEEPEST, _STEEPEST, default=0.0)},
    "fednova": {},
}


@dataclass(frozen=True)
class Tables:
    """All tables of one shape over a space of client hyperparameters, for a distribution of profiles.

    With `equal_work` the epochs of a config are those of the cell with the most rows; smaller clients take
    more, so that all train on about as many samples and a reply's time says little of its sender.
    """

    space: Space
    profiles: Profiles
    shape: Shape = "rate"
    measure: str = "heterogeneity_index"
    edges: tuple[float, ...] | None = None
    look_up: str = "nearest"
    equal_work: bool = False

    def __post_init__(self) -> None:
        if self.shape not in SHAPES:
            raise unknown_name("shape", self.shape, SHAPES)
        lr = self.space.scope("client").get("lr")
        if self.shape == "rate" and not isinstance(lr, Float | Ordinal):
            raise InputError("client.lr must be tuned, as a range or a list: its slopes make up the table")
        if self.equal_work and "epochs" not in self.space.scope("client"):
            raise InputError("equal_work needs client.epochs in the space, tuned or fixed")

    @property
    def searched(self) -> Space:
        """The space of their parameters: client hyperparameters, and slopes in the scope `policy`."""
        return Space(client=_marked(self.space.scope("client")), policy=dict(_KNOBS[self.shape]))

    def table(self, config: Config) -> ReferenceTable:
        """The table that a config stands for."""
        cells = self.profiles.cells
        configs = [self._cell(config, *profile) for profile in cells.profiles]
        space = _cells_space(self.space, self.shape, configs, self.equal_work)
        return ReferenceTable(cells, configs, space, (), self.measure, self.edges, self.look_up)

    def _cell(self, config: Config, index: float, quantity: int) -> dict[str, Any]:
        found = dict(config.client)
        if self.equal_work:
            most = max(self.profiles.cells.quantities)
            found["epochs"] = max(1, round(found["epochs"] * most / quantity))
        if self.shape == "rate":
            found["lr"] = self._rate(config, index, quantity)
        elif self.shape == "weight":
            found["update_scale"] = self._relative(config, index, quantity)
        elif self.shape == "fednova":
            found["update_scale"] = self._normalised(found, quantity)
        return found

    def _doublings(self, config: Config, index: float, quantity: int) -> float:
        by_index = config.policy.get("index_slope", 0.0) * index / INDEX_STEP
        return float(by_index + config.policy.get("quantity_slope", 0.0) * math.log2(quantity))

    def _rate(self, config: Config, index: float, quantity: int) -> float:
        """The config's rate in the cells where it is highest, lower elsewhere, never below the space's."""
        profiles = self.profiles.cells.profiles
        highest = max(self._doublings(config, *profiles[cell]) for cell in self.profiles.held)
        doublings = min(0.0, self._doublings(config, index, quantity) - highest)
        return _allowed(self.space.scope("client")["lr"], config.client["lr"] * 2.0**doublings)

    def _relative(self, config: Config, index: float, quantity: int) -> float:
        """How much a client counts, the mean client counting 1."""
        profiles, shares = self.profiles.cells.profiles, self.profiles.shares
        every = [2.0 ** self._doublings(config, *profile) for profile in profiles]
        mean = sum(share * one for share, one in zip(shares, every, strict=True))
        relative: float = 2.0 ** self._doublings(config, index, quantity) / mean
        return round(relative, 6)

    def _normalised(self, client: Mapping[str, Any], quantity: int) -> float:
        """FedNova (Wang et al., 2020): updates by local steps, times the mean of all clients' steps."""

        def steps(rows: int) -> int:
            return int(client.get("epochs", 1)) * math.ceil(rows / int(client.get("batch_size", 32)))

        rows = [quantity for _, quantity in self.profiles.cells.profiles]
        weights = [share * held for share, held in zip(self.profiles.shares, rows, strict=True)]
        mean = sum(w * steps(held) for w, held in zip(weights, rows, strict=True)) / sum(weights)
        return round(mean / steps(quantity), 6)

    def halved(self, config: Config) -> float:
        """Half of a config's rate, as far as the space has it."""
        return _allowed(self.space.scope("client")["lr"], float(config.client["lr"]) / 2)

    def lifted(self, config: Config) -> Config:
        """A constant config as a table of this shape: slopes 0."""
        return self.searched.complete({"client": dict(config.client)})

    def around(self, config: Config) -> list[Config]:
        """Tables that fall with the index near a good constant config, to begin with.

        Of rates the mean of the logarithm over clients stays, or is half as far from the highest rate.
        """
        if "index_slope" not in self.searched.scope("policy"):
            return []
        found = []
        for slope in (-1.0, -2.0):
            flat = self.searched.complete({"client": dict(config.client), "policy": {"index_slope": slope}})
            if self.shape == "weight":
                found.append(flat)
                continue
            profiles, shares = self.profiles.cells.profiles, self.profiles.shares
            doublings = [self._doublings(flat, *profile) for profile in profiles]
            highest = max(doublings[cell] for cell in self.profiles.held)
            below = sum(share * (highest - one) for share, one in zip(shares, doublings, strict=True))
            for kept in (1.0, 0.5):
                rate = float(config.client["lr"]) * 2.0 ** (kept * below)
                rate = _allowed(self.space.scope("client")["lr"], rate)
                found.append(flat.replace(client={**flat.client, "lr": rate}))
        return list(dict.fromkeys(found))


def _marked(values: Mapping[str, Any]) -> dict[str, Any]:
    """Fixed lists as such, which `Space` would take for a mistake."""
    return {key: {"value": value} if isinstance(value, tuple) else value for key, value in values.items()}


def _allowed(lr: Any, rate: float) -> float:
    """The nearest rate of the space: in a range, or, by ratio, in a list."""
    if isinstance(lr, Ordinal):
        return float(min(lr.values, key=lambda value: abs(math.log(value / rate))))
    if not isinstance(lr, Float):
        return rate
    return float(min(lr.high, max(lr.low, rate)))


def _cells_space(space: Space, shape: str, configs: list[dict[str, Any]], equal_work: bool) -> Space:
    """The space that the cells are points of: what is computed for them may lie outside the searched one."""
    client = dict(space.subspace(["client"]).scope("client"))
    if shape in ("weight", "fednova"):
        scales = sorted({config["update_scale"] for config in configs})
        client["update_scale"] = Ordinal(scales) if len(scales) > 1 else scales[0]
    if equal_work:
        epochs = sorted({config["epochs"] for config in configs})
        client["epochs"] = Ordinal(epochs) if len(epochs) > 1 else epochs[0]
    return Space(client=_marked(client))
