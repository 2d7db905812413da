"""A job of our own in the manner of NVFlare's examples, for tests."""

from __future__ import annotations

from pathlib import Path

JOB = """
import argparse

from nvflare.app_common.np.recipes.fedavg import NumpyFedAvgRecipe
from nvflare.recipe import SimEnv


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--n_clients", type=int, default=2)
    parser.add_argument("--step", type=float, default=1.0)
    args = parser.parse_args()
    recipe = NumpyFedAvgRecipe(
        name="steps",
        min_clients=args.n_clients,
        num_rounds=5,
        model=[[0.0, 0.0]],
        train_script="client.py",
        train_args=f"--step {args.step}",
    )
    recipe.add_client_file("work.py")
    recipe.execute(SimEnv(num_clients=args.n_clients))


if __name__ == "__main__":
    main()
"""

CLIENT = """
import argparse

import numpy as np
import nvflare.client as flare
from work import Mover


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--step", type=float, default=1.0)
    parser.add_argument("--target", type=float, default=3.0)
    args = parser.parse_args()
    flare.init()
    mover = Mover(scale=1.0)
    while flare.is_running():
        model = flare.receive()
        before = model.params["numpy_key"]
        after = before + mover.scale * args.step
        loss = float(np.mean((after - args.target) ** 2))
        flare.send(flare.FLModel(params={"numpy_key": after}, metrics={"loss": loss}))


if __name__ == "__main__":
    main()
"""

WORK = """
class Mover:
    def __init__(self, scale):
        self.scale = scale
"""


def write_job(directory: Path) -> Path:
    """The job, in a directory of this name."""
    directory.mkdir(parents=True)
    for name, text in (("job.py", JOB), ("client.py", CLIENT), ("work.py", WORK)):
        (directory / name).write_text(text.lstrip(), encoding="utf-8")
    return directory
