"""How often a race that is called decided has the wrong leader: near-ties of shipped tables, replayed.

    python benchmarks/decided.py --races 2000

Each race has finalists whose final errors are within a few points of each other, the best of them better than
the second by more than the margin, drawn from a table; looks draw clients anew. A race is wrong if the bound
named a leader that is worse than another finalist by more than the margin. The bound must keep that below 5%;
the rule of three standard errors, which promises nothing, stands beside it.
"""

from __future__ import annotations

import argparse
import itertools
import math

import numpy as np

from fedhpo.protocol.federation import Floats
from fedhpo.research.tables import load_table
from fedhpo.search.decided import LEVEL, wealths

LOOKS, CLEAR, LEAST = 150, 3.0, 8


def by_bound(seen: Floats, margin: float) -> tuple[int, int]:
    """The look at which the bound decided, 0 for never, and the leader then; as `bound_of` at every look."""
    trials, looks = seen.shape
    chances = np.ones((trials, trials, looks))
    for one, other in itertools.permutations(range(trials), 2):
        chances[one, other] = 1 / wealths(seen[other] - seen[one], margin)
    for one in range(trials):
        chances[one, one] = 0
    leaders = (np.cumsum(seen, axis=1)).argmin(axis=0)
    bounds = (trials - 1) * chances.max(axis=1)[leaders, np.arange(looks)]
    ended = np.flatnonzero(bounds <= LEVEL)
    return (int(ended[0]) + 1, int(leaders[ended[0]])) if len(ended) else (0, 0)


def by_errors(seen: Floats) -> tuple[int, int]:
    """The same by three standard errors."""
    for look in range(LEAST, seen.shape[1] + 1):
        leader = int(seen[:, :look].mean(axis=1).argmin())
        ahead = np.delete(seen[:, :look], leader, axis=0) - seen[leader, :look]
        if (ahead.mean(axis=1) > CLEAR * ahead.std(axis=1, ddof=1) / math.sqrt(look)).all():
            return look, leader
    return 0, 0


def raced(errors: Floats, asked: int, margin: float, rng: np.random.Generator) -> list[tuple[int, bool]]:
    """By rule, the look at which the race ended (0 for never), and whether its leader was wrong."""
    clients = rng.permuted(np.tile(np.arange(errors.shape[1]), (LOOKS, 1)), axis=1)[:, :asked]
    seen, truth = errors[:, clients].mean(axis=2), errors.mean(axis=1)
    return [
        (look, bool(look and truth[leader] - truth.min() > margin))
        for look, leader in (by_bound(seen, margin), by_errors(seen))
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", nargs="+", default=["femnist", "cifar10", "shakespeare", "fashion_mnist"])
    parser.add_argument("--races", type=int, default=2000, help="over all tables and numbers of clients")
    parser.add_argument("--asked", type=int, nargs="+", default=[1, 3])
    parser.add_argument("--finalists", type=int, default=4)
    parser.add_argument("--margin", type=float, default=0.01)
    parser.add_argument("--near", type=float, default=0.05, help="finalists are within this of the best")
    options = parser.parse_args()
    cells = [(name, asked) for name in options.tables for asked in options.asked]
    wrong, stopped, races = np.zeros(2), np.zeros(2), 0
    print("table, clients, races; by the bound: wrong, decided, looks; by 3 standard errors: the same")
    for name, asked in cells:
        errors = load_table(name).errors(0.0)[:, -1]
        truth, rng = errors.mean(axis=1), np.random.default_rng([7, asked, len(name)])
        rows = []
        while len(rows) < options.races // len(cells):
            best = int(rng.integers(len(truth)))
            gaps = truth - truth[best]
            near = np.flatnonzero((gaps > options.margin) & (gaps <= options.near))
            if len(near) >= options.finalists - 1:
                chosen = [best, *rng.choice(near, options.finalists - 1, replace=False)]
                rows.append(raced(errors[chosen], asked, options.margin, rng))
        ends = np.array(rows)  # race, rule, (look, wrong)
        said = []
        for rule in range(2):
            looks = ends[:, rule, 0]
            wrong[rule] += ends[:, rule, 1].sum()
            stopped[rule] += (looks > 0).sum()
            mean = looks[looks > 0].mean() if (looks > 0).any() else math.nan
            said.append(f"{ends[:, rule, 1].mean():10.3f}{(looks > 0).mean():9.2f}{mean:7.0f}")
        races += len(rows)
        print(f"{name:<16}{asked:>8}{len(rows):>7}   {said[0]}   {said[1]}")
    print(f"all {races}: wrong {wrong[0] / races:.4f} by the bound, {wrong[1] / races:.4f} by errors")
    print(f"decided {stopped[0] / races:.2f} and {stopped[1] / races:.2f}; the bound's level is {LEVEL:g}")
    if wrong[0] > LEVEL * races:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
