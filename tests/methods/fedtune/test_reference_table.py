"""The reference table: look-up with its ties, interpolation, JSON, validation, pictures."""

import json
import pickle
from dataclasses import replace

import numpy as np
import plotly.graph_objects as go
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedhpo as fh
from fedhpo.core.errors import InputError
from fedhpo.methods.fedtune import Cells, ReferenceTable
from fedhpo.methods.fedtune.heat_map import heat_maps
from fedhpo.methods.fedtune.look_up import nearest
from fedhpo.protocol.federation import ClientSide

SPACE = fh.Space(
    client={
        "lr": fh.Float(0.001, 1.0, log=True),
        "batch_size": fh.Ordinal([4, 8, 16]),
        "kind": fh.Choice(["a", "b"]),
        "momentum": 0.9,
    }
)


def config(lr, batch_size=8, kind="a"):
    return {"lr": lr, "batch_size": batch_size, "kind": kind, "momentum": 0.9}


CONFIGS = (config(0.001, 4), config(0.01, 16), config(0.1, 4, "b"), config(1.0, 16, "b"))
TABLE = ReferenceTable(
    Cells((0.2, 0.8), (100, 400)), CONFIGS, SPACE, (0.5, None, 0.7, 0.8), facts={"seed": 3}
)


@pytest.mark.parametrize(
    ("index", "quantity", "cell"),
    [
        (0.2, 100, 0),
        (0.8, 400, 3),
        (0.0, 1, 0),
        (1.0, 10_000, 3),
        (0.49, 199, 0),
        (0.51, 201, 3),
        (0.5, 400, 1),  # equally near in index: the smaller
        (0.5, 200, 0),  # 200 is twice 100 and half of 400: the smaller quantity too
        (0.51, 200, 2),
    ],
)
def test_the_nearest_cell(index, quantity, cell):
    assert nearest(TABLE.cells, index, quantity) == cell
    assert TABLE.config_for(index, quantity) == CONFIGS[cell]


@given(st.floats(0, 1), st.integers(1, 5000))
def test_no_cell_is_nearer(index, quantity):
    cells = Cells()
    row, column = divmod(nearest(cells, index, quantity), len(cells.quantities))
    assert abs(cells.indices[row] - index) <= min(abs(i - index) for i in cells.indices) + 1e-8
    ratios = [abs(np.log(q / quantity)) for q in cells.quantities]
    assert ratios[column] <= min(ratios) + 1e-8


def test_interpolation_is_in_each_scale():
    between = replace(TABLE, look_up="interpolated")
    # Half way in index, and in the logarithm of the quantity: the mean of four logarithms.
    found = between.config_for(0.5, 200)
    assert found["lr"] == pytest.approx(10 ** np.mean([-3, -2, -1, 0]))
    assert found["batch_size"] == 8  # the middle of the list
    assert found["kind"] == "a"  # of the nearest cell
    assert found["momentum"] == 0.9
    for profile, own in zip(TABLE.cells.profiles, CONFIGS, strict=True):
        assert between.config_for(*profile) == own
    assert between.config_for(0.0, 5) == CONFIGS[0]
    assert between.config_for(1.0, 5000) == CONFIGS[3]


@given(st.floats(0, 1), st.integers(1, 5000))
def test_what_is_interpolated_is_in_the_space(index, quantity):
    SPACE.validate(fh.Config(client=replace(TABLE, look_up="interpolated").config_for(index, quantity)))


def test_a_client_resolves_it_by_its_own_labels():
    assert isinstance(TABLE, ClientSide)
    few = np.repeat([3, 5], 25)  # 2 of 10 classes: index 8/9; 50 rows
    assert TABLE.resolve(few, 10) == CONFIGS[2]
    assert TABLE.resolve(np.arange(1000) % 10, 10) == CONFIGS[1]


def test_it_goes_through_a_file(tmp_path):
    again = ReferenceTable.load(TABLE.save(tmp_path / "table.json"))
    assert again == TABLE
    assert again.facts == {"seed": 3}
    slim = TABLE.for_clients().to_dict()
    assert "facts" not in slim
    assert "scores" not in slim
    assert ReferenceTable.from_dict(slim).configs == TABLE.configs
    large = ReferenceTable(Cells(), (config(0.123456),) * 24, SPACE, (0.5,) * 24)
    assert len(json.dumps(large.to_dict())) < 4000


def test_it_travels_to_worker_processes():
    again = pickle.loads(pickle.dumps(TABLE.for_clients()))
    assert again.resolve(np.repeat([3, 5], 25), 10) == CONFIGS[2]


def without(key):
    return {name: value for name, value in TABLE.to_dict().items() if name != key}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: {**d, "format": "fedhpo reference table 2"}, "must be a reference table with format"),
        (lambda d: [], "found 'list'"),
        (lambda d: without("quantities"), "the key 'quantities' is missing"),
        (lambda d: {**d, "configs": d["configs"][:3]}, "3 configs for a table of 4 cells"),
        (lambda d: {**d, "scores": [1, 2]}, "2 scores for a table of 4 cells"),
        (lambda d: {**d, "scores": [1, 2, 3, "4"]}, "a score must be a number or null"),
        (lambda d: {**d, "indices": [0.8, 0.2]}, "indices=.*ascending"),
        (lambda d: {**d, "indices": 3}, "table"),
        (lambda d: {**d, "measure": "size"}, "unknown measure 'size'"),
        (lambda d: {**d, "look_up": "near"}, "unknown look_up 'near'"),
        (lambda d: {**d, "edges": [2.0, 1.0]}, "edges must be finite and ascending"),
        (lambda d: {**d, "space": {"client": {"lr": {"low": 1}}}}, "lr"),
        (
            lambda d: {**d, "configs": [*d["configs"][:3], {**d["configs"][3], "lr": 7.0}]},
            "cell of index 0.8 and quantity 400: client.lr = 7.0",
        ),
        (
            lambda d: {**d, "configs": [{"lr": 0.1}, *d["configs"][1:]]},
            "cell of index 0.2 and quantity 100: client.momentum is missing",
        ),
    ],
)
def test_what_is_read_is_checked(change, message):
    with pytest.raises(InputError, match=message):
        ReferenceTable.from_dict(change(TABLE.to_dict()))


def test_files_that_are_none(tmp_path):
    (tmp_path / "a.json").write_text("{")
    for name in ("a.json", "b.json"):
        with pytest.raises(InputError, match=f"cannot read the reference table .*{name}"):
            ReferenceTable.load(tmp_path / name)


def test_a_heat_map_for_each_hyperparameter():
    maps = heat_maps(TABLE)
    assert list(maps) == ["batch_size", "kind", "lr", "score"]
    rate = maps["lr"]["data"][0]
    assert rate["y"] == ["0.2", "0.8"]
    assert rate["x"] == ["100", "400"]
    assert rate["text"] == [["0.001", "0.01"], ["0.1", "1"]]
    assert np.array(rate["z"]) == pytest.approx(np.array([[0, 1 / 3], [2 / 3, 1]]), abs=1e-4)
    assert maps["score"]["data"][0]["text"] == [["0.500", ""], ["0.700", "0.800"]]
    for one in maps.values():
        go.Figure(one)  # raises on an unknown property
