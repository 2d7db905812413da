import copy
import enum
import json
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedhpo.core.errors import InputError
from fedhpo.space.config import Config

few = settings(max_examples=60, deadline=None)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text('aé☃"\\\n', max_size=5)
)
values = scalars | st.lists(scalars, max_size=3) | st.lists(st.lists(scalars, max_size=2), max_size=2)
keys = st.text("abé_ ", min_size=1, max_size=3)
scopes = st.dictionaries(keys, values, max_size=4)
configs = st.builds(Config, client=scopes, server=scopes, model=scopes, policy=scopes)


@few
@given(configs)
def test_json_and_pickle_give_back_the_same_config(config):
    text = json.dumps(config.to_dict(), allow_nan=False)
    for other in (
        Config.from_dict(json.loads(text)),
        pickle.loads(pickle.dumps(config)),
        copy.deepcopy(config),
    ):
        assert other == config
        assert hash(other) == hash(config)
        assert json.dumps(other.to_dict()) == text


@few
@given(configs, configs)
def test_merge_takes_the_others_values_first(a, b):
    assert a.merge(b).flat() == {**a.flat(), **b.flat()}


def test_floats_survive_json_bit_for_bit():
    odd = [0.1 + 0.2, 5e-324, 1.7976931348623157e308, -0.0]
    back = Config.from_dict(json.loads(json.dumps(Config(client={"x": odd}).to_dict())))
    assert [value.hex() for value in back.client["x"]] == [value.hex() for value in odd]


def test_numpy_scalars_and_subclasses_become_plain_values():
    class Colour(enum.StrEnum):
        RED = "red"

    class Size(enum.IntEnum):
        TWO = 2

    given = {
        "a": np.float32(0.5),
        "b": np.int64(3),
        "c": np.bool_(True),
        "d": np.str_("x"),
        "e": [np.float64(1.5)],
        "f": Colour.RED,
        "g": Size.TWO,
    }
    config = Config(client=given)
    assert config.client == {"a": 0.5, "b": 3, "c": True, "d": "x", "e": (1.5,), "f": "red", "g": 2}
    assert [type(value) for value in config.client.values()] == [float, int, bool, str, tuple, str, int]
    assert type(config.client["e"][0]) is float


def test_a_config_cannot_be_changed():
    given = {"lr": 0.1}
    config = Config(client=given)
    given["lr"] = 0.2
    assert config.client["lr"] == 0.1
    with pytest.raises(TypeError):
        config.client["lr"] = 0.2  # type: ignore[index]
    with pytest.raises(AttributeError):
        config.client = {}  # type: ignore[misc]


def test_equality_is_by_value_and_ignores_the_order_of_names():
    a = Config(client={"lr": 0.1, "epochs": 1})
    b = Config(client={"epochs": 1, "lr": 0.1})
    assert a == b
    assert len({a, b}) == 1
    assert a != Config(server={"lr": 0.1, "epochs": 1})


def test_replace_exchanges_whole_scopes():
    config = Config(client={"lr": 0.1, "epochs": 2}, server={"lr": 1.0})
    assert config.replace(client={"lr": 0.2}) == Config(client={"lr": 0.2}, server={"lr": 1.0})


def test_texts():
    config = Config(client={"lr": 0.012345678, "nesterov": True}, model={"hidden": [32, 16]})
    assert str(config) == f"{config}" == "client(lr=0.01235, nesterov=True) model(hidden=(32, 16))"
    assert eval(repr(config), {"Config": Config}) == config


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Config(client={"lr": float("nan")}), "client.lr = nan: must be finite"),
        (lambda: Config(server={"lr": np.inf}), "server.lr = inf: must be finite"),
        (lambda: Config(client={"lr": {1, 2}}), "client.lr = {1, 2}: must be a number"),
        (lambda: Config(client={".b": 1}), "client: a name must be .* no dot at its ends, found '.b'"),
        (lambda: Config(client=3), "client must map names to values, found 3"),  # type: ignore[arg-type]
        (lambda: Config.from_dict({"clients": {}}), "unknown scope 'clients' .did you mean 'client'"),
        (lambda: Config.from_dict([]), "a config must be a table"),  # type: ignore[arg-type]
        (lambda: Config().replace(srever={}), "unknown scope 'srever' .did you mean 'server'"),
    ],
)
def test_mistakes_are_named(make, message):
    with pytest.raises(InputError, match=message):
        make()
