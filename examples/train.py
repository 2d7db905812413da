"""One federated training on real data, from Python: the CNNs of the papers on CIFAR-10 or FEMNIST.

    FEDHPO_DATA=/path/to/data python examples/train.py cifar10 --rounds 150
    FEDHPO_DATA=/path/to/data python examples/train.py femnist --rounds 150

Prints the learning curve: the mean validation accuracy over all clients every few rounds, and the test
accuracy at the end.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import fedhpo as fh

SETTINGS = {
    # 100 clients with 500 images each, their classes drawn from a Dirichlet distribution.
    "cifar10": {
        "data": {"clients": 100, "partition": {"kind": "dirichlet", "alpha": 1.0}},
        "model": "cnn_cifar",
        "client": {"lr": 0.05, "momentum": 0.5, "batch_size": 32, "epochs": 2},
    },
    # A client is a writer.
    "femnist": {
        "data": {},
        "model": "cnn_femnist",
        "client": {"lr": 0.05, "momentum": 0.5, "batch_size": 16, "epochs": 2},
    },
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("name", choices=sorted(SETTINGS))
    parser.add_argument("--rounds", type=int, default=150)
    parser.add_argument("--cohort", type=int, default=10)
    parser.add_argument("--every", type=int, default=15, help="rounds between two evaluations")
    options = parser.parse_args()
    settings = SETTINGS[options.name]

    data = fh.load(options.name, **settings["data"])
    print(data)
    rng = np.random.default_rng(0)
    begin = time.perf_counter()
    with fh.simulate(settings["model"], data, server="fedavgm") as federation:
        federation.start(trial=0, model={}, seed=0)
        for number in range(1, options.rounds + 1):
            cohort = rng.choice(federation.train_clients, options.cohort, replace=False).tolist()
            work = fh.Work(0, cohort, settings["client"], {"lr": 1.0, "momentum": 0.5}, scores=())
            federation.round([work])
            if number % options.every == 0 or number == options.rounds:
                [scores] = federation.evaluate([0], federation.validation_clients)
                seconds = time.perf_counter() - begin
                print(
                    f"round {number:4d}  validation accuracy {scores.mean('accuracy'):.3f}  "
                    f"loss {scores.mean('loss'):.3f}  {seconds:5.0f} s",
                    flush=True,
                )
        [scores] = federation.evaluate([0], federation.test_clients, "test")
        print(f"test accuracy {scores.mean('accuracy'):.3f} over {len(scores.clients)} clients")


if __name__ == "__main__":
    main()
