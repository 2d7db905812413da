"""Who is there when. A trace is a pure function of time and seed: nothing has to be kept to go on with it."""

from __future__ import annotations

import csv
import math
import warnings
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fedhpo.core.errors import InputError
from fedhpo.core.streams import stream
from fedhpo.federations.fleet import Fleet
from fedhpo.protocol.federation import Floats

DAY = 86_400.0
#: When clients are there most, in hours after midnight, and by how much their clocks differ.
_PEAK, _ZONES = 2.0, 3.0
#: How many times in a stay the number of present clients is checked.
_STEPS = 60
#: The shortest wait for clients, in seconds: a week has all kinds of days.
_WEEK = 7 * DAY


class Trace(Protocol):
    """Presence of all clients."""

    def there(self, time: float) -> NDArray[np.bool_]:
        """Who is there at that moment."""

    def leaves(self, client: int, time: float, end: float) -> float:
        """The first moment from `time` to `end` at which a client is not there; infinite without one."""

    def later(self, time: float) -> float:
        """A next moment at which others may be there."""

    @property
    def patience(self) -> float:
        """Seconds after which nobody else is to be expected."""


class Always:
    """All clients, at all times."""

    patience = 0.0

    def __init__(self, clients: int) -> None:
        self._all = np.ones(clients, np.bool_)

    def there(self, time: float) -> NDArray[np.bool_]:
        """Everybody."""
        return self._all

    def leaves(self, client: int, time: float, end: float) -> float:
        """Never."""
        return math.inf

    def later(self, time: float) -> float:
        """Nothing changes."""
        return math.inf


class Drawn:
    """A client's time is cut into stays of the same length; for each a coin says whether it is there.

    Stays of different clients begin at different moments. By day and by night the coin differs.
    """

    patience = _WEEK

    def __init__(self, clients: int, fleet: Fleet) -> None:
        self._clients, self._seed, self._stay = clients, fleet.seed, fleet.stay
        self._share, self._begin = fleet.share, fleet.begin * 3600
        self._swing = fleet.swing if fleet.availability == "day_night" else 0.0
        self._phase = stream(fleet.seed, "phase").random(clients) * fleet.stay
        self._peak = stream(fleet.seed, "zone").normal(_PEAK, _ZONES, clients) * 3600
        self._coins = lru_cache(maxsize=256)(self._drawn)

    def _drawn(self, slot: int) -> Floats:
        return stream(self._seed, "there", slot).random(self._clients)

    def _slots(self, time: float) -> NDArray[np.int64]:
        return np.floor((time + self._begin + self._phase) / self._stay).astype(np.int64)

    def _chance(self, slots: Any, client: Any) -> Any:
        """The probability that clients are there in these slots, by the hour in their middle."""
        middle = (slots + 0.5) * self._stay - self._phase[client] - self._peak[client]
        return self._share * (1 + self._swing * np.cos(2 * np.pi * middle / DAY))

    def there(self, time: float) -> NDArray[np.bool_]:
        """Whose coin says so."""
        slots = self._slots(time)
        coins = np.empty(self._clients)
        for slot in np.unique(slots):
            at = slots == slot
            coins[at] = self._coins(int(slot))[at]
        found: NDArray[np.bool_] = coins < self._chance(slots, slice(None))
        return found

    def leaves(self, client: int, time: float, end: float) -> float:
        """When the first stay begins for which the coin says no."""
        first = math.floor((time + self._begin + self._phase[client]) / self._stay)
        last = math.floor((min(end, time + _WEEK) + self._begin + self._phase[client]) / self._stay)
        for slot in range(first, last + 1):
            if not self._coins(slot)[client] < self._chance(slot, client):
                return max(time, float(slot * self._stay - self._phase[client] - self._begin))
        return math.inf

    def later(self, time: float) -> float:
        """A small part of a stay later."""
        return time + self._stay / _STEPS


class Intervals:
    """From a file: the stays of each client, begun anew after the last end.

    >>> trace = Intervals([[(0.0, 10.0)], [(5.0, 20.0)]])
    >>> trace.there(7.0).tolist(), trace.there(12.0).tolist(), trace.there(27.0).tolist()
    ([True, True], [False, True], [True, True])
    >>> trace.leaves(0, 7.0, 30.0)
    10.0
    """

    def __init__(self, stays: Sequence[Sequence[tuple[float, float]]], begin: float = 0.0) -> None:
        self.stays, self._offset = [_joined(own) for own in stays], begin
        self.period = max(end for own in self.stays for _, end in own)
        self.patience = self.period
        flat = [(client, *stay) for client, own in enumerate(self.stays) for stay in own]
        self._owner = np.array([client for client, *_ in flat], np.int64)
        self._begins, self._ends = np.array([stay for _, *stay in flat]).T

    def there(self, time: float) -> NDArray[np.bool_]:
        """Who is in one of its stays."""
        now = (time + self._offset) % self.period
        found = np.zeros(len(self.stays), np.bool_)
        found[self._owner[(self._begins <= now) & (now < self._ends)]] = True
        return found

    def leaves(self, client: int, time: float, end: float) -> float:
        """The end of its stay; one that ends with the file may go on at its beginning."""
        cycle, now = divmod(time + self._offset, self.period)
        own = self.stays[client]
        last = next((stop for begin, stop in own if begin <= now < stop), None)
        if last is None:
            return time
        while (left := cycle * self.period + last - self._offset) < end:
            if last < self.period or own[0][0] > 0:
                return left
            cycle, last = cycle + 1, own[0][1]
        return math.inf

    def later(self, time: float) -> float:
        """When the next stay begins."""
        now = (time + self._offset) % self.period
        after = self._begins[self._begins > now]
        return time + float(after.min() - now if len(after) else self.period - now + self._begins.min())


def _joined(stays: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Stays in order, those that touch or overlap made one."""
    found: list[tuple[float, float]] = []
    for begin, end in sorted(stays):
        if found and begin <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((begin, end))
    return found


def trace_of(fleet: Fleet, clients: int, names: Sequence[str] | None = None) -> Trace:
    """The trace that a fleet's settings describe."""
    if fleet.from_file:
        stays: list[list[tuple[float, float]]] = [[] for _ in range(clients)]
        for where, client, (begin, end) in rows_of(
            fleet.availability, "availability", ("begin", "end"), clients, names
        ):
            if not 0 <= begin < end:
                raise InputError(f"{where}: must have 0 <= begin < end, found {begin:g} and {end:g}")
            stays[client].append((begin, end))
        absent = sum(not own for own in stays)
        if absent:
            warnings.warn(
                f"availability = {fleet.availability!r}: {absent} of {clients} clients are not in the file, "
                "and are never there",
                stacklevel=4,
            )
        return Intervals(stays, fleet.begin * 3600)
    return Always(clients) if fleet.availability == "always" else Drawn(clients, fleet)


def rows_of(
    file: str,
    key: str,
    columns: Sequence[str],
    clients: int,
    names: Sequence[str] | None,
    optional: Sequence[str] = (),
) -> list[tuple[str, int, list[float]]]:
    """The rows of a CSV file about clients: where each stands, its client, and its numbers.

    Clients go by their name where they have one, else by their number. Of `optional` columns that the file
    does not have nothing is returned.
    """
    path = Path(file)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"{key} = {file!r}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise InputError(f"{key} = {file!r}: is not a text file in UTF-8") from None
    reader = csv.DictReader(text.splitlines())
    found = reader.fieldnames or []
    needed = ["client", *columns]
    for name in needed:
        if name not in found:
            raise InputError(
                f"{key} = {file!r}: has no column {name!r}; needed: {', '.join(needed)}, found: "
                f"{', '.join(found) or 'none'}"
            )
    numbers = {str(name): i for i, name in enumerate(range(clients) if names is None else names)}
    wanted = [*columns, *(name for name in optional if name in found)]
    rows = []
    for row in reader:
        where = f"{key} = {file!r}, line {reader.line_num}"
        client = str(row["client"]).strip()
        if client not in numbers:
            known = f"0..{clients - 1}" if names is None else f"the {clients} names of the data"
            raise InputError(f"{where}: there is no client {client!r}; clients are {known}")
        rows.append((where, numbers[client], [_number(where, name, row[name]) for name in wanted]))
    if not rows:
        raise InputError(f"{key} = {file!r}: has no rows")
    return rows


def _number(where: str, name: str, text: str | None) -> float:
    try:
        value = float(text or "")
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InputError(f"{where}: {name} must be a number, not {text!r}")
    return value
