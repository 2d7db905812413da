"""Noise and privacy in the study file."""

import numpy as np
import pytest

import fedhpo as fh
from fedhpo.privacy.privacy import Privacy
from fedhpo.search.evaluator import Evaluator

STUDY = {
    "data": {"name": "digits", "clients": 20},
    "model": {"name": "mlp"},
    "space": {"client": {"lr": {"low": 0.01, "high": 1.0, "log": True}}},
    "budget": {"rounds": 2, "total": 6, "cohort": 4},
    "method": {"name": "random"},
}


def study(**sections):
    return fh.Study.from_dict({**STUDY, **sections})


def test_the_section_is_the_evaluator():
    given = {"clients": 10, "average": "recent", "privacy": {"epsilon": 10, "minimum": 8}}
    assert study(evaluation=given).evaluator == Evaluator(
        clients=10, average="recent", privacy=Privacy(epsilon=10.0, minimum=8)
    )


def test_a_private_study_trains_with_uniform_weights():
    private = study(evaluation={"privacy": {"epsilon": 10.0}})
    with private.federation(workers=0) as federation:
        assert federation.describe()["weighting"] == "uniform"
    assert private.tune(workers=0).facts["privacy"]["epsilon_spent"] == pytest.approx(10.0)
    with study().federation(workers=0) as federation:
        assert federation.describe()["weighting"] == "size"
    with pytest.raises(fh.InputError, match=r"server.weighting = 'size': must be 'uniform'"):
        study(evaluation={"privacy": {"epsilon": 10.0}}, server={"weighting": "size"})


@pytest.mark.parametrize(
    ("evaluation", "message"),
    [
        ({"privacy": {}}, r"evaluation.privacy.epsilon is missing"),
        ({"privacy": {"epsilon": -1.0}}, r"evaluation.privacy.epsilon: epsilon must be"),
        ({"privacy": {"epsilon": 1.0, "epsilno": 1}}, r"evaluation.privacy: unknown key 'epsilno'"),
        (
            {"privacy": {"epsilon": 1.0, "mechanism": "lap"}},
            r"evaluation.privacy: mechanism: unknown mechanism .lap.",
        ),
        ({"privacy": 3}, r"evaluation.privacy = 3: must be a table"),
        ({"bias": 1.0}, r"evaluation.bias"),
    ],
)
def test_mistakes_are_named_with_their_key(evaluation, message):
    with pytest.raises(fh.InputError, match=message):
        study(evaluation=evaluation)


def validation_labels(data, client):
    return data.y[data.validation.rows(client)]


def test_mixing_makes_validation_clients_alike():
    partition = {"kind": "shards", "per_client": 1}
    plain = study(data={**STUDY["data"], "partition": partition}).load_data()
    mixed = study(data={**STUDY["data"], "partition": partition, "mixing": 1.0}).load_data()
    clients = range(20)
    kinds = [
        np.mean([len(np.unique(validation_labels(data, c))) for c in clients]) for data in (plain, mixed)
    ]
    assert kinds[0] < 3
    assert kinds[1] > kinds[0] + 2
    np.testing.assert_array_equal(plain.validation.sizes, mixed.validation.sizes)
    np.testing.assert_array_equal(plain.train.indices, mixed.train.indices)
    with pytest.raises(fh.InputError, match=r"data.mixing = 2.0: must be"):
        study(data={**STUDY["data"], "mixing": 2.0})


def test_the_old_name_of_mixing_is_read_with_a_warning():
    with pytest.warns(FutureWarning, match=r"data\.redeal is now data\.mixing: .* goes in version 0\.5"):
        old = study(data={**STUDY["data"], "redeal": 0.5})
    new = study(data={**STUDY["data"], "mixing": 0.5})
    assert old.given == new.given
    assert (old.load_data().validation.indices == new.load_data().validation.indices).all()
    with pytest.raises(fh.InputError, match=r"data\.redeal: is the old name of data\.mixing, which is given"):
        study(data={**STUDY["data"], "redeal": 0.5, "mixing": 0.5})
