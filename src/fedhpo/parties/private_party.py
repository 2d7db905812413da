"""A client that keeps its scores private: none leaves without noise of its own, paid from its own ledger.

The server has no say in it: epsilon, total, noise and ledger are the client's. Updates and sizes are not
covered (`tell_sizes=False` keeps the sizes).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from fedhpo.core.errors import InputError
from fedhpo.federations.remote.clients import Hello
from fedhpo.federations.remote.messages import Scored, Task, Trained
from fedhpo.parties.context import Context
from fedhpo.parties.party import Party, QueryFunction
from fedhpo.parties.queries import local_search_of
from fedhpo.privacy.local import LocalPrivacy
from fedhpo.privacy.spending import SpendingLedger
from fedhpo.queries.local_search import LocalSearch


class PrivateParty:
    """Stands between a party and the server."""

    def __init__(self, party: Party, privacy: LocalPrivacy, queries: Mapping[str, QueryFunction]) -> None:
        if privacy.total is None or privacy.ledger is None:
            raise InputError(
                "privacy of a client needs total and ledger: LocalPrivacy(epsilon=1.0, total=3.0, "
                'ledger="/var/lib/fedhpo/privacy.jsonl")'
            )
        self._party, self._privacy = party, replace(privacy, release="exact")
        self._ledger = SpendingLedger(privacy.ledger, privacy.total)
        self._search = queries.get(LocalSearch.name)

    @property
    def tells(self) -> bool:
        """Whether the party tells its sizes."""
        return self._party.tells

    def hello(self, context: Context) -> Hello:
        """Who it is."""
        return self._party.hello(context)

    def train(self, model: Any, task: Task, context: Context, /) -> Trained:
        """The update; scores stay."""
        trained = self._party.train(model, replace(task, scores=()), context)
        return replace(
            trained,
            loss_before=math.nan,
            loss_after=math.nan,
            accuracy_before=math.nan,
            accuracy_after=math.nan,
        )

    def evaluate(self, model: Any, task: Task, context: Context, /) -> Scored:
        """One score with noise: the accuracy, or the loss, cut to [0, 1], where there is none."""
        self._ledger.charge(self._privacy.epsilon, "an evaluation")
        found = self._party.evaluate(model, task, context)
        of_loss = math.isnan(found.accuracy)
        exact = found.loss if of_loss else found.accuracy
        noisy = self._privacy.noisy(1.0 if math.isnan(exact) else exact, 1, np.random.default_rng())
        told = min(1.0, max(0.0, noisy))
        return Scored(found.size, told, math.nan) if of_loss else Scored(found.size, math.nan, told)

    @property
    def queries(self) -> dict[str, QueryFunction]:
        """What it answers: local searches, if the party does; the rest is refused."""
        return {} if self._search is None else {LocalSearch.name: self._local_search}

    def _local_search(self, asked: Mapping[str, Any], model: Any, task: Task, context: Context) -> Any:
        """The party's search under the client's own privacy, whatever the server asked for."""
        assert self._search is not None
        wanted = (asked.get("privacy") or {}).get("epsilon", math.inf)
        known = isinstance(wanted, int | float) and 0 < wanted < self._privacy.epsilon
        own = replace(self._privacy, epsilon=float(wanted)) if known else self._privacy
        mine = {**asked, "privacy": own.to_dict(asked["configs"])}
        local_search_of(mine)  # refused before it is paid for: its noise may exceed the range of a loss
        self._ledger.charge(own.epsilon, "a local search")
        return self._search(mine, model, task, context)
