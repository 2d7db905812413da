"""The tabular federation: what it replays, and what it refuses."""

import numpy as np
import pytest

import fedhpo as fh
from fedhpo.core.errors import InputError
from fedhpo.protocol.federation import REPEATABLE, Status, Work
from fedhpo.protocol.reasons import Why
from fedhpo.research.tables.federation import TabularFederation
from fedhpo.run import open_read
from fedhpo.testing.federation import FederationSuite
from fedhpo.testing.table import toy_table

TABLE = toy_table(configs=12, rounds=9, clients=8, failed={5: 4})
ONE = TABLE.configs[2]


class TestConformance(FederationSuite):
    client, server = ONE.client, ONE.server

    def make(self):
        return TabularFederation(TABLE)

    # A table starts from nothing, knows no config that leaves a model as it is, and no score at round 0.
    test_the_seed_alone_decides_the_first_weights = None
    test_a_round_in_which_nobody_moves_changes_no_score = None
    test_scores_have_one_entry_per_client = None


@pytest.fixture
def federation():
    return TabularFederation(TABLE)


def train(federation, trial, config, rounds):
    federation.start(trial, config.model, 0)
    cohort = [int(c) for c in federation.train_clients[:3]]
    for _ in range(rounds):
        [report] = federation.round([Work(trial, cohort, config.client, config.server)])
    return report


def test_it_can_repeat_itself_and_nothing_more(federation):
    assert federation.capabilities == {REPEATABLE}
    assert federation.pool == list(TABLE.configs)
    assert len(federation.test_clients) == 0
    with pytest.raises(InputError, match="cannot fork"):
        federation.fork(0, 1)


@pytest.mark.parametrize(("rounds", "scored"), [(1, 1), (2, 1), (3, 3), (5, 3), (6, 6), (8, 6), (9, 9)])
def test_a_score_is_the_last_one_not_later(federation, rounds, scored):
    train(federation, 0, ONE, rounds)
    clients = federation.validation_clients[[4, 1]]
    [scores] = federation.evaluate([0], clients)
    place = TABLE.rounds.tolist().index(scored)
    assert scores.accuracy.tolist() == (1 - TABLE.errors()[2, place, [4, 1]]).tolist()
    assert scores.loss.tolist() == TABLE.losses()[2, place, [4, 1]].tolist()
    assert scores.size.tolist() == [40, 40]
    assert scores.cost.evaluations == 2


def test_before_the_first_score_there_is_none(federation):
    federation.start(0, {}, 0)
    [scores] = federation.evaluate([0], federation.validation_clients)
    assert np.isnan(scores.loss).all()
    assert np.isnan(scores.accuracy).all()
    assert scores.status.tolist() == [Status.OK] * 8


def test_heterogeneity_changes_what_clients_say(federation):
    train(federation, 0, ONE, 9)
    [as_it_is] = federation.evaluate([0], federation.validation_clients)
    alike = TabularFederation(TABLE, heterogeneity=1.0)
    train(alike, 0, ONE, 9)
    [mixed] = alike.evaluate([0], alike.validation_clients)
    assert mixed.accuracy.std() == 0 < as_it_is.accuracy.std()


def test_a_config_that_failed_fails_in_the_same_round(federation):
    bad = TABLE.configs[5]
    assert train(federation, 0, bad, 4).applied
    cohort = [int(c) for c in federation.train_clients[:3]]
    [report] = federation.round([Work(0, cohort, bad.client, bad.server)])
    assert (report.applied, report.round) == (False, 4)
    assert report.status.tolist() == [Status.FAILED] * 3
    assert all(why.why == Why.DIVERGED for why in report.reasons.values())


def test_costs_are_those_of_training(federation):
    report = train(federation, 0, ONE, 1)
    assert report.cost.bytes_down == report.cost.bytes_up == 4 * 610 * 3
    assert report.cost.samples == 3 * 30
    assert report.cost.rounds == 1


def test_what_is_not_in_the_table_is_refused(federation):
    federation.start(0, {}, 0)
    cohort = [int(federation.train_clients[0])]
    with pytest.raises(InputError, match=r"table toy has no config client\(lr=0.5, momentum=0\)"):
        federation.round([Work(0, cohort, {"lr": 0.5, "momentum": 0.0}, ONE.server)])
    with pytest.raises(InputError, match="one config for all clients"):
        federation.round([Work(0, cohort, [ONE.client], ONE.server)])
    federation.round([Work(0, cohort, ONE.client, ONE.server)])
    other = TABLE.configs[3]
    with pytest.raises(InputError, match="under another config"):
        federation.round([Work(0, cohort, other.client, other.server)])
    for _ in range(8):
        federation.round([Work(0, cohort, ONE.client, ONE.server)])
    with pytest.raises(InputError, match="ends at round 9"):
        federation.round([Work(0, cohort, ONE.client, ONE.server)])
    with pytest.raises(InputError, match="validation scores only"):
        federation.evaluate([0], [0], "test")


def test_tuning_picks_members_of_the_pool_and_resumes(federation, tmp_path):
    def stop(event):
        return event.kind == "evaluate" and len(event.search.trials) > 3

    budget = {"rounds": 9, "total": 90, "cohort": 5, "objective": "error", "run": tmp_path / "run"}
    stopped = fh.tune(federation, TABLE.space, fh.TPE(), callbacks=[stop], **budget)
    assert stopped.status == "stopped"
    result = fh.tune(TabularFederation(TABLE), TABLE.space, fh.TPE(), **budget)
    whole = fh.tune(federation, TABLE.space, fh.TPE(), **{**budget, "run": None})
    assert result.facts["trials"] == whole.facts["trials"]
    tried = [fh.Config.from_dict(trial["config"]) for trial in result.facts["trials"]]
    assert len(set(tried)) == len(tried) == 10
    assert set(tried) <= set(TABLE.configs)
    with open_read(tmp_path / "run") as run:
        assert run.facts()["federation"]["runtime"] == "tabular"
