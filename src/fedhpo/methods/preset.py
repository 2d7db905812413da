"""Presets: methods that are made of a schedule, a sampler and a client policy."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fedhpo.methods.tuner import Tuner
from fedhpo.protocol.method import Method

if TYPE_CHECKING:
    from fedhpo.search.search import Search
    from fedhpo.search.trial import Trial
    from fedhpo.space import Space


@dataclass(frozen=True)
class Preset(Method):
    """A method by name; `tuner` says what it is made of."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.tuner()  # refuses settings that cannot be, before anything else happens

    @abstractmethod
    def tuner(self) -> Tuner:
        """What it is made of."""

    @property
    def needs(self) -> frozenset[str]:
        """What the federation must be able to do."""
        return self.tuner().needs

    def run(self, search: Search) -> Trial:
        """Tune; the best trial comes back."""
        return self.tuner().run(search)

    def rounds(self, search: Search) -> int:
        """The rounds it will spend; raises `InputError` where the budget is too small."""
        return self.tuner().rounds(search)

    def cuts(self, search: Search) -> bool:
        """Whether trials are cut short by scores, and could as well be trained anew to go on."""
        return self.tuner().cuts(search)

    def refuses_more(self, old: int, new: int, rounds: int) -> str:
        """Why a run of it cannot go on from a total `old` to `new`; empty if it can."""
        return self.tuner().refuses_more(old, new, rounds)

    def sections(self, search: Search) -> list[Any]:
        """What its parts add to the report."""
        return self.tuner().sections(search)

    def fingerprint(self, space: Space) -> dict[str, Any]:
        """What it is made of, where that is code of the user's own."""
        return {**super().fingerprint(space), **self.tuner().fingerprint(space)}
