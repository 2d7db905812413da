"""Under which noise methods are compared, and with how many seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Any, Literal

from fedhpo.core.errors import unknown_name

#: Every method gets so many full trainings, as in Kuo et al. (2023).
TRAININGS = 16


@dataclass(frozen=True)
class Setting:
    """How scores are observed, and what is equal for all methods: rounds, or messages of clients.

    A message is one client training in one round, or scoring one trial. With `equal = "messages"` a method
    gets as many of them as random search pays, and trains for fewer rounds where it takes more scores.
    """

    clients: int | float | None = None
    epsilon: float | None = None
    bias: float = 0.0
    bias_per: Literal["trial", "message", "client"] = "trial"
    equal: Literal["rounds", "messages"] = "rounds"

    @property
    def name(self) -> str:
        """In words.

        >>> Setting().name, Setting(1, 10.0).name, Setting(0.1, bias=3.0).name
        ('all clients', '1 client, epsilon 10', '10% of clients, bias 3')
        """
        if self.clients is None:
            words = "all clients"
        elif isinstance(self.clients, int):
            words = "1 client" if self.clients == 1 else f"{self.clients} clients"
        else:
            words = f"{100 * self.clients:g}% of clients"
        words += "" if self.epsilon is None else f", epsilon {self.epsilon:g}"
        words += f", bias {self.bias:g}" if self.bias else ""
        words += f" per {self.bias_per}" if self.bias_per != "trial" else ""
        return words + (", equal messages" if self.equal == "messages" else "")

    def to_dict(self) -> dict[str, Any]:
        """JSON-able."""
        return asdict(self)


@dataclass(frozen=True)
class Suite:
    """Settings, and how many seeds; methods that fit a process for every trial get fewer."""

    settings: tuple[Setting, ...]
    seeds: int
    slow_seeds: int


def _full() -> tuple[Setting, ...]:
    shares: tuple[int | float | None, ...] = (None, 0.1, 0.01, 1)
    crossed = [Setting(clients, epsilon) for clients, epsilon in product(shares, (None, 100.0, 10.0, 1.0))]
    biased = [Setting(clients, bias=3.0) for clients in (0.1, 1)]
    together = [Setting(0.1, bias=3.0, bias_per="message"), Setting(0.1, bias=3.0, bias_per="client")]
    return (*crossed, Setting(3), *biased, *together, *_equal(_STANDARD))


def _equal(settings: Sequence[Setting]) -> tuple[Setting, ...]:
    """The same noise, at as many messages as random search pays."""
    return tuple(replace(one, equal="messages") for one in settings)


_STANDARD = (Setting(), Setting(3), Setting(1), Setting(1, 100.0), Setting(0.1, 10.0))
SUITES: Mapping[str, Suite] = {
    "standard": Suite(_STANDARD, 100, 20),
    "messages": Suite(_equal(_STANDARD), 100, 20),
    "quick": Suite(
        (Setting(), Setting(1), Setting(1, 100.0), Setting(0.1, 10.0), Setting(0.1, bias=3.0)), 20, 20
    ),
    "full": Suite(_full(), 100, 20),
    "smoke": Suite((Setting(), Setting(1)), 4, 4),
}


def suite_named(name: str) -> Suite:
    """A suite by its name.

    >>> len(suite_named("quick").settings), len(suite_named("full").settings)
    (5, 26)
    """
    if name not in SUITES:
        raise unknown_name("suite", name, SUITES)
    return SUITES[name]
