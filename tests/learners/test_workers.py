"""Workers of learners: what happens where they cannot be had."""

import json
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from fedhpo.data import from_clients
from fedhpo.learners.tasks import Bench
from fedhpo.learners.workers import start_workers


class Task:
    """How many rows there are, twice over."""

    def run(self, bench):
        return 2 * len(bench.data.x)


def small():
    rng = np.random.default_rng(0)
    return from_clients([(rng.normal(size=(6, 2)).astype(np.float32), np.arange(6) % 2) for _ in range(2)])


def test_a_learner_that_cannot_be_sent_is_trained_here_with_a_warning():
    class Local:
        """Not defined in a module."""

    bench = Bench(Local(), small())
    with pytest.warns(UserWarning, match="trained in this process, not in workers: .*Local"):
        pool = start_workers(bench, 2)
    ticket = pool.submit(Task())
    ended = pool.next()
    assert (pool.kind, ended.ticket, ended.value) == ("inline", ticket, 24)
    pool.close()


SCRIPT = """
    import json
    import numpy as np
    import fedhpo as fh
    from sklearn.naive_bayes import GaussianNB

    class Mine(GaussianNB):
        pass

    rng = np.random.default_rng(0)
    clients = [(rng.normal(size=(30, 2)).astype(np.float32), np.arange(30) % 2) for _ in range(2)]
    with fh.LearnerFederation(clients, "__main__:Mine", workers=1) as federation:
        federation.start(0, {}, seed=0)
        [report] = federation.round([fh.Work(0, [0, 1], {})])
        print(json.dumps(report.status.tolist()))
"""


def test_a_script_without_main_guard_does_its_work_once(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT))
    found = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=60, env=dict(os.environ)
    )
    assert found.returncode == 0, found.stderr
    assert [json.loads(line) for line in found.stdout.splitlines()] == [[0, 0]]
    assert "if __name__ == '__main__':" in found.stderr
    assert "Traceback" not in found.stderr
