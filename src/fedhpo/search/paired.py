"""Trials compared at the same clients, where some of these may lie.

With `over = "trimmed"` or `"median"` a trial's score is the middle of its clients' scores. Two trials are
better compared by the middle of their clients' differences: what one client says of two models differs by
far less than what two clients say of one, so that a lie has less room to hide in; see
`fedhpo.protocol.middle`.

Where the objective is a mean and clients are real, the mean is what is reported, and trials are compared by
trimmed differences too (`Evaluator.choice`): without the eighth of the clients at either end, from 8 replies
on, and with the objective's weights, so that the choice stays near that of the mean where nobody lies.
`benchmarks/trimmed_choice.py` measures what it costs. Samplers then see each trial's trimmed mean.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby

import numpy as np

from fedhpo.protocol.federation import Floats, Scores
from fedhpo.protocol.middle import robust_rank, weighted_trimmed
from fedhpo.protocol.objective import Objective, Score, paired_gain
from fedhpo.search.evaluator import Evaluator
from fedhpo.search.trial import Evaluation, Trial

#: An evaluation of a trial by its round, and how many it had at that round before.
Place = tuple[int, int]
#: Scores with what each client said, by place, oldest first.
Evaluations = Mapping[Place, tuple[Score, Evaluation]]


#: With `choice = "trimmed"`: the share of clients left out at either end, and the replies that it needs.
TRIM, LEAST = 0.125, 8


def comparable_scores(
    trials: Sequence[Trial], objective: Objective, evaluator: Evaluator
) -> list[list[Score]]:
    """The scores of each trial to compare it with the others by, oldest first.

    Where the objective or the choice is robust and trials were last scored after equally many rounds and at
    the same clients, `rank_value` comes from paired differences, and evaluations that not all of them had are
    left out. Of a trial whose latest score is not finite only that one is left. Otherwise scores are as
    they were observed.
    """
    able = [trial for trial in trials if math.isfinite(trial.rank_value)]
    if (objective.robust or evaluator.trims(objective)) and len(able) > 1:
        evaluations = [_by_place(trial) for trial in able]
        common = [place for place in evaluations[0] if _same_clients(evaluations, place)]
        latest = {next(reversed(one), None) for one in evaluations}
        if len(latest) == 1 and latest.pop() in common:
            compared = dict(zip(able, _paired(evaluations, common, objective), strict=True))
            return [compared.get(trial, trial.scores[-1:]) for trial in trials]
    return [list(trial.scores) for trial in trials]


def _paired(
    evaluations: Sequence[Evaluations], common: Sequence[Place], objective: Objective
) -> list[list[Score]]:
    compared: list[list[Score]] = [[] for _ in evaluations]
    for place in common:
        seen = [one[place] for one in evaluations]
        values = _compared([evaluation.scores for _, evaluation in seen], objective)
        if values is None:  # too few replies to leave any out
            values = [score.rank_value for score, _ in seen]
        for scores, (score, _), value in zip(compared, seen, values, strict=True):
            scores.append(replace(score, rank_value=float(value)))
    return compared


def _compared(scores: Sequence[Scores], objective: Objective) -> Sequence[float] | None:
    """What each trial is worth beside the others, less being better; None where too few clients replied."""
    told = [objective.rank_values(one) for one in scores]
    if objective.robust:
        return list(map(float, robust_rank(told, objective.over, objective.trim)))
    # Whoever replied about one of the trials counts: a liar cannot go below the limit by silence about one.
    replied = ~np.isnan(told).all(axis=0)
    if replied.sum() < LEAST:
        return None
    return list(map(float, robust_rank(told, "trimmed", TRIM, _weights(scores, objective))))


def _weights(scores: Sequence[Scores], objective: Objective) -> Floats:
    """What each client counts: by the least of the sizes that it told."""
    found = np.stack([np.where(one.status == 0, objective.weights(one), np.inf) for one in scores])
    least: Floats = np.where(np.isfinite(found.min(axis=0)), found.min(axis=0), 0.0)
    return least


def trimmed_rank(scores: Scores, objective: Objective) -> float | None:
    """A trial's trimmed mean, less being better; None where too few clients replied."""
    told, weights = objective.rank_values(scores), objective.weights(scores)
    known = ~np.isnan(told)
    return weighted_trimmed(told[known], weights[known], TRIM)[0] if known.sum() >= LEAST else None


def gain_at_clients(
    objective: Objective, evaluator: Evaluator, better: Scores, than: Scores
) -> tuple[float, float, int]:
    """How much better one trial is than another at the same clients, as trials are compared.

    Gain, standard error and clients, as of `paired_gain`.
    """
    _, ours, theirs = np.intersect1d(better.clients, than.clients, return_indices=True)
    with np.errstate(invalid="ignore"):
        gains = objective.rank_values(than)[theirs] - objective.rank_values(better)[ours]
    known = ~np.isnan(gains)
    if not evaluator.trims(objective) or known.sum() < LEAST:
        return paired_gain(objective, better, than)
    weights = np.minimum(objective.weights(better)[ours], objective.weights(than)[theirs])
    return (*weighted_trimmed(gains[known], weights[known], TRIM), int(known.sum()))


def _by_place(trial: Trial) -> dict[Place, tuple[Score, Evaluation]]:
    """The evaluations of a trial; none where what each client said is not known."""
    if len(trial.scores) != len(trial.evaluations):
        return {}
    pairs = zip(trial.scores, trial.evaluations, strict=True)
    return {
        (round, place): pair
        for round, group in groupby(pairs, key=lambda pair: pair[1].round)
        for place, pair in enumerate(group)
    }


def _same_clients(evaluations: Sequence[Evaluations], place: Place) -> bool:
    if not all(place in one for one in evaluations):
        return False
    first, *others = (one[place][1].scores.clients for one in evaluations)
    return all(np.array_equal(first, other) for other in others)
