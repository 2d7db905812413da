"""Does training by hand end where autograd ends, over whole studies? Paired seeds, test accuracy.

    FEDHPO_DATA=/path/to/data python benchmarks/paired.py FILE [--seeds 20] [--studies digits femnist]

Each seed tunes the same study twice in one process, once with forward and backward passes written by hand and
once with autograd. Both draw the same configs, cohorts and batches, and differ by rounding alone, which
training and selection blow up. A finished pair is a line of FILE and is not done again. The mean difference
must lie within two standard errors of zero and below 0.3 points.
"""

from __future__ import annotations

import argparse
import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import numpy as np

import fedhpo as fh

CLIENT = {
    "lr": fh.Float(1e-3, 1.0, log=True, default=0.1),
    "momentum": fh.Float(0.0, 0.9, default=0.0),
    "weight_decay": fh.Float(1e-5, 1e-2, log=True, default=1e-4),
    "batch_size": fh.Choice([8, 16, 32], default=16),
}
#: By study: the data set and its options, the model's hidden layer, rounds of a trial.
STUDIES = {"digits": ("digits", {"clients": 50}, 64, 15), "femnist": ("femnist", {}, 128, 10)}
TRIALS, COHORT = 6, 10
LIMIT = 0.003


@contextlib.contextmanager
def by_autograd() -> Iterator[None]:
    """Nothing is a chain in here."""
    with contextlib.ExitStack() as stack:
        for name in ("built.by_hand", "built.stacked_chain", "executor.by_hand"):
            stack.enter_context(mock.patch(f"fedhpo.engine.{name}", return_value=None))
        yield


def tested(data: fh.FederatedData, hidden: int, rounds: int, seed: int, hand: bool) -> tuple[float, float]:
    """The winner's accuracy and loss on the test rows."""
    with fh.simulate("mlp", data, workers=0, stacking=False) as federation:
        space = fh.Space(client=CLIENT, model={"hidden": hidden})
        settings = {"rounds": rounds, "total": rounds * TRIALS, "cohort": COHORT, "seed": seed}
        result = fh.tune(federation, space, "random", **settings)
        if federation.describe()["by_hand"] != hand:
            raise SystemExit("the model was not trained the way that is measured")
    test = result.facts["best"]["test"]
    return float(test["accuracy"]), float(test["loss"])


def pair(study: str, data: fh.FederatedData, seed: int) -> dict[str, object]:
    _, _, hidden, rounds = STUDIES[study]
    ours, our_loss = tested(data, hidden, rounds, seed, hand=True)
    with by_autograd():
        theirs, their_loss = tested(data, hidden, rounds, seed, hand=False)
    losses = {"by_hand_loss": our_loss, "autograd_loss": their_loss}
    return {"study": study, "seed": seed, "by_hand": ours, "autograd": theirs, **losses}


def verdict(pairs: list[dict[str, float]]) -> str:
    differences = np.array([one["by_hand"] - one["autograd"] for one in pairs])
    mean, error = differences.mean(), differences.std(ddof=1) / np.sqrt(len(differences))
    fine = abs(mean) <= 2 * error + 1e-12 and abs(mean) < LIMIT
    # Equal accuracies are no surprise; equal losses would be: then nothing was compared.
    losses = np.array([abs(one["by_hand_loss"] - one["autograd_loss"]) for one in pairs])
    means = [100 * np.mean([one[name] for one in pairs]) for name in ("by_hand", "autograd")]
    return (
        f"{len(pairs)} pairs: by hand {means[0]:.2f}%, autograd {means[1]:.2f}%, difference "
        f"{100 * mean:+.3f} points, standard error {100 * error:.3f}, equal in "
        f"{int((differences == 0).sum())} of them; losses differ in {int((losses > 0).sum())}, by up to "
        f"{losses.max():.1e}: {'within' if fine else 'NOT within'} the limits"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("log", type=Path)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--studies", nargs="+", default=list(STUDIES), choices=list(STUDIES))
    options = parser.parse_args()
    done = [json.loads(line) for line in options.log.read_text().splitlines()] if options.log.exists() else []
    for study in options.studies:
        name, settings, _, _ = STUDIES[study]
        data = fh.load(name, **settings)
        for seed in sorted(set(range(options.seeds)) - {d["seed"] for d in done if d["study"] == study}):
            done.append(pair(study, data, seed))
            with options.log.open("a") as log:
                log.write(json.dumps(done[-1]) + "\n")
        chosen = [one for one in done if one["study"] == study]
        if len(chosen) > 1:
            print(f"{study}: {verdict(chosen)}", flush=True)


if __name__ == "__main__":
    main()
