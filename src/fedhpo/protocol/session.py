"""The session: all that a method may do with its world.

A method is given a session and nothing else of the world. It asks clients (`round`, `evaluate`, `query`),
takes decisions that are kept (`decide`), and looks at what was spent (`ledger`). There are four kinds:

- recorded (`fedhpo.run.recorded`): every call is kept in the run, so that the run can be resumed;
- planned (`fedhpo.search.planned`): nothing is trained; what a private method will release is counted;
- replayed (`fedhpo.research.tables.replay`): a table of learning curves, in virtual time;
- unrecorded (`fedhpo.search.unrecorded`): a federation as it is, for tests and for use without a run.

No method asks which one it has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from fedhpo.protocol.federation import (
    Answer,
    Cost,
    Ints,
    Query,
    RoundReport,
    Scores,
    SplitName,
    Work,
)
from fedhpo.protocol.ledger import Ledger
from fedhpo.space.config import Config


@dataclass(frozen=True)
class Charged:
    """What a decision came to, and what it took to come to it."""

    value: Any
    cost: Cost


class _Computed:
    """Stands for: whatever the function returns."""

    def __repr__(self) -> str:
        return "COMPUTED"


#: Decisions by these names are private releases, even where they cost 0: they are drawn once.
RELEASES: Final = ("release", "choose", "sums", "compare")

#: What a private release costs each client that it asks, or everybody; None where that is not known.
Each = Mapping[int, float] | float | None

#: The default of `decide(planned=...)`: a planned session calls the function too.
COMPUTED: Final = _Computed()


class Session(Protocol):
    """The one interface between a method and its world."""

    # The federation

    @property
    def capabilities(self) -> frozenset[str]:
        """What the federation can do; see `fedhpo.protocol.federation`."""

    @property
    def train_clients(self) -> Ints:
        """The clients that can train."""

    @property
    def validation_clients(self) -> Ints:
        """The clients that hold validation data."""

    @property
    def test_clients(self) -> Ints:
        """The clients that hold test data."""

    @property
    def trials(self) -> Sequence[int]:
        """The trials started and not stopped, in ascending order."""

    @property
    def timed(self) -> bool:
        """Whether the federation simulates time."""

    def present(self, time: float, least: int, clients: Ints) -> tuple[float, Ints]:
        """The first moment from `time` on at which `least` of these clients are there, and who is."""

    def starts(self, cohort: Sequence[int], time: float, beside: Sequence[Work]) -> list[float]:
        """When each of a cohort can start on a round; see `Federation.starts`."""

    def start(self, trial: int, model: Mapping[str, Any], seed: int) -> None:
        """A fresh model under the number `trial`."""

    def fork(self, source: int, target: int) -> None:
        """Make `target` a copy of `source`: weights, server optimiser state and round clock."""

    def mix(self, source: int, target: int, share: float) -> None:
        """Move the weights of `target` by this share towards those of `source`; else it becomes a copy."""

    def stop(self, trial: int) -> None:
        """Free the trial."""

    def round(self, work: Sequence[Work]) -> list[RoundReport]:
        """One round of each of several trials, side by side; reports in the order of the work."""

    def submit(self, work: Work) -> None:
        """Begin a round; its report is fetched with `next_done`."""

    def next_done(self, trial: int | None = None) -> RoundReport:
        """The report of a submitted round that has ended, of any trial or of the one named."""

    def ready(self) -> list[int]:
        """Trials whose round has ended; empty if that is not known."""

    def evaluate(
        self, trials: Sequence[int], clients: Sequence[int] | Ints, split: SplitName = "validation"
    ) -> list[Scores]:
        """Scores of each trial's model at these clients, without training."""

    def query(self, task: Query, clients: Sequence[int] | Ints) -> list[Answer]:
        """Ask the clients to do work that is not a round; one answer per client, in order."""

    def describe(self) -> dict[str, Any]:
        """JSON-able facts of the federation."""

    def distances(self, clients: Sequence[int] | Ints, seed: int) -> dict[str, Any] | None:
        """How far apart the clients' rows are, where a simulation can tell; else None."""

    # The run

    @property
    def kept(self) -> bool:
        """Whether there is a run that stays after the session."""

    @property
    def directory(self) -> Path:
        """Where files of the method may go. It is deleted with the session if that is not `kept`."""

    @property
    def replaying(self) -> bool:
        """Whether what happens now was recorded before."""

    @property
    def ledger(self) -> Ledger:
        """What was spent, and the budget."""

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
        """What `function` returns, JSON-able: computed once, then served from the record ever after.

        Every random or outside choice of a method goes through here. `key` is what the decision depends on,
        and must be the same when the run is resumed. `function` is then not called: it must draw from a
        random stream of its own. One that asks clients returns `Charged`, with the cost. A private release
        states its `epsilon`: it is charged before `function` is called, and refused with a `BudgetError`
        where the budget does not hold it; 0 is a release that costs no client more than another one has
        spent already. `each` is what it costs the clients by themselves; where it is left out, a release that
        must be paid a second time costs everybody the run's whole epsilon. A session that only plans calls
        `function` too, unless `planned` says what to take instead: give it where `function` is slow or has
        effects.
        """

    def in_one_piece(self) -> AbstractContextManager[None]:
        """A block that is resumed from its beginning, never from its middle."""

    def wake(self, trial: int) -> None:
        """Bring a trial's model back, where a resumed run has not needed it so far."""

    # Private scores: for the channels of `fedhpo.search`, inside the function of a decision

    def evaluate_beside(
        self, trials: Sequence[int], clients: Sequence[int] | Ints, split: SplitName = "validation"
    ) -> list[Scores]:
        """The same as `evaluate`, beside the record and not charged: only what is decided of it is kept."""

    def drawing(self) -> bool:
        """Pay for the release under way, right before its noise is drawn; refused where that cannot be.

        Returns whether the release may have been drawn before, and been lost.
        """

    def withheld(self, trial: int, round: int) -> RoundReport | None:
        """The report of a trial's last round with the scores that were kept back; None if it is lost."""

    # Virtual time

    @property
    def virtual(self) -> bool:
        """Whether rounds are only counted: then `advance` takes the place of `round`."""

    def advance(self, trials: Sequence[tuple[int, Config]]) -> list[str]:
        """One round of each trial under its config, only counted; for each why it failed, empty if not."""
