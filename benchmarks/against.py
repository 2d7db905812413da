"""Is the engine as fast as at another commit? Rounds of the two trees in turn, each in a process of its own.

    git worktree add /tmp/before COMMIT
    python benchmarks/against.py /tmp/before [--rounds 21] [--models mlp lstm] [--json]

Both run the rounds of their own `benchmarks/engine.py` (50 clients, each with its own hyperparameters).
A ratio is the other commit's time over ours, the median over pairs of rounds that follow each other:
above 1 this tree is faster. `cpu` is the same for the CPU time of the process and its workers.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
MODELS = ("mlp", "cnn_small", "cnn_femnist", "lstm", "mlp_digits")


def work(name: str) -> None:
    """In a child: a round for each line read, answered by its wall and CPU seconds."""
    import psutil
    import torch

    import engine

    def cpu() -> float:
        me = psutil.Process()
        times = [process.cpu_times() for process in [me, *me.children(recursive=True)]]
        return sum(one.user + one.system for one in times)

    torch.set_num_threads(1)
    engine.declare()
    factory, data = engine.MODELS[name]
    data = data() if callable(data) else data  # older commits made it at once
    with engine.fh.simulate(factory, data, weighting="uniform") as federation:
        federation.start(0, {}, seed=0)
        task = engine.Work(0, range(engine.CLIENTS), engine.configs(), {}, scores=())
        for _ in range(2):
            federation.round([task])
        print("ready", flush=True)
        for _ in sys.stdin:
            begin, spent = time.perf_counter(), cpu()
            federation.round([task])
            print(time.perf_counter() - begin, cpu() - spent, flush=True)


class Tree:
    """One commit's engine with one model."""

    def __init__(self, tree: Path, name: str) -> None:
        path = os.pathsep.join([str(tree / "src"), str(tree / "benchmarks"), str(HERE / "benchmarks")])
        call = f"import against; against.work({name!r})"
        self.process = subprocess.Popen(
            [sys.executable, "-c", f"if __name__ == '__main__': {call}"],
            env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._line()

    def round(self) -> tuple[float, float]:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        wall, cpu = self._line().split()
        return float(wall), float(cpu)

    def close(self) -> None:
        self.process.communicate()

    def _line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("a tree's engine ended: see above")
        return line


def compare(other: Path, name: str, rounds: int) -> dict[str, float]:
    trees = [Tree(other, name), Tree(HERE, name)]
    pairs = []
    for number in range(rounds):
        order = (0, 1) if number % 2 else (1, 0)
        took = {index: trees[index].round() for index in order}
        pairs.append((took[0], took[1]))
    for tree in trees:
        tree.close()
    found = {
        "before": statistics.median(a[0] for a, _ in pairs),
        "now": statistics.median(b[0] for _, b in pairs),
    }
    wall = [a[0] / b[0] for a, b in pairs]
    found["ratio"] = statistics.median(wall)
    low, _, high = statistics.quantiles(wall, n=4)
    found |= {"low": low, "high": high}
    found["cpu"] = sum(a[1] for a, _ in pairs) / sum(b[1] for _, b in pairs)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("other", type=Path, help="a work tree of the other commit")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--models", nargs="*", default=MODELS, choices=MODELS)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    result = {}
    for name in options.models:
        result[name] = found = compare(options.other.resolve(), name, options.rounds)
        if not options.json:
            print(
                f"{name:12s} {found['ratio']:.3f} (quartiles {found['low']:.3f} to {found['high']:.3f}), "
                f"CPU {found['cpu']:.3f}; {1e3 * found['before']:.1f} and {1e3 * found['now']:.1f} ms",
                flush=True,
            )
    if options.json:
        print(json.dumps(result))


if __name__ == "__main__":
    main()
