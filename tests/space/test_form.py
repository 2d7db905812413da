"""Spaces in study files."""

import json
import tomllib

import pytest

from fedhpo.core.errors import InputError
from fedhpo.space import Choice, Float, Int, Ordinal, Space

STUDY = """
[space.client]
lr = { low = 1e-4, high = 1.0, log = true }
momentum = { low = 0, high = 1, type = "float" }
epochs = { low = 1, high = 5, default = 2 }
batch_size = { choices = [8, 16, 32, 64] }
optimiser = { choices = ["sgd", "adam"] }
beta = { low = 0.8, high = 0.99, when = { "client.optimiser" = "adam" } }
proximal = 0.01
[space.server]
momentum = { choices = [0.9, 0.0] }
[space.model]
width = { values = ["small", "large"], default = "large" }
hidden = { value = [32, 16] }
head = { choices = [8, 16], type = "choice" }
"""


def test_a_study_file():
    assert Space.from_dict(tomllib.loads(STUDY)["space"]) == Space(
        client={
            "lr": Float(1e-4, 1.0, log=True),
            "momentum": Float(0, 1),
            "epochs": Int(1, 5, default=2),
            "batch_size": Ordinal([8, 16, 32, 64]),
            "optimiser": Choice(["sgd", "adam"]),
            "beta": Float(0.8, 0.99, when={"client.optimiser": "adam"}),
            "proximal": 0.01,
        },
        server={"momentum": Choice([0.9, 0.0])},
        model={
            "width": Ordinal(["small", "large"], default="large"),
            "hidden": {"value": (32, 16)},
            "head": Choice([8, 16]),
        },
    )


def test_the_form_is_json_and_reads_back():
    space = Space.from_dict(tomllib.loads(STUDY)["space"])
    assert Space.from_dict(json.loads(json.dumps(space.to_dict()))) == space


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"low": 1, "hgih": 2}, "space.client.x: unknown key 'hgih' .did you mean 'high'"),
        ({"low": 1}, "space.client.x: 'float' needs 'high', found only low"),
        ({"low": 1, "high": 2, "complement": True}, "space.client.x: 'int' has no key 'complement'"),
        ({"low": 2.0, "high": 1.0}, "space.client.x: low must be below high"),
        ({"low": 1, "high": 2, "type": "integer"}, "space.client.x: unknown type 'integer' .*known: choice"),
        ({"low": 1, "high": 2, "choices": [1]}, "space.client.x: 'choice' has no key 'low'"),
        ({"choices": 3}, "space.client.x: options must be a list, found 3"),
        ({"choices": [1], "values": [1]}, "space.client.x: 'ordinal' needs one list"),
        ({"type": "choice"}, "space.client.x: 'choice' needs one list"),
        ({"value": 1, "low": 2}, "space.client.x: 'value' fixes it and stands alone"),
        ({}, "space.client.x: needs 'low' and 'high'"),
        ([8, 16], r"space.client.x is a list; write \{ choices = \[...\] \}"),
        ({"choices": ["a", "a"]}, "space.client.x: options holds 'a' twice"),
        ({"low": 0.0, "high": 1.0, "default": 2.0}, "space.client.x: default: 2.0 is not allowed"),
    ],
)
def test_mistakes_name_their_path(table, message):
    with pytest.raises(InputError, match=message):
        Space.from_dict({"client": {"x": table}})


def test_mistakes_in_scopes():
    with pytest.raises(InputError, match=r"space: unknown scope 'cleint' .did you mean 'client'"):
        Space.from_dict({"cleint": {}})
    with pytest.raises(InputError, match=r"space.client must be a table, found 3"):
        Space.from_dict({"client": 3})
    with pytest.raises(InputError, match=r"study.toml: unknown scope"):
        Space.from_dict({"x": {}}, path="study.toml")
