"""The unrecorded session: a federation as it is, with a ledger. For tests, and for use without a run."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from pathlib import Path
from typing import Any

from fedhpo.core.canonical import canonical
from fedhpo.privacy.withheld import SealedFederation
from fedhpo.protocol.federation import Answer, Federation, Ints, Query, RoundReport, Scores, SplitName, Work
from fedhpo.protocol.ledger import Budget, Ledger
from fedhpo.protocol.session import COMPUTED, Charged, Each
from fedhpo.protocol.through import Through
from fedhpo.space.config import Config


class Scratch:
    """What sessions without a run share: nothing is kept, and nothing is resumed."""

    kept = False
    replaying = False

    @cached_property
    def _scratch(self) -> tempfile.TemporaryDirectory[str]:
        return tempfile.TemporaryDirectory(prefix="fedhpo-")

    @property
    def directory(self) -> Path:
        """A temporary one, made when it is needed and deleted with the session."""
        return Path(self._scratch.name)

    def in_one_piece(self) -> AbstractContextManager[None]:
        """Nothing is resumed."""
        return nullcontext()

    def wake(self, trial: int) -> None:
        """Every trial is awake."""

    def drawing(self) -> bool:
        """No release is ever drawn a second time."""
        return False


class UnrecordedSession(Scratch, Through):
    """`federation`, with what calls cost charged to a ledger; see `fedhpo.protocol.session.Session`.

    Nothing is kept: what a method decides is computed each time. With `private` scores of rounds are kept
    back until they are released, as in a private run.

    >>> from fedhpo.testing import ToyFederation
    >>> session = UnrecordedSession(ToyFederation(clients=4))
    >>> session.start(0, {}, seed=1)
    >>> session.round([Work(0, [0, 1], {"lr": 0.1})])[0].round, session.ledger.cost.rounds
    (1, 1)
    >>> session.decide("coin", 0, lambda: ("heads", 1))
    ['heads', 1]
    """

    virtual = False

    def __init__(
        self, federation: Federation, budget: Budget | None = None, *, private: bool = False
    ) -> None:
        super().__init__(SealedFederation(federation) if private else federation)
        self.ledger = Ledger(budget)

    def round(self, work: Sequence[Work]) -> list[RoundReport]:
        """One round of each of several trials."""
        return self._charged(self.inner.round(work))

    def next_done(self, trial: int | None = None) -> RoundReport:
        """The report of a round that has ended."""
        return self._charged([self.inner.next_done(trial)])[0]  # type: ignore[no-any-return]

    def evaluate(
        self, trials: Sequence[int], clients: Sequence[int] | Ints, split: SplitName = "validation"
    ) -> list[Scores]:
        """Scores without training."""
        return self._charged(self.inner.evaluate(trials, clients, split))

    def query(self, task: Query, clients: Sequence[int] | Ints) -> list[Answer]:
        """Work at the clients that is not a round."""
        return self._charged(self.inner.query(task, clients))

    def _charged(self, items: list[Any]) -> list[Any]:
        for item in items:
            self.ledger.charge(item.cost)
        self.ledger.pass_time(items)
        return items

    def decide(
        self,
        name: str,
        key: Any,
        function: Callable[[], Any],
        *,
        epsilon: float | None = None,
        each: Each = None,
        planned: Any = COMPUTED,
    ) -> Any:
        """What `function` returns, as it would come back from a record."""
        if epsilon:
            self.ledger.require(epsilon=epsilon)
            self.ledger.charge(epsilon=epsilon)
        return decided(function, self.ledger)

    def evaluate_beside(
        self, trials: Sequence[int], clients: Sequence[int] | Ints, split: SplitName = "validation"
    ) -> list[Scores]:
        """Scores that are not charged: the decision that they are for is."""
        return self.inner.evaluate(trials, clients, split)

    def withheld(self, trial: int, round: int) -> RoundReport | None:
        """The report of a trial's last round with the scores that were kept back."""
        return self.inner.unseal(trial, round) if isinstance(self.inner, SealedFederation) else None

    def advance(self, trials: Sequence[tuple[int, Config]]) -> list[str]:
        """Not here: rounds take place."""
        raise NotImplementedError("rounds of this session take place: call `round`")


def decided(function: Callable[[], Any], ledger: Ledger) -> Any:
    """What a decision's function returns, its cost charged, as it would come back from a record."""
    found = function()
    if isinstance(found, Charged):
        ledger.charge(found.cost)
        found = found.value
    return json.loads(canonical(found))
