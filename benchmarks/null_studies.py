"""How often "improved" is said where nothing was gained, and how often true gains are seen.

    python benchmarks/null_studies.py [--studies 2000] [--before COMMIT] [--keep DIRECTORY]

Whole studies (plan, search, comparison, verdict) on a federation whose clients answer from a table of random
scores; nothing is trained. Three kinds of studies have nothing to find:

- identical: all configs score the same at each client;
- equal: configs differ from client to client, and are equal in the mean over clients at large;
- worse: all configs are two points worse than the user's own, so the winner is chosen by luck.

They run in four settings: not private, all clients asked for each score, or some; private, with clients held
out, and with too few clients for that. A client that was drawn is one of many: scores of each study are drawn
anew. Exits 1 where the upper end of a one-sided 95% interval (Clopper and Pearson, 1934) of false
"improved" is above 6% in any cell. True gains of 2, 5 and 10 points, a fifth as many studies, are for the
record. With `--before` the
same runs on another commit, in a temporary worktree; nothing is required of it. What is done is kept in the
directory, and not done again.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import fedhpo as fh
from fedhpo.protocol.federation import Cost, Ints, Scores, SplitName
from fedhpo.search.evaluator import Evaluator
from fedhpo.search.unrecorded import UnrecordedSession
from fedhpo.testing import ToyFederation
from fedhpo.tuning.conclusion import conclude
from fedhpo.tuning.setup import prepare

#: The most that the upper end of the interval of false "improved" may be.
LIMIT = 0.06
#: Configs of a study, the user's own among them, and how much a config differs from client to client.
TRIALS, SPREAD = 16, 0.1
#: By kind of study: what all configs but the user's own gain in the mean, in points, and their spread.
KINDS = {
    "identical": (0, 0.0),
    "equal": (0, SPREAD),
    "worse": (-2, SPREAD),
    "gain of 2": (2, SPREAD),
    "gain of 5": (5, SPREAD),
    "gain of 10": (10, SPREAD),
}
NULL = ("identical", "equal", "worse")
SPACE = fh.Space(client={"lr": fh.Float(1e-3, 10.0, log=True, default=0.1)})


@dataclass(frozen=True)
class Setting:
    """Clients, how many of them make a score (None for all), and epsilon (None for no privacy)."""

    clients: int
    asked: int | None = None
    epsilon: float | None = None

    def evaluator(self) -> Evaluator:
        """How scores are observed."""
        privacy = None if self.epsilon is None else fh.Privacy(self.epsilon)
        return Evaluator(clients=self.asked, privacy=privacy)


SETTINGS = {
    "50 clients": Setting(50),
    "10 of 100 clients": Setting(100, 10),
    "100 clients, epsilon 10": Setting(100, epsilon=10.0),
    "30 clients, epsilon 10": Setting(30, epsilon=10.0),
}


class Replayed(UnrecordedSession):
    """A session in which rounds only move clocks."""

    virtual = True

    def advance(self, trials: Sequence[tuple[int, Any]]) -> list[str]:
        """Every round succeeds."""
        self.ledger.charge(Cost(rounds=len(trials)))
        return [""] * len(trials)


class Table(ToyFederation):
    """Clients that answer from a table of scores: a row for each trial, a column for each client."""

    def __init__(self, scores: np.ndarray) -> None:
        super().__init__(clients=scores.shape[1], noise=0.0)
        self.scores = scores
        self.sizes = np.full(scores.shape[1], 10)
        self.test_clients = np.empty(0, np.int64)

    def evaluate(
        self, trials: Sequence[int], clients: Sequence[int] | Ints, split: SplitName = "validation"
    ) -> list[Scores]:
        """What the table says."""
        asked = np.asarray(clients, dtype=np.int64)
        ok, rows = np.zeros(len(asked), np.int8), np.full(len(asked), 10)
        return [
            Scores(trial, split, asked, ok, rows, 1 - self.scores[trial, asked], self.scores[trial, asked])
            for trial in trials
        ]


def improved(setting: Setting, kind: str, seed: int) -> bool:
    """Whether one study says so."""
    gain, spread = KINDS[kind]
    rng = np.random.default_rng([seed, list(KINDS).index(kind), setting.clients])
    client = rng.uniform(0.4, 0.7, size=setting.clients)
    scores = client + spread * rng.normal(size=(TRIALS, setting.clients)) * (spread > 0)
    scores[1:] += gain / 100
    federation = Table(np.clip(scores, 0.0, 1.0))
    prepared = prepare(
        federation,
        SPACE,
        fh.RandomSearch(trials=TRIALS),
        rounds=1,
        total=TRIALS,
        cohort=1,
        seed=seed,
        objective="accuracy",
        evaluation=setting.evaluator(),
        enqueued=[SPACE.default()],
    )
    session = Replayed(federation, prepared.budget, private=prepared.private)
    prepared.begin(session)
    search = prepared.search
    best = prepared.method.run(search)
    search.conclude()
    return conclude(search, best, baseline=False).verdict(search).improved is True


def counted(job: tuple[str, str, int, int]) -> int:
    """How many of some studies say so."""
    setting, kind, first, count = job
    return sum(improved(SETTINGS[setting], kind, seed) for seed in range(first, first + count))


def upper(count: int, studies: int) -> float:
    """The upper end of a one-sided 95% interval.

    >>> round(upper(0, 59), 3)
    0.05
    """
    from scipy.stats import beta

    return 1.0 if count == studies else float(beta.ppf(0.95, count + 1, studies - count))


def measured(studies: int, keep: Path) -> dict[str, dict[str, Any]]:
    """Every cell: from the directory where it is there, else run by two workers."""
    cells: dict[str, dict[str, Any]] = {}
    with ProcessPoolExecutor(2) as pool:
        for setting in SETTINGS:
            for kind in KINDS:
                count = studies if kind in NULL else -(-studies // 5)
                file = keep / f"{setting}, {kind}, {count}.json"
                if not file.exists():
                    step = max(1, count // 8)
                    jobs = [(setting, kind, at, min(step, count - at)) for at in range(0, count, step)]
                    found = {"improved": sum(pool.map(counted, jobs)), "studies": count}
                    file.write_text(json.dumps(found))
                cells[f"{setting}, {kind}"] = json.loads(file.read_text())
    return cells


def measured_before(commit: str, studies: int, keep: Path) -> dict[str, dict[str, Any]]:
    """The same on another commit."""
    own = Path(__file__).resolve()
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        git = ["git", "-C", str(own.parent)]
        subprocess.run([*git, "worktree", "add", "--detach", "-q", str(tree), commit], check=True)
        try:
            command = [sys.executable, str(own), "--cells", "--studies", str(studies), "--keep", str(keep)]
            environment = os.environ | {"PYTHONPATH": str(tree / "src")}
            done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
        finally:
            subprocess.run([*git, "worktree", "remove", "--force", str(tree)], check=True)
    found: dict[str, dict[str, Any]] = json.loads(done.stdout)
    return found


def main() -> int:
    """Measure, print, and say whether the limit is kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--studies", type=int, default=2000, help="of each null kind in each setting")
    parser.add_argument("--before", metavar="COMMIT", help="measure another commit too")
    parser.add_argument("--keep", type=Path, help="where to keep what is done; a temporary directory if not")
    parser.add_argument("--cells", action="store_true", help="print the cells as JSON, and nothing else")
    options = parser.parse_args()
    begun = time.monotonic()
    keep = options.keep or Path(tempfile.mkdtemp(prefix="null-studies-"))
    keep.mkdir(parents=True, exist_ok=True)
    now = measured(options.studies, keep)
    if options.cells:
        print(json.dumps(now))
        return 0
    then = {}
    if options.before:
        (keep / "before").mkdir(exist_ok=True)
        then = measured_before(options.before, options.studies, keep / "before")
    failed = False
    print(f"{'improved':>38}  {'now':>7}  {'at most':>7}" + (f"  {'before':>7}" if then else ""))
    for name, cell in now.items():
        count, studies = cell["improved"], cell["studies"]
        bound, null = upper(count, studies), name.rsplit(", ", 1)[1] in NULL
        missed = null and bound > LIMIT
        failed |= missed
        shown = f"{bound:7.2%}" if null else f"{'':>7}"
        earlier = f"  {then[name]['improved'] / studies:7.2%}" if then else ""
        print(f"{name:>38}  {count / studies:7.2%}  {shown}{earlier}{'  MISSED' if missed else ''}")
    minutes = (time.monotonic() - begun) / 60
    print(f"{options.studies} null studies a cell, at most {LIMIT:.0%} false 'improved'; {minutes:.1f} min")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
