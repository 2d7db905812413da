"""What is in a table is what the clients would have said."""

import numpy as np
import pytest

from fedhpo.core.errors import InputError
from fedhpo.core.streams import derive, stream
from fedhpo.data.mixing import mix_validation
from fedhpo.protocol.federation import Work
from fedhpo.research.tables import build, build_table, table_configs
from fedhpo.research.tables.build import table_study
from fedhpo.study import Study


def trained_by_hand(study, config, number, rounds):
    """A federation in which one config has been trained like the table's; trial 0."""
    federation = study.federation(0)
    federation.start(0, config.model, derive(study.file.seed, "trial", number))
    for round in range(rounds):
        rng = stream(study.file.seed, "round", number, round)
        cohort = [int(c) for c in rng.choice(federation.train_clients, 4, replace=False)]
        federation.round([Work(0, cohort, config.client, config.server, scores=())])
    return federation


@pytest.mark.parametrize("number", [0, 33])  # 33 is in the second group
def test_curves_are_those_of_training_by_hand(built, study, number):
    same = table_study(study)
    config = built.configs[number]
    with trained_by_hand(same, config, number, 3) as federation:
        [scores] = federation.evaluate([0], federation.validation_clients)
    place = built.place(3)
    np.testing.assert_allclose(built.errors()[number, place], 1 - scores.accuracy, atol=1e-12)
    np.testing.assert_allclose(built.losses()[number, place], scores.loss, rtol=1e-3)
    assert scores.clients.tolist() == built.validation_clients.tolist()
    assert scores.size.tolist() == built.validation_sizes[built.validation_clients].tolist()


def test_heterogeneity_is_that_of_data_dealt_out_again(built, study):
    same = table_study(study)
    with trained_by_hand(same, built.configs[1], 1, 9) as federation:
        state = federation.state(0)
    for p in (0.5, 1.0):
        mixed = mix_validation(same.load_data(), p, stream(same.file.seed, "redeal", round(1000 * p)))
        with same.federation(0, data=mixed) as federation:
            federation.restore(0, state)
            [scores] = federation.evaluate([0], federation.validation_clients)
        np.testing.assert_allclose(built.errors(p)[1, -1], 1 - scores.accuracy, atol=1e-12)
        np.testing.assert_allclose(built.losses(p)[1, -1], scores.loss, rtol=1e-3)


def test_clients_grow_alike(built):
    spread = [built.errors(p)[:, -1].std(axis=1).mean() for p in (0.0, 0.5, 1.0)]
    assert spread[0] > spread[1] > spread[2]


def test_it_knows_its_study(built, study):
    assert built.study.file.server.weighting == "uniform"
    assert built.space == study.space
    assert list(built.configs) == table_configs(study.space, 40)
    assert built.study.objective.metric == "error"
    assert not set(built.train_clients) & set(built.validation_clients)
    assert built.parameters.tolist() == [650] * 40  # 64 x 10 weights and 10 biases
    assert built.recipe["wall_seconds"] > 0


def test_a_build_that_was_stopped_goes_on_to_the_same_table(built, study, tmp_path):
    def stop(done, total):
        if done > 200:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_table(study, 40, run=tmp_path / "run", workers=0, progress=stop)
    rounds = []
    again = build_table(
        study, 40, run=tmp_path / "run", workers=0, progress=lambda done, total: rounds.append(done)
    )
    assert (again.wrong == built.wrong).all()
    assert (again.loss == built.loss).all()
    finished = build_table(study, 40, run=tmp_path / "run", workers=0)  # from the record alone
    assert (finished.wrong == built.wrong).all()
    assert finished.parameters.tolist() == built.parameters.tolist()


def test_the_best_configs_train_again(study, tmp_path):
    def stop(done, total):
        if done > 75:  # of 8 x 9, then 2 x 9: in the second training
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_table(study, 8, run=tmp_path / "run", again=2, workers=0, progress=stop)
    table = build_table(study, 8, run=tmp_path / "run", again=2, workers=0)
    errors = table.wrong[0, :, -1].sum(axis=1)
    assert sorted(errors[table.again.configs]) == sorted(errors)[:2]
    assert table.again.wrong.shape == (1, 2, len(table.rounds), len(table.validation_clients))
    # The second training of a config is that of trial 8, with cohorts and initial weights of its own.
    place = int(table.again.configs[0])
    with trained_by_hand(table_study(study), table.configs[place], 8, 3) as federation:
        [scores] = federation.evaluate([0], federation.validation_clients)
    found = table.again.wrong[0, 0, table.place(3)] / table.counted[0]
    np.testing.assert_allclose(found, 1 - scores.accuracy, atol=1e-12)
    assert (table.again.wrong[0, 0] != table.wrong[0, place]).any()
    once = build_table(study, 8, run=tmp_path / "once", workers=0)
    assert (once.wrong == table.wrong).all()
    assert once.again is None
    assert once.training_deviation() is None
    assert 0 < table.training_deviation() < 0.2
    with pytest.raises(InputError, match="again = 9"):
        build_table(study, 8, run=tmp_path / "more", again=9, workers=0)


def test_groups_follow_the_size_of_the_model(built, study, tmp_path, monkeypatch):
    monkeypatch.setattr(build, "_BYTES", 16 * 650 * 3)
    small = build_table(study, 4, run=tmp_path / "run", workers=0)
    np.testing.assert_allclose(
        small.wrong, built.wrong[:, :4], atol=1
    )  # other groups: equal but for rounding


def test_what_a_table_cannot_be_built_from(study, tmp_path):
    def with_(**sections):
        return Study.from_dict({**study.given, **sections})

    with pytest.raises(InputError, match="uniform weights"):
        build_table(with_(server={"weighting": "size"}), 2, run=tmp_path / "a")
    mixed = {**study.given["data"], "mixing": 0.5}
    with pytest.raises(InputError, match="several heterogeneities"):
        build_table(with_(data=mixed), 2, run=tmp_path / "c")
    inside = {**study.given["data"], "split": {"kind": "inside"}}
    with pytest.raises(InputError, match="kind = 'pools'"):
        build_table(with_(data=inside), 2, run=tmp_path / "b")


def test_a_config_that_fails_stays_where_it_was(tmp_path):
    study = Study.from_dict(
        {
            "data": {"name": "digits", "clients": 10, "split": {"kind": "pools", "validation": 3, "test": 0}},
            "model": {"name": "linear"},
            "space": {"client": {"lr": 0.1}, "server": {"lr": {"choices": [1.0, 1e300]}}},
            "budget": {"rounds": 3, "cohort": 2},
        }
    )
    table = build_table(study, 2, run=tmp_path / "run", workers=0)
    bad = [config.server["lr"] for config in table.configs].index(1e300)
    assert table.trained[bad] < 3
    assert table.trained[1 - bad] == 3
    stuck = table.wrong[:, bad, table.place(max(1, table.trained[bad])) :]
    assert (stuck == stuck[:, :1]).all()
    assert np.isfinite(table.loss).all()
    table.save(tmp_path / "t.table")
