"""Not in the paper: the same budgets of epsilon where a client is charged for the releases that asked it.

The paper charges every client for every score. Its figures are made that way; these stand beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

from fedhpo.privacy.privacy import Privacy
from fedhpo.research.incumbents import Incumbents
from fedhpo.search.evaluator import Evaluator
from fedhpo_papers.noisy_eval.figures import Curves, Point
from fedhpo_papers.noisy_eval.methods import EPSILON, METHODS, at, noisy
from fedhpo_papers.noisy_eval.replays import Job
from fedhpo_papers.noisy_eval.search import CONFIGS, Bench
from fedhpo_papers.noisy_eval.subsampling import EPSILONS, shown

PAPER, ROTATION = "as in the paper", "rotation"


def rotation(
    bench: Bench, replay_all: Callable[[Sequence[Job]], list[Incumbents]], seeds: int
) -> list[Curves]:
    """Figure 9 again with rotation, and the four methods at the full budget with both."""
    points = []
    for name in bench.tables:
        for size, epsilon in product(bench.sizes(name), EPSILONS):
            private = None if epsilon is None else Privacy(epsilon, held_out=0.0)
            found = bench.search(name, Evaluator(clients=size, paired=False, privacy=private), uniform=True)
            points.append(Point(name, shown(epsilon), size, found.errors))
    cells = list(product(bench.tables, METHODS, (PAPER, ROTATION)))
    jobs = [
        Job(table, METHODS[name], _evaluator(bench, table, name, kind), seed)
        for table, name, kind in cells
        for seed in range(seeds)
    ]
    runs = iter(replay_all(jobs))
    full = []
    for table, name, kind in cells:
        own = [next(runs) for _ in range(seeds)]
        total = CONFIGS * int(bench.tables[table].rounds[-1])
        full.append(Point(table, kind, name, at(own, total)))
    return [
        Curves(
            "rotation, RS",
            "Random search under privacy, with rotation",
            "validation clients asked",
            points,
            log=True,
        ),
        Curves(
            "rotation, methods",
            f"1% of the clients and epsilon = {EPSILON:g}: the paper's mechanisms and accounting, and "
            "Laplace values with rotation",
            "method",
            full,
        ),
    ]


def _evaluator(bench: Bench, table: str, method: str, kind: str) -> Evaluator:
    clients = bench.one_percent(table)
    if kind == PAPER:
        return noisy(method, clients)
    return Evaluator(clients=clients, paired=False, privacy=Privacy(EPSILON, held_out=0.0))
