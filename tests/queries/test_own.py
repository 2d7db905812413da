"""A query of a user's own is answered by the same function in a simulation and over Flower."""

import json
import re

import numpy as np
import pytest
from flwr.clientapp import ClientApp
from own_queries import Failing, LabelCounts, WeightNorm

import fedhpo as fh
from fedhpo.core.errors import InputError
from fedhpo.flower import InProcessGrid, client
from fedhpo.flower.server_app import federation_of
from fedhpo.protocol.federation import Status
from fedhpo.study import Study
from fedhpo.testing.parties import party_data

STUDY = Study.from_dict(
    {
        "data": {"name": "digits", "clients": 4, "partition": {"kind": "dirichlet", "alpha": 0.5}},
        "model": {"name": "mlp"},
        "server": {"aggregation": "mean", "weight_cap": 100.0},
        "space": {"client": {"lr": {"low": 0.01, "high": 1.0, "log": True}}},
        "budget": {"rounds": 2, "cohort": 2},
    }
)


def simulated():
    return fh.simulate("mlp", STUDY.load_data(), workers=0, stacking=False)


def flower(**options):
    app = client(ClientApp(), study=STUDY, **options)
    return federation_of(InProcessGrid(app, 4), STUDY, repeatable=True)


def asked(federation, query):
    """The answers after one round of training."""
    with federation:
        federation.start(0, {}, 5)
        federation.round([fh.Work(0, [0, 2], {"lr": 0.1})])
        return federation.query(query, [3, 0, 1, 2])


def test_it_sees_the_clients_rows():
    data = STUDY.load_data()
    answers = asked(simulated(), LabelCounts())
    assert [answer.client for answer in answers] == [3, 0, 1, 2]
    for answer in answers:
        labels = data.y[data.train.rows(answer.client)]
        assert answer.content["counts"] == np.bincount(labels, minlength=10).tolist()
        assert answer.content["noisy"] == answer.content["counts"]
        assert answer.cost.samples == len(labels)
        assert answer.cost.bytes_up == len(json.dumps(answer.content, separators=(",", ":")))
        assert answer.cost.bytes_down == len('{"noise":0.0,"seed":0}')


def test_it_has_random_numbers_of_its_own():
    first, again, other = (
        [answer.content["noisy"] for answer in asked(simulated(), LabelCounts(1.0, seed))]
        for seed in (3, 3, 4)
    )
    assert first == again
    assert first != other
    assert len({tuple(np.subtract(a, b)) for a, b in zip(first, other, strict=True)}) == 4


def test_a_model_comes_with_it_and_cannot_be_spoilt():
    federation = simulated()
    answers = asked(federation, WeightNorm(0))
    assert len({answer.content["norm"] for answer in answers}) == 1
    assert answers[0].content["norm"] > 0
    assert all(answer.content["mean"] != 0 for answer in answers)
    assert len({answer.content["draw"] for answer in answers}) == 4
    assert answers[0].cost.evaluations == 1
    assert answers[0].cost.bytes_down == 4 * sum(
        int(np.prod(tensor.shape)) for tensor in fh.models.build("mlp", (64,), 10).state_dict().values()
    )


def test_it_fails_at_one_client_without_the_others():
    three, zero, one, two = asked(simulated(), Failing())
    assert three.content == zero.content == "fine"
    assert one.status == two.status == Status.FAILED
    assert re.fullmatch(r"ValueError: no such column \(own_queries\.py:\d+, in answer\)", one.reason.text)
    assert two.reason.text == "query 'failing': a value for the record must be JSON-able: set {1} is not"


@pytest.mark.parametrize("query", [LabelCounts(1.0, 7), WeightNorm(0), Failing()])
def test_flower_answers_the_same(query):
    assert asked(flower(queries=[LabelCounts, WeightNorm, Failing]), query) == asked(simulated(), query)


def test_a_client_answers_only_what_its_owner_listed():
    answers = asked(flower(queries=[LabelCounts]), WeightNorm(0))
    assert all(answer.status != Status.OK for answer in answers)
    assert all(answer.content is None for answer in answers)


def test_what_is_no_query_is_refused():
    with pytest.raises(InputError, match="queries must list classes with a `name` and an `answer`"):
        flower(queries=[LabelCounts()])
    with pytest.raises(InputError, match="queries: classes need study"):
        client(ClientApp(), train=print, evaluate=print, queries=[LabelCounts])


def test_parties_with_learners_answer_too():
    with fh.LearnerFederation(party_data(parties=3, count=30), "svm", workers=0) as federation:
        answers = federation.query(LabelCounts(), federation.train_clients)
        assert [sum(answer.content["counts"]) for answer in answers] == [
            answer.cost.samples for answer in answers
        ]
        with pytest.raises(InputError, match="a learner's model is not sent"):
            federation.query(WeightNorm(0), [0])


def test_it_is_recorded_and_charged(tmp_path):
    from dataclasses import dataclass

    calls = []

    @dataclass(frozen=True)
    class Counted(LabelCounts):
        def answer(self, party):
            calls.append(party.client)
            return super().answer(party)

    @dataclass(frozen=True)
    class Asking(fh.Preset):
        needs = frozenset({"query"})

        def tuner(self):
            return fh.Tuner(fh.schedules.FixedLength(1))

        def run(self, search):
            answers = search.session.query(Counted(), search.session.train_clients)
            search.facts["rows"] = sum(sum(answer.content["counts"]) for answer in answers)
            return super().run(search)

    def tuned(**options):
        with simulated() as federation:
            settings = {"rounds": 2, "total": 2, "cohort": 2, "run": tmp_path / "run"} | options
            return fh.tune(federation, STUDY.space, Asking(), **settings)

    first = tuned()
    assert calls == [0, 1, 2, 3]
    assert first.facts["rows"] == len(STUDY.load_data().train.indices)
    assert tuned().facts["rows"] == first.facts["rows"]
    assert calls == [0, 1, 2, 3]  # the record answered
    plain = tuned(run=None).cost["bytes_down"]
    assert plain == first.cost["bytes_down"]


def test_privacy_refuses_it(tmp_path):
    from dataclasses import dataclass

    @dataclass(frozen=True)
    class Asking(fh.Preset):
        def tuner(self):
            return fh.Tuner(fh.schedules.FixedLength(1))

        def run(self, search):
            search.session.query(LabelCounts(), search.session.train_clients)
            return super().run(search)

    private = fh.Evaluator(privacy=fh.Privacy(epsilon=1.0, evaluations=4))
    data = STUDY.load_data()
    with (
        fh.simulate("mlp", data, workers=0, weighting="uniform") as federation,
        pytest.raises(InputError, match=r"privacy: .*query"),
    ):
        fh.tune(federation, STUDY.space, Asking(), rounds=2, total=2, cohort=2, evaluation=private)
