"""Tests inside a job of NVFlare's simulator: `python tests/nvflare/suite_job.py REPORT.xml`.

pytest runs in the job's server, over the job's sites: eight processes, NVFlare's own transport between them.
"""

import os
import sys
import tempfile
import time
from pathlib import Path

from nvflare.collab import CollabRecipe, collab
from nvflare.recipe import SimEnv

from fedhpo.nvflare import Client

#: NVFlare copies this file into the job: the tests stay where they are.
TESTS = os.environ.setdefault("NVFLARE_TESTS", str(Path(__file__).parent))
if TESTS not in sys.path:
    sys.path.append(TESTS)

from nvflare_cases import SMALL, STUDIES  # noqa: E402


class SuiteServer:
    """Runs the tests; NVFlare's recipes take objects made of plain values."""

    def __init__(self, report: str):
        self.report = report

    @collab.main
    def main(self):
        """The whole job."""
        import nvflare_cases
        import pytest

        nvflare_cases.SITES[:] = list(collab.clients)
        options = ["-p", "no:cacheprovider", "--noconftest", "--tb=short", "-q"]
        pytest.main([f"{TESTS}/in_simulator.py", f"--junitxml={self.report}", *options])


class SuiteClient(Client):
    """A client as any other, which also misbehaves when it is asked to."""

    def __init__(self, study: dict):
        super().__init__(study)
        self.others = {name: Client(other) for name, other in STUDIES.items()}
        self.queries = {"nap": self.nap, "fail": self.fail, "leave": self.leave, "die": self.die}

    @collab.publish
    def other(self, study: str, kind: str, text: str, models: dict):
        """As `answer`, of a client of another study."""
        return self.others[study].reply(str(collab.site_name), kind, text, models)

    @staticmethod
    def nap(asked, model, task, site):
        """Take long."""
        time.sleep(asked["seconds"])

    @staticmethod
    def fail(asked, model, task, site):
        """Raise an exception."""
        raise RuntimeError("no power")

    @staticmethod
    def leave(asked, model, task, site):
        """End Python, or try to."""
        sys.exit(3)

    @staticmethod
    def die(asked, model, task, site):
        """End the process."""
        os._exit(1)


def main():
    with tempfile.TemporaryDirectory() as folder:
        job = CollabRecipe(
            "suite",
            server=SuiteServer(sys.argv[1]),
            client=SuiteClient(SMALL),
            min_clients=8,
            sync_task_timeout=300,
        )
        job.execute(SimEnv(num_clients=8, workspace_root=folder))


if __name__ == "__main__":
    main()
