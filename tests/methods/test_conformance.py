"""Every method does what a method must do."""

import tempfile
from functools import cache
from pathlib import Path

import numpy as np

import fedhpo as fh
from fedhpo.methods import Tuner
from fedhpo.methods.fedtune import Cells, ReferenceTable
from fedhpo.protocol.federation import Answer, Status
from fedhpo.queries.local_search import PartySearch
from fedhpo.schedules import Halving
from fedhpo.testing import ToyFederation
from fedhpo.testing.method import MethodSuite


class TestRandomSearch(MethodSuite):
    def method(self):
        return fh.RandomSearch(trials=4)


class TestGridSearch(MethodSuite):
    def method(self):
        return fh.GridSearch(points=2, trials=4)


class TestSHA(MethodSuite):
    def method(self):
        return fh.SHA(trials=6)


class TestAuto(MethodSuite):
    def method(self):
        return fh.Auto()


class TestRobust(MethodSuite):
    def method(self):
        return fh.Robust()


class TestTPE(MethodSuite):
    def method(self):
        return fh.TPE(trials=4, side_by_side=2, startup=2)


class TestGP(MethodSuite):
    def method(self):
        return fh.GP(trials=4, side_by_side=2, startup=2)


class TestHyperband(MethodSuite):
    def method(self):
        return fh.Hyperband()


class TestBOHB(MethodSuite):
    def method(self):
        return fh.BOHB()


class TestFedEx(MethodSuite):
    def method(self):
        return fh.FedEx(arms=3, schedule="fixed", trials=3, metric="error")


class TestFedExOnLosses(MethodSuite):
    """It refuses privacy: a loss has no bound."""

    def method(self):
        return fh.FedEx(arms=3, trials=4)


class TestFedExAuto(MethodSuite):
    """It refuses privacy: forks are compared client by client."""

    def method(self):
        return fh.FedEx.auto(arms=3, trials=4)


class TestFedPop(MethodSuite):
    def method(self):
        return fh.FedPop(population=4, interval=1)


class TestFedPopAuto(MethodSuite):
    """It refuses privacy: finalists are compared client by client."""

    def method(self):
        return fh.FedPop.auto(trials=6)


class TestFedPopAuthorsCode(MethodSuite):
    def method(self):
        return fh.FedPop.authors_code(population=4, rate=2)


class TestFedPopWithoutExchange(MethodSuite):
    def method(self):
        return fh.FedPop(population=4, exchange=False)


class TestAComposedTuner(MethodSuite):
    def method(self):
        return Tuner(Halving(trials=4, rate=2))


@cache
def table() -> str:
    """A reference table in a file."""
    tuned = fh.Space(client={"lr": fh.Float(0.01, 1.0, log=True)})
    cells = ReferenceTable(Cells((0.2, 0.8), (30,)), ({"lr": 0.1}, {"lr": 0.3}), tuned)
    path = Path(tempfile.mkdtemp()) / "table.json"
    cells.save(path)
    return str(path)


class TestFedTune(MethodSuite):
    total = 4
    space = fh.Space(
        client={"lr": fh.Float(0.01, 1.0, log=True)},
        server={
            "lr": fh.Float(0.1, 1.0),
            "rule": fh.Choice(["a", "b"]),
            "decay": fh.Float(0.0, 1.0, when={"server.rule": ["b"]}),
        },
    )
    plain = fh.Space(client={"lr": fh.Float(0.01, 1.0, log=True)}, server={"lr": fh.Float(0.1, 1.0)})

    def method(self):
        return fh.FedTune(table=table())


class Parties(ToyFederation):
    """Clients that search on their own: their losses are how far lr is from their best."""

    def query(self, task, clients):
        return [self.search(task, int(party)) for party in clients]

    def search(self, task, party):
        if self.failing and party % 3 == 0:
            return Answer(party, Status.FAILED, reason="failed as it was told to")
        search = PartySearch(task, party, 10 + party)
        while (config := search.ask()) is not None:
            search.tell(abs(np.log10(config.client["lr"]) + 1 + party % 2))
        return search.answer()


class TestFLoRA(MethodSuite):
    """Parties cannot see the server's hyperparameters: none of theirs may depend on one."""

    total = 8
    space = fh.Space(
        client={
            "lr": fh.Float(1e-3, 10.0, log=True),
            "rule": fh.Choice(["a", "b"]),
            "decay": fh.Float(0.0, 1.0, when={"client.rule": ["b"]}),
        },
        server={"lr": fh.Float(0.1, 1.0)},
    )

    def method(self):
        return fh.FLoRA(configs=4, sampler="random", regressor="gp", refine=1, diagnose=False, local_rounds=1)

    def federation(self, **options):
        return Parties(clients=5, **options)


class TestFTS(MethodSuite):
    total = 8

    def method(self):
        return fh.FTS(configs=4, features=20, local_rounds=1)

    def federation(self, **options):
        return Parties(clients=5, **options)


class TestFedHyper(MethodSuite):
    def method(self):
        return fh.FedHyper(schedule="fixed", trials=3)
