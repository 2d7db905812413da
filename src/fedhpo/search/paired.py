"""Trials compared at the same clients, where some of these may lie.

With `over = "trimmed"` or `"median"` a trial's score is the middle of its clients' scores. Two trials are
better compared by the middle of their clients' differences: what one client says of two models differs by
far less than what two clients say of one, so that a lie has less room to hide in; see
`fedhpo.protocol.middle`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby

import numpy as np

from fedhpo.protocol.middle import robust_rank
from fedhpo.protocol.objective import Objective, Score
from fedhpo.search.trial import Evaluation, Trial

#: An evaluation of a trial by its round, and how many it had at that round before.
Place = tuple[int, int]
#: Scores with what each client said, by place, oldest first.
Evaluations = Mapping[Place, tuple[Score, Evaluation]]


def comparable_scores(trials: Sequence[Trial], objective: Objective) -> list[list[Score]]:
    """The scores of each trial to compare it with the others by, oldest first.

    Where the objective is robust and trials were last scored after equally many rounds and at the same
    clients, `rank_value` comes from paired differences, and evaluations that not all of them had are left
    out. Of a trial whose latest score is not finite only that one is left. Otherwise scores are as they
    were observed.
    """
    able = [trial for trial in trials if math.isfinite(trial.rank_value)]
    if objective.robust and len(able) > 1:
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
        told = [objective.rank_values(evaluation.scores) for _, evaluation in seen]
        values = robust_rank(told, objective.over, objective.trim)
        for scores, (score, _), value in zip(compared, seen, values, strict=True):
            scores.append(replace(score, rank_value=float(value)))
    return compared


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
