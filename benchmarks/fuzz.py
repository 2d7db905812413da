"""Mutated inputs of every kind: a mistake of the user must be refused, never end in a traceback or hang.

Study files (the examples and the pages' studies, as tables and as text), Python calls, data, tables,
FedTune's tables, saved policies, ground truths, results and run directories. Each case follows from `--seed`
and its number alone. The cases run in worker processes; one that takes longer than `--limit` seconds is
ended, and counts as a hang. A failing case is written to `--failures`; `--case N` runs it again here.

    python benchmarks/fuzz.py --cases 10000
"""

from __future__ import annotations

import argparse
import contextlib
import io
import multiprocessing
import os
import resource
import shutil
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from fuzzing import calls, files, studies

#: Kinds of cases, how many of a hundred are of it, and what makes one.
KINDS: dict[str, tuple[int, Callable[..., Any]]] = {
    "study, as tables": (30, studies.as_tables),
    "study, as text": (15, studies.as_text),
    "study, from Python": (8, studies.as_mapping),
    "constructor": (20, calls.constructor),
    "tune": (7, calls.tune),
    "space": (5, calls.space),
    "data and simulate": (7, calls.data),
    "table": (2, files.table),
    "policy, truth, reference table": (3, files.json_file),
    "run directory": (3, files.run),
}
OUTCOMES = ("accepted", "refused", "traceback", "late", "hang")
MEMORY = 12 << 30


@dataclass
class Corpus:
    """What is mutated."""

    good: Path
    studies: list[dict[str, Any]] = field(default_factory=studies.corpus)
    classes: list[type[Any]] = field(default_factory=calls.classes)

    def of(self, kind: str) -> Any:
        """The part that this kind of case takes."""
        if kind.startswith("study"):
            return self.studies
        return self.classes if kind == "constructor" else self.good


def kind_of(rng: Random) -> str:
    """The kind of a case."""
    return rng.choices(list(KINDS), [share for share, _ in KINDS.values()])[0]


def run_case(seed: int, number: int, corpus: Corpus, *, quiet: bool = True) -> tuple[str, str, str]:
    """Kind, outcome and what was raised."""
    from fedhpo.core.errors import FedhpoError

    rng = Random(f"{seed}/{number}")
    kind = kind_of(rng)
    before = Path.cwd()
    folder = Path(tempfile.mkdtemp(prefix="fedhpo-fuzz-"))
    os.chdir(folder)
    said = io.StringIO()
    try:
        with contextlib.ExitStack() as stack:
            if quiet:
                stack.enter_context(contextlib.redirect_stdout(said))
                stack.enter_context(contextlib.redirect_stderr(said))
            stack.enter_context(warnings.catch_warnings())
            warnings.simplefilter("ignore")
            code = KINDS[kind][1](rng, folder, corpus.of(kind))
        return kind, "refused" if code else "accepted", ""
    except FedhpoError as error:
        return kind, "refused" if str(error).strip() else "traceback", str(error)
    except calls.LateRefusal as error:
        return kind, "late", str(error)
    except Exception:
        return kind, "traceback", traceback.format_exc()
    finally:
        os.chdir(before)
        shutil.rmtree(folder, ignore_errors=True)


# Worker processes


def _work(pipe: Connection, seed: int, good: str) -> None:
    """Run the cases whose numbers come, until None does."""
    import torch

    torch.set_num_threads(1)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    corpus = Corpus(Path(good))
    pipe.send(None)
    while (number := pipe.recv()) is not None:
        pipe.send(run_case(seed, number, corpus))


class Worker:
    """A process, and the case that it is at."""

    def __init__(self, seed: int, good: Path) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs, seed, str(good)), daemon=True)
        self.process.start()
        theirs.close()
        self.number: int | None = None
        self.began = time.monotonic()

    def give(self, number: int) -> None:
        """The next case."""
        self.number, self.began = number, time.monotonic()
        self.pipe.send(number)

    def end(self) -> None:
        """Kill it."""
        self.process.kill()
        self.process.join()
        self.pipe.close()


@dataclass
class Tally:
    """What came of the cases."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    failures: dict[int, tuple[str, str, str]] = field(default_factory=dict)

    def add(self, number: int, kind: str, outcome: str, why: str) -> None:
        """One more."""
        self.counts[kind, outcome] += 1
        if outcome in ("traceback", "late", "hang"):
            self.failures[number] = kind, outcome, why

    def total(self, outcome: str) -> int:
        """Over all kinds."""
        return sum(count for (_, found), count in self.counts.items() if found == outcome)

    def __str__(self) -> str:
        lines = [f"{'':32}" + "".join(f"{outcome:>11}" for outcome in OUTCOMES)]
        for kind in (*KINDS, "all"):
            row = [self.total(o) if kind == "all" else self.counts[kind, o] for o in OUTCOMES]
            lines.append(f"{kind:32}" + "".join(f"{count:11,}" for count in row))
        return "\n".join(lines)


def fuzz(cases: int, seed: int, workers: int = 2, limit: float = 20.0, first: int = 0) -> Tally:
    """Run the cases `first` to `first + cases - 1`."""
    tally = Tally()
    with tempfile.TemporaryDirectory(prefix="fedhpo-fuzz-good-") as good:
        with contextlib.redirect_stdout(io.StringIO()):
            files.make(Path(good))
        left = iter(range(first, first + cases))
        running = [Worker(seed, Path(good)) for _ in range(workers)]
        try:
            while running:
                ready = wait([worker.pipe for worker in running], timeout=1.0)
                for worker in list(running):
                    if worker.pipe in ready:
                        replaced = _heard(worker, tally, left, seed)
                    elif worker.number is not None and time.monotonic() - worker.began > limit:
                        tally.add(
                            worker.number, kind_of(Random(f"{seed}/{worker.number}")), "hang", f"{limit:g} s"
                        )
                        replaced = True
                    else:
                        continue
                    if replaced or worker.number is None:
                        worker.end()
                        running.remove(worker)
                    if replaced:
                        running.append(Worker(seed, Path(good)))
        finally:
            for worker in running:
                worker.end()
    return tally


def _heard(worker: Worker, tally: Tally, left: Any, seed: int) -> bool:
    """Take the worker's word and give it the next case; whether it has died and must be replaced."""
    try:
        found = worker.pipe.recv()
    except EOFError:
        number = worker.number
        if number is None:
            raise SystemExit("a worker could not start") from None
        tally.add(
            number, kind_of(Random(f"{seed}/{number}")), "traceback", f"died: {worker.process.exitcode}"
        )
        return True
    if worker.number is not None:
        tally.add(worker.number, *found)
    number = next(left, None)
    if number is None:
        worker.number = None
    else:
        worker.give(number)
    return False


def _write(failures: dict[int, tuple[str, str, str]], folder: Path, seed: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, (kind, outcome, why) in failures.items():
        head = f"python benchmarks/fuzz.py --seed {seed} --case {number}\n{kind}: {outcome}\n\n"
        (folder / f"case-{seed}-{number}.txt").write_text(head + why, encoding="utf-8", errors="replace")


def main() -> int:
    """Run them, print the counts; 1 if any ended in a traceback, too late, or not at all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--limit", type=float, default=20.0, help="seconds that a case may take")
    parser.add_argument("--failures", type=Path, default=Path("fuzz-failures"), help="where failing cases go")
    parser.add_argument("--case", type=int, help="run this one here, and show what it raises")
    options = parser.parse_args()
    if options.case is not None:
        with tempfile.TemporaryDirectory() as good:
            files.make(Path(good))
            kind, outcome, why = run_case(options.seed, options.case, Corpus(Path(good)), quiet=False)
        print(f"{kind}: {outcome}\n{why}")
        return int(outcome in ("traceback", "late"))
    began = time.monotonic()
    tally = fuzz(options.cases, options.seed, options.workers, options.limit, options.first)
    print(tally)
    print(f"{options.cases:,} cases, seed {options.seed}, {time.monotonic() - began:.0f} s")
    if tally.failures:
        _write(tally.failures, options.failures, options.seed)
        print(f"{len(tally.failures)} failing cases in {options.failures}")
    return int(bool(tally.failures))


if __name__ == "__main__":
    sys.exit(main())
