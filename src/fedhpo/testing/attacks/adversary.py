"""Turns clients of a simulated federation hostile."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, fields, replace

import numpy as np
from scipy.stats import hypergeom

from fedhpo.core.errors import InputError
from fedhpo.core.streams import stream
from fedhpo.core.vectors import Vector
from fedhpo.engine.executor import JobResult
from fedhpo.engine.gather import Gathering
from fedhpo.federations.simulated import SimulatedFederation
from fedhpo.protocol.bounds import checked_scores, range_of, trouble_with
from fedhpo.protocol.federation import Ints, Scores
from fedhpo.protocol.reasons import Reason, Why
from fedhpo.testing.attacks.attack import Attack

#: Rows that a client may say it has.
_MOST_ROWS = 1 << 40


def hostile_clients(clients: Collection[int] | Ints, share: float, seed: int = 0) -> Ints:
    """A share of the clients, drawn at random, in ascending order.

    >>> hostile_clients(range(20), 0.25).tolist()
    [8, 9, 14, 15, 17]
    """
    if not 0 <= share <= 1:
        raise InputError(f"share must lie in [0, 1], not {share!r}")
    everybody = np.asarray(list(clients), np.int64)
    return np.sort(stream(seed, "hostile").choice(everybody, round(share * len(everybody)), replace=False))


def majority_chance(clients: int, share: float, cohort: int) -> float:
    """The chance that at least half of a cohort, drawn at random from the clients, is hostile.

    >>> majority_chance(20, 0.25, 20), round(majority_chance(100, 0.25, 10), 3)
    (0.0, 0.067)
    """
    return float(hypergeom.sf((cohort + 1) // 2 - 1, clients, round(share * clients), cohort))


@dataclass(frozen=True)
class Hostile:
    """Hostile clients of a simulated federation, who know what every honest one sends in the same round."""

    clients: Ints
    attack: Attack
    seed: int = 0

    def announced(self, trial: int, clients: Ints, sizes: Ints) -> Ints:
        """The rows that clients say they have."""
        lies = [min(max(self.attack.size(int(rows)), 0), _MOST_ROWS) for rows in sizes]
        return np.where(np.isin(clients, self.clients), lies, sizes).astype(np.int64)

    def gathering(self, trial: int, honest: Gathering, cohort: Ints) -> Gathering:
        """One that waits for all replies, and replaces those of hostile members."""
        found = {one.name: getattr(honest, one.name) for one in fields(honest)}
        return _Watched(**found, adversary=self, cohort=cohort)

    def scores(self, honest: Scores) -> Scores:
        """Scores in which those of hostile clients are replaced."""
        lying = np.isin(honest.clients, self.clients)
        lies = [self.attack.score(*one) for one in zip(honest.loss, honest.accuracy, strict=True)]
        loss, accuracy = np.array(lies, np.float64).reshape(-1, 2).T
        told = replace(
            honest,
            size=self.announced(honest.trial, honest.clients, honest.size),
            loss=np.where(lying, loss, honest.loss),
            accuracy=np.where(lying, accuracy, honest.accuracy),
        )
        return checked_scores(told, told=True)

    def lie(
        self, client: int, result: JobResult, own: Vector, known: list[Vector]
    ) -> tuple[JobResult, Vector]:
        """What a hostile client sends in place of an honest reply."""
        rng = stream(self.seed, "attack", client, zlib.crc32(own.tobytes()))
        before = self.attack.score(result.loss_before, result.accuracy_before)
        after = self.attack.score(result.loss_after, result.accuracy_after)
        told = replace(
            result,
            train_size=self.attack.size(result.train_size),
            validation_size=self.attack.size(result.validation_size),
            loss_before=before[0],
            accuracy_before=before[1],
            loss_after=after[0],
            accuracy_after=after[1],
        )
        return told, self.attack.update(own, np.stack(known or [own]), rng)


@dataclass(eq=False)
class _Watched(Gathering):
    """A gathering that an adversary looks into, before anything is added."""

    adversary: Hostile = field(kw_only=True)
    cohort: Ints = field(kw_only=True)
    _came: dict[int, tuple[JobResult, Vector | None]] = field(default_factory=dict)

    def take(
        self,
        member: int,
        result: JobResult,
        update: Vector | None = None,
        release: Callable[[], None] = lambda: None,
    ) -> None:
        self._came[member] = result, None if update is None else update.copy()
        release()
        if len(self._came) == len(self.sequence):
            lying = dict(
                zip(range(len(self.cohort)), np.isin(self.cohort, self.adversary.clients), strict=True)
            )
            known = [own for one, (_, own) in self._came.items() if own is not None and not lying[one]]
            for one, (told, own) in sorted(self._came.items()):
                if lying[one] and own is not None and not told.failure:
                    told, own = self.adversary.lie(int(self.cohort[one]), told, own, known)
                    told = _as_read(told)
                super().take(one, told, own)


def _as_read(told: JobResult) -> JobResult:
    """What a server that reads replies makes of one."""
    for name in ("loss_before", "loss_after", "accuracy_before", "accuracy_after"):
        problem = trouble_with(name, getattr(told, name), *range_of(name.partition("_")[0]))
        if problem is not None:
            return JobResult(failure=problem)
    for name in ("train_size", "validation_size"):
        rows = getattr(told, name)
        if not 0 <= rows <= _MOST_ROWS:
            return JobResult(failure=Reason(Why.REJECTED, f"{name} is {rows}, expected 0..{_MOST_ROWS}"))
    return told


def hostile(
    federation: SimulatedFederation, attack: Attack, *, share: float = 0.25, seed: int = 0
) -> Hostile:
    """Turn a share of a simulated federation's training clients hostile; says which."""
    found = Hostile(hostile_clients(federation.train_clients, share, seed), attack, seed)
    federation.adversary = found
    return found
