"""FedTune's client policy: the reference table goes out with the model, each client looks itself up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from fedhpo.core.errors import InputError
from fedhpo.protocol.federation import BEFORE, CLIENT_CONFIGS, ClientSide, RoundReport
from fedhpo.space import Space
from fedhpo.space.config import Config

if TYPE_CHECKING:
    from fedhpo.methods.fedtune.reference_table import ReferenceTable


@dataclass(frozen=True)
class _TableState:
    rule: ClientSide

    def assign(self, cohort: Sequence[int], rng: np.random.Generator) -> ClientSide:
        return self.rule

    def learn(self, report: RoundReport) -> None:
        pass


@dataclass(frozen=True)
class LookUp:
    """The same rule for everybody: a table, or any other `ClientSide` rule.

    Neither what a client computes of its data nor the hyperparameters that it chooses come back.

    >>> from fedhpo.methods.fedtune import Cells, ReferenceTable
    >>> from fedhpo.space import Float
    >>> space = Space(client={"lr": Float(0.0, 1.0)})
    >>> policy = LookUp(ReferenceTable(Cells((0.5,), (100,)), ({"lr": 0.1},), space))
    >>> rule = policy.begin(space.default(), space, np.random.default_rng(0)).assign([3, 5], None)
    >>> rule.resolve(np.array([0, 1]), classes=10)
    {'lr': 0.1}
    """

    table: ReferenceTable | ClientSide
    needs: frozenset[str] = frozenset({CLIENT_CONFIGS})
    scores: tuple[str, ...] = (BEFORE,)
    _rule: ClientSide = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not all(hasattr(self.table, name) for name in ("resolve", "to_dict")):
            raise InputError(f"table must be a fedhpo.ReferenceTable, not {self.table!r}")
        slim = getattr(self.table, "for_clients", None)
        object.__setattr__(self, "_rule", self.table if slim is None else slim())

    def begin(self, config: Config, space: Space, rng: np.random.Generator) -> _TableState:
        """The rule does not depend on the config."""
        return _TableState(self._rule)

    def to_dict(self) -> dict[str, Any]:
        """Its settings."""
        return {"name": "reference table", "table": self._rule.to_dict()}
