"""Hyperband: its bracket table, its budget, and what a run does."""

import math
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedhpo as fh
import fedhpo.tuning.tune
from fedhpo.core.errors import InputError
from fedhpo.methods import BOHB, Tuner
from fedhpo.methods import Hyperband as Method
from fedhpo.protocol.sampler import Sampler
from fedhpo.samplers import GP, Grid, Random
from fedhpo.schedules import Hyperband
from fedhpo.search.events import Event
from fedhpo.search.search import Search
from fedhpo.search.trial import Trial
from fedhpo.testing import ToyFederation
from fedhpo.tuning.result import Result

SPACE = fh.Space(client={"lr": fh.Float(1e-3, 10.0, log=True)})


class Endless:
    """As much of a search as a plan needs, with configs without end."""

    def __init__(self, rounds: int, total: int) -> None:
        self.rounds, self.total, self.anew = rounds, total, False

    def distinct(self, wanted: int, sampler: Sampler) -> int:
        return wanted


def planned(schedule: Hyperband, rounds: int, total: int) -> int:
    return schedule.rounds(Endless(rounds, total), Random())  # type: ignore[arg-type]


def tuned(total: int, method: Any = None, space: fh.Space = SPACE, **options: Any) -> Result:
    federation = options.pop("federation", None) or ToyFederation(clients=6)
    return fh.tune(federation, space, method or Method(), rounds=9, total=total, cohort=2, **options)


def test_the_bracket_table_of_81_units_of_5_rounds() -> None:
    brackets = Hyperband(rate=3, unit=5).brackets(405)
    assert [str(bracket) for bracket in brackets] == [
        "81@5 27@15 9@45 3@135 1@405",
        "34@15 11@45 3@135 1@405",
        "15@45 5@135 1@405",
        "8@135 2@405",
        "5@405",
    ]
    assert [bracket.rounds for bracket in brackets] == [1485, 1380, 1395, 1620, 2025]
    assert sum(bracket.sizes[0] for bracket in brackets) == 143
    assert Hyperband().brackets(405) == brackets


def test_the_budget_of_one_pass_and_of_the_paper() -> None:
    schedule = Hyperband(unit=5)
    assert planned(schedule, 405, 7905) == 7905
    # Four brackets cost 5880; of the last, one trial of 405 rounds can be paid, and 195 rounds are left.
    assert planned(schedule, 405, 6480) == 6285


def test_rungs_of_lengths_that_are_no_power_of_the_rate() -> None:
    assert [str(b) for b in Hyperband(unit=4).brackets(40)] == ["9@4 3@13 1@40", "5@13 1@40", "3@40"]
    assert [str(b) for b in Hyperband(rate=2, unit=5).brackets(11)] == ["2@6 1@11", "2@11"]
    assert [str(b) for b in Hyperband().brackets(2)] == ["1@2"]


@given(st.integers(2, 500), st.integers(1, 60), st.integers(2, 5), st.integers(1, 500))
def test_a_plan_keeps_to_the_total_and_leaves_less_than_a_training(
    rounds: int, trainings: int, rate: int, unit: int
) -> None:
    schedule = Hyperband(rate, min(unit, rounds))
    total = rounds * trainings + rounds // 2
    assert 0 <= total - planned(schedule, rounds, total) < rounds
    for bracket in schedule.brackets(rounds):
        assert bracket.ends[-1] == rounds
        assert list(bracket.ends) == sorted(set(bracket.ends))
        assert bracket.ends[0] >= min(unit, rounds)


def test_a_run_spends_each_rung_in_full_and_promoted_trials_continue() -> None:
    rounds: dict[int, int] = {}

    def count(event: Event) -> None:
        if event.kind == "round":
            for trial in event.trials:
                rounds[trial.number] = rounds.get(trial.number, 0) + 1
                assert trial.round == rounds[trial.number]

    result = tuned(69, callbacks=[count])
    lengths = [row["rounds"] for row in result.trials]
    # 9@1 3@3 1@9 | 5@3 1@9 | 3@9
    assert sorted(lengths[:9]) == [1] * 6 + [3] * 2 + [9]
    assert sorted(lengths[9:14]) == [3] * 4 + [9]
    assert lengths[14:] == [9] * 3
    assert (result.cost["rounds"], result.cost["unspent_rounds"]) == (69, 0)
    full = [row for row in result.trials if row["status"] == "finished"]
    assert [row["rounds"] for row in full] == [9] * 5
    assert result.best_score == max(row["score"] for row in full)


def test_what_cannot_be_paid_is_not_started_and_what_is_left_is_reported() -> None:
    # After two brackets (42 rounds), 8 rounds do not pay for a training; 18 pay for two of three.
    assert (tuned(50).cost["unspent_rounds"], len(tuned(50).trials)) == (8, 14)
    assert (tuned(60).cost["unspent_rounds"], len(tuned(60).trials)) == (0, 16)
    # A cut bracket has a trial that reaches the end: 2@1 1@3 1@9 costs 2 + 2 + 6 of 10.
    assert [row["rounds"] for row in tuned(10).trials] in ([9, 1], [1, 9])


def test_brackets_come_again_while_they_can_be_paid() -> None:
    result = tuned(69 + 21)
    assert (len(result.trials), result.cost["unspent_rounds"]) == (17 + 9, 0)


def test_choose_is_the_only_selection(monkeypatch: pytest.MonkeyPatch) -> None:
    def latest(self: Search, rung: list[Trial], count: int) -> list[Trial]:
        return sorted(rung, key=lambda trial: -trial.number)[:count]

    monkeypatch.setattr(Search, "choose", latest)
    result = tuned(69)
    assert [row["rounds"] for row in result.trials][:9] == [1] * 6 + [3, 3, 9]
    assert result.facts["best"]["trial"] == 16


def test_own_configs_come_first() -> None:
    result = tuned(69, enqueue=[{"client": {"lr": 0.5}}])
    assert [row["client.lr"] for row in result.trials][:2] == [0.1, 0.5]


def test_configs_come_again_in_another_bracket_but_not_within_one() -> None:
    space = fh.Space(client={"lr": fh.Ordinal([0.01, 0.1, 1.0, 10.0])})
    result = tuned(60, space=space)
    configs = [row["client.lr"] for row in result.trials]
    # 4@1 1@3 1@9 (12 rounds) | 4@3 1@9 (18) | 3@9 (27): 57, and 3 are left.
    assert len(configs) == 11
    assert sorted(configs[:4]) == sorted(configs[4:8]) == [0.01, 0.1, 1.0, 10.0]
    assert len(set(configs[8:])) == 3
    assert result.cost["unspent_rounds"] == 3


def test_a_pool_is_full_again_in_each_bracket() -> None:
    few = [fh.Config(client={"lr": 0.01 * n}) for n in range(1, 10)]

    class OfAPool(ToyFederation):
        @property
        def pool(self) -> Sequence[fh.Config]:
            return few

    federation = OfAPool(clients=6)
    for method in (Method(), BOHB(), Tuner(Hyperband(), GP())):
        trials = tuned(69, method, federation=federation).trials
        configs = [fh.Config(client={"lr": row["client.lr"]}) for row in trials]
        assert set(configs[:9]) == set(few)
        assert len(set(configs[9:14])) == 5
        assert set(configs) == set(few)


def test_a_grid_under_hyperband() -> None:
    result = tuned(21, Tuner(Hyperband(), Grid(9)))
    assert len({row["client.lr"] for row in result.trials}) == 9


@pytest.mark.parametrize("seed", range(4))
def test_failures_and_repeated_rounds_never_exceed_the_total(seed: int) -> None:
    searches: list[Search] = []
    federation = ToyFederation(clients=6, missing=0.7)
    result = tuned(100, federation=federation, seed=seed, callbacks=[lambda e: searches.append(e.search)])
    failed = {row["trial"] for row in result.trials if row["status"] == "failed"}
    assert failed
    assert "finished" in [row["status"] for row in result.trials]
    # Samplers are told that they are bad.
    seen = searches[-1].observations
    assert {o.trial for o in seen if o.score.rank_value == math.inf} == failed
    # What failed trials did not use went to further brackets.
    assert 0 <= result.cost["unspent_rounds"] < 9
    assert result.cost["rounds"] + result.cost["unspent_rounds"] == 100


def test_mistakes_are_named() -> None:
    with pytest.raises(InputError, match="a total of 8 rounds does not pay for one training of 9"):
        tuned(8)
    with pytest.raises(InputError, match="unit must be at most 9 rounds, a full training, not 10"):
        tuned(100, Method(unit=10))
    with pytest.raises(InputError, match="rate must be at least 2, not 1"):
        Hyperband(rate=1)
    with pytest.raises(InputError, match="unit must be at least 1 round, not 0"):
        Hyperband(unit=0)


def test_configs_at_a_time_are_refused_where_a_bracket_is_one_trial() -> None:
    with pytest.raises(InputError, match=r"side_by_side = 2: has no effect with trainings of one round"):
        fh.tune(ToyFederation(clients=6), SPACE, BOHB(side_by_side=2), rounds=1, total=4, cohort=2)
    assert fh.tune(ToyFederation(clients=6), SPACE, BOHB(), rounds=1, total=4, cohort=2).status == "finished"
