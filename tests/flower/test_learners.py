"""Boosted trees over Flower, in process: local searches as in the simulation, one training by bagging."""

import numpy as np
import pytest
from flower_cases import four_parties
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp

import fedhpo as fh
from fedhpo.core.errors import InputError
from fedhpo.flower import FlowerLearnerFederation, InProcessGrid, client, run_in_process, tune
from fedhpo.flower.server_app import federation_of
from fedhpo.protocol.fine_tune import FineTune
from fedhpo.protocol.reasons import Reason, Why
from fedhpo.study import Study
from fedhpo.testing.learners import LearnerSuite
from fedhpo.testing.parties import party_rows

PARTIES = 4


def study(**model):
    return Study.from_dict(
        {
            "data": {"name": "flower_cases:four_parties"},
            "model": {"name": "xgboost", **model},
            "space": {},
            "method": {"name": "flora", "configs": 3, "folds": 2, "diagnose": False},
            "budget": {"rounds": 1, "cohort": PARTIES},
        }
    )


def app(name="xgboost", **options):
    return client(ClientApp(), study=study(name=name), **options)


def federation(made=None, grid=InProcessGrid, **options):
    options = {"clients": PARTIES, "repeatable": True} | options
    return FlowerLearnerFederation(grid(made or app(), PARTIES), **options)


class TestSuite(LearnerSuite):
    client = {"max_iter": 3, "min_samples_leaf": 2}  # noqa: RUF012
    space = fh.Space(client={"max_iter": fh.Int(2, 4)})
    names = ("depth", "max_iter")

    def make(self):
        return federation()


@pytest.mark.parametrize("name", ["xgboost", "hgb"])
def test_flora_over_flower(tmp_path, name):
    """The parties' searches are those of the simulation; the training is by bagging, and says so."""
    grid = InProcessGrid(app(name), PARTIES)
    with federation_of(grid, study(name=name), repeatable=True) as flower:
        ours = study(name=name).tune(tmp_path / "run", federation=flower)
    with fh.LearnerFederation(four_parties(), name, workers=0) as simulated:
        theirs = study(name=name).tune(federation=simulated)
    first, second = ours.facts["flora"], theirs.facts["flora"]
    assert first["parties"] == second["parties"]
    assert first["config"] == second["config"]
    assert first["training"].startswith("bagging")
    x, y = party_rows(200, seed=99)
    assert (ours.model.predict(x) == y).mean() > 0.7
    assert ours.cost["rounds"] == 1


def test_a_run_that_is_called_again_has_its_model_back(tmp_path):
    results = []

    def main(grid, context):
        results.append(tune(grid, context, study()))

    server = ServerApp()
    server.main()(main)
    for _ in range(2):
        run_in_process(server, app(), nodes=PARTIES, run_config={"run-dir": str(tmp_path / "run")})
    first, again = results
    x, _ = party_rows(50, seed=5)
    assert first.best_config == again.best_config
    np.testing.assert_array_equal(first.model.predict_proba(x), again.model.predict_proba(x))


def test_own_rows_give_the_same_as_dealt_rows():
    def own(context):
        data = four_parties()
        place = context.node_config["partition-id"]
        rows = {split: getattr(data, split).rows(place) for split in ("train", "validation", "test")}
        found = {split: (data.x[at], data.y[at]) for split, at in rows.items() if len(at)}
        return fh.from_clients([found], classes=2)

    losses = []
    for options in ({}, {"data": own}):
        with federation(app(**options)) as flower:
            flower.start(0, {}, seed=1)
            flower.round([fh.Work(0, [3, 1], {"max_iter": 3})])
            losses.append(flower.evaluate([0], range(PARTIES))[0].loss)
    np.testing.assert_array_equal(*losses)


def test_sizes_that_are_not_told_weigh_the_same():
    with federation(app(tell_sizes=False)) as flower:
        flower.start(0, {}, seed=1)
        [report] = flower.round([fh.Work(0, [0, 1], {"max_iter": 2})])
    assert report.train_size.tolist() == [1, 1]


def test_a_state_brings_the_trees_back():
    with federation() as flower:
        for trial in (0, 1):
            flower.start(trial, {}, seed=trial)
        flower.round([fh.Work(0, [0, 1, 2], {"max_iter": 3})])
        flower.restore(1, flower.state(0))
        one, other = flower.evaluate([0, 1], range(PARTIES))
    np.testing.assert_array_equal(one.loss, other.loss)
    assert np.isfinite(one.loss).all()


class OneLies(InProcessGrid):
    """The last client sends a record of bytes in which there are no trees."""

    def answer(self, message):
        reply = super().answer(message)
        liar = list(self.contexts)[PARTIES - 1]
        if message.metadata.dst_node_id != liar or message.metadata.message_type != "train":
            return reply
        return Message(
            RecordDict({**reply.content, "model-0": ConfigRecord({"bytes": b'{"trees": []}'})}),
            reply_to=message,
        )


def test_clients_that_send_nonsense_are_left_out():
    """The result is that of the others alone."""
    losses = []
    for cohort, grid in (([0, 1], InProcessGrid), ([0, 3, 1], OneLies)):
        with federation(grid=grid) as flower:
            flower.start(0, {}, seed=1)
            [report] = flower.round([fh.Work(0, cohort, {"max_iter": 3})])
            losses.append(flower.evaluate([0], [0, 1, 2])[0].loss)
    assert report.status.tolist() == [0, 1, 0]
    assert report.reasons == {1: Reason(Why.REJECTED, "it sent 0 trees, expected 3")}
    assert flower.dropped == {"rejected replies": 1}
    np.testing.assert_array_equal(*losses)


def test_a_model_of_too_many_bytes_is_not_read():
    with federation(message_bytes=100) as flower:
        flower.start(0, {}, seed=1)
        [report] = flower.round([fh.Work(0, [0], {"max_iter": 3})])
    assert "at most 100 are read" in report.reasons[0].text


def test_too_few_replies_are_no_round():
    with federation(grid=OneLies) as flower:
        flower.start(0, {}, seed=1)
        [report] = flower.round([fh.Work(0, [3, 1], {"max_iter": 3}, minimum=2)])
        assert (report.applied, report.round, report.cost.rounds) == (False, 0, 0)
        assert flower.model(0) is None
        [again] = flower.round([fh.Work(0, [1, 2], {"max_iter": 3}, minimum=2)])
        assert again.applied


@pytest.mark.parametrize("training", ["pooled", "collective"])
def test_trainings_that_need_all_rows_or_other_connections_are_refused(training):
    with pytest.raises(InputError, match=f"{training}.*are trained by"):
        federation_of(InProcessGrid(app(), PARTIES), study(training=training))


def test_trees_are_not_fine_tuned_and_need_clients_that_boost():
    with federation() as flower:
        flower.start(0, {}, seed=0)
        with pytest.raises(InputError, match="cannot be fine-tuned"):
            flower.query(FineTune(0, {}), [0])
    other = client(ClientApp(), train=lambda *_: None, evaluate=lambda *_: None)
    with pytest.raises(InputError, match="client 0 boosts no trees"):
        federation(other)
