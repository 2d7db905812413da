"""The strangers, and ours, pass the conformance suites."""

import importlib
import sys
from functools import cache
from pathlib import Path
from types import MappingProxyType

import pytest

import fedhpo as fh
from fedhpo.aggregation.server import OPTIMISERS
from fedhpo.data import Dirichlet
from fedhpo.privacy.selection import one_shot, permute_and_flip
from fedhpo.testing.aggregation import AggregationSuite, OptimiserSuite
from fedhpo.testing.mechanism import MechanismSuite
from fedhpo.testing.metric import MetricSuite
from fedhpo.testing.partition import PartitionSuite
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


class TestGeometricMedian(AggregationSuite):
    def rule(self):
        return example("geometric_median").GeometricMedian()


class TestSignedServer(OptimiserSuite):
    def optimiser(self):
        return example("signed_server").SignedServer()


@pytest.mark.parametrize("name", OPTIMISERS)
class TestOurOptimisers(OptimiserSuite):
    @pytest.fixture(autouse=True)
    def named(self, name):
        self.name = name

    def optimiser(self):
        return OPTIMISERS[self.name]()


class TestOneRareClass(PartitionSuite):
    def partition(self, clients):
        return example("one_rare_class").OneRareClass(clients)


class TestDirichlet(PartitionSuite):
    def partition(self, clients):
        return Dirichlet(clients, alpha=0.5)


class TestGumbelChoice(MechanismSuite):
    def mechanism(self):
        return example("gumbel_choice").GumbelChoice()


class TestPermuteAndFlip(MechanismSuite):
    def mechanism(self):
        return permute_and_flip


class TestBrier(MetricSuite):
    name = "brier:Brier"

    @pytest.fixture(autouse=True)
    def imported(self):
        example("brier")


class TestF1(MetricSuite):
    name = "f1_macro"


def test_the_suite_notices_a_mechanism_that_spends_three_times_its_epsilon():
    class Spendthrift(MechanismSuite):
        def mechanism(self):
            return lambda values, count, epsilon, *more: one_shot(values, count, 3 * epsilon, *more)

    with pytest.raises(AssertionError, match="is above epsilon"):
        Spendthrift().test_no_outcome_is_much_likelier_at_a_neighbour(1)
