"""What every method that users know by name is."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from fedhpo.core.fingerprint import code_of
from fedhpo.core.settings import check_settings
from fedhpo.methods.tuner import Tuner

if TYPE_CHECKING:
    from fedhpo.search.search import Search, Trial
    from fedhpo.space import Space


@dataclass(frozen=True)
class Method:
    """A named method. Its fields are its settings.

    It says what it is made of with `tuner`, or brings `rounds` and `run` of its own. Optional are `needs`,
    `refuses_more`, and `sections`: what the report shows of it (see `fedhpo.protocol.sections`).
    """

    name: ClassVar[str]
    #: Raised when the calls it makes change, so that a recorded run is not resumed by another method.
    number: ClassVar[int] = 1

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if not hasattr(cls, "name"):
            cls.name = cls.__name__.lower()

    def __post_init__(self) -> None:
        check_settings(self)
        self.tuner()  # refuses settings that cannot be, before anything else happens

    def tuner(self) -> Tuner | None:
        """What it is made of; None of a method that brings its own `rounds` and `run`."""
        return None

    @property
    def needs(self) -> frozenset[str]:
        """What the federation must be able to do."""
        tuner = self.tuner()
        return frozenset() if tuner is None else tuner.needs

    def run(self, search: Search) -> Trial:
        """Tune; the best trial comes back."""
        return self._made().run(search)

    def rounds(self, search: Search) -> int:
        """The rounds it will spend; raises `InputError` where the budget cannot do."""
        return self._made().rounds(search)

    def refuses_more(self, old: int, new: int, rounds: int) -> str:
        """Why a run of it cannot go on from a total `old` to `new`; empty if it can."""
        tuner = self.tuner()
        if tuner is None:
            return f"{self.name} does not say how its plan goes on (`refuses_more`)"
        return tuner.refuses_more(old, new, rounds)

    def sections(self, search: Search) -> list[Any]:
        """What it adds to the report: see `fedhpo.protocol.sections`. Called once the search is over."""
        tuner = self.tuner()
        return [] if tuner is None else tuner.sections(search)

    def fingerprint(self, space: Space) -> dict[str, Any]:
        """Data and code that it uses besides its settings: see `fedhpo.core.fingerprint`."""
        tuner = self.tuner()
        return {"class": code_of(type(self)), **({} if tuner is None else tuner.fingerprint(space))}

    def to_dict(self) -> dict[str, Any]:
        """Its name and settings, JSON-able."""
        return {"name": self.name, **asdict(self)}

    def _made(self) -> Tuner:
        tuner = self.tuner()
        if tuner is None:
            raise NotImplementedError(f"{type(self).__name__} has neither `tuner` nor `rounds` and `run`")
        return tuner
