"""The strangers pass the conformance suites."""

import importlib.util
import sys
from functools import cache
from pathlib import Path

from fedhpo.testing.sampler import SamplerSuite

HERE = Path(__file__).parents[2] / "examples" / "extending"


@cache
def example(name):
    """A module of examples/extending."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", HERE / f"{name}.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class TestHillClimbing(SamplerSuite):
    def sampler(self):
        return example("hill_climbing").HillClimbing()
