"""What biased participation costs: regret with b = 3 against b = 0, by what the bias depends on.

    python benchmarks/bias.py [--seeds 40] [--tables cifar10 femnist ...] [--method robust] [--clients 0.1]

Prints for each table the mean regret with the standard error of the seeds, the models downloaded for scores
(one for each trial and client that counted; a simulated bias scores everybody to draw them), and the
geometric mean over tables of the ratio to b = 0. It needs `papers/` (the bench's samples of tables).
"""

from __future__ import annotations

import argparse

import numpy as np

from fedhpo_papers.bench.cells import load, priced
from fedhpo_papers.bench.entries import Entry, Task
from fedhpo_papers.bench.sample import sample_of
from fedhpo_papers.bench.settings import Setting

#: Added to regrets before ratios are taken: below it a difference is none.
_LEAST = 0.1


def played(table: str, setting: Setting, method: str, seed: int) -> tuple[float, float]:
    """The regret of one search, and the models that clients downloaded for scores."""
    sample = sample_of(load(table), seed)
    found, _ = priced(Entry(method, "ours", method, {"name": method}), Task(sample.table, setting, (), seed))
    clients = len(sample.table.validation_clients)
    asked = (
        max(1, round(setting.clients * clients)) if isinstance(setting.clients, float) else setting.clients
    )
    share = 1.0 if not setting.bias or asked is None else asked / clients
    return sample.regret(sample.table.configs.index(found.best), found.round), found.evaluations * share


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--tables", nargs="+", default=["cifar10", "femnist", "fashion_mnist", "mnist"])
    parser.add_argument("--method", default="robust")
    parser.add_argument("--clients", type=float, default=0.1, help="a share, or from 1 on a number")
    options = parser.parse_args()
    clients = options.clients if options.clients < 1 else int(options.clients)
    settings = {
        "b = 0": Setting(clients),
        "b = 3, per trial": Setting(clients, bias=3.0),
        "b = 3, per message": Setting(clients, bias=3.0, bias_per="message"),
        "b = 3, per client": Setting(clients, bias=3.0, bias_per="client"),
    }
    print("| | " + " | ".join(options.tables) + " | models downloaded | ratio |")
    print("| --- " * (len(options.tables) + 3) + "|")
    first = None
    for name, setting in settings.items():
        found = np.array(
            [
                [played(table, setting, options.method, seed) for seed in range(options.seeds)]
                for table in options.tables
            ]
        )
        means = found[:, :, 0].mean(axis=1)
        errors = found[:, :, 0].std(axis=1, ddof=1) / np.sqrt(options.seeds)
        first = means if first is None else first
        ratio = float(np.exp(np.log((means + _LEAST) / (first + _LEAST)).mean()))
        cells = " | ".join(f"{mean:.2f} ± {error:.2f}" for mean, error in zip(means, errors, strict=True))
        print(f"| {name} | {cells} | {found[:, :, 1].mean():.0f} | {ratio:.2f} |", flush=True)


if __name__ == "__main__":
    main()
