"""A replay takes the same decisions as `tune` on the same table."""

import math

import numpy as np
import pytest

from fedhpo.core.errors import InputError
from fedhpo.methods import BOHB, GP, SHA, TPE, Hyperband, RandomSearch
from fedhpo.privacy.privacy import Privacy
from fedhpo.protocol.objective import Objective
from fedhpo.research.tables.federation import TabularFederation
from fedhpo.research.tables.replay import replay
from fedhpo.search.evaluator import Evaluator
from fedhpo.testing.table import toy_table
from fedhpo.tuning.tune import tune

TABLE = toy_table(configs=40, rounds=9, clients=20, total=80, failed={3: 4, 17: 0, 30: 6})
WHOLE = toy_table(configs=40, rounds=9, clients=20, total=80)
METHODS = [RandomSearch(), RandomSearch(side_by_side=1), SHA(9), TPE(), GP(), Hyperband(), BOHB()]
FEW = [TPE(), Hyperband()]
SCORING_OFTEN = [SHA(9), Hyperband()]
EVALUATORS = [
    Evaluator(),
    Evaluator(clients=3),
    Evaluator(clients=5, paired=False),
    Evaluator(clients=5, paired=False, average="recent"),
    Evaluator(clients=5, bias=1.5),
    Evaluator(privacy=Privacy(epsilon=20.0, held_out=0.0)),
    Evaluator(clients=3, privacy=Privacy(epsilon=20.0, held_out=0.0)),
    Evaluator(clients=10, privacy=Privacy(epsilon=50.0, mechanism="topk", held_out=0.0)),
]


@pytest.mark.parametrize("evaluator", EVALUATORS)
def test_a_replay_is_tuning_without_the_record(evaluator):
    table = TABLE if evaluator.privacy is None else WHOLE
    few = SCORING_OFTEN if evaluator.average == "recent" else FEW
    for seed, method in enumerate(METHODS if evaluator == Evaluator() else few):
        fast = replay(table, method, seed=seed, evaluation=evaluator, heterogeneity=0.5)
        slow = tune(
            TabularFederation(table, 0.5),
            table.space,
            method,
            rounds=9,
            total=80,
            cohort=10,
            seed=seed,
            objective=TABLE.study.objective,
            evaluation=evaluator,
        )
        assert fast.best == slow.best_config
        assert fast.rounds == slow.cost["rounds"]
        assert fast.trials == len(slow.trials)
        if evaluator.privacy is None:
            assert fast.evaluations == slow.cost["evaluations"]
        else:
            assert fast.epsilon == pytest.approx(slow.facts["privacy"]["epsilon_spent"])


def test_truth_is_over_all_clients_whatever_was_seen():
    found = replay(TABLE, "random", evaluation=Evaluator(clients=1), seed=5)
    place = TABLE.configs.index(found.best)
    assert found.truth == pytest.approx(TABLE.errors()[place, -1].mean())  # clients are equally large
    assert found.incumbents[-1] == (found.rounds, found.truth)


def test_incumbents_of_one_trial_after_the_other():
    found = replay(TABLE, RandomSearch(side_by_side=1), seed=1)
    errors = [truth for _, truth in found.incumbents]
    assert errors == sorted(errors, reverse=True)  # without noise the incumbent only gets better
    assert all(spent % 9 == 0 or spent > 9 for spent, _ in found.incumbents)
    assert found.incumbents[0][0] >= 9


def test_noise_costs():
    """Over many seeds a single client finds worse configs than all of them do."""
    worse = [
        replay(TABLE, "random", seed=s, evaluation=Evaluator(clients=1)).truth
        - replay(TABLE, "random", seed=s).truth
        for s in range(20)
    ]
    assert np.mean(worse) > 0.01
    assert min(worse) >= 0


def test_the_weighting_of_the_objective_is_the_truth_s():
    table = toy_table(configs=10, rounds=9, clients=10)
    for weighting in ("size", "uniform"):
        objective = Objective("accuracy", weighting=weighting)
        found = replay(table, "random", objective=objective, total=90)
        best = max(table.truth(c, 9, objective) for c in range(10))
        assert math.isclose(found.truth, best)  # ten trials are all of them


def test_what_a_table_cannot_replay():
    with pytest.raises(InputError, match=r"needs a federation with: client configs"):
        replay(TABLE, "fedex")
    with pytest.raises(InputError, match=r"heterogeneity = 0\.7: table toy holds 0, 0\.5, 1"):
        replay(TABLE, "random", heterogeneity=0.7)
    with pytest.raises(InputError, match="does not pay"):
        replay(TABLE, "random", total=8)


def test_a_budget_over_runs_is_not_for_replays(tmp_path):
    evaluation = Evaluator(privacy=Privacy(1.0, budget=str(tmp_path / "a"), total=1.0))
    with pytest.raises(InputError, match=r"privacy.budget is for runs"):
        replay(WHOLE, "random", evaluation=evaluation)
    assert not (tmp_path / "a").exists()
