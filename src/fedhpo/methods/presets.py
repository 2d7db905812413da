"""The methods by the names that users know them by, a few lines each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from fedhpo.errors import InputError, unknown_name
from fedhpo.methods.tuner import Tuner
from fedhpo.samplers import Grid, Random
from fedhpo.schedules import FixedLength, Halving

if TYPE_CHECKING:
    from fedhpo.search import Search, Trial


@dataclass(frozen=True)
class Method(ABC):
    """A named method. Its fields are its settings; `tuner` says what it is made of."""

    name: ClassVar[str]
    #: Raised when the calls it makes change, so that a recorded run is not resumed by another method.
    number: ClassVar[int] = 1

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

    def to_dict(self) -> dict[str, Any]:
        """Its name and settings, JSON-able."""
        return {"name": self.name, **asdict(self)}


@dataclass(frozen=True)
class RandomSearch(Method):
    """Random search: `trials` configs drawn at random, each trained to the end."""

    trials: int | None = None

    name: ClassVar[str] = "random"

    def tuner(self) -> Tuner:
        """All trials side by side."""
        return Tuner(FixedLength(self.trials), Random())


@dataclass(frozen=True)
class GridSearch(Method):
    """Grid search: `points` values of each continuous hyperparameter, all of each discrete one."""

    points: int | dict[str, int] = 3
    trials: int | None = None

    name: ClassVar[str] = "grid"

    def tuner(self) -> Tuner:
        """All trials side by side."""
        return Tuner(FixedLength(self.trials), Grid(self.points))


@dataclass(frozen=True)
class SHA(Method):
    """Successive halving: `trials` random configs, of which `1/rate` survive each elimination."""

    trials: int = 27
    rate: int = 3
    eliminations: int | None = None

    name: ClassVar[str] = "sha"

    def tuner(self) -> Tuner:
        """Random configs under halving."""
        return Tuner(Halving(self.trials, self.rate, self.eliminations), Random())


METHODS: Mapping[str, type[Method]] = {m.name: m for m in (RandomSearch, GridSearch, SHA)}


def method_of(method: str | Method | Tuner | None) -> Method | Tuner:
    """The method meant by a name or None (successive halving); a method itself stays as it is."""
    if method is None:
        return SHA()
    if isinstance(method, str):
        if method not in METHODS:
            raise unknown_name("method", method, METHODS)
        return METHODS[method]()
    if not isinstance(method, Method | Tuner):
        raise InputError(f"method must be a name or a method, not {type(method).__name__}")
    return method
