"""Successive halving over FedEx on FEMNIST (Khodak et al., 2021): 27 trials of 27 arms each.

The default scale compares it with halving alone over several seeds, with small models: see
`fedhpo_papers.fedex_femnist.many`. The others are single searches. They show that the whole runs end to
end with the schedule of the papers, 2000 rounds of which at most 200 are of one trial, and that a shorter run
which is killed and resumed ends in the same result. The space is FedEx's, with its discount gamma tuned too;
momentum stays below 1.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fedhpo.core.digests import digest
from fedhpo.core.errors import FedhpoError
from fedhpo.run import open_read
from fedhpo.search.events import TuningError
from fedhpo.study import Study
from fedhpo_papers.fedex_femnist.many_page import DID
from fedhpo_papers.shared.pages import publish
from fedhpo_papers.shared.planned import Key, Planned, Row, planned_pages, run_planned
from fedhpo_papers.shared.runs import check_asked, facts_of, finished, kept
from fedhpo_papers.shared.tables import markdown

#: The papers' schedule; and a short one left alone, and killed half way and resumed.
PARTS = ("long", "unbroken", "killed")


@dataclass(frozen=True)
class Scale:
    """How large, with the rounds of a trial and of all trials of a short run and of the long one."""

    data: str
    model: str
    short: tuple[int, int]
    long: tuple[int, int]
    cohort: int = 10
    trials: int = 27
    arms: int = 27
    clients: int | None = None
    parts: tuple[str, ...] = PARTS

    def budget(self, part: str) -> tuple[int, int]:
        """Rounds of one trial, and of all."""
        return self.long if part == "long" else self.short


SIZES: Mapping[str, Scale] = {
    "cnn": Scale("femnist", "cnn_small", (50, 450), (200, 2000)),
    "paper": Scale("femnist", "cnn_femnist", (50, 450), (200, 2000), parts=("long",)),
    "smoke": Scale("digits", "mlp", (12, 60), (15, 80), cohort=3, trials=4, arms=3, clients=8),
}
SCALES = ("default", *SIZES)


def study(scale: Scale, part: str) -> str:
    """The study file."""
    rounds, total = scale.budget(part)
    clients = "" if scale.clients is None else f"clients = {scale.clients}\n"
    return f"""seed = 0
[data]
name = "{scale.data}"
{clients}[model]
name = "{scale.model}"
[server]
optimiser = "fedavgm"
[space.client]
lr = {{ low = 1e-4, high = 1.0, log = true }}
momentum = {{ low = 0.0, high = 0.99 }}
weight_decay = {{ low = 1e-5, high = 1e-1, log = true }}
epochs = {{ low = 1, high = 5 }}
batch_size = {{ choices = [8, 16, 32, 64, 128] }}
dropout = {{ low = 0.0, high = 0.5 }}
prox = {{ low = 1e-5, high = 1.0, log = true }}
[space.server]
lr = {{ low = 0.1, high = 10.0, log = true }}
momentum = {{ choices = [0.0, 0.9] }}
lr_decay = {{ low = 0.99, high = 0.9999, log = true, complement = true }}
[space.policy]
gamma = {{ low = 0.0, high = 1.0 }}
[method]
name = "fedex"
schedule = "halving"
trials = {scale.trials}
arms = {scale.arms}
[budget]
rounds = {rounds}
total = {total}
cohort = {scale.cohort}
"""


def page(scale: str, out: Path) -> dict[str, Any]:
    """Write the page of what is kept in `out` anew; nothing is run."""
    from fedhpo.research.statistics import Plan
    from fedhpo_papers.fedex_femnist.many import PLAN
    from fedhpo_papers.fedex_femnist.many_page import write_many

    found = kept("fedex-femnist", scale, SCALES, out)
    if scale == "default":
        return write_many(Plan.load(PLAN), found["rows"], out)
    return publish("fedex-femnist", found, _text(found, SIZES[scale]), out)


def run(
    scale: str = "default",
    *,
    only: Sequence[str] = (),
    runs: str | Path = "runs/fedex-femnist",
    out: str | Path | None = None,
    workers: int | None = None,
    say: Callable[[str], None] = print,
) -> dict[str, Any]:
    """Run what has not been run; with both parts, say whether they end in the same result."""
    check_asked(scale, SCALES, only, PARTS)
    if scale == "default":
        return _many(Path(runs), out, only, say)
    size, folder = SIZES[scale], Path(runs) / scale
    folder.mkdir(parents=True, exist_ok=True)
    killed = folder / "killed_after.json"

    def tune(part: str) -> Mapping[str, Any]:
        path, total = folder / part, size.budget(part)[1]
        file = folder / ("study-long.toml" if part == "long" else "study.toml")
        file.write_text(study(size, part), encoding="utf-8")
        if part == "killed" and not path.exists():
            after = kill_at(total // 2, file, path, workers)
            killed.write_text(json.dumps(after), encoding="utf-8")
            say(f"killed after {after:g} of {total} rounds")
        return Study.load(file).tune(path, workers=workers).facts

    def run_part(key: Key) -> Row:
        seed, name, part = key
        facts_of(folder / part, lambda: tune(part))
        written = finished(folder / part)  # as it is kept, whether it was run now or before
        if written is None:
            raise TuningError(f"{part}: no trial could be trained")
        del written["times"]
        row = {"seed": seed, "set": name, "method": part, "summary": summary(written)}
        row |= {"accuracy": 100 * row["summary"]["test"]}
        row["digest"] = digest(json.dumps(written, sort_keys=True).encode()).hex()
        if part == "killed":
            row["killed_after"] = json.loads(killed.read_text(encoding="utf-8"))
        return row

    def write_rows(rows: Sequence[Row]) -> dict[str, Any]:
        by_part = {row["method"]: row for row in rows}
        results = {part: row["summary"] for part, row in by_part.items()}
        found: dict[str, Any] = {"scale": scale, **about, "results": results, "rows": list(rows)}
        if {"unbroken", "killed"} <= by_part.keys():
            found["same"] = by_part["unbroken"]["digest"] == by_part["killed"]["digest"]
            found["killed_after"] = by_part["killed"]["killed_after"]
        return publish("fedex-femnist", found, _text(found, size), out)

    about = {"size": asdict(size)}
    todo = [(0, size.data, part) for part in PARTS if part in (only or size.parts)]
    what = Planned(
        "fedex-femnist",
        about,
        lambda path, earlier: run_planned(todo, about, path, run_part, say, earlier),
        write_rows,
        scale,
        parts=True,
    )
    return planned_pages(what, Path(runs), out, only, say)


def _many(
    runs: Path, out: str | Path | None, only: Sequence[str], say: Callable[[str], None]
) -> dict[str, Any]:
    """Small models and several seeds."""
    from fedhpo.research.statistics import Plan
    from fedhpo_papers.fedex_femnist.many import PLAN, about, run_seeds
    from fedhpo_papers.fedex_femnist.many_page import write_many

    plan = Plan.load(PLAN)
    return planned_pages(
        Planned(
            "fedex-femnist",
            about(plan),
            lambda path, earlier: run_seeds(plan, path, say, earlier),
            lambda rows: write_many(plan, rows, out),
        ),
        runs,
        out,
        only,
        say,
    )


def summary(result: Mapping[str, Any]) -> dict[str, Any]:
    """A run's facts for the page; its record has the rest."""
    best = result["best"]
    policies = {one["trial"]: one for one in result["policies"]}
    logs = policies[best["trial"]]["rounds"][-1]["log_weights"]
    total = sum(math.exp(one - max(logs)) for one in logs)
    return {
        "trials": len(result["trials"]),
        "policies": len(policies),
        "rounds": result["cost"]["rounds"],
        "best": {name: best[name] for name in ("trial", "rounds", "config")},
        "validation": best["validation"]["value"],
        "test": best["test"]["accuracy"],
        "largest_weight": 1 / total,
        "stopped_at": sorted(trial["rounds"] for trial in result["trials"]),
    }


def kill_at(rounds: int, file: Path, path: Path, workers: int | None) -> float:
    """Tune in a process of its own, and kill it without warning once so many rounds are recorded."""
    command = [sys.executable, "-m", "fedhpo", "tune", str(file), "--quiet"]
    command += ["--runs", str(path.parent), "--name", path.name]
    command += [] if workers is None else ["--workers", str(workers)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        while process.poll() is None and _spent(path) < rounds:
            time.sleep(0.02)
    finally:
        process.kill()
        process.wait()
    return _spent(path)


def _spent(path: Path) -> float:
    try:
        with open_read(path) as run:
            return float(run.facts()["spent"]["rounds"])
    except FedhpoError:  # not begun yet
        return 0.0


def _text(found: Mapping[str, Any], scale: Scale) -> str:
    parts = [
        f"# Successive halving over FedEx on {scale.data}",
        DID,
        "Here one search of that kind was run on one set, to see that it works at its published size and "
        "that a run which is killed ends the same. With one seed nothing is said about FedEx's worth.",
        "## How it was run",
        f"Made by `fedhpo reproduce fedex-femnist --scale {found['scale']}`: {scale.model}, "
        f"{scale.trials} trials of {scale.arms} arms, {scale.cohort} clients a round, one seed. FedPop's "
        "Table 2 has, for the larger CNN and five seeds, 82.76 ± 0.54% (successive halving over FedEx, "
        "by writer).",
        markdown(
            ["run", "rounds", "trials", "best trial", "its rounds", "validation", "test", "largest weight"],
            [
                [
                    part,
                    f"{one['rounds']} of {scale.budget(part)[1]}",
                    one["trials"],
                    one["best"]["trial"],
                    one["best"]["rounds"],
                    f"{one['validation']:.4f}",
                    f"{one['test']:.4f}",
                    f"{one['largest_weight']:.3f}",
                ]
                for part, one in found["results"].items()
            ],
        ),
    ]
    if "same" in found:
        parts.append(
            f"Killed without warning after {found['killed_after']:g} rounds and resumed, the run ends in "
            f"{'the same' if found['same'] else 'ANOTHER'} result as the one left alone: every trial, score, "
            "policy and config is compared."
        )
    return "\n\n".join(parts) + "\n"
