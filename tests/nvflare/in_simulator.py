"""The suite over the sites of a job; collected inside the job only (`suite_job.py`)."""

import nvflare_cases
from suite import NVFlareSuite


class TestInSimulator(NVFlareSuite):
    """Eight processes behind NVFlare's own transport."""

    def sites(self):
        return nvflare_cases.SITES
