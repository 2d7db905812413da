"""What holds in every space, tried on random ones with conditions."""

import itertools
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedhpo.space import Choice, Float, Int, Ordinal, Space
from fedhpo.space.config import SCOPES, Config

few = settings(max_examples=60, deadline=None)
widths = st.floats(0, 1.5)


@st.composite
def one(draw, when, finite):
    kind = draw(
        st.sampled_from(
            ["int", "log int", "choice", "ordinal"] + ([] if finite else ["float", "log", "complement"])
        )
    )
    if kind == "float":
        low = draw(st.floats(-100, 100))
        return Float(low, low + draw(st.floats(0.01, 1000)), when=when)
    if kind == "log":
        low = 10 ** draw(st.floats(-6, 0))
        return Float(low, low * draw(st.floats(1.5, 1e6)), log=True, when=when)
    if kind == "complement":
        away = 10 ** draw(st.floats(-4, -1))  # nearer to 1 floats have too few digits for a coordinate
        return Float(1 - away * draw(st.floats(1.5, 100)), 1 - away, log=True, complement=True, when=when)
    if kind in ("int", "log int"):
        low = draw(st.integers(1, 5))
        return Int(low, low + draw(st.integers(1, 4 if finite else 100)), log=kind == "log int", when=when)
    listed = draw(st.lists(st.integers(0, 9) | st.sampled_from("abc"), min_size=1, max_size=4, unique=True))
    return (Choice if kind == "choice" else Ordinal)(listed, when=when)


@st.composite
def spaces(draw, finite=False):
    """Up to six hyperparameters in random scopes; some hang on discrete ones drawn before them."""
    scopes = {scope: {} for scope in SCOPES}
    parents = {}
    for index in range(draw(st.integers(1, 4 if finite else 6))):
        scope = draw(st.sampled_from(SCOPES))
        when = {}
        for parent in (
            draw(st.lists(st.sampled_from(sorted(parents)), max_size=2, unique=True)) if parents else ()
        ):
            cells = st.floats(0, 1).map(parents[parent].from_unit)
            when[parent] = draw(st.lists(cells, min_size=1, max_size=3))
        name = f"h{index}"
        scopes[scope][name] = hyperparameter = draw(one(when, finite))
        if not isinstance(hyperparameter, Float):
            parents[f"{scope}.{name}"] = hyperparameter
    scopes["client"]["fixed"] = draw(st.sampled_from([1, 0.5, "x", {"value": (1, 2)}, None]))
    return Space(**scopes)


@st.composite
def spaces_and_configs(draw, count=1):
    space = draw(spaces())
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    return space, rng, *(space.sample(rng) for _ in range(count))


@few
@given(spaces_and_configs())
def test_samples_are_inside_and_survive_every_round_trip(drawn):
    space, _, config = drawn
    space.validate(config)
    assert space.from_unit(space.to_unit(config)) == config
    assert Config.from_dict(json.loads(json.dumps(config.to_dict()))) == config
    assert space.complete(config) == config
    assert space.contains(space.default())
    assert all(type(value) in (int, float, str, bool, tuple, type(None)) for value in config.flat().values())


@few
@given(spaces())
def test_the_form_reads_back(space):
    again = Space.from_dict(json.loads(json.dumps(space.to_dict())))
    assert again == space
    assert again.names == space.names


@few
@given(spaces_and_configs())
def test_unit_coordinates_stay_in_their_cell(drawn):
    space, rng, _ = drawn
    unit = rng.random(space.dimensions)
    config = space.from_unit(unit)
    back = space.to_unit(config)
    for index, (name, hyperparameter) in enumerate(space.hyperparameters.items()):
        if name not in config.flat():
            assert back[index] == 0.5
        elif isinstance(hyperparameter, Float):
            assert back[index] == pytest.approx(unit[index], abs=1e-9)
        elif not getattr(hyperparameter, "log", False):
            assert abs(back[index] - unit[index]) <= 0.5 / hyperparameter.count + 1e-12


@few
@given(spaces_and_configs())
def test_a_hyperparameter_is_there_exactly_when_its_condition_holds(drawn):
    space, _, config = drawn
    values = config.flat()
    for name, hyperparameter in space.hyperparameters.items():
        holds = all(
            parent in values and values[parent] in allowed for parent, allowed in hyperparameter.when.items()
        )
        assert (name in values) == holds


@few
@given(spaces_and_configs(), widths)
def test_the_ball_lies_in_the_box_and_within_eps(drawn, eps):
    space, rng, config = drawn
    near = space.ball(config, eps, rng)
    space.validate(near)
    before, after = config.flat(), near.flat()
    for name in before.keys() & after.keys():
        hyperparameter = space.hyperparameters.get(name)
        if hyperparameter is None or not name.startswith("client."):
            assert after[name] == before[name]
        elif isinstance(hyperparameter, Float):
            assert abs(hyperparameter.gap(before[name], after[name])) <= eps + 1e-9
        elif isinstance(hyperparameter, Ordinal) or (
            isinstance(hyperparameter, Int) and not hyperparameter.log
        ):
            steps = abs(hyperparameter.index(after[name]) - hyperparameter.index(before[name]))
            assert steps <= math.ceil(eps * (hyperparameter.count - 1))


@few
@given(spaces_and_configs(), widths)
def test_perturbation_lies_in_the_box_and_within_its_bounds(drawn, eps):
    space, rng, config = drawn
    child = space.perturb(config, eps, 0.0, rng)
    space.validate(child)
    space.validate(space.perturb(config, eps, 0.5, rng, scopes=SCOPES))
    before, after = config.flat(), child.flat()
    for name in before.keys() & after.keys():
        hyperparameter = space.hyperparameters.get(name)
        if hyperparameter is None or not name.startswith(("client.", "server.")):
            assert after[name] == before[name]
        elif isinstance(hyperparameter, Float):
            assert abs(hyperparameter.gap(before[name], after[name])) <= eps + 1e-9
        elif isinstance(hyperparameter, Ordinal) or (
            isinstance(hyperparameter, Int) and not hyperparameter.log
        ):
            start, end = hyperparameter.index(before[name]), hyperparameter.index(after[name])
            steps = max(1, math.floor(eps * hyperparameter.count + 1e-9))
            assert end in {start, max(0, start - steps), min(hyperparameter.count - 1, start + steps)}


@few
@given(spaces_and_configs(count=2), widths)
def test_clipping_ends_in_the_ball_and_then_changes_nothing(drawn, radius):
    space, _, config, centre = drawn
    boxed = space.clip_to_ball(config, centre, radius, scopes=SCOPES)
    space.validate(boxed)
    middle, after = centre.flat(), boxed.flat()
    for name in middle.keys() & after.keys() & config.flat().keys() & set(space.names):
        hyperparameter = space.hyperparameters[name]
        if isinstance(hyperparameter, Float):
            assert abs(hyperparameter.gap(middle[name], after[name])) <= radius + 1e-9
    assert space.clip_to_ball(boxed, boxed, radius, scopes=SCOPES) == boxed
    round_ = space.clip_to_ball(config, centre, radius, scopes=SCOPES, norm="euclidean")
    space.validate(round_)
    shared = [
        hyperparameter.gap(middle[name], round_.flat()[name])
        for name, hyperparameter in space.hyperparameters.items()
        if name in middle and name in round_.flat() and name in config.flat()
    ]
    assert math.hypot(*shared) <= radius + 1e-9


@few
@given(spaces_and_configs(count=3))
def test_distance_is_a_metric(drawn):
    space, _, a, b, c = drawn
    assert space.distance(a, b) == space.distance(b, a) >= 0
    assert (space.distance(a, b) == 0) == (a == b)
    assert space.distance(a, c) <= space.distance(a, b) + space.distance(b, c) + 1e-12


@few
@given(spaces(finite=True))
def test_grid_and_size_count_every_config_once(space):
    grid = list(space.grid(1))
    assert len(set(grid)) == len(grid) == space.size
    # An independent enumeration: the centres of all cells, inactive ones included, seen once each.
    centres = [[hp.to_unit(value) for value in hp.grid(None)] for hp in space.hyperparameters.values()]
    assert set(grid) == {space.from_unit(unit) for unit in itertools.product(*centres)}
