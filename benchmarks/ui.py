"""The page of runs on a long record: `python benchmarks/ui.py`, with Chromium and the extra `ui`.

Prints the time to the first plot (by the clock, and processor time of server and browser), the bytes that
went over the wire, and the server's peak memory; then what watching costs the run that is watched. There the
run has the first core to itself. Its twin, the server and the browser have the others, and the browser looks
at the run and at the twin in turn, some seconds each: what is measured is whether the run notices, not that a
browser needs a processor, nor that a busy neighbour slows down a core. The run's rounds a second while it is
watched are compared with those just before and after. The run with 1,000 trials and 100,000 rounds of a toy
is made once, in `--runs`.
"""

from __future__ import annotations

import argparse
import bisect
import contextlib
import itertools
import json
import math
import shutil
import statistics
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
#: A run in a process of its own; it writes down when each of its rounds ended.
RUN = """
import struct, sys, time
import fedhpo as fh
from fedhpo.testing import ToyFederation
path, trials, rounds, side, times = sys.argv[1], *map(int, sys.argv[2:5]), open(sys.argv[5], "wb")
space = fh.Space(
    client={"lr": fh.Float(1e-3, 1.0, log=True), "momentum": fh.Float(0.0, 0.9), "batch": fh.Int(8, 64)},
    server={"lr": fh.Float(0.1, 3.0, log=True), "momentum": fh.Float(0.0, 0.9), "decay": fh.Float(0.9, 1.0)},
)
method = fh.RandomSearch(trials=trials, side_by_side=side)
def ended(event):
    if event.kind == "round":
        times.write(struct.pack("d", time.monotonic()))
options = {"cohort": 5, "run": path, "callbacks": [ended]}
fh.tune(ToyFederation(20), space, method, rounds=rounds, total=trials * rounds, **options)
"""


def begin(path: Path, trials: int, rounds: int, side: int, cores: list[int]) -> subprocess.Popen[bytes]:
    """A run in a process of its own, on these cores; beside it, when its rounds ended."""
    shutil.rmtree(path, ignore_errors=True)
    times = path.with_suffix(".times")
    command = [sys.executable, "-c", RUN, str(path), str(trials), str(rounds), str(side), str(times)]
    process = subprocess.Popen(command)
    psutil.Process(process.pid).cpu_affinity(cores)
    return process


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[tuple[str, psutil.Process]]:
    """`fedhpo ui` on these runs: its address, and its process."""
    command = [sys.executable, "-m", "fedhpo", "ui", str(folder), "--port", "0", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["address"], psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait()


def peak(process: psutil.Process) -> float:
    """Megabytes at most so far (Linux), or now."""
    status = Path(f"/proc/{process.pid}/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    return float(process.memory_info().rss) / 2**20


def spent(process: psutil.Process) -> float:
    """Processor seconds of a process and those it started."""
    times = [one.cpu_times() for one in [process, *process.children(recursive=True)]]
    return float(sum(t.user + t.system for t in times))


@contextlib.contextmanager
def browser() -> Iterator[Any]:
    """Chromium, without a window."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        opened = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


def first_plot(chromium: Any, folder: Path, name: str) -> dict[str, float]:
    """What it takes until the first plot stands, and until all of the record was read."""
    with serving(folder) as (address, server):
        page = chromium.new_page()
        traffic = [0.0]
        session = page.context.new_cdp_session(page)
        session.send("Network.enable")
        session.on(
            "Network.dataReceived",
            lambda event: traffic.__setitem__(0, traffic[0] + event["encodedDataLength"]),
        )
        browsers = [p for p in psutil.Process().children(recursive=True) if "chrom" in p.name()]
        clock, cpu, own = time.perf_counter(), spent(server), sum(_own(p) for p in browsers)
        page.goto(f"{address}#/run/{name}", wait_until="commit")
        page.wait_for_selector(
            "#parts .js-plotly-plot .plot .trace, #parts .main-svg .points", state="attached"
        )
        found = {
            "first plot, s": time.perf_counter() - clock,
            "server's processor, s": spent(server) - cpu,
            "browser's processor, s": sum(_own(p) for p in browsers) - own,
            "traffic until then, MB": traffic[0] / 1e6,
        }
        page.wait_for_selector(".reading", state="hidden", timeout=120_000)
        page.wait_for_timeout(1500)
        found |= {"all read, s": time.perf_counter() - clock, "traffic in all, MB": traffic[0] / 1e6}
        found["server's peak memory, MB"] = peak(server)
        page.close()
        return found


def _own(process: psutil.Process) -> float:
    with contextlib.suppress(psutil.Error):
        times = process.cpu_times()
        return float(times.user + times.system)
    return 0.0


def watching(chromium: Any, folder: Path, phases: int, seconds: float) -> list[float]:
    """By how much a run is slower while it is watched than before and after, phase by phase."""
    first, *others = psutil.Process().cpu_affinity()
    others = others or [first]
    for process in psutil.Process().children(recursive=True):
        process.cpu_affinity(others)
    marks = []
    with contextlib.ExitStack() as stack:
        for name, cores in (("run", [first]), ("twin", others)):
            process = begin(folder / name, 10_000, 100, 4, cores)
            stack.callback(process.wait)
            stack.callback(process.kill)
        address, server = stack.enter_context(serving(folder))
        server.cpu_affinity(others)
        page = chromium.new_page()
        stack.callback(page.close)
        time.sleep(5)
        for phase in range(phases):
            page.goto(f"{address}#/run/{'run' if phase % 2 else 'twin'}")
            marks.append(time.monotonic())
            page.wait_for_timeout(1000 * seconds)
        marks.append(time.monotonic())
    raw = (folder / "run.times").read_bytes()
    ended = struct.unpack(f"{len(raw) // 8}d", raw[: len(raw) // 8 * 8])
    rates = [
        (bisect.bisect(ended, after) - bisect.bisect(ended, before)) / (after - before)
        for before, after in itertools.pairwise(marks)
    ]
    print(f"  {statistics.mean(rates):.0f} rounds a second")
    return [(rates[i - 1] + rates[i + 1]) / 2 / rates[i] - 1 for i in range(1, len(rates) - 1, 2)]


def main() -> None:
    """Measure, and print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--runs", type=Path, default=Path("runs/ui-benchmark"))
    options.add_argument("--trials", type=int, default=1000)
    options.add_argument("--rounds", type=int, default=100, help="of each trial")
    options.add_argument("--repeat", type=int, default=3)
    options.add_argument("--phases", type=int, default=81, help="looks at the run and at its twin, in turn")
    options.add_argument("--seconds", type=float, default=2.0, help="of each look")
    given = options.parse_args()
    large = given.runs / f"toy-{given.trials}-{given.rounds}"
    if not (large / "result.json").exists():
        print(f"making {large}", flush=True)
        begin(large, given.trials, given.rounds, 32, psutil.Process().cpu_affinity()).wait()
    with browser() as chromium:
        for _ in range(given.repeat):
            found = first_plot(chromium, given.runs, large.name)
            print("; ".join(f"{name} {value:.2f}" for name, value in found.items()), flush=True)
        if given.phases > 2:
            small = given.runs / "live"
            small.mkdir(parents=True, exist_ok=True)
            slower = watching(chromium, small, given.phases, given.seconds)
            error = statistics.stdev(slower) / math.sqrt(len(slower)) if len(slower) > 1 else math.nan
            print(
                f"watched, a round takes longer by {statistics.mean(slower):+.2%} ± {error:.2%}, "
                f"median {statistics.median(slower):+.2%}, over {len(slower)} looks"
            )


if __name__ == "__main__":
    main()
