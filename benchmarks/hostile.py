"""What hostile clients can do: attack x share x rule, five seeds, for training and for selection.

    python benchmarks/hostile.py [--seconds N] [--log hostile.jsonl] [--cohort 20] [--table]

Twenty clients hold `digits`, IID or by Dirichlet 0.5, and train a small MLP. Attackers know the rule and what
honest clients send; how strong an attack is they choose for each rule and share, by what did most harm with
the first seed. What was done is kept in the log and not done again: with `--seconds` the work goes in pieces.
Prints tables in Markdown; exits with 1 where a limit is broken, with 2 while something is left to do.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from hostility.cells import SEEDS, SPLITS, Log, cells, stages
from hostility.inside import Inside, insides
from hostility.limits import broken
from hostility.selection import Choices, choices
from hostility.tables import tables


def train(log: Log, end: float, cohort: int) -> bool:
    """Train what is left, what matters most first; returns whether all is done."""
    from hostility.training import trained

    for rule, share in stages():
        for split in SPLITS:
            for seed in SEEDS:
                worst = None if seed == SEEDS[0] else log.worst(split, rule, share)
                left = [cell for cell in cells(split, rule, share, seed, worst) if cell not in log.found]
                if left and time.monotonic() > end:
                    return False
                if left:
                    log.add(trained(left, cohort))
                    print(rule, share, split, f"seed {seed}: {len(left)}", file=sys.stderr, flush=True)
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so long")
    parser.add_argument("--log", type=Path, default=Path("hostile.jsonl"))
    parser.add_argument("--cohort", type=int, default=20, help="clients in a round; 20 is all of them")
    parser.add_argument("--table", action="store_true", help="only print what the log holds")
    options = parser.parse_args()
    end = time.monotonic() + (0 if options.table else options.seconds)
    log = Log(options.log)
    chosen = Choices(options.log.with_name(f"{options.log.stem}-selection.jsonl"))
    inside = Inside(options.log.with_name(f"{options.log.stem}-inside.jsonl"))
    done = all(
        [
            choices(chosen, end, (0.25,)),
            insides(inside, end),
            train(log, end, options.cohort),
            choices(chosen, end, (0.1, 0.4)),
        ]
    )
    print(tables(log, chosen, inside, options.cohort))
    problems = broken(log, chosen, len(SEEDS))
    for problem in problems:
        print(f"BROKEN: {problem}")
    if not done:
        print("not all is done: call again")
    sys.exit(1 if problems else 0 if done else 2)


if __name__ == "__main__":
    main()
