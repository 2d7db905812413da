"""A reference table as the client policy of any study: `policy = { name = "reference_table", ... }`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np

from fedhpo.core.errors import InputError
from fedhpo.core.settings import check_settings
from fedhpo.methods.fedtune.policy import LookUp
from fedhpo.methods.fedtune.reference_table import ReferenceTable
from fedhpo.policies import Fixed
from fedhpo.protocol.federation import BEFORE, CLIENT_CONFIGS
from fedhpo.protocol.policy import PolicyState
from fedhpo.protocol.sampler import Observation, Sampler, limit_of
from fedhpo.space import Space
from fedhpo.space.config import SCOPES, Config


@dataclass(frozen=True)
class TablePolicy:
    """Each client looks up its own hyperparameters in the reference table of `file`.

    The sampler searches the other scopes; a trial whose config says nothing of clients takes the table. Trial
    0, your own config, says it, and trains without the table: so the two are compared. `look_up` ("nearest"
    or "interpolated") goes before what the table says. A relative `file` is looked for in the working
    directory, then beside the study file.
    """

    file: str
    look_up: Literal["nearest", "interpolated"] | None = None

    needs: ClassVar[frozenset[str]] = frozenset({CLIENT_CONFIGS})
    scores: ClassVar[tuple[str, ...]] = (BEFORE,)

    def __post_init__(self) -> None:
        check_settings(self)

    @cached_property
    def table(self) -> ReferenceTable:
        """What the file holds. It is read by the server only."""
        found = ReferenceTable.load(self.file)
        return found if self.look_up is None else replace(found, look_up=self.look_up)

    def begin(self, config: Config, space: Space, rng: np.random.Generator) -> PolicyState:
        """The table, or the config's own client hyperparameters where it has some."""
        if config.client:
            return Fixed().begin(config, space, rng)
        return LookUp(self.table).begin(config, space, rng)

    def searched(self, space: Space) -> Space:
        """The space that is left to the sampler: all scopes but `client`, which the table must cover."""
        check_covers(self.table, space, self.file)
        return space.subspace([scope for scope in SCOPES if scope != "client"])

    def to_dict(self) -> dict[str, Any]:
        """The table itself: a run goes on with the same one only."""
        return {"name": "reference_table", "table": self.table.for_clients().to_dict()}


def check_covers(table: ReferenceTable, space: Space, where: str) -> None:
    """Refuse a space whose client hyperparameters are not those of the table.

    How much a client counts is the table's own.
    """
    known, given = set(space.scope("client")), set(table.space.scope("client"))
    if known | {"update_scale"} != given | {"update_scale"}:
        raise InputError(
            f"{where}: the table is for the client hyperparameters {', '.join(sorted(given))}; the "
            f"space has {', '.join(sorted(known)) or 'none'}"
        )


@dataclass(frozen=True)
class Narrowed:
    """A sampler that searches what a policy leaves of the space."""

    sampler: Sampler
    policy: TablePolicy

    def suggest(
        self,
        space: Space,
        observations: Sequence[Observation],
        asked: Sequence[Config],
        rng: np.random.Generator,
        pool: Sequence[Config] | None = None,
    ) -> Config | None:
        """A config of the narrower space, from what was seen of its members."""
        if pool is not None:
            raise InputError("reference_table: a table of recorded curves has configs for all clients only")
        own = [config for config in asked if not config.client]
        seen = [one for one in observations if not one.config.client]
        return self.sampler.suggest(self.policy.searched(space), seen, own, rng)

    def limit(self, space: Space) -> int | None:
        """How many configs the narrower space has."""
        return limit_of(self.sampler, self.policy.searched(space))


def with_table(sampler: Sampler, policy: Any) -> Sampler:
    """The sampler, narrowed where the policy is a table."""
    return Narrowed(sampler, policy) if isinstance(policy, TablePolicy) else sampler
