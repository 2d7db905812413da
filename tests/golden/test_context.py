"""A user's training function is told the same context wherever it runs."""

import re

import golden_cells
import pytest

import fedhpo as fh
from fedhpo.engine.context import TrainContext, wants_context
from fedhpo.engine.task import PreflightError
from fedhpo.protocol.federation import Work
from fedhpo.space.config import Config


def study(train="context_world:note"):
    return fh.Study.from_dict(
        {
            "data": {"name": "golden_world:clients"},
            "model": {"name": "context_world:Slate"},
            "client": {"train": train, "hyperparameters": ["pace"]},
            "server": {"aggregation": "mean", "weight_cap": 100.0},
            "space": {"client": {"pace": {"low": 0.1, "high": 1.0}}},
            "objective": {"metric": "loss"},
            "budget": {"rounds": 7, "cohort": 1},
            "flower": {"clients": 8},
        }
    )


def told(place, train="context_world:note"):
    """What two rounds of trial 2 at client 3 leave in the model."""
    given = study(train)
    if place == "flower":
        made = golden_cells.over_flower(given, 8)
    elif place == "nvflare":
        made = golden_cells.over_nvflare(given, 8)
    else:
        made = given.federation(workers=place)
    found = []
    with made as federation:
        federation.expect(7)
        federation.start(2, {}, seed=5)
        for _ in range(2):
            federation.round([Work(2, [3], {"pace": 0.5}, {"lr": 1.0}, scores=())])
            weights = federation.model(2).weight.detach()
            found.append([round(float(one), 3) for one in (*weights[0], weights[1, 0])])
    return found


@pytest.fixture(scope="module")
def in_process():
    return told(0)


def test_the_context_says_where_a_client_trains(in_process):
    first, second = in_process
    assert first[:4] == [0, 7, 2, 3]
    assert second[:4] == [1, 7, 2, 3]
    assert first[6] == 1  # on the CPU
    assert first[4:6] != second[4:6]  # another seed each round


@pytest.mark.parametrize("place", [2, "flower", "nvflare"])
def test_the_context_is_the_same_at_every_place(place, in_process):
    assert told(place) == in_process


def test_a_function_of_an_earlier_version_is_given_the_same_generator(in_process):
    assert [one[5] for one in told(0, "context_world:note_by_generator")] == [one[5] for one in in_process]


def test_the_name_or_the_annotation_of_the_last_parameter_decides():
    def annotated(model, data, hp, told: TrainContext): ...
    def named(model, data, hp, context=None): ...
    def otherwise(model, data, hp, ctx): ...
    def starred(*arguments): ...

    assert [wants_context(one) for one in (annotated, named, otherwise, starred)] == [
        True,
        True,
        False,
        False,
    ]


def test_a_generator_that_is_taken_for_the_context_is_refused_with_what_to_write():
    def train(model, data, hp, ctx):
        return ctx.round

    data = study().load_data()
    wanted = re.escape("def train(model, data, hyperparameters, context)")
    with (
        fh.simulate("mlp", data, train=train, workers=0) as federation,
        pytest.raises(PreflightError, match=wanted),
    ):
        federation.preflight(Config(), "loss")
