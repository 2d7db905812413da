"""One budget over runs: what clients have spent of their privacy in all runs over them.

Epsilons of runs over the same clients add up, under whatever names the runs go. So all of them draw on one
file. A run takes what it may spend of each client before it begins, in one step with the question whether
there is as much: two runs at a time cannot both take the rest. When it has finished, what it did not spend is
given back. A run that was killed holds what it took, and finds it again when it is resumed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedhpo.core.errors import InputError
from fedhpo.core.run_errors import BudgetError, DamageError
from fedhpo.privacy.journal import Journal

#: Sums of epsilons are floats: so little more than the total is not more.
_SLACK = 1e-9
_KIND = "privacy of clients over runs"


@dataclass(frozen=True)
class Share:
    """What one run takes: epsilon by client, or of `everyone` where clients have no stable names.

    `order` is the order of clients that its cohorts rotate through.
    """

    clients: Mapping[str, float] = field(default_factory=dict)
    everyone: float = 0.0
    delta: float = 0.0
    order: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """As a line of the file."""
        told = {"clients": dict(self.clients), "everyone": self.everyone, "delta": self.delta}
        return told | {"order": list(self.order)}


class PrivacyLedger:
    """What each client has spent over all runs, and the `total` epsilon that one of them may spend.

    The file is made by the first run, with its total; later ones may leave the total out, and none can change
    it. In a study it is `[evaluation.privacy] budget = "clients.privacy"`, with `total`.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "clients.privacy"
    >>> ledger = PrivacyLedger(path, total=2.0)
    >>> _ = ledger.take("first run", lambda spent: Share({"a": 1.5, "b": 1.0}))
    >>> ledger.spent, ledger.highest
    ({'a': 1.5, 'b': 1.0}, ('a', 1.5))
    >>> PrivacyLedger(path).take("second run", lambda spent: Share({"a": 1.0, "b": 1.0}))
    Traceback (most recent call last):
    ...
    fedhpo.core.run_errors.BudgetError: privacy: client 'a' has spent 1.5 of 2 in earlier runs, ...
    """

    def __init__(self, path: str | Path, total: float | None = None) -> None:
        self._journal = Journal(path)
        held = self._total(self._journal.lines())
        if total is None and held is None:
            raise InputError(
                f"total: say what one client may spend in all runs, as {self._journal.path} is new"
            )
        if total is not None and not 0 < total < math.inf:
            raise InputError(f"total must be a positive number, not {total!r}")
        if total is not None and held is not None and total != held:
            raise InputError(f"total = {total:g}: {self._journal.path} was begun with {held:g}, and stays so")
        known = total if held is None else held
        assert known is not None
        self.total: float = known

    def __fspath__(self) -> str:
        return str(self._journal.path)

    @property
    def spent(self) -> dict[str, float]:
        """Epsilon by client, of all runs; what runs that have not finished may yet spend counts as spent."""
        return _spent(self._shares(self._journal.lines()))

    @property
    def everyone(self) -> float:
        """What was spent of every client, in runs that had no stable names for them."""
        return math.fsum(share.everyone for share in self._shares(self._journal.lines()).values())

    @property
    def delta(self) -> float:
        """The sum of the deltas of all runs."""
        return math.fsum(share.delta for share in self._shares(self._journal.lines()).values())

    @property
    def runs(self) -> int:
        """How many runs drew on it."""
        return len(self._shares(self._journal.lines()))

    @property
    def highest(self) -> tuple[str, float] | None:
        """The client with the highest spend, and how much; None where no client is known by name."""
        spent = self.spent
        return max(spent.items(), key=lambda item: item[1]) if spent else None

    def require(self, planned: Callable[[Mapping[str, float]], Share]) -> None:
        """Refuse, with a `BudgetError`, a run for which there is not enough left; nothing is written."""
        shares = self._shares(self._journal.lines())
        self._check(planned(_spent(shares)), shares)

    def take(self, run: str, planned: Callable[[Mapping[str, float]], Share]) -> Share:
        """What a run may spend, taken; the same again for a run that took it before.

        `planned` makes it from what each client has spent. Raises `BudgetError` where that is too much.
        """
        with self._journal.locked() as held:
            if self._total(held.lines) is None:
                held.append({"kind": _KIND, "total": self.total})
            shares = self._shares(held.lines)
            if run in shares:
                return shares[run]
            share = planned(_spent(shares))
            self._check(share, shares)
            held.append({"run": run, **share.to_dict()})
            return share

    def settle(self, run: str, spent: Share) -> None:
        """What a run that has finished did spend, in place of what it took."""
        with self._journal.locked() as held:
            shares = self._shares(held.lines)
            if run in shares and shares[run] != spent:
                held.append({"run": run, **spent.to_dict()})

    def _check(self, share: Share, shares: Mapping[str, Share]) -> None:
        spent = _spent(shares)
        everyone = math.fsum(one.everyone for one in shares.values())
        wanted = {name: share.clients.get(name, 0.0) + share.everyone for name in {*spent, *share.clients}}
        for name, more in sorted(wanted.items(), key=lambda item: (-spent.get(item[0], everyone), item[0])):
            before = spent.get(name, everyone)
            if more and before + more > self.total * (1 + _SLACK):
                self._refuse(f"client {name!r} has spent", before, more)
        if share.everyone and everyone + share.everyone > self.total * (1 + _SLACK):
            self._refuse("clients have spent", everyone, share.everyone)

    def _refuse(self, who: str, before: float, more: float) -> None:
        raise BudgetError(
            f"privacy: {who} {before:g} of {self.total:g} in earlier runs, and this run may spend {more:g} "
            f"more: lower its epsilon ({self._journal.path})"
        )

    def _total(self, lines: Sequence[Any]) -> float | None:
        if not lines:
            return None
        try:
            total = float(lines[0]["total"])
            good = lines[0]["kind"] == _KIND and 0 < total < math.inf
        except (TypeError, ValueError, KeyError):
            good = False
        if not good:
            raise self._damage(1)
        return total

    def _shares(self, lines: Sequence[Any]) -> dict[str, Share]:
        """The latest line of each run."""
        found: dict[str, Share] = {}
        for number, line in enumerate(lines[1:], start=2):
            try:
                clients = {str(name): float(spent) for name, spent in line["clients"].items()}
                order = tuple(str(name) for name in line["order"])
                share = Share(clients, float(line["everyone"]), float(line["delta"]), order)
                good = all(0 <= one < math.inf for one in (*clients.values(), share.everyone, share.delta))
                found[str(line["run"])] = share
            except (TypeError, ValueError, KeyError, AttributeError):
                good = False
            if not good:
                raise self._damage(number)
        return found

    def _damage(self, number: int) -> DamageError:
        remedy = "restore it from a copy: without it nobody knows what is spent"
        return DamageError(self._journal.path, f"line {number} is no line of a privacy ledger", remedy)


def _spent(shares: Mapping[str, Share]) -> dict[str, float]:
    """Epsilon by client, what was spent of everyone included."""
    everyone = math.fsum(share.everyone for share in shares.values())
    spent: dict[str, float] = {}
    for share in shares.values():
        for name, epsilon in share.clients.items():
            spent[name] = spent.get(name, everyone) + epsilon
    return spent
