"""Robust halving: its plan worked by hand, its race, and what it does with noise."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedhpo as fh
from fedhpo.core.errors import InputError
from fedhpo.methods.robust import RobustHalving, decided, plan, race, worth
from fedhpo.protocol.objective import Objective, Score
from fedhpo.research.tables.replay import replay
from fedhpo.search.evaluator import Evaluator
from fedhpo.search.search import Event, Trial
from fedhpo.search.trial import FAILED
from fedhpo.testing import ToyFederation
from fedhpo.testing.table import toy_table

SPACE = fh.Space(client={"lr": fh.Float(1e-3, 10.0, log=True)})


def test_the_plan_of_sixteen_trainings_worked_by_hand() -> None:
    # 60 x 9 + 20 x 18 + 7 x 54 = 1278; 61 trials would need 61 x 9 + 21 x 18 + 7 x 54 = 1305 rounds.
    found = plan(81, 1296, scores=1296)
    assert (found.sizes, found.ends, found.rounds) == ((60, 20, 7), (9, 27, 81), 1278)
    # A third of the scores for each stage, 432: 7 x 60, then 21 x 20; 7 at the end, the others for the race.
    assert found.looks == (7, 21, 1)
    assert found.race == 1296 - 7 * 60 - 21 * 20 - 7


def test_every_rung_is_scored_once_where_no_more_are_allowed() -> None:
    assert plan(81, 1296, scores=202).looks == (1, 3, 1)
    assert plan(81, 1296, scores=202).race == 202 - 60 - 60 - 7
    assert (plan(81, 1296).looks, plan(81, 1296).race) == ((1, 1, 1), 0)
    assert plan(81, 1296, scores=1296, race=False).race == 0


def test_fewer_rungs_are_fewer_and_longer_trials() -> None:
    # 26 x 27 + 9 x 54 = 1188; 27 x 27 + 9 x 54 = 1215; 28 would be 28 x 27 + 10 x 54 = 1296; 29 too many.
    two = plan(81, 1296, rungs=2)
    assert (two.sizes, two.ends, two.rounds) == ((28, 10), (27, 81), 1296)
    one = plan(81, 1296, scores=44, rungs=1)
    assert (one.sizes, one.ends, one.looks, one.race) == ((16,), (81,), (1,), 28)
    with pytest.raises(InputError, match="rungs must be 1 to 3, not 4"):
        fh.Robust(rungs=4).tuner()


@given(st.integers(1, 300), st.integers(1, 40), st.integers(1, 50))
def test_a_plan_keeps_to_the_total_and_takes_no_more_trials_than_there_are(
    rounds: int, trainings: int, most: int
) -> None:
    total = rounds * trainings + rounds // 2
    found = plan(rounds, total, most)
    assert found.rounds <= total
    assert found.sizes[0] <= most
    assert found.ends[-1] == rounds
    assert list(found.ends) == sorted(set(found.ends))
    assert min(found.looks) >= 1
    assert len(found.looks) == len(found.ends)


def test_a_total_below_one_training_is_refused() -> None:
    with pytest.raises(InputError, match="a total of 8 rounds does not pay for one training of 9"):
        plan(9, 8)
    with pytest.raises(InputError, match="scores must be at least 1, not 0"):
        RobustHalving(scores=0)


def _trial(number: int, scores: list[tuple[int, float]], error: float = math.nan) -> Trial:
    trial = Trial(number, fh.Config(client={"lr": 0.1}), None, ())  # type: ignore[arg-type]
    trial.round = scores[-1][0]
    trial.scores = [Score(value, error, 1, round, value) for round, value in scores]
    return trial


def test_worth_is_the_mean_of_the_scores_in_common() -> None:
    trial = _trial(0, [(9, 0.9), (27, 0.3), (27, 0.6)])
    assert worth(trial.scores, 2) == pytest.approx(0.45)
    assert worth(trial.scores, 1) == worth(trial.scores, 0) == 0.6
    assert worth(_trial(0, [(40, math.inf)]).scores, 1) == math.inf


class _Asked:
    """A search that scores trials by a list of means and the same client's luck for all."""

    def __init__(self, means: list[float], luck: float) -> None:
        self.means, self.luck = means, luck
        self.evaluator = Evaluator(clients=1)
        self.objective = Objective()
        self.calls: list[list[int]] = []
        self.facts: dict[str, Any] = {}
        self.margin: float | None = None
        self._rng = np.random.default_rng(0)

    def evaluate(self, trials: list[Trial]) -> None:
        self.calls.append([trial.number for trial in trials])
        client = self._rng.normal() * self.luck
        for trial in trials:
            value = self.means[trial.number] + client + 0.05 * self._rng.normal()
            trial.scores.append(Score(value, math.nan, 1, 81, value))


def test_the_race_halves_and_gives_each_half_the_same_part() -> None:
    """Seven finalists, 63 scores: 21 for each of three halvings, so 3 x 7, 5 x 4, 10 x 2."""
    asked = _Asked([0.5] * 7, 0.3)
    race(asked, [_trial(n, [(81, 0.5)]) for n in range(7)], 63)  # type: ignore[arg-type]
    assert [len(call) for call in asked.calls] == [7] * 3 + [4] * 5 + [2] * 10


def test_a_race_with_failed_finalists_takes_no_more_scores_than_were_planned() -> None:
    """Sixteen finalists, 44 scores, 11 a halving: 0 x 16, 1 x 8, 2 x 4, 5 x 2. Eleven of them: no more."""
    asked, finalists = _Asked([0.5] * 16, 0.3), [_trial(n, [(81, 0.5)]) for n in range(16)]
    race(asked, finalists, 44)  # type: ignore[arg-type]
    assert [len(call) for call in asked.calls] == [8] + [4] * 2 + [2] * 5
    asked = _Asked([0.5] * 16, 0.3)
    for trial in finalists[:5]:
        trial.status = FAILED
    race(asked, finalists, 44)  # type: ignore[arg-type]
    assert [len(call) for call in asked.calls] == [8] + [4] * 2 + [2] * 5


def test_the_race_stops_when_it_is_decided() -> None:
    """One finalist is far ahead: eight scores tell, although clients differ by more than the finalists do."""
    asked = _Asked([0.1, 0.6], 1.0)
    finalists = [_trial(n, [(81, 0.5)]) for n in range(2)]
    winner = race(asked, finalists, 200)  # type: ignore[arg-type]
    assert winner is finalists[0]
    assert 7 <= len(asked.calls) <= 12
    seen = [trial.scores for trial in finalists]
    assert decided(seen, len(asked.calls) + 1)
    assert not decided(seen, 7)


def test_nothing_is_raced_without_scores_or_rivals() -> None:
    asked = _Asked([0.1, 0.6], 1.0)
    race(asked, [_trial(0, [(81, 0.5)])], 50)  # type: ignore[arg-type]
    race(asked, [_trial(n, [(81, 0.5)]) for n in range(2)], 0)  # type: ignore[arg-type]
    assert asked.calls == []


def _run(
    clients: int | None,
    privacy: fh.Privacy | None = None,
    scores: int | None = 120,
    again: bool = True,
    race: bool = True,
) -> tuple[fh.Result, list[tuple[str, int]]]:
    calls = []

    def note(event: Event) -> None:
        if event.kind in ("start", "evaluate"):
            calls.append((event.kind, len(event.trials)))

    result = fh.tune(
        ToyFederation(clients=6),
        SPACE,
        fh.Robust(scores, again, race),
        rounds=9,
        total=72,
        cohort=2,
        evaluation=Evaluator(clients=clients, privacy=privacy),
        callbacks=[note],
    )
    return result, calls


def test_a_run_draws_in_batches_scores_again_and_races() -> None:
    # 28 x 1 + 10 x 2 + 4 x 6 = 72 rounds. Of 120 scores a third, 40, is for each stage: 28 once, 10 four
    # times, 4 once, and 120 - 28 - 40 - 4 = 48 for the race: 6 x 4 and 12 x 2, if it is not decided.
    result, calls = _run(2)
    assert calls[:12] == [("start", 5), ("evaluate", 5)] * 5 + [("start", 3), ("evaluate", 3)]
    assert calls[12:17] == [("evaluate", 10)] * 4 + [("evaluate", 4)]
    assert calls[17:]
    assert set(calls[17:]) <= {("evaluate", 4), ("evaluate", 2)}
    assert len(calls[17:]) <= 18
    assert (result.cost["rounds"], result.facts["robust"]["race"]) == (72, 48)
    assert list(result.facts["robust"]["sizes"]) == [28, 10, 4]


def test_by_default_scores_cost_a_tenth_of_the_training() -> None:
    """72 rounds of 2 clients each are 144 messages: 14 pay for 7 scores at 2 clients, so one a rung."""
    result, _ = _run(2, scores=None)
    assert list(result.facts["robust"]["looks"]) == [1, 1, 1]
    table = toy_table(configs=60, rounds=27, clients=40)
    found = replay(table, "robust", total=16 * 27, seed=0, evaluation=Evaluator(clients=1))
    assert found.evaluations <= 0.1 * 16 * 27 * 10
    assert found.evaluations > 0.5 * 0.1 * 16 * 27 * 10


def test_parts_of_it_can_be_taken_away() -> None:
    _, calls = _run(2, again=False)
    assert calls[12:14] == [("evaluate", 10), ("evaluate", 4)]
    _, calls = _run(2, race=False)
    assert calls[12:] == [("evaluate", 10)] * 4 + [("evaluate", 4)]


def test_exact_scores_are_taken_once_a_rung() -> None:
    _, calls = _run(None, scores=None)
    # One in four goes on: 36 x 1 + 9 x 2 + 3 x 6 = 72 rounds.
    scored = [("evaluate", 6)] * 6 + [("evaluate", 9), ("evaluate", 3)]
    assert [call for call in calls if call[0] == "evaluate"] == scored


@pytest.mark.parametrize("mechanism", ["laplace", "topk", "permute-and-flip"])
def test_with_privacy_only_ends_of_rungs_are_scored(mechanism: str) -> None:
    result, calls = _run(3, fh.Privacy(10.0, mechanism=mechanism), scores=None)
    assert [call for call in calls if call[0] == "evaluate"][6:] == [("evaluate", 10), ("evaluate", 4)]
    assert result.facts["robust"]["race"] == 0
    assert result.facts["privacy"]["epsilon_spent"] <= 10.0 + 1e-9


def test_private_choices_are_made_in_groups_at_clients_of_their_own() -> None:
    # 28 trials in batches of 4 and 5, of which 10 go on; of these two groups of 5, of which 2 each.
    result, calls = _run(1, fh.Privacy(60.0, mechanism="permute-and-flip"), scores=None)
    starts = [number for kind, number in calls if kind == "start"]
    assert (starts, sum(starts)) == ([4, 5, 5, 4, 5, 5], 28)
    assert [number for kind, number in calls if kind == "evaluate"][6:] == [10, 4]
    # 6 + 2 + 1 choices at one of 6 clients each: one client is in two of them at most.
    taken = result.facts["privacy"]["clients"]
    assert (taken["planned"], taken["most"]) == (2, 2)
    assert result.facts["privacy"]["evaluations"] == 9


def test_under_noise_it_finds_better_configs_than_halving() -> None:
    table = toy_table(configs=60, rounds=27, clients=40)
    last = int(table.rounds[-1])
    best = min(table.truth(n, last) for n in range(60))

    def regret(method: Any) -> float:
        found = [
            replay(table, method, total=16 * last, seed=seed, evaluation=Evaluator(clients=1)).truth
            for seed in range(12)
        ]
        return float(np.mean(found)) - best

    assert abs(regret("robust")) < abs(regret(fh.SHA(finalists=1)))
