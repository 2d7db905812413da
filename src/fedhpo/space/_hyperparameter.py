"""What every hyperparameter can do; `Space` puts these together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any

from fedhpo.core.errors import InputError
from fedhpo.space.config import Frozen, frozen_value


@dataclass(frozen=True, repr=False)
class Hyperparameter(ABC):
    """One dimension of a space.

    `when` says when it is active: full names of other hyperparameters with the value, or the list
    of values, each of them must have, as in `when={"model.algorithm": ["svm", "mlp"]}`. A value
    that is itself a tuple stands in a list of its own: `when={"model.hidden": [(32, 16)]}`.

    The methods that move a value take their random numbers as arguments, each uniform in [0, 1).
    """

    default: Any = field(default=None, kw_only=True)
    #: A number outside the range that the first config has: what an app is run with today, say.
    own: Any = field(default=None, kw_only=True)
    when: Mapping[str, Any] = field(default_factory=Frozen, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "when", _frozen_when(self.when))
        self._prepare()
        if self.default is not None:
            try:
                object.__setattr__(self, "default", self.check(self.default))
            except InputError as error:
                raise InputError(f"default: {error}") from None
        if self.own is not None:
            ends = getattr(self, "low", None), getattr(self, "high", None)
            if None in ends:
                raise InputError(f"own = {self.own!r}: is for ranges; name the value among the choices")
            object.__setattr__(self, "own", number("own", self.own))
            if all(type(end) is int for end in ends) and type(self.own) is not int:
                raise InputError(f"own must be a whole number, as the range is, found {self.own!r}")
            if ends[0] <= self.own <= ends[1]:
                raise InputError(f"own = {self.own!r} lies in the range: write default")
            if self.default is not None:
                raise InputError(f"own = {self.own!r}: leave out default, or own")

    @abstractmethod
    def _prepare(self) -> None:
        """Check the arguments and compute what the other methods need often."""

    @property
    @abstractmethod
    def allowed(self) -> str:
        """The allowed values in words, for messages."""

    @property
    @abstractmethod
    def count(self) -> float:
        """How many values there are; `math.inf` for a continuous one."""

    @abstractmethod
    def check(self, value: Any) -> Any:
        """The value as this hyperparameter holds it, or an `InputError`."""

    @abstractmethod
    def to_unit(self, value: Any) -> float:
        """The coordinate in [0, 1] of a value, in the sampling scale."""

    @abstractmethod
    def from_unit(self, unit: float) -> Any:
        """The value at a coordinate; uniform coordinates give the prior."""

    @abstractmethod
    def grid(self, points: int | None) -> list[Any]:
        """`points` values spread evenly over the sampling scale; None means all there are."""

    @abstractmethod
    def near(self, value: Any, eps: float, move: float, draw: float) -> Any:
        """A value of the ball of half-width `eps` x range around `value`, clipped to the box."""

    @abstractmethod
    def evolve(self, value: Any, eps: float, move: float, draw: float) -> Any:
        """A perturbed value after FedPop's Evo (Eq. 3), clipped to the box."""

    @abstractmethod
    def clip(self, value: Any, centre: Any, radius: float) -> Any:
        """The value nearest to `value` within half-width `radius` x range of `centre`."""

    @abstractmethod
    def between(self, centre: Any, value: Any, fraction: float) -> Any:
        """The value a `fraction` of the way from `centre` to `value`, rounded toward `centre`."""

    @abstractmethod
    def gap(self, a: Any, b: Any) -> float:
        """b - a in the sampling scale, where the whole range is 1; 0 if unordered."""

    def default_value(self) -> Any:
        """The explicit default, or else the middle of the sampling scale (the upper one of two)."""
        if self.own is not None:
            return self.own
        return self.from_unit(0.5) if self.default is None else self.default

    def is_own(self, value: Any) -> bool:
        """Whether a value is the one outside the range that is allowed all the same."""
        return self.own is not None and type(value) in (int, float) and value == self.own

    def _refused(self, value: Any) -> InputError:
        return InputError(f"{value!r} is not allowed; allowed: {self.allowed}")

    def __repr__(self) -> str:
        # As it would be written: what was left at its default is left out.
        parts = []
        for part in sorted(fields(self), key=lambda part: part.kw_only is True):
            value = getattr(self, part.name)
            if not part.init or value == part.default or (part.name == "when" and not value):
                continue
            required = part.default is MISSING and not part.kw_only
            parts.append(repr(value) if required else f"{part.name}={value!r}")
        return f"{type(self).__name__}({', '.join(parts)})"


def number(name: str, value: Any) -> float:
    """A finite number, or an `InputError`; the bound leaves room for differences and logarithms."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not -1e300 <= value <= 1e300:
        raise InputError(f"{name} must be a finite number (at most 1e300), found {value!r}")
    return value


def flag(name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise InputError(f"{name} must be true or false, found {value!r}")


def _frozen_when(when: Any) -> Frozen:
    if not isinstance(when, Mapping):
        raise InputError(f"when must map full names to values, found {when!r}")
    for name in when:
        if not isinstance(name, str):
            raise InputError(f"when must map full names to values, found the name {name!r}")
    allowed: dict[str, tuple[Any, ...]] = {}
    # In one order, like the names of a space: parents are visited in it.
    for name in sorted(when):
        values = when[name]
        listed = values if isinstance(values, (list, tuple)) else (values,)
        if not listed:
            raise InputError(f"when {name!r}: the list of values is empty")
        allowed[name] = tuple(frozen_value(f"when {name!r}", value) for value in listed)
    return Frozen(allowed)
