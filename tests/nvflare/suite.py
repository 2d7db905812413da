"""The suite that all federations pass, over sites that the subclass names."""

from nvflare_cases import SilentFederation, small_federation

from fedhpo.testing.federation import FederationSuite


class NVFlareSuite(FederationSuite):
    client = {"lr": 0.3, "momentum": 0.5, "batch_size": 4, "lr_decay": 0.9}  # noqa: RUF012
    server = {"lr": 0.5, "lr_decay": 0.8}  # noqa: RUF012
    other_model = {"hidden": 5}  # noqa: RUF012

    def sites(self):
        """What stands in for `collab.clients`."""
        raise NotImplementedError

    def make(self):
        return small_federation(self.sites(), server="fedadam")

    def make_silent(self):
        return SilentFederation(self.sites())
