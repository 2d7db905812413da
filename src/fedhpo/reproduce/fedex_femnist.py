"""Successive halving over FedEx on FEMNIST (Khodak et al., 2021): 27 trials of 27 arms each.

It shows that the whole runs end to end, and that a run which is killed and resumed ends in the same result.
The space is FedEx's, with its discount gamma tuned too; momentum stays below 1, and the server's decay,
1 - 10^U(-4, -2) there, is uniform here.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedhpo.errors import FedhpoError, unknown_name
from fedhpo.run import open_read
from fedhpo.study import Study

#: One run left alone, and one that is killed half way and resumed.
PARTS = ("unbroken", "killed")


@dataclass(frozen=True)
class Scale:
    """How large, and which parts are usual."""

    data: str
    model: str
    rounds: int
    total: int
    cohort: int = 10
    trials: int = 27
    arms: int = 27
    clients: int | None = None
    parts: tuple[str, ...] = PARTS


SCALES: Mapping[str, Scale] = {
    "default": Scale("femnist", "cnn_small", 50, 450),
    "paper": Scale("femnist", "cnn_femnist", 200, 2000, parts=("unbroken",)),
    "smoke": Scale("digits", "mlp", 12, 60, cohort=3, trials=4, arms=3, clients=8),
}


def study(scale: Scale) -> str:
    """The study file."""
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
lr_decay = {{ low = 0.99, high = 0.9999 }}
[space.policy]
gamma = {{ low = 0.0, high = 1.0 }}
[method]
name = "fedex"
schedule = "halving"
trials = {scale.trials}
arms = {scale.arms}
[budget]
rounds = {scale.rounds}
total = {scale.total}
cohort = {scale.cohort}
"""


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
    if scale not in SCALES:
        raise unknown_name("scale", scale, SCALES)
    for part in only:
        if part not in PARTS:
            raise unknown_name("part", part, PARTS)
    size, folder = SCALES[scale], Path(runs) / scale
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "study.toml"
    file.write_text(study(size), encoding="utf-8")
    found: dict[str, Any] = {"scale": scale, "results": {}}
    for part in [part for part in PARTS if part in (only or size.parts)]:
        if part == "killed" and not (folder / part).exists():
            found["killed_after"] = kill_at(size.total // 2, file, folder / part, workers)
            say(f"killed after {found['killed_after']:g} of {size.total} rounds")
        say(f"{part}: {size.trials} trials of {size.arms} arms, {size.rounds} rounds, {size.total} in all")
        Study.load(file).tune(folder / part, workers=workers)
        found["results"][part] = _result(folder / part)
    if len(found["results"]) == len(PARTS):
        found["same"] = found["results"]["unbroken"] == found["results"]["killed"]
    return found | {"text": _text(found, size)}


def kill_at(rounds: int, file: Path, path: Path, workers: int | None) -> float:
    """Tune in a process of its own, and kill it without warning once so many rounds are recorded."""
    command = [sys.executable, "-m", "fedhpo.cli", "tune", str(file), "--quiet"]
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


def _result(path: Path) -> dict[str, Any]:
    """Everything but how long it took."""
    result: dict[str, Any] = json.loads((path / "result.json").read_text(encoding="utf-8"))
    result.pop("times")
    return result


def _text(found: Mapping[str, Any], scale: Scale) -> str:
    lines = [f"# Successive halving over FedEx on {scale.data}", ""]
    for part, result in found["results"].items():
        best = result["best"]
        lines.append(
            f"{part}: {len(result['trials'])} trials, {result['cost']['rounds']} rounds; trial "
            f"{best['trial']} has validation accuracy {best['validation']['value']:.4f}, test accuracy "
            f"{best['test']['accuracy']:.4f}"
        )
    if "same" in found:
        lines.append(f"killed and resumed ends in {'the same' if found['same'] else 'ANOTHER'} result")
    return "\n".join(lines) + "\n"
