"""FedAdam and Krum of Flower make a population's models: forked, killed, resumed, and the same in the end."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from flower_cases import SMALL, small_app
from test_durable import DyingGrid, Killed, context, outcome, rounds

from fedhpo.flower import InProcessGrid, tune
from fedhpo.study import Study

ETA = {"server": {"eta": {"low": 0.01, "high": 0.3, "log": True}, "beta_1": 0.8}}


def study(strategy):
    """FedPop over two members: after every round the worse becomes a copy of the better."""
    return Study.from_dict(
        {
            **SMALL.given,
            "server": {"strategy": strategy},
            "space": SMALL.given["space"] | (ETA if strategy == "FedAdam" else {}),
            "method": {"name": "fedpop", "population": 2, "interval": 1},
            "budget": {"rounds": 4, "total": 8, "cohort": 4},
            "flower": {"clients": 8},
        }
    )


@pytest.mark.parametrize("strategy", ["FedAdam", "Krum"])
def test_a_killed_run_goes_on_to_the_same_result(strategy, tmp_path):
    asked = study(strategy)
    whole = tune(InProcessGrid(small_app(asked), 8), context(tmp_path / "whole"), asked)
    with pytest.raises(Killed):
        tune(DyingGrid(small_app(asked), 8, 5), context(tmp_path / "run"), asked)
    assert rounds(tmp_path / "run") > 0
    again = tune(InProcessGrid(small_app(asked), 8), context(tmp_path / "run"), asked)
    assert outcome(again) == outcome(whole)
    assert len(whole.lineage)  # forks happened


KILLED = """
import os, signal, sys
sys.path.append({here!r})
import test_durable, test_strategies_durable

class Grid(test_durable.DyingGrid):
    def pull_messages(self, message_ids):
        if self.looks == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().pull_messages(message_ids)

study = test_strategies_durable.study("FedAdam")
test_durable.tune(Grid(test_durable.small_app(study), 8, 5), test_durable.context({run!r}), study)
"""


def test_a_process_that_is_killed_outright_loses_nothing(tmp_path):
    asked = study("FedAdam")
    program = KILLED.format(here=str(Path(__file__).parent), run=str(tmp_path / "run"))
    killed = subprocess.run([sys.executable, "-c", program], timeout=1800)
    assert killed.returncode == -signal.SIGKILL
    assert rounds(tmp_path / "run") > 0
    again = tune(InProcessGrid(small_app(asked), 8), context(tmp_path / "run"), asked)
    whole = tune(InProcessGrid(small_app(asked), 8), context(tmp_path / "whole"), asked)
    assert outcome(again) == outcome(whole)
