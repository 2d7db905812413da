"""Kill runs at any moment, damage their files, carry on: does the answer stay the same?

    python benchmarks/chaos.py [--kills 1000] [--flips 500] [--log chaos.jsonl] [--seconds 600]

Random studies (every method, private and not, keys shuffled) get SIGKILL, the whole group or the parent
alone, in their first 50 ms, while the record is made, a round is recorded, a checkpoint or the report is
written, or at any time. `tune` or `resume` carries them on. Then result and history must be those of the same
study left alone, times aside, and what was recorded before a kill must still be recorded after it. Bytes of
every file of killed, stopped and finished runs are flipped: such a run ends in the same result, or is refused
with exit code 2.

With `--log` results are appended to a file of JSON lines, and another call goes on from there; the summary
covers all of it. `--chain SEED` runs one chain again and tells every step (moments are drawn again, but what
a process has done by then is up to the machine). Exit code 1 if a limit is broken.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from chaos_parts import starts
from chaos_parts.chains import Broken, Chain, Shares, described, reference
from chaos_parts.flips import Flips
from chaos_parts.studies import KINDS

#: What must not happen at all.
LIMITS = ("different", "stuck", "traceback", "elsewhere", "needless", "orphans", "segments", "torn")
WARM = """
[data]
name = "digits"
clients = 6
[model]
name = "mlp"
[space.client]
lr = { low = 0.01, high = 1.0, log = true }
[method]
name = "gp"
trials = 3
startup = 2
[budget]
rounds = 1
total = 3
cohort = 3
"""


def chain(
    seed: int, options: argparse.Namespace, folder: Path, kills: int, flips: int
) -> list[dict[str, Any]]:
    """One chain and the flips that follow it, as lines of the log."""
    kinds = options.methods.split(",") if options.methods else list(KINDS)
    kind = kinds[seed % len(kinds)]
    before, began = starts.segments(options.own_memory), time.monotonic()
    line: dict[str, Any] = {"chain": seed, "kind": kind, "outcome": "identical", "note": ""}
    lines: list[dict[str, Any]] = []
    links: Chain | None = None
    try:
        uncut = reference(seed, kind, folder / "uncut")
        line |= described(uncut.study, kind) | {"uncut_seconds": round(uncut.seconds, 2)}
        links = Chain(seed, uncut, folder / "chain", Shares(options.real, options.workers), options.verbose)
        links.go(kills)
    except Broken as broken:
        line |= {"outcome": broken.outcome, "note": str(broken)}
    if links is not None:
        # What is made of noise that nobody can repeat, or was wrong before, tells nothing of damage.
        if links.snapshots and flips and not line["exact"] and line["outcome"] == "identical":
            drawn = Flips(seed, uncut, links.snapshots, folder / "chain")
            lines = [{"flip": seed, "kind": kind, **drawn.one(options.real / 3)} for _ in range(flips)]
        tally = vars(links.tally)
        line |= {key: value for key, value in tally.items() if key != "notes"}
        if line["outcome"] != "identical" or links.tally.torn:
            line["notes"] = links.tally.notes
    line["segments"] = len(starts.unused(starts.segments(options.own_memory) - before))
    line["seconds"] = round(time.monotonic() - began, 2)
    return [line, *lines]


def kills_of(seed: int) -> int:
    """The most kills of a chain."""
    return 3 + seed * 7919 % 14


def lane(number: int, options: argparse.Namespace, log: Path, work: Path) -> None:
    """One chain after the other until there are enough kills and flips, or the time is over."""
    end = time.monotonic() + options.seconds if options.seconds else float("inf")
    seed = options.seed + number
    while time.monotonic() < end:
        lines = read(log)
        done = {line["chain"] for line in lines if "chain" in line}
        kills = sum(line.get("kills", 0) for line in lines)
        flips = sum("flip" in line for line in lines)
        if kills >= options.kills and flips >= options.flips:
            return
        while seed in done:
            seed += options.jobs
        wanted = min(kills_of(seed), options.kills - kills) if kills < options.kills else 2
        damaged = min(options.flips - flips, 10 if kills < options.kills else 30)
        with place(work) as folder:
            found = chain(seed, options, folder, wanted, max(0, damaged))
        with log.open("a") as file:
            file.write("".join(json.dumps(line) + "\n" for line in found))
        seed += options.jobs
        bad = [line for line in found if line["outcome"] in LIMITS]
        for line in bad:
            said = f"chain {line.get('chain', line.get('flip'))}: {json.dumps(line)[:600]}"
            print(said, file=sys.stderr, flush=True)


@contextlib.contextmanager
def place(inside: Path | None = None) -> Iterator[Path]:
    """A directory for a while. `TemporaryDirectory` would be deleted by every fork that ends properly."""
    folder = Path(tempfile.mkdtemp(prefix="chaos-", dir=inside))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def read(log: Path) -> list[dict[str, Any]]:
    """The lines of the log so far."""
    if not log.is_file():
        return []
    return [json.loads(line) for line in log.read_text().splitlines() if line.endswith("}")]


def summary(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """The sums over a log.

    >>> facts = summary([{"chain": 0, "kind": "sha", "outcome": "identical", "kills": 3}])
    >>> facts["kills"], facts["chains"], facts["identical"], facts["different"]
    (3, 1, 1, 0)
    """
    chains = [line for line in lines if "chain" in line]
    flips = [line for line in lines if "flip" in line]
    outcomes = Counter(line["outcome"] for line in chains)
    after = Counter(line["outcome"] for line in flips)
    found: dict[str, Any] = {
        "kills": sum(line.get("kills", 0) for line in chains),
        "chains": len(chains),
        **{name: outcomes[name] for name in ("identical", "different", "stuck", "traceback")},
        **{
            name: sum(line.get(name, 0) for line in chains)
            for name in ("orphans", "segments", "torn", "temporary", "real", "asked", "warnings")
        },
        "private": sum(bool(line.get("private")) for line in chains),
        "methods": len({line["kind"] for line in chains}),
        "moments": dict(sum((Counter(line.get("moments", {})) for line in chains), Counter())),
        "targets": dict(sum((Counter(line.get("targets", {})) for line in chains), Counter())),
        "flips": {"tried": len(flips), **after},
        "flips_by_file": {
            name: dict(Counter(line["outcome"] for line in flips if line["class"] == name))
            for name in sorted({line["class"] for line in flips})
        },
    }
    found["broken"] = {name: count for name in LIMITS if (count := found.get(name, 0) + after[name])}
    broken = (line for line in lines if line["outcome"] in LIMITS or any(line.get(name) for name in LIMITS))
    found["seeds"] = sorted({line.get("chain", line.get("flip")) for line in broken})
    return found


def show(facts: dict[str, Any]) -> None:
    """The summary in words."""
    words = {"traceback": "tracebacks", "segments": "shared segments left", "torn": "half-written files"}
    names = ("identical", "different", "stuck", "traceback", "orphans", "segments", "torn")
    counted = ", ".join(f"{words.get(name, name)} {facts[name]}" for name in names)
    print(f"kills {facts['kills']}, chains {facts['chains']}: {counted}")
    print(
        f"  {facts['methods']} kinds of study, {facts['private']} chains private; {facts['real']} processes "
        f"were python -m fedhpo, the others forks; {facts['asked']} were asked to stop"
    )
    print(f"  killed at: {facts['moments']}; killed: {facts['targets']}")
    print(f"flips {facts['flips']}")
    for name, outcomes in facts["flips_by_file"].items():
        print(f"  {name}: {outcomes}")
    if facts["broken"]:
        print(
            f"BROKEN: {facts['broken']}; again with --chain SEED (and the same --methods): {facts['seeds']}"
        )


def options_of(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--flips", type=int, help="(default: half as many as kills)")
    parser.add_argument("--seed", type=int, default=0, help="of the first chain; the others follow")
    parser.add_argument("--seconds", type=float, help="begin no chain after so long; call again to go on")
    parser.add_argument("--log", type=Path, help="JSON lines; another call goes on from there")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="chains at a time")
    parser.add_argument("--methods", help=f"only these kinds of study, by comma: {', '.join(KINDS)}")
    parser.add_argument(
        "--real", type=float, default=0.15, help="share of processes that are python -m fedhpo"
    )
    parser.add_argument(
        "--workers", type=float, default=0.2, help="share of processes with workers of their own"
    )
    parser.add_argument("--chain", type=int, metavar="SEED", help="this chain alone, every step told")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    options.verbose = options.chain is not None
    options.flips = options.kills // 2 if options.flips is None else options.flips
    if options.chain is not None:
        options.seed, options.jobs = options.chain, 1
    return options


def main() -> None:
    if any(os.environ.get(name) != "1" for name in starts.ONE_THREAD):
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | starts.ONE_THREAD)
    options = options_of()
    with place() as work:
        log = (options.log or work / "log.jsonl").absolute()
        (work / "warm.toml").write_text(WARM)
        starts.warm_up(work / "warm.toml", work)
        if options.chain is not None:
            log = run_one(options, work)
        else:
            run_lanes(options, log, work)
        facts = summary(read(log))
    print(json.dumps(facts)) if options.json else show(facts)
    if facts["kills"] < options.kills and options.chain is None:
        left = options.kills - facts["kills"]
        print(f"{left} kills are still to do: call again with the same --log", file=sys.stderr)
    sys.exit(1 if facts["broken"] else 0)


def run_one(options: argparse.Namespace, work: Path) -> Path:
    """One chain with everything told, in a log of its own."""
    options.own_memory = starts.own_shared_memory()
    lines = chain(options.chain, options, work / "one", kills_of(options.chain), min(options.flips, 30))
    log = work / "one.jsonl"
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    print(log.read_text(), end="")
    return log


def run_lanes(options: argparse.Namespace, log: Path, work: Path) -> None:
    """So many chains at a time, each in a fork of its own."""
    pids = []
    for number in range(options.jobs):
        pid = os.fork()
        if pid == 0:
            _be_a_lane(number, options, log, work)
        pids.append(pid)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        ended = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
    except BaseException:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        raise
    if any(ended):
        sys.exit(f"the harness itself failed, see above (exit codes {ended})")


def _be_a_lane(number: int, options: argparse.Namespace, log: Path, work: Path) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    code = 1
    options.own_memory = starts.own_shared_memory()
    try:
        lane(number, options, log, work)
        code = 0
    except (KeyboardInterrupt, SystemExit):
        pass
    except BaseException:
        traceback.print_exc()
    finally:
        for session in starts.LIVE:
            starts.end(starts.left_of(session))
        os._exit(code)


if __name__ == "__main__":
    main()
