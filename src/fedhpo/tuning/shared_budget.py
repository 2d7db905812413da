"""A run's part in the budget that all runs over the same clients draw on; see `fedhpo.PrivacyLedger`."""

from __future__ import annotations

import uuid
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedhpo.core.run_errors import DamageError, RunError
from fedhpo.privacy.budget import PrivacyLedger, Standing
from fedhpo.privacy.privacy import Privacy
from fedhpo.privacy.rotation import rotation_order
from fedhpo.privacy.shares import Share
from fedhpo.protocol.federation import Federation
from fedhpo.protocol.session import Each
from fedhpo.run.recorded import Paid
from fedhpo.search.account import RotationAccount
from fedhpo.search.private import PrivateChannel
from fedhpo.search.private_setup import stable_names

if TYPE_CHECKING:
    from fedhpo.run import Record, Run
    from fedhpo.search.search import Search
    from fedhpo.tuning.setup import Prepared

#: What the run's record keeps: its name in the ledger, the order of clients, what it knows of the ledger, and
#: once it has finished, what was spent over all runs.
_NAME, _ORDER, _STANDING, _OVER = "privacy_run", "privacy_order", "privacy_ledger", "privacy_over_runs"


class SharedBudget:
    """What one run takes of the budget before it begins, and what it spent in the end."""

    def __init__(self, search: Search, channel: PrivateChannel, federation: Federation) -> None:
        privacy = channel.privacy
        assert privacy.budget is not None
        self._path = privacy.budget
        #: That of the search; what the comparison at the end takes comes on top, or from other clients.
        self._search, self._privacy, self._account = search, privacy, channel.account
        compared = search.comparison
        self._epsilon = privacy.epsilon if compared is None else compared.privacy.epsilon
        self._searched = federation.validation_clients if compared is None else compared.searched
        self._names = stable_names(federation)
        self._run: str = ""
        self._order: tuple[str, ...] = ()
        self._record: Record | None = None

    @cached_property
    def ledger(self) -> PrivacyLedger:
        """The file; a run that has finished does not need it."""
        return PrivacyLedger(self._path, self._privacy.total)

    def require(self) -> None:
        """Refuse a run for which there is not enough left, before anything is written."""
        self.ledger.require(self._planned)

    def take(self, run: Run) -> None:
        """Take it, once for a run and all its resumptions; cohorts rotate in the order of that time.

        A run that has finished releases nothing more: it can be opened where the ledger is not.
        """
        self._record = record = run.record
        self._run, order = record.get(_NAME, ""), record.get(_ORDER)
        if record.get(_OVER) is not None:
            self._rotate(tuple(order))
            return
        if not self._run:
            self._run = uuid.uuid4().hex
            record.set(**{_NAME: self._run})
        known = Standing.of(record.get(_STANDING))
        if known.position.lines or record.spent()["epsilon"]:  # it took its share before
            self._find(known)
        share = self.ledger.take(self._run, self._planned)
        if order is None:
            known = self.ledger.standing(self._run, known)
            record.set(**{_ORDER: list(share.order), _STANDING: known.to_dict()})
        self._rotate(share.order)

    def _find(self, known: Standing) -> None:
        """See that the ledger is the one that the run drew on, before anything is trained."""
        path = Path(self._path).expanduser()
        if not path.exists():
            raise RunError(
                f"run {self._directory} drew on the privacy ledger {path}, which is not there: bring it "
                "back, as nobody else knows what was spent; what the run has recorded can be read without"
            )
        with self._named():
            self.ledger.standing(self._run, known)

    def _rotate(self, order: tuple[str, ...]) -> None:
        self._order = order
        if order and isinstance(self._account, RotationAccount):
            assert self._names is not None
            numbers = {name: client for client, name in self._names.items()}
            self._account.order = np.array([numbers[name] for name in order], dtype=np.int64)

    def pay(self, each: Each) -> Paid:
        """Charge the ledger for the next release; on top of what the run took if it was charged before."""
        record, cost = self._record, self._cost(each)
        assert record is not None

        def note(standing: Standing) -> None:
            record.set(**{_STANDING: standing.to_dict()})

        with self._named():
            known = Standing.of(record.get(_STANDING))
            paid, again = self.ledger.pay(self._run, known, cost, note)
        if again:
            warnings.warn(
                f"run {self._directory}: a release was charged to {self._path} and is not in the record, as "
                "the run was killed in between, or is a copy. It is paid again: epsilon "
                f"{cost.most:g} more",
                stacklevel=2,
            )
        return Paid({_STANDING: replace(paid, drawn=paid.begun).to_dict()}, again)

    @property
    def _directory(self) -> Path:
        assert self._record is not None
        return self._record.directory

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Where the ledger refuses the run, name the run."""
        try:
            yield
        except DamageError:
            raise
        except RunError as error:
            raise RunError(f"run {self._directory}: {error}") from error

    def _cost(self, each: Each) -> Share:
        """What one release costs by itself: where nobody said, as much as the whole run."""
        names, most = self._names, self._privacy.epsilon
        if isinstance(each, Mapping):
            if names is not None:
                return Share({names[client]: epsilon for client, epsilon in each.items()})
            most = max(each.values(), default=0.0)
        elif each is not None:
            most = each
        return Share(everyone=most) if names is None else Share(dict.fromkeys(names.values(), most))

    def settle(self) -> dict[str, Any]:
        """Give back what was not spent; what the client has spent that spent most, over all runs."""
        assert self._record is not None
        found: dict[str, Any] | None = self._record.get(_OVER)
        if found is None:
            self.ledger.settle(self._run, self._spent())
            found = self.to_dict()
            self._record.set(**{_OVER: found})
        return found

    def to_dict(self) -> dict[str, Any]:
        """For result.json: the ledger after this run."""
        ledger, highest = self.ledger, self.ledger.highest
        client, spent = highest if highest is not None else (None, ledger.everyone)
        again = ledger.paid_again(self._run)
        return {
            "total": ledger.total,
            "runs": ledger.runs,
            "client": client,
            "spent": spent,
            "delta": ledger.delta,
            "by_client": self._names is not None,
            **({"paid_again": again} if again else {}),
        }

    def _planned(self, spent: Mapping[str, float]) -> Share:
        """What the run may spend of each client: those that have spent least are asked first."""
        privacy, names, account = self._privacy, self._names, self._account
        if names is None:
            return Share(everyone=self._epsilon, delta=privacy.delta)
        plan = account.plan if isinstance(account, RotationAccount) else None
        if plan is None or plan.caps is None:  # any client may come to the most that one may
            return Share(dict.fromkeys(names.values(), self._epsilon), delta=privacy.delta)
        turns = rotation_order(self._searched, self._search.seed).tolist()
        turn = {client: place for place, client in enumerate(turns)}
        order = sorted(turn, key=lambda client: (spent.get(names[client], 0.0), turn[client]))
        shares = {
            names[client]: _part(privacy, cap, plan.parts)
            for client, cap in zip(order, plan.caps, strict=True)
        }
        self._add_comparison(shares)
        return Share(shares, delta=privacy.delta, order=tuple(names[client] for client in order))

    def _spent(self) -> Share:
        """What the run did spend."""
        privacy, names, account = self._privacy, self._names, self._account
        spent = self._search.ledger.epsilon
        total = self._epsilon if privacy.accounting == "pld" and spent else min(spent, self._epsilon)
        if names is None:
            return Share(everyone=total, delta=privacy.delta)
        if not isinstance(account, RotationAccount):
            return Share(dict.fromkeys(names.values(), total), delta=privacy.delta)
        assert account.parts is not None
        shares = {
            names[client]: _part(privacy, taken, account.parts)
            for client, taken in account.caps.taken.items()
        }
        if self._search.compared:
            self._add_comparison(shares)
        return Share(shares, delta=privacy.delta, order=self._order)

    def _add_comparison(self, shares: dict[str, float]) -> None:
        """What comparing the winner with the user's own config takes of each client that does."""
        plan, names = self._search.comparison, self._names
        if plan is None or names is None:
            return
        for client in plan.clients.tolist():
            shares[names[client]] = shares.get(names[client], 0.0) + plan.epsilon


def shared_budget(prepared: Prepared, federation: Federation) -> SharedBudget | None:
    """The run's part in a budget over runs, where it is to draw on one."""
    plan = prepared.plan
    if plan is None or not isinstance(plan.channel, PrivateChannel) or plan.channel.privacy.budget is None:
        return None
    return SharedBudget(prepared.search, plan.channel, federation)


def _part(privacy: Privacy, weight: int, parts: int) -> float:
    """What releases of this weight are; composed by "pld", only all of them together are known."""
    if privacy.accounting == "pld":
        return privacy.epsilon if weight else 0.0
    return privacy.epsilon * weight / parts
