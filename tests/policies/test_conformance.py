"""Every client policy does what a client policy must do."""

from dataclasses import replace

from fedhpo.methods.fedex import policy as fedex
from fedhpo.methods.fedpop.local import FedPopLocal
from fedhpo.methods.fedtune import Cells, ReferenceTable
from fedhpo.methods.fedtune.policy import LookUp
from fedhpo.methods.hpn import HPN
from fedhpo.policies import Cooling, Fixed
from fedhpo.protocol.policy import ClientPolicy
from fedhpo.testing.policy import SPACE, PolicySuite


class TestFixed(PolicySuite):
    def policy(self) -> ClientPolicy:
        return Fixed()


class TestFedEx(PolicySuite):
    def policy(self) -> ClientPolicy:
        return fedex.FedEx(arms=4)


class TestFedExWithAllRemedies(PolicySuite):
    def policy(self) -> ClientPolicy:
        return fedex.FedExPolicy.auto(arms=5, explore=0.1, entropy=0.01, eliminate=0.1, until=0.5)


class TestFedExGrid(PolicySuite):
    def policy(self) -> ClientPolicy:
        return fedex.FedEx(grid=3)


class TestHPN(PolicySuite):
    def policy(self) -> ClientPolicy:
        return HPN()

    def begun(self) -> ClientPolicy:
        return replace(HPN(), rounds=self.rounds)


class TestHPNWithEncodings(PolicySuite):
    def policy(self) -> ClientPolicy:
        return HPN(encodings={client: [float(client), client % 3.0] for client in range(9)}, until=0.5)

    def begun(self) -> ClientPolicy:
        return replace(self.policy(), rounds=self.rounds)


class TestCooling(PolicySuite):
    def policy(self) -> ClientPolicy:
        return Cooling(share=0.5)

    def begun(self) -> ClientPolicy:
        return replace(self.policy(), rounds=self.rounds)


class TestFedPopLocal(PolicySuite):
    def policy(self) -> ClientPolicy:
        return FedPopLocal()

    def begun(self) -> ClientPolicy:
        return replace(FedPopLocal(), rounds=self.rounds)


class TestLookUp(PolicySuite):
    def policy(self) -> ClientPolicy:
        tuned = SPACE.subspace(("client",))
        rows = tuple({"lr": lr, "batch_size": 16} for lr in (0.1, 0.3))
        return LookUp(ReferenceTable(Cells((0.2, 0.8), (30,)), rows, tuned))
