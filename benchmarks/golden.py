"""The results of this source against those kept in tests/golden/digests.json, cell by cell.

    python benchmarks/golden.py [--only torch] [--group quick] [--before COMMIT] [--list]

A cell is a trainee at a place under a method (`tests/golden/golden_cells.py`). `--only` takes the cells whose
name, such as "torch/workers/fedex", holds that text; it may be given again. What the digests cover, and what
they leave out, stands at the top of `tests/golden/golden_digests.py`.

Bits hold for one kind of CPU and one version of each numerical package. A probe of both is kept with the
digests. Where it gives something else, the source of the commit that wrote the digests is run beside this
one, and the two are compared. `--before COMMIT` does so with any commit.

    python benchmarks/golden.py --renew [--only fedex]

runs each cell twice, under other hash seeds and in another order, and keeps the digests of those that repeat.
See "Changes of results" in CONTRIBUTING.md for when that is right.

    python benchmarks/golden.py --runs [--only stopped]

reads and resumes the runs of 0.2.0 that are kept in tests/golden/runs: each ends in its stored result, or is
refused with the commit to use; finished ones are read by `load_run`, `export`, `report` and the page.

Cells that differ are printed with the digests that do; the exit code is then 1.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
GOLDEN = ROOT / "tests" / "golden"
DIGESTS = GOLDEN / "digests.json"
#: Runs at the same time, each a process with one thread.
SIDE_BY_SIDE = 2
#: Digests that do not repeat, by trainee and place, with the reason; they are not kept. `--list` prints them.
UNSTABLE: dict[tuple[str, str], tuple[tuple[str, ...], str]] = {
    ("learners pooled", "workers"): (
        ("events", "result"),
        "bytes sent are counted by the length of a pickle, which depends on what the worker did before",
    ),
}

Cell = tuple[str, str, str]
Digests = dict[Cell, dict[str, str]]


def main() -> int:
    options = parsed()
    if options.runs:
        return alone([*(["--renew"] if options.renew else []), "--child-runs", *(options.only or [""])])
    if options.child_runs is not None:
        return child_runs(options.child_runs, make_missing=options.renew)
    if options.child:
        return child(json.loads(options.child))
    sys.path.insert(0, str(GOLDEN))
    from golden_cells import cells, group_of

    wanted = [
        cell
        for cell in cells()
        if (not options.only or any(text in "/".join(cell) for text in options.only))
        and group_of(*cell[:2]) in options.group
    ]
    if options.list:
        print("\n".join(map("/".join, wanted)))
        for cell, (left_out, why) in UNSTABLE.items():
            print(f"{'/'.join(cell)}: without {' and '.join(left_out)}: {why}")
        print(f"{len(wanted)} cells")
        return 0
    if not wanted:
        print("no cell has such a name: --list names them all")
        return 2
    return renew(wanted) if options.renew else check(wanted, options.before)


def parsed() -> argparse.Namespace:
    groups = ("quick", "processes", "ray")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", metavar="TEXT", help="cells whose name holds this")
    parser.add_argument(
        "--group", action="append", choices=groups, help="only this group; may be given again"
    )
    parser.add_argument("--before", metavar="COMMIT", help="compare with this commit's source, run here too")
    parser.add_argument("--renew", action="store_true", help="write the digests anew")
    parser.add_argument("--list", action="store_true", help="name the cells")
    parser.add_argument("--runs", action="store_true", help="read and resume the runs that are kept")
    parser.add_argument("--child-runs", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.group = options.group or list(groups)
    return options


# Checking and renewing


def check(wanted: Sequence[Cell], before: str | None) -> int:
    """Compare with what is kept, or with another commit's source; 1 where they differ."""
    begun = time.monotonic()
    kept, here = read(), probed(ROOT)
    if before is None and kept["probe"] != here:
        before = subprocess.check_output(
            ["git", "log", "-1", "--format=%H", "--", str(DIGESTS)], cwd=ROOT, text=True
        ).strip()
        print(
            f"the probe gives other bits or packages than where the digests were made:\n  {kept['probe']}\n"
            f"  {here}\nso the source of {before[:7]}, which wrote them, is run beside this one"
        )
    if before is None:
        stored = {cell: digests for cell, digests in flat(kept["cells"]).items() if cell in set(wanted)}
    else:
        with tempfile.TemporaryDirectory(prefix="golden-before-") as folder:
            stored = run(wanted, extracted(before, Path(folder)))
    found = run(wanted, ROOT)
    wrong = list(differences(stored, found, wanted))
    print("\n".join(wrong) or "nothing differs")
    same = len(wanted) - len(wrong)
    print(f"{same} of {len(wanted)} cells are the same ({(time.monotonic() - begun) / 60:.1f} minutes)")
    return 1 if wrong else 0


def differences(stored: Digests, found: Digests, wanted: Sequence[Cell]) -> Iterator[str]:
    """A line for each cell that is not the same."""
    for cell in wanted:
        name, old, new = "/".join(cell), stored.get(cell), found.get(cell)
        if old is None or new is None:
            which = "is not kept: --renew" if old is None else "is missing now"
            yield f"{name}: {which}"
        elif "error" in old or "error" in new:
            if old != new:
                yield f"{name}: {old.get('error', 'ran before')}, now {new.get('error', 'runs')}"
        elif old != new:
            yield f"{name}: {', '.join(key for key in old if old[key] != new.get(key))} differ"


def renew(wanted: Sequence[Cell]) -> int:
    """Keep the digests of the cells that repeat."""
    kept, here = read(), probed(ROOT)
    whole = kept["probe"] == here
    from golden_cells import cells

    if not whole and kept["cells"] and len(wanted) < len(cells()):
        print("this machine gives other bits than the one where the digests were made: renew all of them")
        return 2
    first, second = run(wanted, ROOT, hash_seed="1"), run(wanted[::-1], ROOT, hash_seed="2")
    found = flat(kept["cells"]) if whole else {}
    loose = [cell for cell in wanted if first.get(cell) != second.get(cell) or "error" in first[cell]]
    for cell in wanted:
        found.pop(cell, None)
        if cell not in loose:
            found[cell] = first[cell]
    nested: dict[str, Any] = {}
    for trainee, place, method in cells():
        if (trainee, place, method) in found:
            nested.setdefault(trainee, {}).setdefault(place, {})[method] = found[trainee, place, method]
    DIGESTS.write_text(json.dumps({"probe": here, "cells": nested}, indent=1) + "\n", encoding="utf-8")
    for cell in loose:
        print(f"{'/'.join(cell)}: does not repeat, or fails: {first.get(cell)}, {second.get(cell)}")
    print(f"{len(wanted) - len(loose)} of {len(wanted)} cells written to {DIGESTS.relative_to(ROOT)}")
    return 1 if loose else 0


def read() -> dict[str, Any]:
    if not DIGESTS.exists():
        return {"probe": None, "cells": {}}
    found: dict[str, Any] = json.loads(DIGESTS.read_text(encoding="utf-8"))
    return found


def flat(nested: dict[str, Any]) -> Digests:
    return {
        (trainee, place, method): digests
        for trainee, places in nested.items()
        for place, methods in places.items()
        for method, digests in methods.items()
    }


# Running


def extracted(commit: str, folder: Path) -> Path:
    """The source of a commit, without a work tree of its own."""
    archive = subprocess.run(["git", "archive", commit, "src"], cwd=ROOT, capture_output=True, check=False)
    if archive.returncode:
        sys.exit(f"--before {commit}: {archive.stderr.decode().strip()}")
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)
    return folder


def run(wanted: Sequence[Cell], root: Path, hash_seed: str = "random") -> Digests:
    """The digests that the source at `root` gives, by processes of their own."""
    rooms: dict[tuple[str, str], list[str]] = defaultdict(list)
    for trainee, place, method in wanted:
        rooms[trainee, place].append(method)
    shares: list[list[Any]] = [[] for _ in range(SIDE_BY_SIDE)]
    for number, ((trainee, place), methods) in enumerate(rooms.items()):
        shares[number % SIDE_BY_SIDE].append([trainee, place, methods])
    processes = [started(share, root, hash_seed) for share in shares if share]
    found: Digests = {}
    for process in processes:
        told, _ = process.communicate()
        for line in told.splitlines():
            if line.startswith("{"):
                cell = json.loads(line)
                trainee, place, method = cell["cell"]
                left_out, _ = UNSTABLE.get((trainee, place), ((), ""))
                found[trainee, place, method] = {
                    part: digest for part, digest in cell["digests"].items() if part not in left_out
                }
    return found


def started(share: list[Any], root: Path, hash_seed: str = "random") -> subprocess.Popen[str]:
    command = [sys.executable, __file__, "--child", json.dumps(share)]
    return subprocess.Popen(command, env=environment(root, hash_seed), stdout=subprocess.PIPE, text=True)


def environment(root: Path, hash_seed: str = "random") -> dict[str, str]:
    """One thread, and the source at `root` before any that is installed."""
    paths = os.pathsep.join([str(root / "src"), str(GOLDEN)])
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    return {**os.environ, **threads, "PYTHONPATH": paths, "PYTHONHASHSEED": hash_seed}


def child(share: list[Any]) -> int:
    """Run cells in this process, and print each cell's digests as a line of JSON."""
    from golden_cells import run_cells
    from golden_digests import probe

    with cluster(any(place == "ray" for _, place, _ in share)):
        for trainee, place, methods in share:
            if trainee == "probe":
                print(json.dumps({"cell": ["probe", "", ""], "digests": probe()}), flush=True)
                continue
            left = list(methods)
            try:
                for method, digests in run_cells(trainee, place, methods):
                    tell(trainee, place, method, digests)
                    left.remove(method)
            except Exception as error:
                for method in left:
                    tell(trainee, place, method, {"error": f"{type(error).__name__}: {error}"[:300]})
    return 0


def alone(options: Sequence[str]) -> int:
    """This command with other options, in a process with one thread."""
    return subprocess.run([sys.executable, __file__, *options], env=environment(ROOT), check=False).returncode


def child_runs(only: Sequence[str], make_missing: bool = False) -> int:
    """Read and resume the kept runs whose names hold one of these texts."""
    from golden_digests import probe
    from golden_runs import expected, kept_runs, make, page_of, read_back, resumed, unpacked, write_expected

    begun, here, wrong = time.monotonic(), probe(), 0
    os.chdir(GOLDEN)
    names = [name for name in kept_runs() if any(text in name for text in only)]
    for name in names:
        with tempfile.TemporaryDirectory(prefix="golden-") as folder:
            if make_missing and name not in expected()["runs"]:
                write_expected(name, make(name, Path(folder)), here)
                continue
            found = resumed(name, Path(folder), same_bits=here == expected()["probe"])
            if name.startswith("finished-"):
                (fresh := Path(folder) / "fresh").mkdir()
                unpacked(name, fresh)
                with contextlib.redirect_stdout(io.StringIO()):  # what the commands print
                    read_back(name, fresh, Path(folder), report=True)
                    page_of(name, fresh)
        print(f"{name}: {found}", flush=True)
        wrong += found not in ("same", "refused")
    minutes = (time.monotonic() - begun) / 60
    print(f"{len(names) - wrong} of {len(names)} kept runs are read and resumed ({minutes:.1f} minutes)")
    return 1 if wrong else 0


def tell(trainee: str, place: str, method: str, digests: dict[str, str]) -> None:
    print(json.dumps({"cell": [trainee, place, method], "digests": digests}), flush=True)


def cluster(needed: bool) -> Any:
    """A cluster of Ray's on this machine, of two cores, for as long as it is needed."""

    @contextlib.contextmanager
    def ray_here() -> Iterator[None]:
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        import ray

        ray.init(num_cpus=2, object_store_memory=80_000_000, include_dashboard=False, log_to_driver=False)
        try:
            yield
        finally:
            ray.shutdown()

    return ray_here() if needed else contextlib.nullcontext()


def probed(root: Path) -> Any:
    """The probe, made with one thread."""
    process = started([["probe", "", []]], root)
    told, _ = process.communicate()
    [line] = [line for line in told.splitlines() if line.startswith("{")]
    return json.loads(line)["digests"]


if __name__ == "__main__":
    sys.exit(main())
