"""One budget over runs: what clients have spent of their privacy in all runs over them.

Epsilons of runs over the same clients add up, under whatever names the runs go. So all of them draw on one
file. A run takes what it may spend of each client before it begins, in one step with the question whether
there is as much: two runs at a time cannot both take the rest. When it has finished, what it did not spend is
given back. A run that was killed holds what it took, and finds it again when it is resumed.

Each release of a run is a line too, with a number, before its noise is drawn. The run's record keeps the
number of the last release that it holds. So a copy of a run, or an older state of it, is noticed: where the
record is one release behind the ledger (as after a kill between the two), the release is paid again, on top
of what the run took; one that is further behind is refused. No two releases are drawn for one charge. What
the file itself is safe against stands in `fedhpo.privacy.journal`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from fedhpo.core.errors import InputError
from fedhpo.core.run_errors import BudgetError, DamageError, RunError
from fedhpo.privacy.journal import REMEDY, Content, Journal
from fedhpo.privacy.shares import KIND, Books, Share, Taken, read_books
from fedhpo.privacy.witness import Position

#: Sums of epsilons are floats: so little more than the total is not more.
_SLACK = 1e-9


@dataclass(frozen=True)
class Standing:
    """What the record of a run knows of the ledger.

    `drawn` is the number of the last release that the record holds, `begun` that of the last one that the
    run was about to pay for.
    """

    position: Position = field(default_factory=lambda: Position("", 0, ""))
    drawn: int = 0
    begun: int = 0

    def to_dict(self) -> dict[str, Any]:
        """As a fact of the record."""
        return asdict(self)

    @classmethod
    def of(cls, fact: Mapping[str, Any] | None) -> Standing:
        """From a fact of the record; a run of fedhpo 0.2.0 has none."""
        if fact is None:
            return cls()
        return cls(Position(**fact["position"]), fact["drawn"], fact["begun"])


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
    fedhpo.errors.BudgetError: privacy: client 'a' has spent 1.5 of 2 in earlier runs, ...
    """

    def __init__(self, path: str | Path, total: float | None = None) -> None:
        self._journal = Journal(path)
        held = self._read().total
        if total is None and held is None:
            new = f"budget = {str(self._journal.path)!r} is new"
            raise InputError(f"total: say what one client may spend in all runs, as {new}")
        if total is not None and not 0 < total < math.inf:
            raise InputError(f"total must be a positive number, not {total!r}")
        if total is not None and held is not None and total != held:
            raise InputError(
                f"total = {total:g}: {self._journal.path} was begun with {held:g}, which is final"
            )
        known = total if held is None else held
        assert known is not None
        self.total: float = known

    def __fspath__(self) -> str:
        return str(self._journal.path)

    @property
    def spent(self) -> dict[str, float]:
        """Epsilon by client, of all runs; what runs that have not finished may yet spend counts as spent."""
        return self._read().spent

    @property
    def everyone(self) -> float:
        """What was spent of every client, in runs that had no stable names for them."""
        return self._read().everyone

    @property
    def delta(self) -> float:
        """The sum of the deltas of all runs."""
        return self._read().delta

    @property
    def runs(self) -> int:
        """How many runs drew on it."""
        return len(self._read().runs)

    @property
    def highest(self) -> tuple[str, float] | None:
        """The client with the highest spend, and how much; None where no client is known by name."""
        spent = self.spent
        return max(spent.items(), key=lambda item: item[1]) if spent else None

    def paid_again(self, run: str) -> float:
        """What releases that a run paid a second time come to, for the client that paid most."""
        taken = self._read().runs.get(run)
        return 0.0 if taken is None else math.fsum(share.most for share in taken.again)

    def require(self, planned: Callable[[Mapping[str, float]], Share]) -> None:
        """Refuse, with a `BudgetError`, a run for which there is not enough left; nothing is written."""
        books = self._read()
        self._check(planned(books.spent), books)

    def take(self, run: str, planned: Callable[[Mapping[str, float]], Share]) -> Share:
        """What a run may spend, taken; the same again for a run that took it before.

        `planned` makes it from what each client has spent. Raises `BudgetError` where that is too much.
        """
        with self._journal.locked() as held:
            books = self._books(held.content)
            if run in books.runs:
                return books.runs[run].share
            share = planned(books.spent)
            self._check(share, books)
            if books.total is None:
                held.append({"kind": KIND, "total": self.total})
            held.append({"run": run, **share.to_dict()})
            return share

    def standing(self, run: str, known: Standing) -> Standing:
        """Where the ledger stands for a run that has released nothing since `known`; else it is refused."""
        content = self._journal.read()
        self._taken(self._books(content), run, known, content)
        return replace(known, position=content.position)

    def pay(
        self, run: str, known: Standing, cost: Share, note: Callable[[Standing], None]
    ) -> tuple[Standing, bool]:
        """Charge a run for its next release, before it is drawn; on disk when this returns.

        The next release of a run is part of what it took. If the ledger has charged it before, nobody knows
        whether it was drawn: it is paid again, `cost` on top. `note` puts into the run's record what it is
        about to pay, before it is paid: however often a run is killed here, it can go on. Returns what the
        record is to keep with the release, and whether it was paid again.
        """
        with self._journal.locked() as held:
            books = self._books(held.content)
            taken = self._taken(books, run, known, held.content)
            number = taken.releases + 1
            line: dict[str, Any] = {"run": run, "release": number}
            again = taken.releases > known.drawn or taken.settled or taken.doubtful
            if again:
                self._check(cost, books, "this release, which may have been drawn before, is")
                line["again"] = cost.to_dict()
            known = replace(known, begun=number)
            note(known)
            held.append(line)
            return replace(known, position=held.content.position), again

    def settle(self, run: str, spent: Share) -> None:
        """What a run that has finished did spend, in place of what it took.

        A run that paid for a release twice keeps what it took: another copy of it may have spent the rest.
        """
        with self._journal.locked() as held:
            taken = self._books(held.content).runs.get(run)
            if taken is not None and not taken.settled and not taken.again:
                held.append({"run": run, **spent.to_dict()})

    def _taken(self, books: Books, run: str, known: Standing, content: Content) -> Taken:
        """The run in the ledger, if its record belongs to it and is not too far behind."""
        where, position = self._journal.path, known.position
        # A ledger of fedhpo 0.2.0 has no identity before its next charge.
        if position.ledger not in ("", content.identity) or not position.within(content.chain):
            raise RunError(
                f"the privacy ledger {where} is not what the run drew on, which had {position.lines} lines: "
                "it was replaced, cut, or is an older copy. Bring back the one that the run drew on; a run "
                "cannot go on under another"
            )
        taken = books.runs.get(run)
        if taken is None or taken.releases < known.drawn:
            raise RunError(
                f"the privacy ledger {where} does not know of this run's releases: bring back the ledger "
                "that it drew on, or begin again under another name"
            )
        if taken.releases > max(known.drawn + 1, known.begun):
            raise RunError(
                f"the privacy ledger {where} has charged {taken.releases} releases of this run, and its "
                f"record holds {known.drawn}: it is a copy or an older state of the run, and would release "
                "again what was paid once. Go on with the run's latest state; this one can be read (`fedhpo "
                "report`), or begin again under another name, which pays anew"
            )
        return taken

    def _check(self, share: Share, books: Books, what: str = "this run may spend") -> None:
        for name, before, more in books.most_after(share):
            if more and before + more > self.total * (1 + _SLACK):
                who = "clients have spent" if name is None else f"client {name!r} has spent"
                raise BudgetError(
                    f"privacy: {who} {before:g} of {self.total:g} in earlier runs, and {what} {more:g} "
                    f"more: lower its epsilon ({self._journal.path})"
                )

    def _read(self) -> Books:
        return self._books(self._journal.read())

    def _books(self, content: Content) -> Books:
        return read_books(content.entries, self._damage)

    def _damage(self, number: int) -> DamageError:
        return DamageError(self._journal.path, f"line {number} is not a line of a privacy ledger", REMEDY)
