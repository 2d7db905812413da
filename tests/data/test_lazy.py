"""Clients that are loaded when they are met."""

import numpy as np
import pytest

import fedhpo as fh
from fedhpo.core.errors import InputError
from fedhpo.data.fingerprint import data_of
from fedhpo.data.lazy import source_of

SIZES = np.array([10, 12, 30, 7])


def load(client):
    rng = np.random.default_rng(client)
    return rng.normal(size=(SIZES[client], 3)), rng.integers(0, 4, SIZES[client])


def test_clients_hold_the_rows_that_were_loaded_each_in_one_split():
    data = fh.from_loader(load, SIZES, classes=4)
    assert [split.sizes.tolist() for split in (data.train, data.validation, data.test)] == [
        [8, 10, 24, 5],
        [1, 1, 3, 1],
        [1, 1, 3, 1],
    ]
    for client in range(4):
        rows = np.concatenate([split.rows(client) for split in (data.train, data.validation, data.test)])
        x, y = load(client)
        pairs = {(*map(float, a), int(b)) for a, b in zip(x.astype(np.float32), y, strict=True)}
        assert {(*map(float, a), int(b)) for a, b in zip(data.x[rows], data.y[rows], strict=True)} == pairs
    assert (
        np.asarray(data.train.indices).tolist()
        == np.concatenate([data.train.rows(client) for client in range(4)]).tolist()
    )
    assert data.train.indices[6:10].tolist() == np.asarray(data.train.indices)[6:10].tolist()


def test_rows_of_several_clients_come_in_the_order_asked_for():
    data = fh.from_loader(load, SIZES, classes=4)
    rows = np.array([55, 0, 25, 1, 54])
    assert np.array_equal(data.x[rows], np.stack([data.x[np.array([row])][0] for row in rows]))


def test_the_cache_holds_the_clients_met_last_up_to_its_bytes():
    called = []

    def counted(client):
        called.append(client)
        return load(client)

    # A row takes 3 x 4 + 8 bytes: clients 0, 1 and 3 fit into 600 bytes, 0, 1 and 2 do not.
    data = fh.from_loader(counted, SIZES, classes=4, cache_mb=600e-6)
    called.clear()
    for client in (0, 1, 3, 0, 1, 3):
        _ = data.x[data.train.rows(client)], data.y[data.train.rows(client)]
    assert called == [1, 3]  # client 0 was there from the start
    _ = data.x[data.train.rows(2)]
    called.clear()
    _ = data.x[data.train.rows(2)], data.x[data.train.rows(3)]
    assert called == [3]
    assert data.x.rows._bytes <= 600


@pytest.mark.parametrize("stacking", [False, True])
def test_results_do_not_depend_on_workers(stacking):
    found = []
    for workers in (0, 2):
        data = fh.from_loader(load, SIZES, classes=4, cache_mb=0)
        with fh.simulate("mlp", data, workers=workers, stacking=stacking) as federation:
            federation.start(0, {}, seed=0)
            [report] = federation.round([fh.Work(0, range(4), {"lr": 0.1, "batch_size": 4})])
            [scores] = federation.evaluate([0], range(4))
            found.append((federation.state(0).arrays["weights"], report.loss_after, scores.loss))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_study_runs_and_resumes(tmp_path):
    space = fh.Space(client={"lr": fh.Float(0.01, 1.0, log=True)})
    results = []
    for total in (4, 4):
        data = fh.from_loader(load, SIZES, classes=4)
        with fh.simulate("linear", data, workers=0) as federation:
            results.append(
                fh.tune(federation, space, "random", rounds=2, total=total, cohort=2, run=tmp_path / "run")
            )
    assert results[0].best_config == results[1].best_config
    other = fh.from_loader(lambda client: (load(client)[0] + 1, load(client)[1]), SIZES, classes=4)
    with fh.simulate("linear", other, workers=0) as federation, pytest.raises(fh.FedhpoError, match="rows"):
        fh.tune(federation, space, "random", rounds=2, total=4, cohort=2, run=tmp_path / "run")


def test_fingerprints_tell_data_and_sizes_apart():
    first = data_of(fh.from_loader(load, SIZES, classes=4))
    assert first == data_of(fh.from_loader(load, SIZES, classes=4))
    assert first != data_of(fh.from_loader(load, SIZES, classes=4, validation=0.2))
    assert first != data_of(fh.from_loader(lambda c: (2 * load(c)[0], load(c)[1]), SIZES, classes=4))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda c: (load(c)[0][:-1], load(c)[1][:-1]), "by `sizes` it has 12 rows"),
        (lambda c: (load(c)[0] * np.nan, load(c)[1]), "NaN"),
        (lambda c: (load(c)[0], load(c)[1] + 4), "not in 0..3"),
        (lambda c: {}[c], "cannot be loaded: KeyError"),
        (lambda c: (load(c)[0][:, :2], load(c)[1]), "samples have shape"),
    ],
)
def test_what_is_wrong_with_a_client_is_said_when_it_is_met(wrong, words):
    data = fh.from_loader(lambda c: wrong(c) if c == 1 else load(c), SIZES, classes=4)
    with pytest.raises(InputError, match=f"client 1.*{words}"):
        data.x[data.train.rows(1)]
    with fh.simulate("linear", data, workers=0) as federation:
        federation.start(0, {}, seed=0)
        [report] = federation.round([fh.Work(0, [0, 1], {"lr": 0.1})])
    assert report.status.tolist() == [0, 1]
    assert "client 1" in report.reasons[1].text


def test_settings_that_cannot_be_are_refused():
    for settings, words in [
        ({"sizes": []}, "sizes"),
        ({"sizes": [0, 3]}, "sizes"),
        ({"classes": None}, "classes is needed"),
        ({"cache_mb": -1}, "cache_mb"),
        ({"load": 3}, "load"),
    ]:
        with pytest.raises(InputError, match=words):
            fh.from_loader(**{"load": load, "sizes": SIZES, "classes": 4} | settings)


def test_arrays_have_no_source():
    assert source_of(fh.load("digits", clients=3)) is None
