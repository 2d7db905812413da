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
from fedhpo.testing import ToyFederation
from fedhpo.testing.table import toy_table

SPACE = fh.Space(client={"lr": fh.Float(1e-3, 10.0, log=True)})


def test_the_plan_of_sixteen_trainings_worked_by_hand() -> None:
    # 60 x 9 + 20 x 18 + 7 x 54 = 1278; 61 trials would need 61 x 9 + 21 x 18 + 7 x 54 = 1305 rounds.
    found = plan(81, 1296)
    assert (found.sizes, found.ends, found.rounds) == ((60, 20, 7), (9, 27, 81), 1278)
    assert found.scored == ((9,), (18, 27), (36, 45, 54, 63, 72, 81))
    # Hyperband takes 121 + 49 + 21 + 10 + 1 scores; 60 + 20 x 2 + 7 x 6 = 142 are taken on the way.
    assert found.race == 202 - 142
    exact = plan(81, 1296, exact=True)
    assert (exact.sizes, exact.scored, exact.race) == ((60, 20, 7), ((9,), (27,), (81,)), 0)


def test_fewer_scores_on_the_way_where_fewer_are_allowed() -> None:
    # Every 18 rounds instead of every 9: 60 + 20 + 7 x 3 = 101.
    assert plan(81, 1296, scores=110).scored == ((9,), (27,), (45, 63, 81))
    assert plan(81, 1296, scores=110).race == 9
    assert plan(81, 1296, scores=1).scored == ((9,), (27,), (81,))  # each rung must be scored once


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
    assert [rounds[-1] for rounds in found.scored] == list(found.ends)


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


def test_worth_is_a_mean_in_which_a_quarter_of_the_rounds_halves_the_weight() -> None:
    # At round 40 a score of round 30 is one half-life old: (0.6 + 0.3 / 2) / 1.5.
    assert worth(_trial(0, [(30, 0.3), (40, 0.6)]).scores) == pytest.approx(0.5)
    # Scores of one round count alike: (0.3 / 2 + 0.6 + 0.9) / 2.5.
    assert worth(_trial(0, [(30, 0.3), (40, 0.6), (40, 0.9)]).scores) == pytest.approx(0.66)
    assert worth(_trial(0, [(30, 0.3), (40, 0.6)], error=0.0).scores) == 0.6
    assert worth(_trial(0, [(30, math.inf), (40, 0.6)]).scores) == 0.6
    assert worth(_trial(0, [(40, math.inf)]).scores) == math.inf


class _Asked:
    """A search that scores trials by a list of means and the same client's luck for all."""

    def __init__(self, means: list[float], luck: float) -> None:
        self.means, self.luck = means, luck
        self.evaluator = Evaluator(clients=1)
        self.objective = Objective()
        self.calls: list[list[int]] = []
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


def test_the_race_stops_when_it_is_decided() -> None:
    """One finalist is far ahead: eight scores tell, although clients differ by more than the finalists do."""
    asked = _Asked([0.1, 0.6], 1.0)
    finalists = [_trial(n, [(81, 0.5)]) for n in range(2)]
    race(asked, finalists, 200)  # type: ignore[arg-type]
    assert 7 <= len(asked.calls) <= 12
    assert decided([trial.scores for trial in finalists])
    assert worth(finalists[0].scores) < worth(finalists[1].scores)


def test_nothing_is_raced_without_scores_or_rivals() -> None:
    asked = _Asked([0.1, 0.6], 1.0)
    race(asked, [_trial(0, [(81, 0.5)])], 50)  # type: ignore[arg-type]
    race(asked, [_trial(n, [(81, 0.5)]) for n in range(2)], 0)  # type: ignore[arg-type]
    assert asked.calls == []


def _run(clients: int | None, **options: Any) -> tuple[fh.Result, list[tuple[str, int]]]:
    calls = []

    def note(event: Event) -> None:
        if event.kind in ("start", "evaluate"):
            calls.append((event.kind, len(event.trials)))

    result = fh.tune(
        ToyFederation(clients=6),
        SPACE,
        fh.Robust(scores=120),
        rounds=9,
        total=72,
        cohort=2,
        evaluation=Evaluator(clients=clients, **options),
        callbacks=[note],
    )
    return result, calls


def test_a_run_draws_in_batches_gathers_and_races() -> None:
    # 28 x 1 + 10 x 2 + 4 x 6 = 72 rounds, and as many scores on the way: 48 of 120 are left for the race.
    result, calls = _run(2)
    assert calls[:12] == [("start", 5), ("evaluate", 5)] * 5 + [("start", 3), ("evaluate", 3)]
    assert calls[12:14] == [("evaluate", 10)] * 2
    assert calls[14:20] == [("evaluate", 4)] * 6
    assert calls[20:]
    assert set(calls[20:]) <= {("evaluate", 4), ("evaluate", 2)}
    assert (result.cost["rounds"], result.facts["robust"]["race"]) == (72, 48)
    assert list(result.facts["robust"]["sizes"]) == [28, 10, 4]


def test_exact_scores_are_taken_once_a_rung() -> None:
    _, calls = _run(None)
    assert [call for call in calls if call[0] == "evaluate"][6:] == [("evaluate", 10), ("evaluate", 4)]


@pytest.mark.parametrize("mechanism", ["laplace", "topk", "permute-and-flip"])
def test_with_privacy_only_ends_of_rungs_are_scored(mechanism: str) -> None:
    result, calls = _run(3, privacy=fh.Privacy(10.0, mechanism=mechanism))
    assert [call for call in calls if call[0] == "evaluate"][6:] == [("evaluate", 10), ("evaluate", 4)]
    assert result.facts["robust"]["race"] == 0
    assert result.facts["privacy"]["epsilon_spent"] <= 10.0 + 1e-9


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
