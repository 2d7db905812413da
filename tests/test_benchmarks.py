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
        factory, rows = engine.MODELS[name]
        assert engine.flops(factory, rows()) == 50 * 160 * (2 * 2 * first + 3 * 2 * others), name


def test_the_limits_of_the_hostile_benchmark_by_hand(tmp_path):
    """Safe may lose 1 point without attackers and 5 at a quarter of them; what lacks seeds is not judged."""
    hostile = imported(BENCHMARKS[0].with_name("hostile.py"))
    cell = sys.modules["hostility.cells"].Cell
    log, choices = hostile.Log(tmp_path / "log.jsonl"), hostile.Choices(tmp_path / "choices.jsonl")
    log.add({cell("iid", "mean", "none", 0.0, 0.0, seed): 0.95 for seed in range(5, 10)})
    log.add({cell("iid", "safe", "none", 0.0, 0.0, seed): 0.93 for seed in range(5, 10)})
    log.add({cell("iid", "safe", "sign flip", 0.25, 1.0, seed): 0.91 for seed in range(5, 10)})
    log.add({cell("iid", "safe", "noise", 0.25, 10.0, seed): 0.5 for seed in range(5, 9)})
    assert hostile.broken(log, choices, 5) == ["safe, iid, none at 0%: 2.0 points lost, at most 1"]
    log.add(
        {cell("iid", "safe", "sign flip", 0.25, 10.0, seed): 0.8 for seed in range(5, 10)}
    )  # a stronger one
    assert len(hostile.broken(hostile.Log(tmp_path / "log.jsonl"), choices, 5)) == 2
