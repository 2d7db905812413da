"""What stands between clients' scores and the method: open, or private."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from fedhpo.core.pareto import pareto_order
from fedhpo.protocol.criteria import Judged
from fedhpo.protocol.federation import RoundReport, Scores, Status
from fedhpo.protocol.objective import Objective, Score
from fedhpo.search.evaluator import Evaluator
from fedhpo.search.paired import comparable_scores, trimmed_rank

if TYPE_CHECKING:
    from fedhpo.search.search import Search
    from fedhpo.search.trial import Trial


class Channel(Protocol):
    """Everything that a search gets to know of scores comes through here."""

    def observe(
        self, search: Search, trials: Sequence[Trial], number: int
    ) -> list[tuple[Score, Scores | None]]:
        """A fresh score of each trial, and what each client said where that may be known.

        `number` counts the search's evaluations.
        """

    def choose(self, search: Search, rung: Sequence[Trial], count: int, looks: int = 1) -> list[Trial]:
        """The best `count` trials of a rung; a private choice pools so many `looks` at clients."""

    def rank(self, search: Search, trials: Sequence[Trial]) -> list[Trial]:
        """Trials, the best first; refused where no values are known."""

    def learn(self, search: Search, rounds: Sequence[tuple[Trial, RoundReport]]) -> None:
        """Let the policies of trials learn from the rounds that these had."""

    def skip(self, search: Search, trials: Sequence[Trial]) -> None:
        """The next round of these trials is only counted; see `Session.virtual`."""

    def to_dict(self) -> dict[str, Any] | None:
        """For result.json: how scores were kept private; None where they were not."""


class OpenChannel:
    """Scores as the clients say them, recorded client by client."""

    def observe(
        self, search: Search, trials: Sequence[Trial], number: int
    ) -> list[tuple[Score, Scores | None]]:
        """The objective over the clients that were drawn."""
        session = search.session
        population, evaluator = search.population, search.evaluator
        there = population
        if session.timed:
            wanted = evaluator.count(len(population))
            there = search.there(population, 1 if evaluator.clients is None else wanted)
            if evaluator.clients is not None:  # a share is one of all clients, whoever is there
                evaluator = replace(evaluator, clients=wanted)
        numbers = [trial.number for trial in trials]
        asked = evaluator.ask(
            session.evaluate, there, numbers, search.seed, "evaluate", number, seen=search.first_seen
        )
        if search.counts_together and evaluator.pairs():
            asked = answered_for_all(asked)
        return [
            (judged(search, trial, scores, len(population)), scores)
            for trial, scores in zip(trials, asked, strict=True)
        ]

    def choose(self, search: Search, rung: Sequence[Trial], count: int, looks: int = 1) -> list[Trial]:
        """By the scores that the evaluator compares them by."""
        return self.rank(search, rung)[:count]

    def rank(self, search: Search, trials: Sequence[Trial]) -> list[Trial]:
        """By the scores that the evaluator compares them by."""
        return best_first(trials, search.evaluator, search.objective)

    def learn(self, search: Search, rounds: Sequence[tuple[Trial, RoundReport]]) -> None:
        """From what each client said."""
        for trial, report in rounds:
            trial.policy.learn(report)

    def skip(self, search: Search, trials: Sequence[Trial]) -> None:
        """Nothing is learned."""

    def to_dict(self) -> None:
        """Not private."""
        return


def answered_for_all(scores: Sequence[Scores]) -> list[Scores]:
    """The scores of trials at the same clients, where who did not answer about one of them counts for none.

    Who answers may depend on the model: counting whoever answered about each would compare trials at
    different clients. A trial that nobody answered about is left out of this, or nobody would count.
    """
    answered = [one for one in scores if (one.status != Status.MISSING).any()]
    if len(answered) < 2:
        return list(scores)
    gone = np.logical_or.reduce([one.status == Status.MISSING for one in answered])
    return [replace(one, status=np.where(gone, Status.MISSING, one.status).astype(np.int8)) for one in scores]


def judged(search: Search, trial: Trial, scores: Scores, population: int) -> Score:
    """The score of a trial: of the objective, and of whatever else it is judged by."""
    score = search.objective.observe(scores, trial.round, population)
    if search.evaluator.trims(search.objective):  # shown is the mean; samplers and comparisons see this
        rank = trimmed_rank(scores, search.objective)
        score = score if rank is None else replace(score, rank_value=rank)
    known = Judged(scores, trial.cost, trial.round, trial.trained, search.rounds, population)
    return search.criteria.judge(score, known)


def rank_values(trials: Sequence[Trial], evaluator: Evaluator, objective: Objective) -> list[float]:
    """What each trial is compared with the others by, less being better; infinite for what failed.

    Where the objective or the choice is robust, it comes from paired differences: see `fedhpo.search.paired`.
    """
    able = [trial for trial in trials if math.isfinite(trial.rank_value)]
    compared = evaluator.compared(comparable_scores(able, objective, evaluator))
    found = {trial: score.rank_value for trial, score in zip(able, compared, strict=True)}
    return [found.get(trial, math.inf) for trial in trials]


def best_first(trials: Sequence[Trial], evaluator: Evaluator, objective: Objective) -> list[Trial]:
    """Trials by the scores that the evaluator compares them by, ties to the earlier trial.

    With several objectives, or constraints, by non-dominated sorting: see `fedhpo.core.pareto`.
    """
    in_order = sorted(trials, key=lambda trial: trial.number)
    able = [trial for trial in in_order if math.isfinite(trial.rank_value)]
    compared = evaluator.compared(comparable_scores(able, objective, evaluator))
    if any(score.others or score.violation for score in compared):
        order = pareto_order(
            np.array([score.point for score in compared]), [score.violation for score in compared]
        )
    else:
        order = sorted(range(len(able)), key=lambda place: compared[place].rank_value)
    return [able[place] for place in order] + [trial for trial in in_order if trial not in able]
