"""Every key of a study in every combination: it has an effect, is refused, or stands in a short list.

Keys come from the schema, the registries and the dataclasses; a cell sets one to another value in a small
study and looks at what was asked of the federation and at the result. All pairs of key and runtime, key and
method, key and learner; NVFlare's simulator and Ray have every key once. A key that counts only beside others
is set with them. A refusal counts where it names the key. A cell that does nothing without a word is silent,
and there must be none.

    python benchmarks/settings.py [--processes 2] [--only TEXT] [--done settings-cells.json] [--keep]

What is done is kept in the file that `--done` names and is not done again by the same code. With `--keep`,
cells that another state of the code did well are not done again either, and the figures say so.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import hashlib
import json
import multiprocessing
import os
import sys
import time
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import fedhpo
from settings_cells import contexts, nvflare_cells
from settings_cells.judge import FAILED, HONOURED, OUTCOMES, SILENT, cells, judged
from settings_cells.keys import listed
from settings_cells.places import stop_ray

#: Parts of the library that no cell runs.
_BESIDE = ("cli", "pages", "plots", "report", "trackers", "ui", "reproduce")
#: Cells in a batch; those on Ray are one batch, as its cluster takes seconds to start, and those of a job,
#: whose runs take as long.
_BATCH = 12


@cache
def code_digest() -> str:
    """That of the library's code and of these cells: cells that were done with it need not be done again."""
    found = hashlib.sha256()
    for root in (Path(fedhpo.__file__).parent, Path(__file__).parent / "settings_cells"):
        for path in sorted(root.rglob("*.py")):
            if not set(path.relative_to(root).parts) & set(_BESIDE):
                found.update(path.read_bytes())
    return found.hexdigest()[:16]


def judged_all(names: list[str]) -> dict[str, tuple[str, str]]:
    """In a process of its own: cells by name."""
    if nvflare_cells.is_its(names[0]):
        return nvflare_cells.judged_all(names)
    wanted = set(names)
    try:
        return {cell.name: judged(cell) for cell in cells() if cell.name in wanted}
    finally:
        stop_ray()


def batches(names: list[str]) -> list[list[str]]:
    """Cells of one context together, so that the study as it is runs once; the longest batches first."""
    by_context: dict[str, list[str]] = defaultdict(list)
    for name in names:
        by_context[name.partition(" | ")[2]].append(name)
    found = []
    for context, some in by_context.items():
        whole = context.startswith(("ray", "nvflare job")) or nvflare_cells.is_its(some[0])
        size = len(some) if whole else _BATCH
        found += [some[i : i + size] for i in range(0, len(some), size)]
    return sorted(found, key=len, reverse=True)


def run(names: list[str], processes: int, done: Path, results: dict[str, Any]) -> None:
    """Judge the cells that are not done, and keep what comes of each batch."""
    begun, left = time.monotonic(), batches([name for name in names if name not in results])
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(processes, mp_context=spawn) as pool:
        jobs = [pool.submit(judged_all, batch) for batch in left]
        for number, job in enumerate(concurrent.futures.as_completed(jobs), 1):
            results |= {name: [*found, code_digest()] for name, found in job.result().items()}
            write(done, results)
            print(f"{number} of {len(left)} batches, {time.monotonic() - begun:.0f} s", file=sys.stderr)


def write(path: Path, results: dict[str, Any]) -> None:
    """Keep what is done."""
    other = path.with_suffix(".new")
    other.write_text(json.dumps(results, indent=1, sort_keys=True))
    os.replace(other, path)


def read(path: Path, keep: bool) -> dict[str, Any]:
    """What the same code has done; and what another has done well, where it is to be kept."""
    found = json.loads(path.read_text()) if path.is_file() else {}
    return {
        name: cell
        for name, cell in found.items()
        if cell[2] == code_digest() or (keep and cell[0] not in (SILENT, FAILED))
    }


def report(results: dict[str, Any]) -> int:
    """Print the figures; 1 if a cell is silent or failed, or a key is honoured nowhere."""
    count = Counter(outcome for outcome, _, _ in results.values())
    for outcome in (SILENT, FAILED):
        for name, (found, word, _) in sorted(results.items()):
            if found == outcome:
                print(f"{outcome}: {name}: {word}")
    honoured = {name.partition(" | ")[0] for name, (found, _, _) in results.items() if found == HONOURED}
    tried = {name.partition(" | ")[0] for name in results}
    nowhere = sorted(key for key in tried - honoured if not listed(key))
    for key in nowhere:
        print(f"honoured nowhere: {key}")
    states = len({code for _, _, code in results.values()})
    print(f"cells tried {len(results)}, " + ", ".join(f"{name} {count[name]}" for name in OUTCOMES))
    print(f"keys {len(honoured | set(nowhere))}, honoured somewhere {len(honoured)}")
    print("of one state of the code" if states == 1 else f"of {states} states of the code")
    for name in contexts.missing():
        print(f"not tried, as it is not installed: {name}")
    return int(bool(count[SILENT] or count[FAILED] or nowhere))


def main() -> int:
    """The whole of it."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--processes", type=int, default=2)
    options.add_argument("--only", default="", help="cells whose name holds this text")
    options.add_argument("--done", type=Path, default=Path("settings-cells.json"))
    options.add_argument("--keep", action="store_true", help="what another state of the code did well")
    given = options.parse_args()
    results, begun = read(given.done, given.keep), time.monotonic()
    names = [cell.name for cell in (*cells(), *nvflare_cells.cells()) if given.only in cell.name]
    run(names, given.processes, given.done, results)
    failed = report({name: results[name] for name in names})
    print(f"{(time.monotonic() - begun) / 60:.1f} minutes")
    return failed


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
