"""Up to how many workers do rounds on Ray speed up? A simulation on paper, from measured costs.

    python benchmarks/ray_paper.py [--svg FILE] [--json]
    python benchmarks/ray_paper.py --measure        # the costs on this machine, to put into COSTS

A round is played through, event by event: the driver sends one message after the other, workers train groups
of clients, outputs are added up in a tree or at the driver, and machines have one network link each. Nothing
is run, and no network was measured: its speed is an assumption. Shown is how many times faster a round is
than on one worker, with the sums taken by workers and, for comparison, by the driver.
"""

from __future__ import annotations

import argparse
import heapq
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np


@dataclass(frozen=True)
class Costs:
    """Seconds of one core of an AMD EPYC; the last two are assumed."""

    order: float = 1.0e-3  # the driver's, to send an order and take its end
    kept: float = 2.8e-3  # the same where the output stays in the store, as an object of its own
    read: float = 6.5e-10  # the driver's, for a byte of an output that it reads and adds up
    step: float = 2.0e-9  # the driver's, for a byte of the model: its step, its way into the store
    add: float = 1.1e-10  # a worker's, for a byte that it adds up
    delay: float = 1.0e-3  # of a message on its way
    link: float = 1.25e9  # bytes a second between machines


COSTS = Costs()
CORES = 32  # of a machine
CLIENTS = 1000  # of a round
#: As in `fedhpo.engine.plan` and `fedhpo.federations.branches`.
MOST_TOGETHER, FEWEST_TASKS, FAN = 8, 16, 4
#: By model: bytes, seconds that a client trains, trials side by side.
SETTINGS = {
    "FEMNIST CNN, one trial": (4 * 1_690_000, 0.25, 1),
    "FEMNIST CNN, ten trials": (4 * 1_690_000, 0.25, 10),
    "27 M parameters, one trial": (4 * 26_500_000, 0.45, 1),
}
WORKERS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


class Link:
    """Something that does one thing after the other."""

    def __init__(self) -> None:
        self.free = 0.0

    def use(self, ready: float, seconds: float) -> float:
        """When it is done, if it may begin at `ready`."""
        self.free = max(self.free, ready) + seconds
        return self.free


def round_seconds(workers: int, size: int, train: float, trials: int, tree: bool, c: Costs = COSTS) -> float:
    """Seconds of one round of all trials."""
    driver, machines = Link(), [Link() for _ in range(-(-workers // CORES))]
    uplink = Link()  # the driver's
    together = max(1, min(MOST_TOGETHER, CLIENTS // FEWEST_TASKS))
    tasks = [min(together, CLIENTS - i) for i in range(0, CLIENTS, together)]
    free = [(0.0, number) for number in range(workers)]
    arrived: dict[tuple[int, int], float] = {}  # when a trial's weights are on a machine
    ends: list[list[tuple[float, int]]] = []
    for trial in range(trials):
        placed = driver.use(0.0, c.step * size)
        own = []
        for count in tasks:
            sent = driver.use(placed, c.kept if tree else c.order) + c.delay
            ready, worker = heapq.heappop(free)
            place = worker // CORES
            if (trial, place) not in arrived:
                arrived[trial, place] = uplink.use(placed, size / c.link if len(machines) > 1 else 0.0)
            done = max(sent, ready, arrived[trial, place]) + count * train
            heapq.heappush(free, (done, worker))
            own.append((done, place))
        ends.append(own)
    finish = 0.0
    for own in ends:
        if tree:
            total, place = _tree(own, size, machines, driver, c)
            here = uplink.use(total, size / c.link if len(machines) > 1 else 0.0)
            finish = max(finish, driver.use(here, c.read * size))
        else:
            for done, _ in sorted(own):
                here = uplink.use(done, size / c.link if len(machines) > 1 else 0.0)
                finish = max(finish, driver.use(here, c.read * size))
    return finish


def _tree(
    parts: list[tuple[float, int]], size: int, machines: list[Link], driver: Link, c: Costs
) -> tuple[float, int]:
    """When and where the sum is complete; the worker that adds up is on the first part's machine."""
    while len(parts) > 1:
        above = []
        for i in range(0, len(parts), FAN):
            group = parts[i : i + FAN]
            ready, place = max(done for done, _ in group), group[0][1]
            ready = driver.use(ready, c.kept) + c.delay
            for _, other in group[1:]:
                if other != place:
                    ready = machines[place].use(ready, size / c.link)
            above.append((ready + len(group) * c.add * size, place))
        parts = above
    return parts[0]


def speedups(tree: bool) -> dict[str, dict[int, float]]:
    return {
        name: {w: round_seconds(1, *facts, tree) / round_seconds(w, *facts, tree) for w in WORKERS}
        for name, facts in SETTINGS.items()
    }


def svg(found: dict[str, dict[str, dict[int, float]]]) -> str:
    """Speed-up against workers, both on logarithmic axes."""
    width, height, left, low = 640, 400, 50, 40
    colours = ("#1b6ca8", "#c8553d", "#3a7d44")

    def at(workers: float, speed: float) -> str:
        x = left + (width - left - 150) * np.log2(workers) / 10
        y = height - low - (height - low - 20) * np.log2(max(speed, 1)) / 10
        return f"{x:.1f},{y:.1f}"

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif">'
    ]
    parts.append(f'<rect width="{width}" height="{height}" fill="white"/>')
    for power in range(11):
        x, y = at(2**power, 2**power).split(",")
        parts.append(f'<text x="{x}" y="{height - 22}" font-size="11" text-anchor="middle">{2**power}</text>')
        parts.append(f'<text x="{left - 6}" y="{y}" font-size="11" text-anchor="end">{2**power}</text>')
    ideal = f"{at(1, 1)} {at(1024, 1024)}"
    parts.append(f'<polyline points="{ideal}" fill="none" stroke="#bbb" stroke-dasharray="2 4"/>')
    for i, (name, by_workers) in enumerate(found["tree"].items()):
        for kind, dash in (("tree", ""), ("driver", ' stroke-dasharray="6 4"')):
            line = " ".join(at(w, s) for w, s in found[kind][name].items())
            parts.append(
                f'<polyline points="{line}" fill="none" stroke="{colours[i]}" stroke-width="2"{dash}/>'
            )
        x, y = at(1024, by_workers[1024]).split(",")
        parts.append(f'<text x="{float(x) + 6}" y="{y}" font-size="11" fill="{colours[i]}">{name}</text>')
    middle = left + (width - left - 150) / 2
    parts.append(f'<text x="{middle}" y="{height - 6}" font-size="12" text-anchor="middle">workers</text>')
    parts.append('<text x="6" y="12" font-size="12">times as fast as one worker</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def measure(rounds: int = 4) -> dict[str, float]:
    """Costs on this machine, in CPU seconds; the step's is that of benchmarks/driver_share.py."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    import ray

    import fedhpo as fh
    from fedhpo.engine.executor import add_up
    from fedhpo.federations import simulated

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=500_000_000)
    rng = np.random.default_rng(0)
    clients = [(rng.standard_normal((8, 32)).astype(np.float32), rng.integers(0, 10, 8)) for _ in range(31)]
    found = {}
    for name, hidden, large in (("small", 8, 10**9), ("large", 30_000, 10**9), ("tree", 30_000, 1)):
        simulated.LARGE = large
        with fh.simulate("mlp", clients, ray="auto", stacking=False) as federation:
            federation.start(0, {"hidden": hidden}, seed=0)
            work = fh.Work(0, range(31), {"lr": 0.1}, scores=())
            federation.round([work])
            begun = time.process_time()
            for _ in range(rounds):
                federation.round([work])
            found[name] = (time.process_time() - begun) / rounds
            size = 4 * federation.describe()["parameters"]
    ray.shutdown()
    parts = [np.ones(size // 4, np.float32) for _ in range(FAN + 1)]
    begun = time.process_time()
    for _ in range(20):
        add_up(parts[1:], parts[0])
    add = (time.process_time() - begun) / 20 / FAN / size
    order = found["small"] / 31
    kept = found["tree"] / 42  # 31 orders, and 8 + 2 + 1 that add up
    return {"order": order, "kept": kept, "read": (found["large"] / 31 - order) / size, "add": add}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--svg", type=Path)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--measure", action="store_true")
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure()))
        return
    found = {"tree": speedups(True), "driver": speedups(False)}
    if options.svg:
        options.svg.write_text(svg(found))
    if options.json:
        print(json.dumps(found))
        return
    print(
        "| | sums by | " + " | ".join(f"{w}" for w in WORKERS) + " |\n" + "| --- " * (len(WORKERS) + 2) + "|"
    )
    for name in SETTINGS:
        for kind, who in (("tree", "workers"), ("driver", "driver")):
            print(f"| {name} | {who} | " + " | ".join(f"{s:.1f}" for s in found[kind][name].values()) + " |")


if __name__ == "__main__":
    main()
