"""A user's exception with "not finite" in it is repeated as often as one with other words."""

import contextlib
import sys
import warnings

import numpy as np

import fedhpo as fh


def calls(words):
    """How often a training that always raises is called before its only trial fails."""
    count = 0

    def train(model, client, config, generator):
        nonlocal count
        if len(client.y) > 100:  # not when a few rows are tried before the run
            count += 1
            raise ValueError(words)

    rng = np.random.default_rng(0)
    clients = [(rng.normal(size=(200, 2)).astype(np.float32), rng.integers(0, 2, 200)) for _ in range(6)]
    federation = fh.simulate("mlp", fh.from_clients(clients), train=train, workers=0)
    space = fh.Space(client={"lr": fh.Float(0.01, 1.0, log=True)})
    with contextlib.suppress(fh.FedhpoError):
        fh.tune(federation, space, fh.RandomSearch(trials=1), rounds=1, total=3, cohort=6, baseline=False)
    return count


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    found = {words: calls(words) for words in ("the sum is not finite", "bad reading")}
    print(f"calls of a train that raises, by its words: {found}")
    sys.exit(int(len(set(found.values())) != 1))
