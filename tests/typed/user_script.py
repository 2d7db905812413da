"""A user's script. Type checkers are run on it; nothing runs it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, assert_type

import numpy as np
import torch
from torch import nn

import fedhpo as fh


class Net(nn.Module):
    def __init__(self, hidden: int = 16) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, hidden), nn.ReLU(), nn.Linear(hidden, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.layers(x)
        return found


def train(model: nn.Module, data: Any, hp: Mapping[str, Any], context: fh.TrainContext) -> None:
    rate = hp["lr"] * (1 - context.round / context.rounds)
    rows = torch.randint(len(data.x), (8,), generator=context.generator)
    print(rate, rows, context.trial, context.client, context.seed, context.device)


def train_as_before(model: nn.Module, data: Any, hp: Mapping[str, Any], generator: torch.Generator) -> None:
    print(torch.rand(1, generator=generator))


def stop_early(event: fh.Event) -> bool:
    for trial in event.trials:
        known: fh.Trial = trial
        print(known.number, known.config.client, known.status, known.round)
        if trial.score is not None and trial.score.value > 0.9:
            return True
    return False


rng = np.random.default_rng(0)
clients = fh.from_clients([(rng.normal(size=(40, 8)), rng.integers(0, 3, 40)) for _ in range(5)])
space = fh.Space(client={"lr": fh.Float(1e-3, 1.0, log=True), "batch_size": fh.Ordinal([8, 16])})
federation = fh.simulate(Net, clients, train=train, workers=0)
federation = fh.simulate(Net, clients, train=train_as_before, workers=0)
tuner = fh.Tuner(fh.schedules.Halving(trials=9), fh.samplers.TPE(startup=3))
result = fh.tune(federation, space, tuner, rounds=5, cohort=3, callbacks=[stop_early], run=Path("runs/a"))
result = fh.tune(federation, space, fh.TPE(trials=4), rounds=5)
assert_type(result, fh.Result)

if result.gain is not None:
    assert_type(result.gain, fh.Gain)
    assert_type(result.gain.value, float | None)
    print(result.gain["value"])
if result.test is not None:
    assert_type(result.test, fh.TestScores)
    print(result.test.accuracy, result.test["accuracy"])
for trial in result.trials:
    one: fh.Trial = trial
    assert_type(trial.number, int)
    assert_type(trial.score, float | None)
    print(trial["client.lr"], trial.config.client["lr"], trial.reason, one.status)
assert_type(result.best_score, float)
assert_type(result.best_config, fh.Config)
assert_type(result.cost.rounds, int)
print(result.export("json"), fh.load_run("runs/a", model=Net).best_score)

asker = fh.Asker(space, fh.samplers.GP(), seed=0)
config = asker.ask()
if config is not None:
    asker.tell(config, 0.5)

study = fh.Study.from_dict({"seed": 1})
try:
    study.tune()
except fh.errors.PreflightError as error:
    print(error)
except (fh.errors.RunError, fh.FedhpoError):
    raise
