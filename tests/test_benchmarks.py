"""Benchmarks are run by hand; that they still fit the library is checked here."""

import importlib.util
import sys
from pathlib import Path

import pytest

BENCHMARKS = sorted((Path(__file__).parents[1] / "benchmarks").glob("*.py"))


def imported(path):
    spec = importlib.util.spec_from_file_location(f"benchmark_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up there
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", BENCHMARKS, ids=lambda path: path.stem)
def test_every_benchmark_can_be_imported_and_has_a_main(path):
    assert callable(imported(path).main)


def test_operations_of_the_engines_benchmark_by_hand():
    engine = imported(BENCHMARKS[0].with_name("engine.py"))
    engine.declare()
    # Multiplications of the first layer, which needs no gradient of its inputs, and of the others.
    by_hand = {
        "mlp": (784 * 200, 200 * 62),
        "mlp_digits": (64 * 32, 32 * 10),
        "cnn_small": (32 * 32 * 16 * 27, 16 * 16 * 32 * 144 + 2048 * 128 + 128 * 10),
        "cnn_femnist": (28 * 28 * 32 * 25, 14 * 14 * 64 * 800 + 3136 * 512 + 512 * 62),
        "lstm": (0, 80 * 4 * 128 * (8 + 128 + 128 + 128) + 128 * 80),  # an embedding is the first layer
    }
    for name, (first, others) in by_hand.items():
        assert engine.flops(*engine.MODELS[name]) == 50 * 160 * (2 * 2 * first + 3 * 2 * others), name
