"""What will be compared, written down in a file before the first run.

A plan names its claims, each with two methods, the sets, the margin within which they count as equivalent,
and how many replicates there will be. Replicates beyond those are not looked at, and a claim with fewer of
them has no verdict yet: nothing is extended, or stopped, after a look.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from fedhpo.core.errors import InputError, unknown_name
from fedhpo.core.settings import whole_number
from fedhpo.research.statistics.family import UNDECIDED, Judged, judge
from fedhpo.research.statistics.paired import Paired

#: By method, set and seed: the endpoint of a run, where it is there.
Endpoints = Callable[[str, str], Mapping[int, float]]


@dataclass(frozen=True)
class Planned:
    """One claim: `first` is better than `second` over these sets, with so many replicates in each."""

    name: str
    first: str
    second: str
    sets: tuple[str, ...]
    replicates: int
    margin: float | None = None

    def __post_init__(self) -> None:
        whole_number("replicates", self.replicates, least=2)
        if self.margin is not None and not self.margin > 0:
            raise InputError(f"margin must be positive, or left out, not {self.margin!r}")


@dataclass(frozen=True)
class Plan:
    """The claims of one family, the endpoint that they are about, and the first seed."""

    endpoint: str
    first_seed: int
    claims: tuple[Planned, ...]

    def __post_init__(self) -> None:
        names = [claim.name for claim in self.claims]
        for name in names:
            if names.count(name) > 1:
                raise InputError(f"the claim {name!r} stands in the plan twice")

    @classmethod
    def load(cls, path: Path) -> Plan:
        """Read it from a TOML file."""
        try:
            return cls.from_dict(tomllib.loads(path.read_text(encoding="utf-8")))
        except (OSError, tomllib.TOMLDecodeError, InputError) as error:
            raise InputError(f"{path}: {error}") from None

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Plan:
        """From the contents of such a file.

        >>> claim = {"name": "a", "first": "x", "second": "y", "sets": ["one"], "replicates": 20}
        >>> Plan.from_dict({"endpoint": "accuracy", "first_seed": 100, "claims": [claim]}).seeds("x", "one")
        range(100, 120)
        """
        _known(data, ("endpoint", "first_seed", "claims"), "a plan")
        known = tuple(field.name for field in fields(Planned))
        claims = []
        for one in data["claims"]:
            _known(one, known, "a claim", optional=("margin",))
            claims.append(Planned(**{**one, "sets": tuple(one["sets"])}))
        return cls(str(data["endpoint"]), int(data["first_seed"]), tuple(claims))

    @property
    def methods(self) -> list[str]:
        """All methods, in the order in which claims name them."""
        return list(dict.fromkeys(name for claim in self.claims for name in (claim.first, claim.second)))

    @property
    def sets(self) -> list[str]:
        """All sets."""
        return list(dict.fromkeys(name for claim in self.claims for name in claim.sets))

    def seeds(self, method: str, set: str) -> range:
        """The seeds of a method's runs on a set: as many as the claim that needs most of them."""
        wanted = [
            claim.replicates
            for claim in self.claims
            if method in (claim.first, claim.second) and set in claim.sets
        ]
        return range(self.first_seed, self.first_seed + max(wanted, default=0))

    def paired(self, claim: Planned, values: Endpoints) -> Paired:
        """The differences of one claim, over its sets and its planned seeds."""
        gaps: list[float] = []
        for set in claim.sets:
            first, second = values(claim.first, set), values(claim.second, set)
            planned = range(self.first_seed, self.first_seed + claim.replicates)
            gaps += [first[s] - second[s] for s in planned if s in first and s in second]
        return Paired(tuple(gaps))

    def judge(self, values: Endpoints) -> dict[str, Judged]:
        """The verdict on every claim; one whose replicates are not all there is undecided."""
        family = {claim.name: self.paired(claim, values) for claim in self.claims}
        whole = {
            claim.name: family[claim.name]
            for claim in self.claims
            if family[claim.name].count == claim.replicates * len(claim.sets)
        }
        margins = {claim.name: claim.margin for claim in self.claims}
        found = judge(whole, margins, family_size=len(self.claims))
        return {name: found.get(name, Judged(paired, 1.0, UNDECIDED)) for name, paired in family.items()}


def _known(
    data: Mapping[str, Any], names: tuple[str, ...], what: str, optional: tuple[str, ...] = ()
) -> None:
    for name in data:
        if name not in names:
            raise unknown_name(f"key of {what}", name, names)
    for name in names:
        if name not in data and name not in optional:
            raise InputError(f"{what} needs {name}")
