"""fedex-auto: forks decide what a finalist commits to; where they cannot tell, it keeps its own config."""

from collections.abc import Mapping

import numpy as np
import pytest

import fedhpo as fh
from fedhpo.core.errors import InputError
from fedhpo.methods.fedex.commit import OWN, Commit, FedExAuto, commit_sections
from fedhpo.methods.fedex.learned import LearnedPolicy
from fedhpo.methods.fedex.policy import FedExPolicy
from fedhpo.methods.fedex.state import FedExState
from fedhpo.protocol.federation import RoundReport, Status
from fedhpo.testing import ToyFederation

SPACE = fh.Space(
    client={"lr": fh.Float(1e-4, 100.0, log=True), "epochs": fh.Int(1, 5)},
    server={"lr": fh.Float(0.02, 1.0, log=True)},
)


def tune(seed=0, total=140, **options):
    budget = {"rounds": 20, "total": total, "cohort": 6, "objective": "loss", "seed": seed} | options
    return fh.tune(ToyFederation(noise=0.005), SPACE, FedExAuto(arms=6), **budget)


def test_what_it_spends_is_what_it_plans_and_three_finalists_commit():
    result = tune()
    commits = result.facts["commits"]
    assert len(commits) == 3
    assert result.cost["rounds"] <= 140
    assert {one["role"] for one in commits} <= {"leader", "runner-up", OWN}
    for one in commits:  # an arm is taken only where it is two standard errors ahead
        ahead = one["gain"] is not None and one["gain"] > 2 * one["standard_error"]
        assert (one["role"] != OWN) == ahead
    titles = [section["title"] for section in result.facts["sections"]]
    assert "Commits" in titles


def test_forks_train_at_the_same_clients_under_fixed_configs():
    seen = []

    class Watched(ToyFederation):
        def submit(self, work):
            seen.append(work)
            super().submit(work)

    fh.tune(Watched(), SPACE, FedExAuto(arms=6), rounds=20, total=140, cohort=6, objective="loss", seed=1)
    forks = {}
    for work in seen:  # 33 trials are tried: what has a higher number is a fork, and means do not train
        if work.trial >= 33:
            forks.setdefault(work.trial, []).append(work)
    assert len(forks) == 9
    for works in forks.values():
        assert all(isinstance(work.client, Mapping) and work.client == works[0].client for work in works)
    for place in (0, 1):  # two rounds, a tenth of 20
        assert len({tuple(works[place].cohort) for works in forks.values()}) == 1


def test_forks_are_paid_for_by_trials():
    search = fh.tune(ToyFederation(), SPACE, "sha", rounds=30, total=150, cohort=4, objective="loss")
    ours = fh.tune(ToyFederation(), SPACE, "fedex-auto", rounds=30, total=150, cohort=4, objective="loss")
    # Rungs are as long as those of halving, with 22 trials in place of 27.
    assert sum(not row["path"] for row in ours.facts["trials"]) == 22
    assert len(search.facts["trials"]) == 27
    assert ours.cost["rounds"] <= 150


def test_a_reward_shrinks_with_the_rows_behind_it():
    """Two arms, one client each: by hand, a gain counts n / (n + shrink)."""

    def weights(rows, shrink):
        policy = FedExPolicy(arms=2, steps="constant", baseline="zero", shrink=shrink)
        state = FedExState(policy, LearnedPolicy.uniform(({"lr": 0.1}, {"lr": 0.2})))
        state._drawn = np.array([0, 1]), np.array([0.5, 0.5])
        state.learn(_report(rows))
        return state.weights

    assert weights(10, 0.0) == pytest.approx(_expected(1.0, 3.0))
    assert weights(10, 10.0) == pytest.approx(_expected(0.5, 1.5))
    assert weights(30, 10.0) == pytest.approx(_expected(0.75, 2.25))


def _expected(first, second):
    """Each gradient is (rows x gain) / (2 rows x 0.5); the step is sqrt(2 ln 2)."""
    moved = np.exp(-np.sqrt(2 * np.log(2)) * np.array([first, second]))
    return moved / moved.sum()


def _report(rows):
    sizes, nothing = np.full(2, rows), np.full(2, np.nan)
    ok, losses = np.full(2, Status.OK, np.int8), np.array([1.0, 3.0])
    return RoundReport(0, 1, True, np.arange(2), ok, sizes, sizes, np.ones(2), losses, nothing, nothing)


def test_privacy_and_totals_that_do_not_pay_are_refused():
    private = fh.Evaluator(clients=3, privacy=fh.Privacy(epsilon=10.0))
    with pytest.raises(InputError, match="fedex-auto compares forks client by client"):
        tune(evaluation=private, objective="accuracy")
    with pytest.raises(InputError, match="forks besides"):
        tune(total=20)
    with pytest.raises(InputError, match="until must be a share"):
        Commit(until=1.0)


def test_the_share_of_fallbacks_is_in_the_report():
    commit = {"trial": 1, "fork": 5, "role": OWN, "gain": None, "standard_error": None}
    [section] = commit_sections([commit, {**commit, "role": "leader"}])
    assert section["parts"][0]["paragraph"].startswith("1 of 2 finalists fell back to their own config")
    assert commit_sections([]) == []


@pytest.mark.parametrize("name", ["fedex", "fedpop", "fedtune"])
def test_a_papers_own_algorithm_names_the_variant_that_did_better(name):
    assert f"{name}-auto did better" in fh.methods.METHODS[name].better
    assert fh.methods.METHODS[f"{name}-auto"].better == ""


def test_it_is_said_once_when_a_run_begins(capfd, tmp_path):
    from fedhpo.tuning import trust

    trust._say_once.cache_clear()
    for place in ("a", "b"):
        fh.tune(
            ToyFederation(),
            SPACE,
            fh.FedEx(arms=3, trials=2),
            rounds=2,
            total=6,
            cohort=3,
            run=tmp_path / place,
        )
    assert capfd.readouterr().err.count("fedex-auto did better in our comparisons") == 1
