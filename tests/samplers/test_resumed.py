"""A run with a model-based sampler, or Hyperband, that is stopped and resumed ends identically."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedhpo as fh
from fedhpo.methods import BOHB, GP, TPE, Hyperband, Tuner
from fedhpo.protocol.method import Method
from fedhpo.samplers import OptunaSampler
from fedhpo.schedules import FixedLength
from fedhpo.search.evaluator import Evaluator
from fedhpo.search.events import Event
from fedhpo.testing import ToyFederation

SPACE = fh.Space(
    client={"lr": fh.Float(1e-3, 10.0, log=True), "batch_size": fh.Ordinal([8, 16, 32])},
    server={"lr": fh.Float(0.1, 1.0), "kind": fh.Choice(["a", "b"])},
)
METHODS = {
    "tpe": TPE(side_by_side=2),
    "gp": GP(side_by_side=2),
    "noisy gp": GP(acquisition="noisy-ei"),
    "hyperband": Hyperband(),
    "bohb": BOHB(),
    "optuna": Tuner(FixedLength(side_by_side=2), OptunaSampler("TPESampler", {"n_startup_trials": 4})),
}


def _facts(method: Method | Tuner, run: Path | None, stop_at: int | None) -> tuple[dict[str, Any], int]:
    """What result.json would hold but for times, and how many events there were."""
    calls = 0

    def stopping(event: Event) -> None:
        nonlocal calls
        calls += not event.replayed
        if stop_at is not None and calls == stop_at:
            raise fh.StopTuning("enough for now")

    with ToyFederation(clients=8, missing=0.1) as toy:
        result = fh.tune(
            toy,
            SPACE,
            method,
            rounds=9,
            total=100,
            cohort=3,
            seed=3,
            run=run,
            evaluation=Evaluator(clients=4),
            callbacks=[stopping],
        )
    return {name: fact for name, fact in result.facts.items() if name != "times"}, calls


@pytest.mark.parametrize("name", METHODS)
def test_a_stopped_run_ends_as_if_it_had_not_been(name: str, tmp_path: Path) -> None:
    method = METHODS[name]
    whole, events = _facts(method, None, None)
    assert whole["status"] == "finished"
    rng = np.random.default_rng(len(name))
    for part in rng.integers(1, events // 3, 3):
        stopped, _ = _facts(method, tmp_path / "run", int(part))
        assert stopped["status"] == "stopped"
    assert _facts(method, tmp_path / "run", None)[0] == whole
