"""The NVFlare federation, with its clients in this process, passes the suite that all federations pass."""

from nvflare_cases import local_sites
from suite import NVFlareSuite


class TestInProcess(NVFlareSuite):
    """Clients behind fake proxies: all of ours, none of NVFlare's transport."""

    def sites(self):
        return local_sites()
