"""What every loss surface can do: predict the loss of configs, as the federation would see it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from fedhpo.core.errors import InputError, unknown_name
from fedhpo.queries.pairs import PartyPairs
from fedhpo.space import Space
from fedhpo.space.config import Config
from fedhpo.surrogates.cube import Cube, Floats

#: All parties count alike, or each by the number of its rows.
WEIGHTINGS = ("uniform", "size")


class Surface(ABC):
    """An estimate of the loss over a space, made of the parties' pairs (Table 2 of the paper).

    Attributes:
        name: as `fit_surface` knows it
        space: where it is defined
        tried: the configs of all parties, each once
    """

    name: str

    def __init__(self, space: Space, parties: Sequence[PartyPairs]) -> None:
        self.space = space
        self.cube = Cube(space)
        self.tried = tuple(dict.fromkeys(config for party in parties for config in party.configs))

    def predict(self, configs: Sequence[Config]) -> Floats:
        """The predicted loss of each config."""
        return self.at(self.cube.points(configs))

    @abstractmethod
    def at(self, points: Floats) -> Floats:
        """The predicted loss at points of the unit cube that are points of configs (`Cube.snap`)."""


def checked(space: Space, parties: Sequence[PartyPairs], weighting: str) -> None:
    """Refuse what no surface can be made of."""
    if not space.dimensions:
        raise InputError("space has no hyperparameter to tune: a surface needs at least one")
    if not parties:
        raise InputError("parties is empty: a surface needs the pairs of at least one party")
    if weighting not in WEIGHTINGS:
        raise unknown_name("weighting", weighting, WEIGHTINGS)


def party_weights(parties: Sequence[PartyPairs], weighting: str) -> Floats:
    """The share of each party, 1 in all.

    >>> two = [PartyPairs(i, size, (Config(),), (0.5,)) for i, size in enumerate((10, 30))]
    >>> party_weights(two, "size").tolist(), party_weights(two, "uniform").tolist()
    ([0.25, 0.75], [0.5, 0.5])
    """
    sizes = np.array([party.size for party in parties], dtype=np.float64)
    weights: Floats = sizes / sizes.sum() if weighting == "size" else np.full(len(sizes), 1 / len(sizes))
    return weights
