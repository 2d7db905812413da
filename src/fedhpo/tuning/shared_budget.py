"""A run's part in the budget that all runs over the same clients draw on; see `fedhpo.PrivacyLedger`."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from fedhpo.privacy.budget import PrivacyLedger, Share
from fedhpo.privacy.privacy import Privacy
from fedhpo.privacy.rotation import rotation_order
from fedhpo.protocol.federation import Federation
from fedhpo.search.account import RotationAccount
from fedhpo.search.private import PrivateChannel
from fedhpo.search.private_setup import stable_names

if TYPE_CHECKING:
    from fedhpo.run import Run
    from fedhpo.search.search import Search
    from fedhpo.tuning.setup import Prepared

#: The run's name in the ledger, as its record keeps it.
_NAME = "privacy_run"


class SharedBudget:
    """What one run takes of the budget before it begins, and what it spent in the end."""

    def __init__(self, search: Search, channel: PrivateChannel, federation: Federation) -> None:
        privacy = channel.privacy
        assert privacy.budget is not None
        self.ledger = PrivacyLedger(privacy.budget, privacy.total)
        #: That of the search; what the comparison at the end takes comes on top, or from other clients.
        self._search, self._privacy, self._account = search, privacy, channel.account
        compared = search.comparison
        self._epsilon = privacy.epsilon if compared is None else compared.privacy.epsilon
        self._searched = federation.validation_clients if compared is None else compared.searched
        self._names = stable_names(federation)
        self._run = ""
        self._order: tuple[str, ...] = ()

    def require(self) -> None:
        """Refuse a run for which there is not enough left, before anything is written."""
        self.ledger.require(self._planned)

    def take(self, run: Run) -> None:
        """Take it, once for a run and all its resumptions; cohorts rotate in the order of that time."""
        name = run.record.get(_NAME)
        if name is None:
            name = uuid.uuid4().hex
            run.record.set(**{_NAME: name})
        self._run = name
        self._order = self.ledger.take(name, self._planned).order
        if self._order and isinstance(self._account, RotationAccount):
            assert self._names is not None
            numbers = {name: client for client, name in self._names.items()}
            self._account.order = np.array([numbers[name] for name in self._order], dtype=np.int64)

    def settle(self) -> dict[str, Any]:
        """Give back what was not spent; what the client has spent that spent most, over all runs."""
        self.ledger.settle(self._run, self._spent())
        return self.to_dict()

    def to_dict(self) -> dict[str, Any]:
        """For result.json: the ledger after this run."""
        ledger, highest = self.ledger, self.ledger.highest
        client, spent = highest if highest is not None else (None, ledger.everyone)
        return {
            "total": ledger.total,
            "runs": ledger.runs,
            "client": client,
            "spent": spent,
            "delta": ledger.delta,
            "by_client": self._names is not None,
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
