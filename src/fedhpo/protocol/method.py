"""What every method is."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar

from fedhpo.core.claims import refuse_unhonoured
from fedhpo.core.fingerprint import code_of
from fedhpo.core.settings import check_settings

if TYPE_CHECKING:
    from fedhpo.protocol.federation import Federation
    from fedhpo.search.search import Search
    from fedhpo.search.trial import Trial
    from fedhpo.space import Space


#: Why a total has no effect.
ONE_TRAINING = "has no effect with {}, which trains once, for as many rounds as a full training has"


@dataclass(frozen=True)
class Method(ABC):
    """A method that users know by name. It is a frozen dataclass, and its fields are its settings.

    All that it knows of the world is the search that it is given: trials to start, train, score and choose
    from, and `search.session` below them. Every random or outside choice of its own goes through
    `search.session.decide`. So a run can be resumed by calling `run` again, which makes the same calls.

    A method that is made of a schedule, a sampler and a client policy is a `fedhpo.methods.preset.Preset`.
    """

    name: ClassVar[str]
    #: Raised when the calls it makes change, so that a recorded run is not resumed by another method.
    number: ClassVar[int] = 1
    #: Whether it trains once, whatever the total.
    trains_once: ClassVar[bool] = False
    #: Which variant did better in our comparisons, with the figure: said when a run begins.
    better: ClassVar[str] = ""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if not hasattr(cls, "name"):
            cls.name = cls.__name__.lower()

    def __post_init__(self) -> None:
        check_settings(self)
        refuse_unhonoured(self)

    @property
    def needs(self) -> frozenset[str]:
        """What the federation must be able to do; see `fedhpo.protocol.federation`."""
        return frozenset()

    def check_federation(self, federation: Federation) -> None:  # noqa: B027  most settings fit everywhere
        """Refuse settings that have no effect there, before anything is trained, with what to do."""

    @abstractmethod
    def rounds(self, search: Search) -> int:
        """The rounds it will spend; raises `InputError` where the budget is too small.

        It is asked before the search has begun: there is no session yet.
        """

    @abstractmethod
    def run(self, search: Search) -> Trial:
        """Tune. The best trial comes back, trained to the end and freshly scored."""

    def cuts(self, search: Search) -> bool:
        """Whether trials are cut short by scores, and could as well be trained anew to go on."""
        return False

    def refuses_more(self, old: int, new: int, rounds: int) -> str:
        """Why a run of it cannot go on from a total `old` to a larger one, `new`; empty if it can."""
        return f"{self.name} does not say how its plan goes on (`refuses_more`)"

    def sections(self, search: Search) -> list[Any]:
        """What it adds to the report: see `fedhpo.protocol.sections`. Called once the search is over."""
        return []

    def fingerprint(self, space: Space) -> dict[str, Any]:
        """Data and code that it uses besides its settings: see `fedhpo.core.fingerprint`."""
        return {"class": code_of(type(self))}

    def to_dict(self) -> dict[str, Any]:
        """Its name and settings, JSON-able."""
        return {"name": self.name, **asdict(self)}


def is_method(value: object) -> bool:
    """Whether this is a method, or the class of one."""
    return issubclass(value if isinstance(value, type) else type(value), Method)


def part_of_method(value: object, part: str) -> str:
    """What to write where a method was given in the place of one of its parts; empty where none was.

    >>> import fedhpo as fh
    >>> part_of_method(fh.TPE(startup=5), "sampler")
    ': fedhpo.TPE is a method, not a sampler; write fedhpo.samplers.TPE(startup=5)'
    """
    if not is_method(value):
        return ""
    kind = value if isinstance(value, type) else type(value)
    said = f": fedhpo.{kind.__name__} is a method, not a {part}"
    try:
        made: Any = value() if isinstance(value, type) else value
        return f"{said}; write {_written(getattr(made.tuner(), part))}"
    except (AttributeError, TypeError, ValueError):  # it is not made of parts, or not without settings
        return said


def _written(part: Any) -> str:
    """A part as a user writes it: where it is found, and the settings that are not the defaults."""
    kind = type(part)
    package = ".".join(kind.__module__.split(".")[:2])
    home = package if hasattr(importlib.import_module(package), kind.__name__) else kind.__module__
    own = {f.name: getattr(part, f.name) for f in fields(part) if f.init and f.repr}
    set_to = (f"{f.name}={own[f.name]!r}" for f in fields(part) if f.name in own and own[f.name] != f.default)
    return f"{home}.{kind.__name__}({', '.join(set_to)})"
