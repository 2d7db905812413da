"""Rounds of pfl-research's simulation, for `benchmarks/engine.py --pfl PYTHON`.

    PYTHON benchmarks/pfl_rounds.py MODEL

PYTHON is that of an environment of its own (`pfl-requirements.txt`). Each line on standard input asks for a
round, and gets one back with its wall and CPU seconds. It trains the same clients with as many steps as the
loops of `engine.py` do, in one process. But all clients share the first's learning rate, momentum and weight
decay, since it has one setting for a round, and batches are taken in the order of the rows: it does not
shuffle.
"""

from __future__ import annotations

import functools
import itertools
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).parent))
from engine import BATCH, CLIENTS, MODELS, Plain, configs, declare, seconds

NEVER = 10**9


class Scored(nn.Module):
    """A model as pfl-research wants it: it knows its loss, and its metrics."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def loss(self, x: torch.Tensor, y: torch.Tensor, is_eval: bool = False) -> torch.Tensor:
        return F.cross_entropy(self.module.train(not is_eval)(x), y)

    @torch.no_grad()
    def metrics(self, x: torch.Tensor, y: torch.Tensor, is_eval: bool = True) -> dict[str, Any]:
        from pfl.metrics import Weighted

        return {"loss": Weighted(self.loss(x, y, is_eval).item() * len(y), len(y))}


def rounds_of(name: str) -> Callable[[], None]:
    """What trains one round of all clients."""
    from pfl.aggregate.simulate import SimulatedBackend
    from pfl.algorithm.base import NNAlgorithmParams
    from pfl.algorithm.federated_averaging import FederatedAveraging
    from pfl.data.dataset import Dataset
    from pfl.data.federated_dataset import FederatedDataset
    from pfl.hyperparam.base import NNTrainHyperParams
    from pfl.model.pytorch import PyTorchModel

    factory, rows = MODELS[name]
    plain, h = Plain(factory, rows()), configs()[0]
    users = [Dataset(one.tensors) for one in plain.sets]
    everybody = itertools.cycle(range(CLIENTS))
    training = FederatedDataset(users.__getitem__, functools.partial(next, everybody))
    backend = SimulatedBackend(training, training)
    module = Scored(plain.model)
    step = functools.partial(torch.optim.SGD, momentum=h["momentum"], weight_decay=h["weight_decay"])
    model = PyTorchModel(module, step, torch.optim.SGD(module.parameters(), 1.0))
    wanted = NNTrainHyperParams(local_num_epochs=1, local_learning_rate=h["lr"], local_batch_size=BATCH)
    algorithm, done = FederatedAveraging(), itertools.count(1)

    def one_round() -> None:
        # It evaluates in the first round, which is not timed, and not again.
        algorithm.run(
            NNAlgorithmParams(next(done), NEVER, CLIENTS, None),
            backend,
            model,
            wanted,
            send_metrics_to_platform=False,
        )

    return one_round


def main() -> None:
    torch.set_num_threads(1)
    declare()
    one_round = rounds_of(sys.argv[1])
    for _ in sys.stdin:
        print(json.dumps(seconds(one_round)), flush=True)


if __name__ == "__main__":
    main()
