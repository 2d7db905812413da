"""The strangers pass the conformance suites."""

import importlib
import sys
from functools import cache
from pathlib import Path
from types import MappingProxyType

import fedhpo as fh
from fedhpo.testing.place import PlaceSuite
from fedhpo.testing.sampler import SamplerSuite
from fedhpo.testing.trainee import TraineeSuite
from fedhpo.workers.place import InProcess, InWorkers

HERE = Path(__file__).parents[2] / "examples" / "extending"


@cache
def example(name):
    """A module of examples/extending, which workers can import too."""
    if str(HERE) not in sys.path:
        sys.path.append(str(HERE))
    return importlib.import_module(name)


class TestHillClimbing(SamplerSuite):
    def sampler(self):
        return example("hill_climbing").HillClimbing()


class TestLogistic(TraineeSuite):
    config = MappingProxyType({"lr": 0.3, "batch": 16})

    def trainee(self):
        return example("own_trainee").Logistic(penalty=1e-3)

    def data(self):
        return fh.load("digits", clients=4, partition={"kind": "iid"})


class TestThreads(PlaceSuite):
    def place(self):
        return example("own_place").ThreadPlace(threads=3)


class TestInProcess(PlaceSuite):
    def place(self):
        return InProcess()


class TestInWorkers(PlaceSuite):
    def place(self):
        return InWorkers(2)
