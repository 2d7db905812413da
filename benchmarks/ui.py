"""The page of runs on a long record: `python benchmarks/ui.py`, with Chromium and the extra `ui`.

Prints the time to the first plot (by the clock, and processor time of server and browser), the bytes that
went over the wire, and the server's peak memory; then what watching costs the run that is watched: the same
run, watched and unwatched in turn. There the run has the first core to itself. Its twin, the server and the
browser have the others, and the browser watches either the run or the twin: what is measured is whether the
run notices, not that a browser needs a processor, nor that a busy neighbour slows down a core. The run with
1,000 trials and 100,000 rounds of a toy is made once, in `--runs`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
#: A run in a process of its own; it prints its seconds by the clock and of the processor.
RUN = """
import sys, time
import fedhpo as fh
from fedhpo.testing import ToyFederation
path, trials, rounds, side = sys.argv[1], *map(int, sys.argv[2:5])
space = fh.Space(
    client={"lr": fh.Float(1e-3, 1.0, log=True), "momentum": fh.Float(0.0, 0.9), "batch": fh.Int(8, 64)},
    server={"lr": fh.Float(0.1, 3.0, log=True), "momentum": fh.Float(0.0, 0.9), "decay": fh.Float(0.9, 1.0)},
)
method = fh.RandomSearch(trials=trials, side_by_side=side)
clock, cpu = time.perf_counter(), time.process_time()
fh.tune(ToyFederation(20), space, method, rounds=rounds, total=trials * rounds, cohort=5, run=path)
print(time.perf_counter() - clock, time.process_time() - cpu)
"""


def started(path: Path, trials: int, rounds: int, side: int, cores: list[int]) -> subprocess.Popen[str]:
    """A run in a process of its own, on these cores."""
    command = [sys.executable, "-c", RUN, str(path), str(trials), str(rounds), str(side)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    if cores:
        psutil.Process(process.pid).cpu_affinity(cores)
    return process


def run(path: Path, trials: int, rounds: int, side: int = 32, cores: list[int] | None = None) -> list[float]:
    """Seconds by the clock and of the processor that a run took, on these cores."""
    with started(path, trials, rounds, side, cores or []) as process:
        return [float(number) for number in process.communicate()[0].split()]


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


def watching(chromium: Any, folder: Path, pairs: int, trials: int, rounds: int) -> list[tuple[float, float]]:
    """How much longer a watched run takes, by the clock and in its own processor time, pair by pair."""
    found = []
    first, *others = psutil.Process().cpu_affinity()
    others = others or [first]
    for process in psutil.Process().children(recursive=True):
        process.cpu_affinity(others)
    for pair in range(pairs):
        seconds = {}
        for watched in (True, False) if pair % 2 else (False, True):
            for name in ("run", "twin"):
                shutil.rmtree(folder / name, ignore_errors=True)
            with contextlib.ExitStack() as stack:
                twin = started(folder / "twin", 10 * trials, rounds, 4, others)
                stack.callback(twin.wait)
                stack.callback(twin.kill)
                address, server = stack.enter_context(serving(folder))
                server.cpu_affinity(others)
                page = chromium.new_page()
                stack.callback(page.close)
                page.goto(f"{address}#/run/{'run' if watched else 'twin'}")
                seconds[watched] = run(folder / "run", trials, rounds, side=4, cores=[first])
        found.append(tuple(a / b - 1 for a, b in zip(seconds[True], seconds[False], strict=True)))
        print(
            f"  pair {pair + 1}: {found[-1][0]:+.1%} by the clock, {found[-1][1]:+.1%} of its processor time",
            flush=True,
        )
    return found


def main() -> None:
    """Measure, and print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--runs", type=Path, default=Path("runs/ui-benchmark"))
    options.add_argument("--trials", type=int, default=1000)
    options.add_argument("--rounds", type=int, default=100, help="of each trial")
    options.add_argument("--repeat", type=int, default=3)
    options.add_argument("--pairs", type=int, default=10)
    given = options.parse_args()
    large = given.runs / f"toy-{given.trials}-{given.rounds}"
    if not (large / "result.json").exists():
        print(f"making {large}: {run(large, given.trials, given.rounds)[0]:.0f} s", flush=True)
    with browser() as chromium:
        for _ in range(given.repeat):
            found = first_plot(chromium, given.runs, large.name)
            print("; ".join(f"{name} {value:.2f}" for name, value in found.items()), flush=True)
        if given.pairs:
            small = given.runs / "live"
            small.mkdir(parents=True, exist_ok=True)
            pairs = watching(chromium, small, given.pairs, 120, 100)
            for name, values in zip(
                ("by the clock", "of its processor time"), zip(*pairs, strict=True), strict=True
            ):
                error = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.nan
                print(
                    f"watched takes longer {name}: {statistics.mean(values):+.2%} ± {error:.2%}, "
                    f"median {statistics.median(values):+.2%}"
                )


if __name__ == "__main__":
    main()
