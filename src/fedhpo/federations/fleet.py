"""The clients' devices, for simulations in time: when clients are there, how fast they are, how they fail."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from fedhpo.core.claims import GIVEN, LEFT_OUT, setting
from fedhpo.core.errors import InputError, unknown_name
from fedhpo.core.settings import check_settings, whole_number

#: Patterns of presence; any other name is a CSV file's.
PATTERNS = ("always", "random", "day_night")
#: What is drawn at random.
_DRAWN = {"availability": PATTERNS[1:], "speed_spread": GIVEN, "stragglers": GIVEN, "dropouts": GIVEN}


@dataclass(frozen=True)
class Fleet:
    """When clients are there, how fast they are and how they fail: then a simulation has a clock.

    `availability` is `"always"`, `"random"`, `"day_night"`, or a CSV file with the columns `client`, `begin`
    and `end`: the seconds between which a client is there, one row for each stay; after its last end the
    file begins anew. With the other two a client's presence is drawn anew every `stay` seconds, and it is
    there for a `share` of the time: with `"random"` at any hour alike, with `"day_night"` at night (around
    2 o'clock, by clocks that differ by some hours) up to `1 + swing` times as often, by day down to
    `1 - swing` times. A study begins `begin` hours after midnight, or after the file's second 0.

    Clients train on `speed` rows a second in the median, and speeds differ by a factor of `exp(speed_spread)`
    between the median client and one that is a standard deviation faster; to score a row takes a third of
    that time. Models travel at `bandwidth` bytes a second, and `latency` seconds go by before anything
    happens. `devices` is a CSV file with the columns `client`, `speed` and, if wanted, `bandwidth`, in place
    of these. A client does one thing after the other.

    A task takes `slowdown` times as long with the probability `stragglers`, and with the probability
    `dropouts` its client drops out in the middle. So does a client that is not there any more. After
    `deadline` seconds a reply is too late. Whoever does not reply is `missing`, and the round goes on with
    the others.

    `seed` draws all of it; a study's own seed does not change its clients.

    >>> Fleet(availability="day_night", stragglers=0.1, deadline=600).share
    0.5
    """

    availability: str = "always"
    share: float = setting(0.5, availability=PATTERNS[1:])
    swing: float = setting(0.8, availability="day_night")
    stay: float = setting(3600.0, availability=PATTERNS[1:])
    begin: float = 0.0
    devices: str | None = None
    speed: float = setting(100.0, devices=LEFT_OUT)
    speed_spread: float = setting(0.0, devices=LEFT_OUT)
    bandwidth: float = 1e6
    latency: float = 1.0
    stragglers: float = 0.0
    slowdown: float = setting(10.0, stragglers=GIVEN)
    dropouts: float = 0.0
    deadline: float | None = None
    seed: int = setting(0, *({key: value} for key, value in _DRAWN.items()))

    def __post_init__(self) -> None:
        check_settings(self)
        if self.availability not in PATTERNS and not self.from_file:
            error = unknown_name("availability", self.availability, PATTERNS)
            raise InputError(f"{error}; or a file that ends in .csv")
        for name in ("share", "swing", "stragglers", "dropouts"):
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(f"{name} must lie in [0, 1], not {getattr(self, name)!r}")
        if not self.share:
            raise InputError("share must be above 0: with 0 no client is ever there")
        for name in ("stay", "speed", "bandwidth", "deadline"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise InputError(f"{name} must be above 0, not {value!r}")
        for name in ("begin", "speed_spread", "latency"):
            if not getattr(self, name) >= 0:
                raise InputError(f"{name} must be at least 0, not {getattr(self, name)!r}")
        if not self.slowdown >= 1:
            raise InputError(f"slowdown must be at least 1, not {self.slowdown!r}")
        if self.availability == "day_night" and self.share * (1 + self.swing) > 1:
            raise InputError(
                f"share = {self.share:g} with swing = {self.swing:g} would have a client there for more than "
                "all of the night: share * (1 + swing) must be at most 1"
            )
        if self.dropouts == 1:
            raise InputError("dropouts must be below 1: with 1 no client ever replies")
        whole_number("seed", self.seed, least=0)

    @property
    def from_file(self) -> bool:
        """Whether presence is read from a CSV file."""
        return self.availability.lower().endswith(".csv")

    @property
    def longest(self) -> float:
        """Seconds after which a reply is too late; infinite without a deadline."""
        return math.inf if self.deadline is None else self.deadline

    def to_dict(self) -> dict[str, Any]:
        """Its settings."""
        return asdict(self)
