"""The reference table: which client hyperparameters suit which profile (FedTune, section 4.2).

Rows are indices, columns quantities; each cell holds client hyperparameters that did well on simulated
clients with that profile. It is made on the server, from public data, and goes out with the model; each
client looks itself up. It is a `ClientSide` rule.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedhpo.core import jsonfile as _jsonfile
from fedhpo.core.errors import InputError, unknown_name
from fedhpo.core.jsonfile import of_format
from fedhpo.core.settings import check_settings, is_number, shown
from fedhpo.methods.fedtune.cells import Cells
from fedhpo.methods.fedtune.look_up import interpolated, nearest
from fedhpo.methods.fedtune.measures import check_measure, profiled
from fedhpo.space import Space
from fedhpo.space.config import Config

_FORMAT = "fedhpo reference table 1"
LOOK_UPS = ("nearest", "interpolated")


@dataclass(frozen=True)
class ReferenceTable:
    """Client hyperparameters by profile.

    Parameters
    ----------
    cells
        The indices and quantities.
    configs
        Client hyperparameters of each cell, row by row.
    space
        What they are points of: its scope `client`.
    scores
        How well each did on simulated clients; None where that is not known.
    measure, edges
        How clients measure their index, and where targets of regression are cut into classes.
    look_up
        "nearest": the cell nearest in index, and in the logarithm of the quantity; of two equally near ones
        the smaller index, the smaller quantity. "interpolated": between the four cells around the
        profile, each hyperparameter in its own scale; choices are those of the nearest cell.
    facts
        How it came about, JSON-able.

    Examples
    --------
    >>> from fedhpo.space import Float
    >>> space = Space(client={"lr": Float(0.01, 1.0, log=True)})
    >>> table = ReferenceTable(Cells((0.0, 1.0), (100,)), ({"lr": 0.01}, {"lr": 1.0}), space)
    >>> table.resolve(np.arange(10), classes=10)
    {'lr': 0.01}
    >>> replace(table, look_up="interpolated").config_for(0.5, 100)
    {'lr': 0.1}
    """

    cells: Cells
    configs: Sequence[Mapping[str, Any]]
    space: Space
    scores: Sequence[float | None] = ()
    measure: str = "heterogeneity_index"
    edges: Sequence[float] | None = None
    look_up: str = "nearest"
    facts: Mapping[str, Any] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        check_settings(self)
        if not isinstance(self.space, Space):
            raise InputError(f"space must be a fedhpo.Space, not {shown(self.space)}")
        check_measure(self.measure)
        if self.look_up not in LOOK_UPS:
            raise unknown_name("look_up", self.look_up, LOOK_UPS)
        object.__setattr__(self, "space", self.space.subspace(["client"]))
        if len(self.configs) != len(self.cells):
            raise InputError(f"{len(self.configs)} configs for a table of {len(self.cells)} cells")
        if self.scores and len(self.scores) != len(self.cells):
            raise InputError(f"{len(self.scores)} scores for a table of {len(self.cells)} cells")
        # Through a config, so that a value is the same before and after its way through JSON.
        configs = [Config(client=config) for config in self.configs]
        for (index, quantity), config in zip(self.cells.profiles, configs, strict=True):
            try:
                self.space.validate(config)
            except InputError as error:
                raise InputError(f"cell of index {index:g} and quantity {quantity}: {error}") from None
        object.__setattr__(self, "configs", tuple(config.client for config in configs))
        object.__setattr__(self, "scores", tuple(map(_score, self.scores)))
        if self.edges is not None:
            if not all(map(is_number, self.edges)):
                raise InputError(f"edges must be finite and ascending, not {shown(self.edges)}")
            edges = tuple(float(edge) for edge in self.edges)
            if not edges or not np.isfinite(edges).all() or (np.diff(edges) <= 0).any():
                raise InputError(f"edges must be finite and ascending, not {list(edges)}")
            object.__setattr__(self, "edges", edges)

    def config_for(self, index: float, quantity: int) -> Mapping[str, Any]:
        """The client hyperparameters for a profile."""
        if self.look_up == "interpolated":
            return interpolated(self.cells, self.configs, self.space, index, quantity)
        return self.configs[nearest(self.cells, index, quantity)]

    def resolve(self, labels: NDArray[Any], classes: int | None) -> Mapping[str, Any]:
        """What a client does: profile its own training labels, and look itself up."""
        return self.config_for(*profiled(self.measure, labels, classes, self.edges))

    def for_clients(self) -> ReferenceTable:
        """The table without what clients have no use for."""
        return replace(self, scores=(), facts={})

    def to_dict(self) -> dict[str, Any]:
        """JSON-able."""
        found: dict[str, Any] = {
            "format": _FORMAT,
            "measure": self.measure,
            "look_up": self.look_up,
            "indices": list(self.cells.indices),
            "quantities": list(self.cells.quantities),
            "space": self.space.to_dict(),
            "configs": [Config(client=config).to_dict()["client"] for config in self.configs],
        }
        if self.edges is not None:
            found["edges"] = list(self.edges)
        if self.scores:
            found["scores"] = list(self.scores)
        return found | ({"facts": dict(self.facts)} if self.facts else {})

    @classmethod
    def from_dict(cls, data: Any, where: str = "table") -> ReferenceTable:
        """The inverse of `to_dict`; `where` leads the error messages."""
        data = of_format(data, _FORMAT, "reference table", where)
        try:
            return cls(
                Cells(tuple(data["indices"]), tuple(data["quantities"])),
                tuple(data["configs"]),
                Space.from_dict(data["space"]),
                tuple(data.get("scores", ())),
                data["measure"],
                data.get("edges"),
                data["look_up"],
                dict(data.get("facts", {})),
            )
        except KeyError as error:
            raise InputError(f"{where}: the key {error} is missing") from None
        except (AttributeError, TypeError, ValueError, OverflowError, RecursionError) as error:
            raise InputError(f"{where}: {error}") from None

    def save(self, path: str | Path) -> Path:
        """Write it as JSON, a few KB."""
        return _jsonfile.save(path, self.to_dict())

    @classmethod
    def load(cls, path: str | Path) -> ReferenceTable:
        """Read what `save` wrote."""
        return cls.from_dict(_jsonfile.load(path, "reference table"), str(path))


def _score(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"a score must be a number or null, not {value!r}")
    return float(value) if math.isfinite(value) else None
