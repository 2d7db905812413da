"""What every method that users know by name is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from fedhpo.core.fingerprint import code_of
from fedhpo.core.settings import check_settings
from fedhpo.methods.tuner import Tuner

if TYPE_CHECKING:
    from fedhpo.search.search import Search, Trial
    from fedhpo.space import Space


@dataclass(frozen=True)
class Method(ABC):
    """A named method. Its fields are its settings; `tuner` says what it is made of."""

    name: ClassVar[str]
    #: Raised when the calls it makes change, so that a recorded run is not resumed by another method.
    number: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_settings(self)
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
        """The rounds it will spend; raises `InputError` where the budget cannot do."""
        return self.tuner().rounds(search)

    def refuses_more(self, old: int, new: int, rounds: int) -> str:
        """Why a run of it cannot go on from a total `old` to `new`; empty if it can."""
        return self.tuner().refuses_more(old, new, rounds)

    def fingerprint(self, space: Space) -> dict[str, Any]:
        """Data and code that it uses besides its settings: see `fedhpo.core.fingerprint`."""
        return {"class": code_of(type(self)), **self.tuner().fingerprint(space)}

    def to_dict(self) -> dict[str, Any]:
        """Its name and settings, JSON-able."""
        return {"name": self.name, **asdict(self)}
