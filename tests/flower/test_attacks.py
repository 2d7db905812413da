"""What hostile clients, and a server that asks for too much, try over Flower: none of it succeeds."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from flower_cases import SMALL, only, own_rows, small_app, small_data
from flwr.clientapp import ClientApp

import fedhpo as fh
from fedhpo.aggregation.aggregation import Aggregation
from fedhpo.aggregation.presets import SAFE
from fedhpo.core.errors import InputError
from fedhpo.flower import Arrays, FlowerFederation, InProcessGrid, Scored, Trained, client
from fedhpo.privacy.spending import SpendingLedger
from fedhpo.protocol.federation import Status, Work
from fedhpo.protocol.fine_tune import FineTune
from fedhpo.protocol.objective import Objective
from fedhpo.queries.local_search import LocalSearch
from fedhpo.queries.public_list import public_list
from fedhpo.samplers import Random
from fedhpo.study import Study
from fedhpo.testing.attacks import InvertedScores, SignFlip, SizeLie, ThresholdScores, Together
from fedhpo.testing.attacks.flower import HostileApp

SIZE_AND_SIGN = Together((SizeLie(100_000), SignFlip(10.0)))


# Twenty clients whose update is +1; what hostile ones send is -10, of 100,000 rows.


def steps(arrays, task, context):
    return Trained({"w": arrays["w"] + np.float32(1)}, train_size=10, validation_size=10, accuracy_after=0.9)


def twenty(attack, hostile, aggregation, **options):
    app = client(
        ClientApp(),
        train=steps,
        evaluate=lambda arrays, task, context: Scored(10, 0.1, 0.9),
        sizes=lambda context: {"train": 10, "validation": 10},
    )
    grid = InProcessGrid(HostileApp(app, attack, hostile), 20)
    model = Arrays(lambda seed: {"w": np.zeros(1)})
    federation = FlowerFederation(grid, model, clients=20, aggregation=aggregation, **options)
    federation.start(0, {}, 0)
    return federation


def stepped(federation):
    [report] = federation.round([Work(0, range(20), {})])
    return report, float(federation.model(0)["w"][0])


def test_a_client_weighs_at_most_twice_the_median_whatever_it_claims():
    """By the mean: 19 clients of 10 rows move by 1, one of 20 rows (its cap) by -10."""
    report, moved = stepped(twenty(SIZE_AND_SIGN, [3], Aggregation()))
    assert report.train_size.tolist() == [10] * 3 + [20] + [10] * 16
    assert report.validation_size[3] == 20
    assert moved == pytest.approx((19 * 10 - 10 * 20) / (19 * 10 + 20))


def test_by_the_default_one_client_in_four_moves_nothing():
    assert stepped(twenty(SIZE_AND_SIGN, range(5), None))[1] == pytest.approx(1.0)


def test_a_reply_weighs_at_most_what_the_client_said_at_hello():
    """Without `sizes` a client says that it has one row: a reply of 10 rows does not weigh more."""
    app = client(ClientApp(), train=steps, evaluate=lambda *_: Scored(10, 0.1, 0.9))
    grid = InProcessGrid(app, 3)
    with FlowerFederation(grid, Arrays(lambda seed: {"w": np.zeros(1)}), clients=3) as federation:
        federation.start(0, {}, 0)
        [report] = federation.round([Work(0, [0, 1, 2], {})])
        [scores] = federation.evaluate([0], [0, 1, 2])
    assert report.train_size.tolist() == scores.size.tolist() == [1, 1, 1]


def test_clipping_bounds_weights_too():
    """Every update is shortened to norm 1: 190 rows of +1 and 20 of -1, not 100,000 of -1."""
    assert stepped(twenty(SIZE_AND_SIGN, [3], Aggregation(clip_norm=1.0)))[1] == pytest.approx(170 / 210)


# Scores


def test_one_client_that_inverts_its_scores_and_claims_many_rows_weighs_as_two():
    federation = twenty(Together((SizeLie(100_000), InvertedScores())), [3], SAFE)
    [scores] = federation.evaluate([0], range(20))
    assert scores.size[3] == 20
    assert scores.accuracy[3] == pytest.approx(0.1)
    # The mean loses (0.9 - 0.1) x 20/210; a median and a trimmed mean lose nothing.
    assert Objective().observe(scores, 0, 20).value == pytest.approx(0.9 - 0.8 * 20 / 210)
    for over in ("median", "trimmed"):
        assert Objective(over=over).observe(scores, 0, 20).value == pytest.approx(0.9)


def test_a_quarter_that_answers_a_threshold_does_not_move_the_trimmed_mean():
    federation = twenty(ThresholdScores(0.5), range(5), SAFE)
    [scores] = federation.evaluate([0], range(20))
    assert Objective(weighting="uniform").observe(scores, 0, 20).value == pytest.approx(0.9 * 0.75)
    assert Objective(over="trimmed").observe(scores, 0, 20).value == pytest.approx(0.9)


# Start-up


@pytest.mark.filterwarnings("ignore:node")
def test_a_node_without_a_name_and_one_of_another_shape_are_left_out_and_the_others_begin(caplog):
    def rows(context):
        if context.node_config.get("odd"):
            rng = np.random.default_rng(1)
            return rng.normal(size=(9, 5)).astype(np.float32), rng.integers(0, 3, 9)
        return only(small_data(), context.node_config.get("partition-id", 0))

    nodes = [{"partition-id": i} for i in range(4)] + [{}, {"partition-id": 9, "odd": 1}, {"name": "late"}]
    grid = InProcessGrid(small_app(data=rows), nodes, seed=1)
    ids = list(grid.get_node_ids())
    with FlowerFederation(grid, "mlp", clients=7) as federation:
        assert federation.train_clients.tolist() == [0, 1, 2, 3, 4]  # the last is the one with a name
        assert federation.dropped == {"nodes left out": 2}
        assert federation.describe()["ordered_by"] == "partition or name"
        assert federation._clients.nodes == {0: ids[0], 1: ids[1], 2: ids[2], 3: ids[3], 4: ids[6]}
        federation.start(0, {}, 0)
        assert federation.round([Work(0, [0, 1, 2, 3, 4], {"lr": 0.1})])[0].ok.all()
    # The two nodes were told why, each in its own log.
    told = [record.message for record in caplog.records if "takes no part in the run" in record.message]
    assert len(told) == 2
    assert any(f"node {ids[4]} has no partition or name" in one for one in told)
    assert any(f"node {ids[5]} (partition 9) is left out: its shape is (5,)" in one for one in told)


# Local privacy: the server asks for epsilon 1e9, for none, for simulated noise, and again and again


def search(**options):
    return LocalSearch(SMALL.space, configs=4, sampler=Random(), **options)


def exact_losses():
    grid = InProcessGrid(small_app(data=own_rows), [{"partition-id": 0}])
    with FlowerFederation(grid, "mlp", clients=1) as federation:
        return federation.query(search(), [0])[0].content["losses"]


@pytest.fixture
def kept(tmp_path):
    """A client that keeps its scores: epsilon 5 an answer, 15 in all."""
    privacy = fh.LocalPrivacy(epsilon=5.0, total=15.0, ledger=tmp_path / "privacy.jsonl")
    return small_app(data=own_rows, privacy=privacy), SpendingLedger(tmp_path / "privacy.jsonl", 15.0)


def federation_of_one(app):
    federation = FlowerFederation(InProcessGrid(app, [{"partition-id": 0}]), "mlp", clients=1)
    federation.start(0, {}, 0)
    return federation


@pytest.mark.parametrize("asked", [None, fh.LocalPrivacy(1e9, release="exact")])
def test_the_server_cannot_lower_the_noise(kept, asked):
    app, ledger = kept
    [answer] = federation_of_one(app).query(search(privacy=asked), [0])
    # Noise of scale 0.8 on each: hardly any of the losses is within 0.001 of the true one.
    losses = np.array(answer.content["losses"])
    assert (np.abs(losses - exact_losses()) > 0.001).sum() >= 3
    assert ledger.spent == 5.0


def test_the_server_may_ask_for_more_noise(kept):
    app, ledger = kept
    federation_of_one(app).query(search(privacy=fh.LocalPrivacy(4.5, release="exact")), [0])
    assert ledger.spent == 4.5


def test_noise_beyond_the_range_of_a_loss_is_refused_and_costs_nothing(kept):
    app, ledger = kept
    many = LocalSearch(SMALL.space, configs=100, sampler=Random())
    [answer] = federation_of_one(app).query(many, [0])
    assert "noise of scale 20" in answer.reason.text
    assert "configs = 5 or less" in answer.reason.text
    assert ledger.spent == 0.0


def test_a_client_chooses_from_the_list_under_its_own_privacy(kept):
    """The server asks for next to no noise; the client pays its own epsilon, and one pair comes back."""
    app, ledger = kept
    listed = LocalSearch(SMALL.space, configs=6, listed=True, privacy=fh.LocalPrivacy(1e9, release="exact"))
    [answer] = federation_of_one(app).query(listed, [0])
    [config] = answer.content["configs"]
    assert config in [one.to_dict() for one in public_list(SMALL.space, 6, listed.seed)]
    assert len(answer.content["losses"]) == 1
    assert ledger.spent == 5.0


def test_repeats_are_refused_when_the_total_is_spent_after_restarts_too(kept, tmp_path):
    app, _ = kept
    answers = [federation_of_one(app).query(search(seed=i), [0])[0] for i in range(5)]
    assert [answer.status for answer in answers] == [Status.OK] * 3 + [Status.FAILED] * 2
    assert "epsilon 5 for a local search is refused: 15 of 15 is spent" in answers[-1].reason.text
    again = small_app(
        data=own_rows, privacy=fh.LocalPrivacy(5.0, total=15.0, ledger=tmp_path / "privacy.jsonl")
    )  # another process
    assert federation_of_one(again).query(search(), [0])[0].status == Status.FAILED
    [scores] = federation_of_one(again).evaluate([0], [0])
    assert "refused" in scores.reasons[0].text


def test_no_score_leaves_without_noise(kept):
    app, _ = kept
    federation = federation_of_one(app)
    [report] = federation.round([Work(0, [0], {"lr": 0.1})])
    assert report.ok.all()
    assert np.isnan(
        [report.loss_before, report.loss_after, report.accuracy_before, report.accuracy_after]
    ).all()
    [scores] = federation.evaluate([0], [0])
    honest = federation_of_one(small_app(data=own_rows))
    [exact] = honest.evaluate([0], [0])
    assert math.isnan(scores.loss[0])
    assert scores.accuracy[0] != exact.accuracy[0] or 0 in (scores.accuracy[0], 1 - scores.accuracy[0])
    [tuned] = federation.query(FineTune(0, {"lr": 0.1}), [0])
    assert tuned.status == Status.FAILED


@pytest.mark.parametrize("release", ["simulated"])
def test_noise_that_the_server_could_subtract_is_refused_at_both_ends(release):
    federation = federation_of_one(small_app(data=own_rows))
    with pytest.raises(InputError, match="'simulated' is for simulation"):
        federation.query(search(privacy=fh.LocalPrivacy(5.0, release=release)), [0])
    asked = search(privacy=fh.LocalPrivacy(5.0, release=release)).to_dict()
    [answer] = federation.query(_Raw(asked), [0])
    assert "can subtract the noise" in answer.reason.text


class _Raw:
    """A query that is not checked at the server."""

    name = "local_search"

    def __init__(self, asked):
        self._asked = asked

    def to_dict(self):
        return self._asked


def test_privacy_at_a_client_needs_total_and_ledger():
    with pytest.raises(InputError, match="needs total and ledger"):
        small_app(privacy=fh.LocalPrivacy(1.0))
    with pytest.raises(InputError, match="queries: a client with privacy"):
        small_app(
            privacy=fh.LocalPrivacy(1.0, total=1.0, ledger="x"), queries={"mine": lambda *_: {"exact": 1}}
        )


# Sizes of FedTune


class Wire(InProcessGrid):
    """Keeps the JSON of all that comes back."""

    heard = ()

    def answer(self, message):
        reply = super().answer(message)
        kind = message.metadata.message_type
        self.heard = (*self.heard, (kind, json.loads(reply.content["fedhpo"]["json"])["replies"]))
        return reply


def test_fedtune_with_uniform_weights_tells_no_size():
    table = fh.ReferenceTable.from_dict(
        {
            "format": "fedhpo reference table 1",
            **_table().to_dict(),
        }
    )
    given = {key: value for key, value in SMALL.given.items() if key != "method"}
    study = Study.from_dict(
        {
            **given,
            "budget": {"rounds": 3, "cohort": 3},
            "server": {"weighting": "uniform"},
            "method": {"name": "fedtune", "table": "table.json"},
        }
    )
    grid = Wire(small_app(study), 8)
    with FlowerFederation(grid, "mlp", clients=8, aggregation=Aggregation("uniform")) as federation:
        federation.start(0, {}, 0)
        [report] = federation.round([Work(0, [0, 1, 2], table)])
    assert report.ok.all()
    hellos = [replies[0]["answer"]["sizes"] for kind, replies in grid.heard if kind == "query.hello"]
    assert {rows for sizes in hellos for rows in sizes.values()} == {0, 1}
    trained = [set(replies[0]) for kind, replies in grid.heard if kind == "train"]
    # The task's token is the server's own, which refuses any other: it tells nothing of a client.
    assert trained == [{"trial", "task", "arrays", "loss_before", "loss_after"}] * 3


def _table():
    from test_rules import TABLE

    return TABLE


def test_a_size_that_matters_is_told():
    """By size, as in FedAvg: the server weighs by it."""
    grid = Wire(small_app(replace(SMALL)), 8)
    with FlowerFederation(grid, "mlp", clients=8, aggregation=Aggregation()) as federation:
        federation.start(0, {}, 0)
        federation.round([Work(0, [0, 1, 2], _table())])
    assert all("train_size" in replies[0] for kind, replies in grid.heard if kind == "train")


def test_secure_aggregation_is_refused_with_the_reason():
    def secaggplus_mod(message, context, call_next):
        return call_next(message, context)

    with pytest.raises(InputError, match=r"SecAgg\+ cannot carry .* no robust rule"):
        client(ClientApp(mods=[secaggplus_mod]), study=SMALL)
