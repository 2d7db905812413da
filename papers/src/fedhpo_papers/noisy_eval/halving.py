"""Hyperband on a table, thousands of searches at once: by our rules, and by those of the authors' code.

The code beside the paper (imkevinkuo/noisy-eval-in-fl, notebooks/analysis.ipynb) does other things than its
text, and they decide what noise costs Hyperband:

- the incumbent is the config with the lowest noisy score at any rung, even after 1/81 of a training; of equal
  scores the later rung counts;
- scores are cut to [0, 1] after noise was added, so that many of them are 0, the best there is;
- the noise of a bracket's last rung is that of a choice of the best 10;
- the first rung of a bracket is charged two thirds of its rounds: 7,905 rounds are counted as 6,475;
- scores are weighted by size also under privacy, where that has no bounded sensitivity.

By our rules only configs that were trained to the end are compared, by a choice that is paid for, and
brackets end when the budget does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedhpo.protocol.federation import Floats, Ints
from fedhpo.protocol.objective import Objective
from fedhpo.research.advise import Pilot, pilot_of_table
from fedhpo.research.tables import CurveTable
from fedhpo.schedules import Hyperband
from fedhpo.schedules.hyperband import Bracket
from fedhpo_papers.noisy_eval.drawing import observed

#: Eliminations and the last choice, by which the authors' code splits epsilon, and its k at a last rung.
_SPLIT, _LAST = 11, 10


@dataclass(frozen=True, eq=False)
class Steps:
    """What many searches have found: rounds spent in ascending order, and the true errors then, one a row."""

    spent: Sequence[int]
    errors: Floats

    def at(self, budget: float) -> Floats:
        """The error of each search's incumbent when so much was spent.

        >>> Steps([10, 30], np.array([[0.5, 0.6], [0.4, 0.2]])).at(29).tolist()
        [0.5, 0.6]
        """
        place = int(np.searchsorted(self.spent, budget * (1 + 1e-9), side="right")) - 1
        return self.errors[place] if place >= 0 else np.full(self.errors.shape[1], np.nan)


class _Scores:
    """What configs look like after so many rounds; a config that failed by then looks infinitely bad."""

    def __init__(self, table: CurveTable, clients: int | None, uniform: bool) -> None:
        self._table, self._clients = table, clients
        self._objective = Objective("error", weighting="uniform" if uniform else "size")
        self._pilots: dict[int, Pilot] = {}

    def pilot(self, round: int) -> Pilot:
        if round not in self._pilots:
            self._pilots[round] = pilot_of_table(self._table, self._objective, round=round)
        return self._pilots[round]

    def truth(self, members: Ints, round: int) -> Floats:
        found: Floats = self.pilot(round).means[members]
        return found

    def seen(self, members: Ints, round: int, scale: float, rng: np.random.Generator) -> Floats:
        pilot = self.pilot(round)
        size = pilot.clients if self._clients is None else self._clients
        found = observed(pilot, members, [size], rng=rng)[size]
        if scale:
            found = found + scale * rng.laplace(size=found.shape)
        return np.where(self._table.trained[members] >= round, found, np.inf)


def hyperband(
    table: CurveTable,
    searches: int,
    total: int,
    rng: np.random.Generator,
    *,
    clients: int | None = None,
    epsilon: float | None = None,
) -> Steps:
    """By our rules: a private elimination is a one-shot choice of the best k, of noise 2 k M / (epsilon |S|).

    M counts eliminations, and one choice among all that were trained to the end after every bracket
    but the first.
    """
    length = int(table.rounds[-1])
    brackets = list(Hyperband().paid(length, total, lambda wanted: min(wanted, len(table.configs))))
    releases = sum(len(bracket.sizes) for bracket in brackets) - 1
    scores = _Scores(table, clients, uniform=True)

    def scale(kept: int) -> float:
        if epsilon is None:
            return 0.0
        return 2 * kept * releases / (epsilon * (clients or len(table.validation_clients)))

    spent, steps = 0, []
    ended = np.empty((searches, 0), np.int64)
    ranked = np.empty((searches, 0))
    for bracket in brackets:
        rung = _drawn(len(table.configs), bracket.sizes[0], searches, rng)
        for size, end in zip(bracket.sizes[1:], bracket.ends, strict=False):
            noisy = scores.seen(rung, end, scale(size), rng)
            rung = np.take_along_axis(rung, np.argsort(noisy, axis=1)[:, :size], axis=1)
        ended = np.concatenate([ended, rung], axis=1)
        if epsilon is None:
            ranked = np.concatenate([ranked, scores.seen(rung, length, 0.0, rng)], axis=1)
        else:  # a choice releases no value that could be kept: all are asked about anew
            ranked = scores.seen(ended, length, scale(1), rng)
        spent += bracket.rounds
        best = np.take_along_axis(ended, ranked.argmin(axis=1)[:, None], axis=1)
        steps.append((spent, scores.truth(best, length)[:, 0]))
    return Steps([rounds for rounds, _ in steps], np.array([errors for _, errors in steps]))


def hyperband_as_in_the_code(
    table: CurveTable,
    searches: int,
    rng: np.random.Generator,
    *,
    clients: int | None = None,
    epsilon: float | None = None,
) -> Steps:
    """By the rules of the authors' code: one pass over all brackets, counted as it counts."""
    length, asked = int(table.rounds[-1]), clients or len(table.validation_clients)
    scores = _Scores(table, clients, uniform=False)
    lowest, truth = np.full(searches, np.inf), np.full(searches, np.nan)
    last = np.zeros(searches, np.int64)
    spent, steps = 0, []
    for bracket in Hyperband().brackets(length):
        rung = _drawn(len(table.configs), bracket.sizes[0], searches, rng)
        for place, end in enumerate(bracket.ends):
            kept = bracket.sizes[place] // 3 if place + 1 < len(bracket.ends) else _LAST
            scale = 0.0 if epsilon is None else 2 * _SPLIT * kept / (asked * epsilon)
            noisy = np.clip(scores.seen(rung, end, scale, rng), 0.0, 1.0)
            first = noisy.argmin(axis=1)
            found = noisy[np.arange(searches), first]
            better = (found < lowest) | ((found == lowest) & (end > last))
            own = scores.truth(rung, end)[np.arange(searches), first]
            lowest, truth = np.where(better, found, lowest), np.where(better, own, truth)
            last = np.where(better, end, last)
            spent += _counted(bracket, place)
            steps.append((spent, truth))
            if place + 1 < len(bracket.ends):
                order = np.argsort(noisy, axis=1, kind="stable")[:, : bracket.sizes[place + 1]]
                rung = np.take_along_axis(rung, order, axis=1)
    return Steps([rounds for rounds, _ in steps], np.array([errors for _, errors in steps]))


def _counted(bracket: Bracket, place: int) -> int:
    """Rounds that the authors' code counts for a rung: its first one begins at a third of its length."""
    before = bracket.ends[place - 1] if place else bracket.ends[0] // 3
    return bracket.sizes[place] * (bracket.ends[place] - before)


def _drawn(count: int, size: int, searches: int, rng: np.random.Generator) -> Ints:
    """Different configs for each search, in random order; all of them where there are too few."""
    found: Ints = np.argsort(rng.random((searches, count)), axis=1)[:, :size]
    return found
