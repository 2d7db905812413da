"""How fast a model trains on this machine: one client's epoch, done twice and thrown away."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from fedhpo.core.streams import other_generators, torch_generator
from fedhpo.engine import flat
from fedhpo.engine.executor import Executor, Job, Setup, TrainTask


def seconds_a_row(setup: Setup, model: Mapping[str, Any], client: Mapping[str, Any]) -> float | None:
    """Seconds of one thread for each row that is trained on; None where a training could not be timed.

    A function of the user's own may do anything in a round: it is not called.
    """
    if setup.train is not None:
        return None
    sizes = setup.data.train.sizes
    holders = np.flatnonzero(sizes)
    middle = int(holders[np.argsort(sizes[holders], kind="stable")[len(holders) // 2]])
    shape = flat.shape_key(model)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch_generator(), other_generators():
            executor = Executor(setup)
            start = executor.model(shape).model.vector()
            job = Job(middle, 0, {**client, "epochs": 1}, (0, 0), 0)
            seconds = []
            for _ in range(2):  # the first one has to warm up
                begun = time.perf_counter()
                [result] = executor.run(TrainTask(shape, (job,), ()), [start], None)
                seconds.append(time.perf_counter() - begun)
    finally:
        torch.set_num_threads(threads)
    return None if result.failure or not result.samples else seconds[-1] / result.samples
