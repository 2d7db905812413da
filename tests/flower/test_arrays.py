"""Arrays come over the wire as they were sent, or not at all."""

import math

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from fedhpo.engine.flat import FlatModel
from fedhpo.federations.flower.arrays import decode, encode
from fedhpo.federations.remote.layout import Layout, Rejected
from fedhpo.federations.remote.models import layout_of

shapes = st.dictionaries(
    st.text(min_size=1, max_size=8), st.lists(st.integers(0, 4), max_size=3).map(tuple), max_size=4
)


@settings(deadline=None)
@given(shapes, st.integers(0, 2**32 - 1))
def test_a_vector_travels_as_named_arrays_and_comes_back_the_same(shapes, seed):
    layout = Layout(shapes, 0)
    vector = np.random.default_rng(seed).normal(size=layout.size).astype(np.float32)
    sent = ArrayRecord(encode(layout.split(vector)))
    assert layout.size == sum(math.prod(shape) for shape in shapes.values())
    assert layout.join(decode(sent, layout)).tobytes() == vector.tobytes()
    assert layout.join(decode(sent)).tobytes() == vector.tobytes()


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_whatever_the_bytes_are_the_result_is_the_models_shape_or_a_rejection(data):
    layout = Layout({"w": (3, 2)}, 6)
    honest = bytearray(encode(layout.split(np.zeros(6, np.float32)))["w"].data)
    for _ in range(data.draw(st.integers(0, 3))):
        honest[data.draw(st.integers(0, len(honest) - 1))] = data.draw(st.integers(0, 255))
    end = data.draw(st.integers(0, len(honest) + 8))
    forged = bytes(honest[:end]) + b"\0" * max(0, end - len(honest))
    record = ArrayRecord({"w": Array("float32", (3, 2), "numpy.ndarray", forged)})
    try:
        found = decode(record, layout)
    except Rejected:
        return
    assert found["w"].shape == (3, 2)
    assert found["w"].dtype == np.float32


def test_what_is_not_numpys_format_is_rejected():
    record = ArrayRecord({"w": Array("float32", (2,), "pickle", b"cos\nsystem\n")})
    with pytest.raises(Rejected, match="pickle"):
        decode(record, Layout({"w": (2,)}, 2))


def test_names_that_are_not_the_models_are_rejected():
    record = ArrayRecord(encode({"w": np.zeros(2), "extra": np.zeros(1)}))
    with pytest.raises(Rejected, match="'extra'"):
        decode(record, Layout({"w": (2,)}, 2))


def test_the_layout_of_a_module_is_that_of_its_flat_vector():
    """Trainable parameters first, then frozen ones, then floating-point buffers; counters do not travel."""
    module = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2), nn.Linear(2, 2))
    module[0].weight.requires_grad = False
    model = FlatModel(module)
    layout = layout_of(model)
    assert layout.trainable == 2 + 2 + 2 + 4 + 2
    assert layout.size == model.size == layout.trainable + 6 + 2 + 2
    parts = layout.split(model.vector())
    assert list(parts)[-3:] == ["0.weight", "1.running_mean", "1.running_var"]
    for name, part in parts.items():
        assert part.tolist() == module.state_dict()[name].tolist()
