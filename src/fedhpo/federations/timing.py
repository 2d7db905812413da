"""When the clients of a simulation reply: a pure function of who starts what when, so that it can be resumed.

A reply is a matter of the fleet's seed, the client and the moment at which it starts, never of this machine.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedhpo.core.canonical import canonical
from fedhpo.core.digests import digest
from fedhpo.core.errors import InputError
from fedhpo.core.hyperparameters import parse
from fedhpo.core.streams import stream
from fedhpo.engine.hyperparameters import Local
from fedhpo.federations.fleet import Fleet
from fedhpo.federations.traces import rows_of, trace_of
from fedhpo.protocol.federation import Floats, Ints, Scores, Status, Work
from fedhpo.protocol.reasons import Reason, Why

#: To score a row is a forward pass; to train on it a backward pass too, which takes twice as long.
_SCORING = 1 / 3
LATE, DROPPED, GONE = Reason(Why.LATE), Reason(Why.DROPPED), Reason(Why.GONE)


@dataclass(frozen=True, eq=False)
class Timed:
    """When each member of a round replied or was given up, and why those did not reply that did not."""

    cohort: Sequence[int]
    begun: float
    ends: Floats
    reasons: Mapping[int, Reason]

    @property
    def last(self) -> float:
        """When the round ends."""
        return float(self.ends.max())


def epochs_of(work: Work, rows: Ints, *, own_training: bool) -> Floats:
    """The epochs of each member, given the training rows of all clients; 1 where the server does not know."""
    epochs = np.ones(len(work.cohort))
    if not own_training and not work.by_rule:
        alike = isinstance(work.client, Mapping)
        own = [work.config_of(i) for i in range(1 if alike else len(work.cohort))]
        parsed = [parse(Local, "client", config) for config in own]
        for i, client in enumerate(work.cohort):
            epochs[i] = parsed[0 if alike else i].passes(int(rows[client]))
    return epochs


class Timing:
    """The clock of a simulation with a fleet; `train_rows` and `validation_rows` are those of each client."""

    def __init__(
        self, fleet: Fleet, train_rows: Ints, validation_rows: Ints, names: Sequence[str] | None = None
    ) -> None:
        self.fleet = fleet
        self._train, self._validation = train_rows, validation_rows
        clients = len(train_rows)
        self.trace = trace_of(fleet, clients, names)
        spread = stream(fleet.seed, "speed").normal(0.0, 1.0, clients)
        self.speed = fleet.speed * np.exp(fleet.speed_spread * spread)
        self.bandwidth = np.full(clients, fleet.bandwidth)
        if fleet.devices is not None:
            self._read_devices(fleet.devices, clients, names)

    def _read_devices(self, file: str, clients: int, names: Sequence[str] | None) -> None:
        seen = np.zeros(clients, np.bool_)
        for where, client, values in rows_of(file, "devices", ("speed",), clients, names, ("bandwidth",)):
            if min(values) <= 0:
                raise InputError(f"{where}: speed and bandwidth must be above 0")
            seen[client], self.speed[client] = True, values[0]
            self.bandwidth[client] = values[-1] if len(values) > 1 else self.fleet.bandwidth
        if not seen.all():
            missing = int(np.flatnonzero(~seen)[0])
            name = missing if names is None else names[missing]
            raise InputError(f"devices = {file!r}: must name every client; client {name!r} is missing")

    def fingerprint(self) -> dict[str, Any]:
        """What results depend on: the settings, and what the files hold."""
        settings = self.fleet.to_dict()
        files = {key: "csv" for key in ("availability", "devices") if str(settings[key]).endswith(".csv")}
        held = [self.speed, self.bandwidth, getattr(self.trace, "stays", None)]
        return {**settings, **files, "held": digest(canonical(held)).hex()}

    # Who is there

    def present(self, time: float, least: int, clients: Ints) -> tuple[float, Ints]:
        """The first moment from `time` on at which `least` of these clients are there, and who is."""
        begun = time
        while True:
            found = clients[self.trace.there(time)[clients]]
            if len(found) >= least:
                return time, found
            time = self.trace.later(time)
            if not time - begun <= self.trace.patience:
                raise InputError(
                    f"availability = {self.fleet.availability!r}: in {_days(self.trace.patience)} there "
                    f"never were {least} of {len(clients)} clients at a time: ask for fewer (cohort, "
                    "evaluation.clients), or have more of them there (share, or the file)"
                )

    # Rounds

    def round(self, work: Work, epochs: Floats, size: int | Floats, clock: float) -> Timed:
        """When the members of a round reply; `size` numbers go to each, and come back."""
        cohort = np.array(work.cohort, np.int64)
        starts = work.starts or (clock,) * len(cohort)
        rows = epochs * self._train[cohort] + _SCORING * len(work.scores) * self._validation[cohort]
        sizes = np.broadcast_to(size, len(cohort)).tolist()
        ends, reasons = np.empty(len(cohort)), {}
        for place, client in enumerate(work.cohort):
            ends[place], why = self._reply(client, starts[place], float(rows[place]), 4 * sizes[place])
            if why is not None:
                reasons[place] = why
        return Timed(work.cohort, min(starts), ends, reasons)

    def _reply(self, client: int, start: float, rows: float, size: float) -> tuple[float, Reason | None]:
        """When a client replies, or why and when it turns out that it does not."""
        fleet = self.fleet
        luck = stream(fleet.seed, "luck", client, float(start).hex()).random(3)
        slow = fleet.slowdown if luck[0] < fleet.stragglers else 1.0
        needs = fleet.latency + 2 * size / self.bandwidth[client] + slow * rows / self.speed[client]
        done = start + needs
        dropped = start + luck[2] * needs if luck[1] < fleet.dropouts else math.inf
        late = start + fleet.longest
        left = self.trace.leaves(client, start, min(done, late, dropped))
        first = min(done, dropped, late, left)
        if first == done:
            return done, None
        return first, DROPPED if first == dropped else GONE if first == left else LATE

    def starts(self, cohort: Iterable[int], time: float, others: Iterable[Timed]) -> list[float]:
        """When each member can start: at `time`, or once it has ended what it does in the other rounds."""
        busy: dict[int, float] = {}
        for other in others:
            for client, end in zip(other.cohort, other.ends.tolist(), strict=True):
                busy[client] = max(end, busy.get(client, time))
        return [max(time, busy.get(client, time)) for client in cohort]

    def scored(self, found: Sequence[Scores], clients: Ints, sizes: Sequence[int]) -> list[Scores]:
        """Scores of models of these sizes with the seconds that they took; some may be too late."""
        if not len(clients) or not len(sizes):
            return list(found)
        rows = _SCORING * len(sizes) * self._validation[clients]
        needs = self.fleet.latency + 4 * sum(sizes) / self.bandwidth[clients] + rows / self.speed[clients]
        seconds, late = float(min(needs.max(), self.fleet.longest)), needs > self.fleet.longest
        return [_without(scores, late, seconds) for scores in found]


def _without(scores: Scores, late: NDArray[np.bool_], seconds: float) -> Scores:
    """Scores in which those of some clients are missing."""
    if not late.any():
        return replace(scores, seconds=seconds)
    columns = {"loss": scores.loss, "accuracy": scores.accuracy, **scores.metrics}
    known = {name: np.where(late, np.nan, column) for name, column in columns.items()}
    return replace(
        scores,
        status=np.where(late, Status.MISSING, scores.status).astype(np.int8),
        loss=known.pop("loss"),
        accuracy=known.pop("accuracy"),
        metrics=known,
        reasons={**scores.reasons} | {int(place): LATE for place in np.flatnonzero(late)},
        seconds=seconds,
    )


def _days(seconds: float) -> str:
    return f"{seconds / 86_400:.3g} days"
