"""What a party of FLoRA tells: the configs that it tried, their losses, and how many rows it holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedhpo.core.errors import InputError
from fedhpo.core.settings import check_settings, shown
from fedhpo.protocol.bounds import MOST
from fedhpo.space.config import Config


@dataclass(frozen=True)
class PartyPairs:
    """The (config, loss) pairs of one party, in the order of its search (E^(i), Eq. 2.6).

    >>> pairs = PartyPairs(0, 90, (Config(model={"C": 1.0}), Config(model={"C": 9.0})), (0.5, 0.25))
    >>> pairs.best(1).losses
    (0.25,)

    Attributes:
        party: the party's number
        size: how many rows it holds
        configs: what it tried
        losses: the loss of each, finite
    """

    party: int
    size: int
    configs: tuple[Config, ...]
    losses: tuple[float, ...]

    def __post_init__(self) -> None:
        check_settings(self)
        object.__setattr__(self, "configs", tuple(self.configs))
        if not all(isinstance(config, Config) for config in self.configs):
            raise InputError(f"configs of party {self.party} must be fedhpo.Config objects")
        try:
            object.__setattr__(self, "losses", tuple(float(loss) for loss in self.losses))
        except (TypeError, ValueError, OverflowError):
            raise InputError(
                f"losses of party {self.party} must be numbers, found {shown(self.losses)}"
            ) from None
        if self.size < 1:
            raise InputError(f"size of party {self.party} must be at least 1, found {self.size}")
        if not self.configs or len(self.configs) != len(self.losses):
            raise InputError(
                f"party {self.party} must send one loss for each config, and at least one pair; "
                f"found {len(self.configs)} configs and {len(self.losses)} losses"
            )
        for loss in self.losses:
            if not abs(loss) <= MOST:
                raise InputError(f"losses of party {self.party} must be finite, found {loss}")

    def best(self, n: int) -> PartyPairs:
        """The n pairs of lowest loss, best first (the paper's T'); of equal losses the one tried first."""
        if n < 1:
            raise InputError(f"n must be at least 1, found {n}")
        return self._at(self._best_first()[:n])

    def spread(self, n: int) -> PartyPairs:
        """n pairs: half are the best, the others spread evenly over the quantiles of the other losses.

        A model that has seen only good configs cannot know where the bad ones are.

        >>> pairs = PartyPairs(0, 90, (Config(),) * 7, (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7))
        >>> pairs.spread(4).losses
        (0.1, 0.2, 0.3, 0.7)
        """
        if n < 1:
            raise InputError(f"n must be at least 1, found {n}")
        order, count = self._best_first(), min(n, len(self.losses))
        first = count - count // 2
        rest = order[first:]
        steps = max(1, count // 2 - 1)
        places = [round(step * (len(rest) - 1) / steps) for step in range(count // 2)]
        # One alone is the worst: of the good ones half are there already.
        return self._at(order[:first] + [rest[place if count > 3 else -1] for place in places])

    def _best_first(self) -> list[int]:
        return sorted(range(len(self.losses)), key=self.losses.__getitem__)

    def _at(self, places: Sequence[int]) -> PartyPairs:
        return PartyPairs(
            self.party,
            self.size,
            tuple(self.configs[place] for place in places),
            tuple(self.losses[place] for place in places),
        )

    def first(self, n: int) -> PartyPairs:
        """The n pairs that were tried first: the same search, stopped at n (the paper's T)."""
        if n < 1:
            raise InputError(f"n must be at least 1, found {n}")
        return PartyPairs(self.party, self.size, self.configs[:n], self.losses[:n])

    def to_dict(self) -> dict[str, Any]:
        """All that the party sends, JSON-able; its number is known to who asked.

        >>> PartyPairs(0, 90, (Config(model={"C": 1.0}),), (0.5,)).to_dict()
        {'size': 90, 'configs': [{'model': {'C': 1.0}}], 'losses': [0.5]}
        """
        return {
            "size": self.size,
            "configs": [config.to_dict() for config in self.configs],
            "losses": list(self.losses),
        }

    @classmethod
    def from_dict(cls, party: int, data: Mapping[str, Any]) -> PartyPairs:
        """The inverse of `to_dict`."""
        configs = tuple(Config.from_dict(config) for config in data["configs"])
        return cls(party, int(data["size"]), configs, tuple(data["losses"]))
