"""Synchronous Hyperband (Li et al., 2017), within a total of rounds.

Brackets of successive halving, from the most aggressive (many trials, short first rung) to plain full
training. A trial that goes on to the next rung continues where it was. A bracket is cut to as many trials
as the total still pays for, at least one of them to the end; brackets come again from the first as long
as one full training can be paid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import cycle
from typing import TYPE_CHECKING, Any

from fedhpo.core.claims import refuse
from fedhpo.core.errors import InputError
from fedhpo.core.settings import check_settings
from fedhpo.schedules.halving import cost_of

if TYPE_CHECKING:
    from fedhpo.protocol.policy import ClientPolicy
    from fedhpo.protocol.sampler import Sampler
    from fedhpo.search.search import Search
    from fedhpo.search.trial import Trial

#: Five brackets at most unless a unit says otherwise: with more, the first rungs decide on hardly anything.
_ELIMINATIONS = 4


@dataclass(frozen=True)
class Bracket:
    """How many trials its rungs hold, and the rounds at which they end."""

    sizes: tuple[int, ...]
    ends: tuple[int, ...]
    #: Whether every rung begins its trials anew.
    anew: bool = field(default=False, repr=False)

    @property
    def rounds(self) -> int:
        """What its rungs spend together, the first one in full."""
        return cost_of(list(self.ends), list(self.sizes), self.anew)

    def cut(self, trials: int, rate: int) -> Bracket:
        """The same bracket with fewer trials at its start.

        >>> Bracket((9, 3, 1), (1, 3, 9)).cut(5, 3)
        Bracket(sizes=(5, 1, 1), ends=(1, 3, 9))
        """
        return Bracket(_sizes(trials, rate, len(self.ends)), self.ends, self.anew)

    def __str__(self) -> str:
        return " ".join(f"{size}@{end}" for size, end in zip(self.sizes, self.ends, strict=True))


def brackets(rounds: int, rate: int, eliminations: int) -> list[Bracket]:
    """One pass of Hyperband: brackets with `eliminations`, one less, ..., no elimination.

    >>> for bracket in brackets(9, 3, 2):
    ...     print(bracket)
    9@1 3@3 1@9
    5@3 1@9
    3@9
    """
    found = []
    for left in range(eliminations, -1, -1):
        # Algorithm 1, line 3, with integers: (s_max + 1) / (s + 1) times rate^s, rounded up.
        trials = -(-(eliminations + 1) * rate**left // (left + 1))
        ends = tuple(_rounded(rounds, rate**step) for step in range(left, -1, -1))
        found.append(Bracket(_sizes(trials, rate, left + 1), ends))
    return found


def _sizes(trials: int, rate: int, rungs: int) -> tuple[int, ...]:
    return tuple(max(1, trials // rate**rung) for rung in range(rungs))


def _rounded(a: int, b: int) -> int:
    return (2 * a + b) // (2 * b)


@dataclass(frozen=True)
class Hyperband:
    """Brackets of successive halving, `1/rate` of the trials surviving each elimination.

    `unit` is the fewest rounds that a trial trains for before it may be eliminated: there are as many
    eliminations in the first bracket as fit between it and a full training. By default as many as fit
    between one round and a full training, at most 4 (that is, five brackets). Rungs end at the full
    length divided by powers of `rate`, rounded, so no round of a full training is lost whatever the unit.

    `side_by_side` is how many configs of a bracket are drawn at once, all by default. The others are drawn
    when those before them have trained for the bracket's first rung and are scored, so that a sampler that
    learns from scores knows them. This changes neither rungs nor costs.

    >>> for bracket in Hyperband(unit=5).brackets(405):
    ...     print(bracket)
    81@5 27@15 9@45 3@135 1@405
    34@15 11@45 3@135 1@405
    15@45 5@135 1@405
    8@135 2@405
    5@405
    """

    rate: int = 3
    unit: int | None = None
    side_by_side: int | None = None

    def __post_init__(self) -> None:
        check_settings(self)
        if self.rate < 2:
            raise InputError(f"rate must be at least 2, not {self.rate}")
        if self.side_by_side is not None and self.side_by_side < 1:
            raise InputError(f"side_by_side must be at least 1, not {self.side_by_side}")
        if self.unit is not None and self.unit < 1:
            raise InputError(f"unit must be at least 1 round, not {self.unit}")

    def brackets(self, rounds: int) -> list[Bracket]:
        """One pass for full trainings of this length."""
        unit = 1 if self.unit is None else self.unit
        if unit > rounds:
            raise InputError(f"unit must be at most {rounds} rounds, a full training, not {unit}")
        eliminations = 0
        while unit * self.rate ** (eliminations + 1) <= rounds:
            eliminations += 1
        if self.unit is None:
            eliminations = min(eliminations, _ELIMINATIONS)
        return brackets(rounds, self.rate, eliminations)

    def run(self, search: Search, sampler: Sampler, policy: ClientPolicy) -> Trial:
        """Bracket by bracket; the best of all trials that were trained to the end."""
        # Private releases are planned: rounds that failed trials left over must not ask for more of them.
        private = search.most_trials is not None
        passes = self._brackets(search.rounds, search.anew)
        planned = self._plan(search, sampler) if private else cycle(passes)
        waiting = next(planned, None)
        for _ in search.stages():
            while waiting is not None:
                bracket = self._cut(waiting, _left(search), search.distinct(waiting.sizes[0], sampler))
                if bracket is None:
                    break
                search.refill()
                rung = first_rung(
                    search, bracket.sizes[0], bracket.ends[0], self.side_by_side, sampler, policy
                )
                if not rung:
                    break
                _halve(search, bracket, rung)
                waiting = next(planned, None)
        return search.best()

    def refuses_more(self, old: int, new: int, rounds: int) -> str:
        """Why a total cannot be raised; empty if it can."""
        return ""

    def rounds(self, search: Search, sampler: Sampler) -> int:
        """What all brackets spend together if no trial fails."""
        if search.rounds == 1:
            usual = {name: getattr(Hyperband, name) for name in ("rate", "unit", "side_by_side")}
            refuse(
                f"{name} = {getattr(self, name)}: has no effect with trainings of one round, which cannot be "
                "cut short, so that a bracket is one trial: leave it out"
                for name in usual
                if getattr(self, name) != usual[name]
            )
        planned = list(self._plan(search, sampler))
        if not planned:
            raise InputError(
                f"a total of {search.total} rounds does not pay for one training of {search.rounds}"
            )
        return sum(bracket.rounds for bracket in planned)

    def _plan(self, search: Search, sampler: Sampler) -> Iterator[Bracket]:
        """The brackets that the total pays for if no trial fails."""
        distinct = partial(search.distinct, sampler=sampler)
        return self.paid(search.rounds, search.total, distinct, search.anew)

    def paid(
        self,
        rounds: int,
        total: int,
        distinct: Callable[[int], int] = lambda wanted: wanted,
        anew: bool = False,
    ) -> Iterator[Bracket]:
        """The brackets that a total pays for; `distinct` says how many of so many trials there can be.

        >>> [str(bracket) for bracket in Hyperband().paid(9, 50)]
        ['9@1 3@3 1@9', '5@3 1@9']
        """
        left = total
        for planned in cycle(self._brackets(rounds, anew)):
            bracket = self._cut(planned, left, distinct(planned.sizes[0]))
            if bracket is None:
                return
            left -= bracket.rounds
            yield bracket

    def _brackets(self, rounds: int, anew: bool) -> list[Bracket]:
        return [replace(one, anew=anew) for one in self.brackets(rounds)]

    def cuts(self, search: Search, sampler: Sampler) -> bool:
        """Whether trials are cut short."""
        return len(self.brackets(search.rounds)) > 1

    def _cut(self, planned: Bracket, left: int, most: int) -> Bracket | None:
        """The bracket with at most so many trials as can be paid; None if not even one can be."""
        for trials in range(most, 0, -1):
            bracket = planned.cut(trials, self.rate)
            if bracket.rounds <= left:
                return bracket
        return None

    def to_dict(self) -> dict[str, Any]:
        """Its settings."""
        return {"name": "hyperband", **asdict(self)}


def first_rung(
    search: Search,
    trials: int,
    end: int,
    side_by_side: int | None,
    sampler: Sampler,
    policy: ClientPolicy,
) -> list[Trial]:
    """New trials, trained until round `end` and scored, `side_by_side` at a time (all at once if None).

    A sampler that learns from scores knows those of the trials before when it draws the next.
    """
    rung: list[Trial] = []
    while len(rung) < trials:
        drawn = search.start(min(side_by_side or trials, trials - len(rung)), sampler, policy)
        if not drawn:
            break
        search.train(drawn, end)
        search.evaluate(drawn)
        rung += drawn
    return rung


def _left(search: Search) -> int:
    return search.total + search.rounds_before - search.ledger.cost.rounds


def _halve(search: Search, bracket: Bracket, rung: list[Trial]) -> None:
    """Rung by rung after the first: keep the best, train, score."""
    steps = zip(bracket.sizes[1:], bracket.ends[1:], bracket.ends, strict=False)
    for size, end, start in steps:
        # Rounds that had to be repeated may have eaten up what some of them would have needed.
        kept = search.choose(rung, min(size, _left(search) // (end if bracket.anew else end - start)))
        search.eliminate([trial for trial in rung if trial not in kept])
        rung = kept
        search.train(rung, end)
        search.evaluate(rung)
    search.finish(rung)
