"""A Ray cluster beside the plain simulator: the same rounds, interleaved, on this machine's cores.

    python benchmarks/cluster.py [--rounds 6]

A cluster of two nodes with one core each is started for it. What it costs against two worker processes is
Ray's: its store, its scheduler, its messages.
"""

from __future__ import annotations

import argparse
import os
import time

import numpy as np

import fedhpo as fh

SETTINGS = {
    "mlp, digits": ("mlp", lambda: fh.load("digits", clients=50), 20),
    "cnn_small, synthetic images": ("cnn_small", lambda: images(), 10),
}


def images() -> fh.FederatedData:
    """Twenty clients of 200 images of 28 x 28."""
    rng = np.random.default_rng(0)
    return fh.from_clients(
        [(rng.normal(size=(200, 1, 28, 28)).astype(np.float32), rng.integers(0, 10, 200)) for _ in range(20)]
    )


def timed(federation: fh.Federation, cohort: int) -> float:
    """Seconds of one round of four trials."""
    begun = time.perf_counter()
    federation.round([fh.Work(trial, range(cohort), {"lr": 0.05}) for trial in range(4)])
    return time.perf_counter() - begun


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=6)
    rounds = parser.parse_args().rounds
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    import ray
    from ray.cluster_utils import Cluster

    node = {"num_cpus": 1, "object_store_memory": 200_000_000}
    cluster = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    cluster.add_node(**node)
    ray.init(cluster.address, log_to_driver=False)
    print("| model | processes, s a round | Ray, s a round | Ray / processes |\n| --- | --- | --- | --- |")
    for name, (model, data, cohort) in SETTINGS.items():
        clients = data()
        with (
            fh.simulate(model, clients, workers=2, stacking=False) as here,
            fh.simulate(model, clients, ray="auto", stacking=False) as there,
        ):
            for federation in (here, there):
                for trial in range(4):
                    federation.start(trial, {}, seed=trial)
                timed(federation, cohort)
                timed(federation, cohort)
            seconds = np.array([[timed(here, cohort), timed(there, cohort)] for _ in range(rounds)])
            same = all(
                np.array_equal(here.state(t).arrays["weights"], there.state(t).arrays["weights"])
                for t in range(4)
            )
            if not same:
                raise SystemExit(f"{name}: the results differ")
        plain, spread = np.median(seconds, axis=0)
        print(f"| {name} | {plain:.3f} | {spread:.3f} | {spread / plain:.2f} |", flush=True)
    ray.shutdown()
    cluster.shutdown()


if __name__ == "__main__":
    main()
