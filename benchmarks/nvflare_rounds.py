"""What NVFlareFederation costs on top of NVFlare: `python benchmarks/nvflare_rounds.py [--rounds 20]`.

A round of ten clients that do nothing, in NVFlare's simulator: through `NVFlareFederation`, and bare, by a
loop that calls all clients with a model by the Collab API and takes the mean of what comes back; in turn.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np
from nvflare.collab import CollabRecipe, collab
from nvflare.recipe import SimEnv

import fedhpo as fh
from fedhpo.nvflare import Arrays, Client, NVFlareFederation, Scored, Trained

CLIENTS = 10
#: Arrays of a small MLP, and of a small CNN.
MODELS = {
    "2,410 numbers in 4 arrays": [(32, 64), (32,), (10, 32), (10,)],
    "620,000 numbers in 8 arrays": [
        (32, 3, 5, 5),
        (32,),
        (64, 32, 5, 5),
        (64,),
        (512, 1024),
        (512,),
        (62, 512),
        (62,),
    ],
}


class NoOp(Client):
    """Sends back what it got, to either server."""

    def train(self, arrays, task, site):
        return Trained(arrays, train_size=10, validation_size=1, loss_before=1.0, loss_after=1.0)

    def evaluate(self, arrays, task, site):
        return Scored(1, 1.0)

    @collab.publish
    def bare(self, arrays: dict):
        """The same without fedhpo."""
        return arrays


class Rounds:
    """Rounds of both kinds in turn; the seconds of each go to a file."""

    def __init__(self, out: str, rounds: int):
        self.out, self.rounds = out, rounds

    @collab.main
    def main(self):
        """The whole job."""
        found = {name: self.measured(shapes) for name, shapes in MODELS.items()}
        Path(self.out).write_text(json.dumps(found))

    def measured(self, shapes):
        first = {str(i): np.zeros(shape, np.float32) for i, shape in enumerate(shapes)}
        weights = dict(first)

        def bare():
            models = [model for _, model in collab.clients(timeout=60.0).bare(weights)]
            for name in weights:
                weights[name] = np.mean([model[name] for model in models], axis=0, dtype=np.float32)

        seconds = {"bare": [], "ours": []}
        with NVFlareFederation(collab.clients, Arrays(lambda seed: first), clients=CLIENTS) as federation:
            federation.start(0, {}, 0)
            work = fh.Work(0, range(CLIENTS), {"lr": 0.1}, scores=())
            for _ in range(self.rounds + 1):
                for name, one in (("bare", bare), ("ours", lambda: federation.round([work]))):
                    begun = time.perf_counter()
                    one()
                    seconds[name].append(time.perf_counter() - begun)
        return {name: values[1:] for name, values in seconds.items()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "seconds.json"
        job = CollabRecipe(
            "rounds", server=Rounds(str(out), options.rounds), client=NoOp(), min_clients=CLIENTS
        )
        job.execute(SimEnv(num_clients=CLIENTS, workspace_root=folder, log_config="concise"))
        found = json.loads(out.read_text())
    print(
        f"a round of {CLIENTS} clients that do nothing, in NVFlare's simulator; medians of {options.rounds}"
    )
    for name, seconds in found.items():
        bare, ours = (float(np.median(seconds[kind])) for kind in ("bare", "ours"))
        print(f"{name}: bare {1e3 * bare:.0f} ms, NVFlareFederation {1e3 * ours:.0f} ms, {ours / bare:.2f}x")


if __name__ == "__main__":
    main()
