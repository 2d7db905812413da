"""What the referee asks of a base or a candidate, whatever it is made of."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import numpy as np

from fedhpo.core.canonical import canonical
from fedhpo.core.digests import digest
from fedhpo.core.errors import InputError


@dataclass(frozen=True)
class Terms:
    """What two sides must have in common, and what names them; JSON-able.

    `rounds`, `cohort`, `metric` and `maximise` must be equal, and so must `data`, the digest of all clients'
    rows, where both sides know them: what is None shows in a training, or not at all. `clients` are the
    numbers of those that validate, None where they are not known one by one; `asked` those whose scores the
    side is known to have been tuned on, None where nothing is known of its tuning. `spent` are the rounds of
    that tuning.
    """

    name: str
    kind: str
    rounds: int | None
    cohort: int | None
    metric: str | None
    maximise: bool | None
    code: str
    data: str | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    clients: Sequence[int] | None = None
    asked: Sequence[int] | None = None
    spent: int | None = None
    #: Whether it draws its cohorts from the referee's seeds, the same in both trainings of a pair.
    pairs_cohorts: bool = True
    #: What else a reader of its verdicts must know.
    note: str = ""

    @property
    def identity(self) -> str:
        """A digest of all that results depend on."""
        equals = [self.rounds, self.cohort, self.metric, self.maximise is not False]
        whole = [self.kind, *equals, self.code, self.data, dict(self.config)]
        return digest(canonical(whole)).hex()

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Training:
    """One training, judged: the score over the clients asked, and over the worst-off tenth of them.

    `tail` is None where scores by client are not known, a cost is None where the side does not tell it;
    `failed` says why there is no score.
    """

    score: float | None
    tail: float | None = None
    clients: int = 0
    bytes: int | None = None
    samples: int | None = None
    failed: str = ""
    rounds: int | None = None
    cohort: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """As JSON, without what is not known."""
        return {key: value for key, value in asdict(self).items() if value not in (None, "")}

    @classmethod
    def of_clients(cls, scores: Sequence[float], maximise: bool, **costs: Any) -> Training:
        """The mean of the clients' scores, and that of the worst tenth of them.

        >>> Training.of_clients([0.5, *[0.9] * 9], True).tail
        0.5
        """
        values = np.asarray(scores, np.float64)
        if not np.isfinite(values).all():
            return cls(None, failed="a score is not finite", **costs)
        worst = np.sort(values if maximise else -values)[: math.ceil(0.1 * len(values))]
        tail = float(worst.mean()) * (1 if maximise else -1)
        return cls(float(values.mean()), tail, len(values), **costs)

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Training:
        """What `to_dict` gave."""
        return cls(**{"score": None, **facts})


class Side(Protocol):
    """A base or a candidate."""

    @property
    def terms(self) -> Terms:
        """What it is."""

    def train(
        self, seed: int, clients: Sequence[int] | None, config: Mapping[str, Any] | None = None
    ) -> Training:
        """Train from the beginning with this seed, and judge at these validation clients; None for all.

        A `config` takes the place of its own.
        """

    def tune(self, rounds: int, seed: int, clients: Sequence[int] | None) -> dict[str, Any]:
        """The config that tuning finds in so many rounds, for a scalar control."""

    def close(self) -> None:
        """Free what it holds."""


def check_equal(base: Terms, candidate: Terms) -> None:
    """Refuse a comparison of unequals, with the difference."""
    found = []
    for what, ours, theirs in (
        ("rounds", base.rounds, candidate.rounds),
        ("cohort", base.cohort, candidate.cohort),
        ("metric", base.metric, candidate.metric),
        ("direction", _direction(base), _direction(candidate)),
    ):
        if None not in (ours, theirs) and ours != theirs:
            found.append(f"{what} is {ours} in {base.name} and {theirs} in {candidate.name}")
    if None not in (base.clients, candidate.clients) and list(base.clients or ()) != list(
        candidate.clients or ()
    ):
        found.append(
            f"{len(base.clients or ())} clients validate in {base.name} and {len(candidate.clients or ())} "
            f"in {candidate.name}, or they have other numbers"
        )
    elif None not in (base.data, candidate.data) and base.data != candidate.data:
        found.append(f"the clients of {candidate.name} hold other rows than those of {base.name}")
    if found:
        raise InputError(f"{candidate.name} cannot be compared with {base.name}: {'; '.join(found)}")


def check_trained(base: Terms, candidate: Terms, ours: Training, theirs: Training) -> None:
    """The same where a side tells its rounds and cohort only when it has trained."""
    for what in ("rounds", "cohort"):
        pair = [
            getattr(terms, what) or getattr(training, what)
            for terms, training in ((base, ours), (candidate, theirs))
        ]
        for value, terms in zip(pair, (base, candidate), strict=True):
            if value is None:
                raise InputError(
                    f"{terms.name} told no {what}: what the function returns must hold {what!r}, so that "
                    "equals are compared"
                )
        if pair[0] != pair[1]:
            raise InputError(
                f"{candidate.name} cannot be compared with {base.name}: {what} is {pair[0]} in {base.name} "
                f"and {pair[1]} in {candidate.name}"
            )


def _direction(terms: Terms) -> str | None:
    return None if terms.maximise is None else "maximize" if terms.maximise else "minimize"
